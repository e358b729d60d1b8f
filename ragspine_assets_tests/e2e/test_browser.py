"""What a person does in the Dagster UI, in a real browser: `make e2e` (SPEC 6)."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragspine_assets.store import ChunkStore

from .server import Server, serve

playwright = pytest.importorskip("playwright.sync_api", reason="the browser test needs playwright: make e2e")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
ASSETS = ("raw_documents", "chunks", "chunk_store", "facts", "relation_graph", "serving_snapshot")
GRAPH = "/asset-groups?expanded=" + "%2C".join(
    f"global%40global%3A{name}" for name in ("ingest", "knowledge", "serving")
)
BROKEN = "one_active_version_equal_to_staged"
FORGED = "sites/skerravoe/notes.txt"

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="the browser test needs chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("site"), RAGSPINE_AUTOMATION="0") as running:
        yield running


@pytest.fixture
def page(tmp_path: Path) -> Iterator["playwright.Page"]:
    with playwright.sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            str(tmp_path / "profile"), executable_path=CHROMIUM, args=FLAGS, viewport={"width": 1600, "height": 1000}
        )
        context.set_default_timeout(60_000)
        yield context.new_page()
        context.close()


def test_from_the_asset_graph_to_a_red_check_and_its_message(server: Server, page: "playwright.Page") -> None:
    page.goto(server.url + GRAPH)
    for asset in ASSETS:
        page.get_by_text(asset, exact=True).first.wait_for(state="attached")

    before = {run.run_id for run in server.runs()}
    page.get_by_role("button", name="Materialize all").click()
    run = server.wait_for_run(before)
    assert run.status == "SUCCESS"
    assert run.tags.get("ragspine/chunker", "none") == "none"
    page.goto(f"{server.url}/runs/{run.run_id}")
    page.get_by_text("Success", exact=True).first.wait_for()

    outcomes = server.checks()
    assert len(outcomes) > 14
    assert set(outcomes.values()) == {"SUCCEEDED"}
    for asset in ASSETS:
        names = [name.partition(": ")[2] for name in outcomes if name.startswith(f"{asset}: ")]
        if names:
            page.goto(f"{server.url}/assets/{asset}?view=checks")
            page.get_by_text("Succeeded", exact=True).nth(len(names) - 1).wait_for()

    page.goto(f"{server.url}/assets/raw_documents?view=events")
    row = page.get_by_role("row").filter(has_text="documents by status and label").last
    row.get_by_text("Show Markdown").click()
    picture = page.get_by_alt_text("Documents by status and label")
    picture.wait_for()
    assert picture.evaluate("image => image.complete && image.naturalWidth") > 300

    with ChunkStore(server.folder / "data" / "ragspine.duckdb").connect() as connection:
        connection.execute("UPDATE narrative_chunk SET text = 'forged' WHERE doc_id = ?", [FORGED])
    before = {run.run_id for run in server.runs()}
    page.goto(f"{server.url}/locations/ragspine_assets/jobs/checks/playground")
    page.get_by_role("button", name="Launch Run").click()
    assert server.wait_for_run(before).status == "FAILURE"
    assert server.checks()[f"chunk_store: {BROKEN}"] == "FAILED"
    page.goto(f"{server.url}/assets/chunk_store?view=checks&checkDetail={BROKEN}")
    page.get_by_text("Failed", exact=True).first.wait_for()
    message = page.get_by_text("documents break the rule of versions").first
    message.wait_for()
    assert FORGED in (message.text_content() or "")
