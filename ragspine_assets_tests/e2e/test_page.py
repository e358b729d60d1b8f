"""What a person does on the search page, in a real browser, with documents that would like to be markup (SPEC 8.4)."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragspine_assets.store import ChunkStore
from ragspine_assets_tests.conftest import Pipeline
from ragspine_assets_tests.service.test_server import process
from ragspine_assets_tests.serving.conftest import Port

__all__ = ["process"]

playwright = pytest.importorskip("playwright.sync_api", reason="the browser test needs playwright: make e2e")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="the browser test needs chromium: apt-get install chromium")

HOSTILE = (
    "# <img src=x onerror=\"document.title='owned'\">\n\nThe crane says <script>document.title='owned'</script> and "
    "[click](javascript:document.title='owned') \u202egnirts and " + "w" * 900 + "\n"
)
FILES = {
    "a<b onmouseover=alert(1)>.md": HOSTILE,
    "second.md": "# Second\n\nThe crane is greased on Monday.\n\n" + "It turns in the wind.\n\n" * 60,
    "metadata.csv": "doc_id,title,entity,sensitivity\nsecond.md,<i>Second</i>,HARB,PUBLIC\n",
}


@pytest.fixture
def published(tmp_path: Path) -> Port:
    source = tmp_path / "source"
    source.mkdir()
    made = Port(Pipeline(source, ChunkStore(tmp_path / "state" / "store.duckdb")), tmp_path / "snapshots")
    made.pipeline.write(FILES)
    made.pipeline.run()
    return made


@pytest.fixture
def page(tmp_path: Path) -> Iterator["playwright.Page"]:
    with playwright.sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            str(tmp_path / "profile"), executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"],
            viewport={"width": 390, "height": 800},
        )  # fmt: skip
        context.set_default_timeout(30_000)
        yield context.new_page()
        context.close()


def test_a_person_searches_opens_a_passage_and_walks_and_no_text_becomes_markup(
    process: tuple[int, object], page: "playwright.Page"
) -> None:
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    here = f"http://127.0.0.1:{process[0]}"
    page.goto(here)
    title = page.title()
    page.get_by_label("Question").fill("crane")
    page.locator(".hit").nth(1).wait_for()
    assert page.locator("mark").first.inner_text().lower() == "crane"
    assert page.get_by_role("button", name="<i>Second</i>").count() == 1
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("aside h2").wait_for()
    page.keyboard.press("Escape")
    page.locator("aside").wait_for(state="hidden")
    page.get_by_role("button", name="<i>Second</i>").click()
    page.get_by_role("button", name="Behind it").click()
    page.get_by_text("#c1", exact=False).first.wait_for()
    page.get_by_role("button", name="Graph of HARB").click()
    page.locator("svg circle").first.wait_for()
    assert page.title() == title
    assert page.locator("main script, main img, main i, main a").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert all(url.startswith(here) for url in asked)
    assert wrong == []
