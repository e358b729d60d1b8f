"""Attacks on a fresh service: `make attack` runs them and prints what each did (docs/threat-model.md).

One function is one attack: it tries, and returns what happened, or raises `NotHeld` with what it got. The service is new, on
loopback, in a temporary folder; nothing outside of it is asked, read or changed. Takes a minute or two.
"""

import argparse
import csv
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError
from urllib.parse import quote

from rich.console import Console
from rich.table import Table

from ragspine_assets.documents.extraction import ExtractionLimits
from ragspine_assets.documents.pool import ExtractionPool, batch_files
from ragspine_assets.documents.source import scan_source
from ragspine_assets.graph import review_template
from ragspine_assets.llm import ProviderError, make_provider
from ragspine_assets.pipeline.overview import document_overview, staged_overview, store_overview
from ragspine_assets.policy import SecurityGate, is_restricted
from ragspine_assets.serving import Snapshot, SnapshotError
from ragspine_assets.store import ChunkStore
from ragspine_assets.store.references import reference_key, set_setting
from ragspine_assets_tests.e2e.server import ROOT, Server, running
from ragspine_assets_tests.llm.endpoint import Endpoint, Fail, Request, Say
from ragspine_assets_tests.traces import digests, size_of, traces

SECRET = "Quernmoor-7731-Velthagen"
"""Stands in RESTRICTED documents only."""
OUTSIDE = "Brathwick-4410-outside"
"""Stands in a file outside of the source."""
KEY = "sk-canary-93dd17ab"
"""The key of a provider, in the environment of the service."""
RIVAL = "Okeandrift"
VALUE = "Xanthberry"
"""What a RESTRICTED document states of itself: its language and its topic."""
OPEN = "The plants are open to visitors."
CONFIDENTIAL = "Wexmoor"
FORMULA = "=HYPERLINK"
LAUNCH = (
    'mutation { launchRun(executionParams: { selector: { repositoryLocationName: "ragspine_assets", repositoryName: '
    '"__repository__", pipelineName: "checks" }, mode: "default", runConfigData: "{}" }) { __typename } }'
)
PROFILE = f"""
[home]
company_name = "Holding"
entity_code = "HOLD"
[home.synonyms]
nordwerk = "NORD"
sudwerk = "SUD"
[external_entities]
{RIVAL.lower()} = "{RIVAL}"
"""


class NotHeld(Exception):
    """An attack got something."""


@dataclass(frozen=True)
class World:
    """A service under attack.

    Attributes:
        server: the UI, running.
        folder: its folder; source, store and snapshots are below.
        model: the endpoint that the service asks.
        settings: its environment variables.
    """

    server: Server
    folder: Path
    model: Endpoint
    settings: dict[str, str]

    def request(self, head: str, body: str = "") -> str:
        """Send raw HTTP and return the first line of the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as line:
            length = f"Content-Length: {len(body.encode())}\r\n" if body else ""
            line.sendall(f"{head}\r\n{length}Connection: close\r\n\r\n{body}".replace("PORT", str(self.port)).encode())
            return line.makefile("rb").readline().decode().strip()

    @property
    def environment(self) -> dict[str, str]:
        """What a command of the service's own user is started with."""
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("RAGSPINE_", "DAGSTER_HOME"))
        }
        return {**clean, **self.settings, "PYTHONPATH": str(ROOT)}

    @property
    def port(self) -> int:
        """The server's port."""
        return int(self.server.url.rpartition(":")[2])


Attack = Callable[[World], str]
ATTACKS: list[tuple[str, str, Attack]] = []


def attack(name: str, expected: str) -> Callable[[Attack], Attack]:
    """Add an attack: what it is, and what is to happen."""

    def add(function: Attack) -> Attack:
        ATTACKS.append((name, expected, function))
        return function

    return add


def command(world: World, module: str, *arguments: str) -> str:
    """Run a command as the service's user would, and return what it printed."""
    ended = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=world.folder,
        env=world.environment,
        capture_output=True,
        check=False,
    )
    printed = (ended.stdout + ended.stderr).decode()
    with (world.folder / "printed.log").open("a") as log:
        log.write(printed)
    return printed


# -- the server ----------------------------------------------------------------------------------------------------------------


@attack(
    "requests of other pages: origin, rebinding, forms, GET, WebSocket", "each is answered with 403, no run is made"
)
def foreign_requests(world: World) -> str:
    """Send what a page of another origin can make a browser send."""
    own, foreign, as_json = "Host: 127.0.0.1:PORT", "Origin: http://evil.example", "Content-Type: application/json"
    get, post, body = f"/graphql?query={quote(LAUNCH)}", "POST /graphql HTTP/1.1", json.dumps({"query": LAUNCH})
    upgrade = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nConnection: Upgrade"
    two = quote(f"query A {{ version }} {LAUNCH}")
    tried = [
        (f"GET {get} HTTP/1.1\r\n{own}", ""),
        (f"GET /graphql?query={two}&operationName=A HTTP/1.1\r\n{own}", ""),
        (f"GET /graphql?query={quote('{ version }')}&query={quote(LAUNCH)} HTTP/1.1\r\n{own}", ""),
        (f"GET {get} HTTP/1.1\r\n{own}\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors", ""),
        (f"{post}\r\n{own}\r\n{foreign}\r\n{as_json}", body),
        (f"{post}\r\n{own}\r\nOrigin: null\r\n{as_json}", body),
        (f"{post}\r\n{own}\r\nOrigin: http://127.0.0.1:1\r\n{as_json}", body),
        (f"{post}\r\n{own}\r\nContent-Type: text/plain", body),
        (f"{post}\r\n{own}\r\nContent-Type: text/plain; application/json", body),
        (f"POST {get} HTTP/1.1\r\n{own}\r\nContent-Type: multipart/form-data; boundary=x", "--x--"),
        (f"POST {get} HTTP/1.1\r\n{own}", "a=b"),
        (f"{post}\r\nHost: evil.example:PORT\r\n{as_json}", body),
        (f"{post}\r\nHost: 127.0.0.1.evil.example:PORT\r\n{as_json}", body),
        (f"{post}\r\nHost: 127.0.0.1\r\n{as_json}", body),
        (f"GET /graphql HTTP/1.1\r\n{own}\r\n{foreign}\r\n{upgrade}", ""),
        (f"GET /graphql HTTP/1.1\r\nHost: evil.example:PORT\r\n{upgrade}", ""),
    ]
    passed = [
        f"{head.splitlines()[0]} -> {said}"
        for head, data in tried
        if " 403 " not in (said := world.request(head, data))
    ]
    if passed or world.server.runs():
        raise NotHeld(f"{len(passed)} passed: {passed[:2]}; runs: {len(world.server.runs())}")
    return f"{len(tried)} requests refused, no run"


@attack("run configs that change what protects", "refused before the launch, naming the variable to set")
def run_configs(world: World) -> str:
    """Launch with another profile, store, label, endpoint and so on."""
    others: dict[tuple[str, str], object] = {
        ("profile", "path"): "", ("source", "path"): "/etc", ("source", "allow_mass_removal"): True,
        ("source", "allow_lower_labels"): True,
        ("store", "path"): str(world.folder / "other.duckdb"), ("snapshots", "path"): str(world.folder / "public"),
        ("snapshots", "max_label"): "INTERNAL", ("snapshots", "keep"): 1, ("llm_provider", "base_url"): "http://127.0.0.1:1/v1",
        ("llm_provider", "model"): "openai:other", ("review", "path"): "/tmp/review.csv", ("facts_source", "path"): "/etc",
        ("chunker", "spec"): {"env": "OPENAI_API_KEY"}, ("chunker", "max_chars"): -1,
    }  # fmt: skip
    passed = []
    for (resource, field), value in others.items():
        try:
            world.server.launch("refresh", {"resources": {resource: {"config": {field: value}}}})
            passed.append(f"{resource}.{field} was accepted")
        except (AssertionError, HTTPError) as refusal:
            # Dagster answers with status 500, and the reason in the body, where our own types refuse.
            told = refusal.read().decode() if isinstance(refusal, HTTPError) else str(refusal)
            if KEY in told:
                passed.append(f"{resource}.{field} shows a key")
            if resource != "chunker" and "RAGSPINE_" not in told:
                passed.append(f"{resource}.{field} names no variable")
    if passed or world.server.runs():
        raise NotHeld("; ".join(passed[:3]) or "a run was made")
    return f"{len(others)} launches refused, no run"


# -- the model -----------------------------------------------------------------------------------------------------------------


@attack(
    "a provider's key to a stranger's endpoint, by address and by redirect",
    "only RAGSPINE_LLM_API_KEY is sent; no redirect is followed",
)
def keys(_: World) -> str:
    """Ask an endpoint of one's own with every variable of the SDKs set."""
    environment = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_AUTH_TOKEN": KEY, "OPENAI_ORG_ID": KEY}
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        for model in ("openai:m", "anthropic:m"):
            with Endpoint(["fine"]) as stranger, Endpoint([Fail(307, {"location": stranger.url})]) as endpoint:
                for url in (stranger.url, endpoint.url):
                    made = make_provider(model, base_url=url)
                    assert made is not None
                    try:
                        made.chat([{"role": "user", "content": "x"}])
                    except ProviderError:
                        continue
                seen = [*stranger.requests, *endpoint.requests]
            if len(stranger.requests) != 1 or any(KEY in str(request.headers) for request in seen):
                raise NotHeld(f"{model}: the stranger got {len(stranger.requests)} requests, or a key")
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    return "no key and no redirected question reached the stranger"


# -- parsers -------------------------------------------------------------------------------------------------------------------


@attack(
    "a parser that is taken over", "it reads its file and writes its own folder; elsewhere the run says what it can"
)
def parser(world: World) -> str:
    """Let a parser try to read, write, connect and start programs."""
    root, outside = world.folder / "nosy", world.folder / "outside.txt"
    root.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wanted = {
            "read": [str(outside), str(world.folder / "service.duckdb"), "/etc/passwd"], "folder": str(world.folder),
            "port": listener.getsockname()[1],
        }  # fmt: skip
        (root / "a.txt").write_text(json.dumps(wanted))
        name = "ragspine_assets_tests.documents.nosy_parser:curious"
        with ExtractionPool(root, ExtractionLimits(), workers=1, parser=name) as pool:
            rows = [row for batch in pool.run(batch_files(scan_source(root).files)) for row in batch.to_pylist()]
            missing = pool.unconfined()
    told = json.loads(rows[0]["text"])
    if KEY in json.dumps(told["environment"]):
        raise NotHeld("a parser sees a key")
    if not told["temporary"][1].endswith("700"):
        raise NotHeld("the temporary folder of parsers is open to others")
    if told["could"] != ["own folder"] and not missing:
        raise NotHeld(f"it could: {told['could']}")
    return (
        "nothing but its own" if not missing else f"this kernel does not keep it from {missing}, and the pool says so"
    )


# -- a run over hostile files --------------------------------------------------------------------------------------------------


@attack(
    "bombs, external entities, links out of the source, a pipe",
    "the run ends well; nothing from outside is in the store",
)
def hostile_files(world: World) -> str:
    """Refresh over a source that holds them; later attacks look at what this run left."""
    run_id = world.server.launch("refresh", {"resources": {"relation_extractor": {"config": {"spec": "llm"}}}})
    status = world.server.wait_for(run_id)
    if status != "SUCCESS":
        raise NotHeld(f"the run ended with {status}: {[e.get('message') for e in world.server.events(run_id)][-3:]}")
    with ChunkStore(world.folder / "service.duckdb").connect() as connection:
        found = connection.execute("SELECT doc_id FROM narrative_chunk WHERE contains(text, ?)", [OUTSIDE]).fetchall()
        failed = connection.execute("SELECT count(*) FROM document WHERE status = 'failed'").fetchone()
    if found:
        raise NotHeld(f"text from outside came in through {found}")
    return f"the run succeeded, {failed[0] if failed else 0} files failed alone"


@attack(
    "a search for secrets, names, values and digests in everything a run leaves",
    "no RESTRICTED text and no key outside of source and store",
)
def canaries(world: World) -> str:
    """Look through history, logs, snapshots, reports and questions, unpacked; also for digests of a secret that can be tried out."""
    command(world, "ragspine_assets.defs.launch", "checks")
    bodies = [(world.folder / "source" / name).read_bytes() for name in ("pin.txt", "plan-quernmoor.md")]
    with ChunkStore(world.folder / "service.duckdb").connect() as connection:
        rows = connection.execute("SELECT text FROM narrative_chunk WHERE sensitivity = 'RESTRICTED'").fetchall()
    tried = [digest for data in (*bodies, *(text.encode() for (text,) in rows)) for digest in digests(data)]
    inside = [world.folder / name for name in ("source", "service.duckdb")]
    found = traces(world.folder, [SECRET, KEY, VALUE, "plan-quernmoor", *tried], inside=inside)
    asked = [request for request in world.model.requests if SECRET in request.raw or KEY in str(request.headers)]
    if found or asked or not world.model.requests:
        raise NotHeld(f"{found[:3]}; {len(asked)} of {len(world.model.requests)} questions hold a secret")
    return f"none in {size_of(world.folder) / 1e6:.1f} MB and {len(world.model.requests)} questions, {len(tried)} digests tried"


@attack(
    "a four-digit secret, tried out from a data version", "no version is that of the same documents in another store"
)
def data_versions(world: World) -> str:
    """Compute the data versions as somebody would who has guessed all that a RESTRICTED document says."""
    told = world.server.ask(
        "{ assetNodes { assetMaterializations(limit: 1) { tags { key value } assetKey { path } } } }"
    )["assetNodes"]
    shown = {
        tag["value"]: each["assetKey"]["path"][-1]
        for node in cast("list[dict[str, Any]]", told)
        for each in node["assetMaterializations"]
        for tag in each["tags"]
        if tag["key"] == "dagster/data_version"
    }
    with ChunkStore(world.folder / "service.duckdb").connect() as connection:
        own = reference_key(connection)
    computed = {}
    for key in (own, bytes(32)):
        guess = ChunkStore(shutil.copy(world.folder / "service.duckdb", world.folder / "guess.duckdb"))
        with guess.connect() as connection:
            set_setting(connection, "reference_key", key.hex())
        computed[key] = {document_overview(guess).digest, staged_overview(guess).digest, store_overview(guess).digest}
        for path in world.folder.glob("guess.duckdb*"):
            path.unlink()
    if len(computed[own] & shown.keys()) < 2:
        raise NotHeld("the attack compares with something else than what is shown")
    if known := computed[bytes(32)] & shown.keys():
        raise NotHeld(f"the version of {[shown[version] for version in known]} needs no key")
    return f"{len(shown)} versions; none over RESTRICTED content can be computed without the store's key"


@attack(
    "graph, exports and old versions above a lower highest label", "nothing that rests on a higher document is shown"
)
def higher_labels(world: World) -> str:
    """Ask every command for what only a CONFIDENTIAL document holds, with and without what models assert."""
    asked = [
        [*question, *more]
        for question in (["graph", "NORD", "--depth", "3", "--json"], ["export", "graphml"], ["export", "jsonld"])
        for more in ([], ["--unverified"])
    ]
    asked += [["show", "confidential.md#c0", "--json"], ["show", "confidential.md@v1#c0", "--json"]]
    shown = [command(world, "ragspine_assets.cli", *arguments) for arguments in asked]
    lower = [command(world, "ragspine_assets.cli", *arguments, "--max-label", "INTERNAL") for arguments in asked]
    if not all("confidential.md" in text for text in shown):
        raise NotHeld("the attack asks for what is not there")
    leaks = [
        " ".join(arguments)
        for arguments, text in zip(asked, lower, strict=True)
        if CONFIDENTIAL in text or "confidential.md" in text
    ]
    if leaks:
        raise NotHeld(f"shown by: {leaks[:3]}")
    return f"{len(asked)} commands, none shows it"


@attack("a name that a spreadsheet takes for a formula", "no cell of the review template begins as one")
def spreadsheet(world: World) -> str:
    """Open the template of decisions as spreadsheets of several locales cut it."""
    with ChunkStore(world.folder / "service.duckdb").connect() as connection:
        template = review_template(connection)
        names = connection.execute("SELECT id FROM model_node").fetchall()
    cells = [part for row in csv.reader(StringIO(template)) for cell in row for part in re.split("[;|\t]", cell)]
    live = [cell for cell in cells if unicodedata.normalize("NFKC", cell.lstrip())[:1] in tuple("=+-@\t\r")]
    if live or not any(FORMULA in name for (name,) in names):
        raise NotHeld(f"{live[:3]}; the model named {len(names)} things")
    return f"{len(cells)} cells, none is a formula"


@attack("folders that others on this machine may look into", "store, history and reports are their user's alone")
def folders(world: World) -> str:
    """Look at the modes, whatever mask the service was started with."""
    kept = [".dagster", "build", "service.duckdb"]
    wide = [name for name in kept if (world.folder / name).stat().st_mode & 0o077]
    if wide:
        raise NotHeld(f"open to others: {wide}")
    return f"{', '.join(kept)} are private"


@attack("a model that lies: rivals, forged markers, names that are not there", "no such edge; what is kept is marked")
def model_answers(world: World) -> str:
    """Look at what became of the hostile answers that the endpoint gave during the run."""
    with ChunkStore(world.folder / "service.duckdb").connect() as connection:
        edges = connection.execute("SELECT src, dst, type FROM model_edge").fetchall()
        controlled = connection.execute("SELECT count(*) FROM graph_edge WHERE type = 'secretly_owns'").fetchone()
    told = [
        edge
        for edge in edges
        if any(word in str(edge).casefold() for word in (RIVAL.casefold(), "atlantis", "secretly"))
    ]
    if told or (controlled and controlled[0]):
        raise NotHeld(f"kept: {told[:3]}")
    return f"{len(edges)} edges kept, all of them in the text and marked"


@attack("a changed snapshot", "opening it is refused")
def tampered_snapshot(world: World) -> str:
    """Change one byte of each published file in turn."""
    snapshots = world.folder / "snapshots"
    Snapshot.open(snapshots, verify=True)
    current = next(path for path in snapshots.iterdir() if path.is_dir())
    opened = []
    files = [path for path in current.rglob("*") if path.is_file() and path.stat().st_size]
    for path in files:
        mode, data = path.stat().st_mode, path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
        try:
            Snapshot.open(snapshots, verify=True)
            opened.append(path.name)
        except SnapshotError:
            pass
        finally:
            path.write_bytes(data)
            path.chmod(mode)
    if opened:
        raise NotHeld(f"opened with a changed {', '.join(opened)}")
    return f"{len(files)} files, each change refused"


@attack("a label that is raised in a run that fails", "what was published of the document is gone all the same")
def raised_label(world: World) -> str:
    """Close a published document, and break a later step of the same run."""
    with (world.folder / "source" / "metadata.csv").open("a") as rows:
        rows.write("open.md,RESTRICTED,,\n")
    (world.folder / "facts.csv").write_text("a table without these headers\n")
    before = traces(world.folder / "snapshots", [OPEN])
    status = world.server.wait_for(world.server.launch("refresh"))
    left = traces(world.folder / "snapshots", [OPEN])
    with suppress(SnapshotError):
        left.append(f"{Snapshot.open(world.folder / 'snapshots').path.name} is current")
    if status != "FAILURE" or not before or left:
        raise NotHeld(f"the run ended with {status}; {len(before)} files held it, and now: {left[:3]}")
    return f"the run failed, {len(before)} files that held the text are gone"


# -- names and labels ----------------------------------------------------------------------------------------------------------


@attack("a rival's name in disguise", "the gate sees it")
def disguises(_: World) -> str:
    """Spell a name in ways that a person still reads."""
    spelled = [
        RIVAL, RIVAL.upper(), "Ok\u0435andrift", "O\u200bkeandrift", "Okean drift", "Okean-drift", "O.k.e.a.n.d.r.i.f.t",
        "\uff2f\uff4b\uff45\uff41\uff4e\uff44\uff52\uff49\uff46\uff54", "Oke\u0301andrift", "Okean_drift", "Ok\u00adeandrift",
    ]  # fmt: skip
    gate = SecurityGate({RIVAL.lower(): RIVAL}, "Holding")
    missed = [name for name in spelled if gate.detect(f"What does {name} earn?").external_entity is None]
    if missed or gate.detect("An ocean drift of ice.").external_entity is not None:
        raise NotHeld(f"missed: {missed}")
    return f"{len(spelled)} spellings seen"


@attack("labels that are spelled oddly", "each is RESTRICTED unless it is one of the three lower ones")
def labels(_: World) -> str:
    """Write the highest label, and labels that do not exist."""
    spelled = [
        "restricted",
        " RESTRICTED ",
        "\uff32ESTRICTED",
        "RE\u200bSTRICTED",
        "",
        "TOP SECRET",
        "PUBLlC",
        "INTERNAL?",
        "0",
        "None",
        "public\u0000",
    ]
    low = [label for label in spelled if not is_restricted(label)]
    if low or is_restricted(" public ") or is_restricted("Internal"):
        raise NotHeld(f"let through: {low}")
    return f"{len(spelled)} spellings are RESTRICTED"


# -- the service ---------------------------------------------------------------------------------------------------------------


def package(parts: dict[str, bytes]) -> bytes:
    """Return a zip archive."""
    whole = BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return whole.getvalue()


def write_source(folder: Path) -> None:
    """Write a source with open, closed and hostile files."""
    source, outside = folder / "source", folder / "outside.txt"
    source.mkdir()
    outside.write_text(OUTSIDE)
    (source / "open.md").write_text(f"# Plants\n\nNordwerk supplies Sudwerk. {OPEN} {FORMULA} leads Sudwerk.\n")
    (source / "confidential.md").write_text(f"# Bids\n\nNordwerk leads {CONFIDENTIAL}.\n")
    (source / "pin.txt").write_text("The code is 4711.")
    (source / "plan-quernmoor.md").write_text(f"# Plan {SECRET}\n\nNordwerk closes. {SECRET} is the code.\n")
    rows = [
        "doc_id,sensitivity,language,topic",
        f"plan-quernmoor.md,RESTRICTED,{VALUE},{VALUE}",
        "pin.txt,RESTRICTED,,",
    ]
    (source / "metadata.csv").write_text("\n".join([*rows, "confidential.md,CONFIDENTIAL,,", ""]))
    (folder / "facts.csv").write_text("metric_code,entity,period_type,period,value,unit,source_doc_id,source_locator\n")
    entity = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file://{outside}">]><x>&e;</x>'.encode()
    (source / "entity.docx").write_bytes(package({"[Content_Types].xml": b"<Types/>", "word/document.xml": entity}))
    (source / "entity.html").write_bytes(entity)
    (source / "bomb.docx").write_bytes(
        package({"[Content_Types].xml": b"<Types/>", "word/document.xml": b"0" * 500_000_000})
    )
    (source / "link.txt").symlink_to(outside)
    (source / "above").symlink_to(folder)
    (source / "broken.pdf").write_bytes(b"%PDF-1.7\n" + os.urandom(2000))
    os.mkfifo(source / "pipe.txt")
    (folder / "profile.toml").write_text(PROFILE)


def lies(_: Request) -> Say:
    """Answer as a model would that wants to be believed."""
    said = [
        ("Nordwerk", RIVAL, "leads"), ("Ok\u0435andrift", "Sudwerk", "supplies"), ("Nordwerk", "Atlantis", "owns"),
        ("Nordwerk", "Sudwerk", "supplies"), ("Nordwerk", "Nordwerk", "leads"), (FORMULA, "Sudwerk", "leads"),
        ("Nordwerk", CONFIDENTIAL, "leads"),
    ]  # fmt: skip
    relations = [{"source": a, "target": b, "kind": c, "derived": "no", "verified": "verified"} for a, b, c in said]
    return Say(json.dumps({"relations": relations}))


@contextmanager
def fresh_service() -> Iterator[World]:
    """Start a service in a new folder, which is removed with it."""
    with tempfile.TemporaryDirectory(prefix="ragspine-attack-") as name, Endpoint(lies) as model:
        folder = Path(name)
        write_source(folder)
        settings = {
            "RAGSPINE_SOURCE": "source", "RAGSPINE_STORE": "service.duckdb", "RAGSPINE_PROFILE": "profile.toml",
            "RAGSPINE_FACTS": "facts.csv", "RAGSPINE_SNAPSHOTS": "snapshots", "RAGSPINE_LLM_MODEL": "openai:m",
            "RAGSPINE_LLM_BASE_URL": f"{model.url}/v1", "RAGSPINE_AUTOMATION": "0", "OPENAI_API_KEY": KEY,
        }  # fmt: skip
        with running(folder, **settings) as server:
            yield World(server, folder, model, settings)


def main() -> int:
    """Run the attacks; 1 when one did not hold."""
    argument = argparse.ArgumentParser(description=main.__doc__)
    argument.add_argument("--only", default="", help="attacks whose function has this in its name")
    only = argument.parse_args().only
    began, broken = time.monotonic(), 0
    shown = Table("attack", "expected", "what happened", "held?")
    with fresh_service() as world:
        for name, expected, function in ATTACKS:
            if only not in function.__name__:
                continue
            try:
                happened, held = function(world), True
            except NotHeld as got:
                happened, held = str(got), False
            except Exception as problem:  # an attack that breaks proves nothing
                happened, held = f"the attack broke: {type(problem).__name__}: {problem}", False
            broken += not held
            shown.add_row(name, expected, happened, "yes" if held else "NO")
    Console(width=None if sys.stdout.isatty() else 200).print(shown)
    print(f"{len(shown.rows) - broken} held, {broken} did not, in {time.monotonic() - began:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
