"""Promise: RESTRICTED text leaves the store through no exit (SPEC, promise 2): a search through every byte a run leaves.

Beside the source, what may hold it is the store and its copies, which only their user may read.
"""

from __future__ import annotations

import base64
import gzip
import os
import shutil
import sqlite3
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ragspine_assets import cli
from ragspine_assets.store import ChunkStore
from ragspine_assets_tests.traces import digests, traces

ROOT = Path(__file__).resolve().parents[2]
CANARY = "Zanzibarquux"
PIN = "Its code is 4711."
VALUES = ("title", "topic", "entity", "geography", "period", "language")
BODIES = {
    "secret.txt": f"{CANARY} is in the text.", "pin.txt": PIN, f"{CANARY}-name.txt": f"{CANARY}text of a document by row",
    "front.md": f"---\nsensitivity: restricted\ntopic: {CANARY}topic\n---\n# {CANARY}heading\n\n{CANARY}",
    "broken.md": f"---\ntitle: [{CANARY}\nsensitivity: PUBLIC\n---\n{CANARY}", f"{CANARY}.pdf": f"%PDF-1.4 broken {CANARY}",
    "latin.txt": f"{CANARY} en français, écrit à la main à Orléans.",
}  # fmt: skip


@pytest.fixture
def service(tmp_path: Path) -> Path:
    source, facts = tmp_path / "source", tmp_path / "facts"
    source.mkdir()
    facts.mkdir()
    (source / "open.txt").write_text("The home company tells everybody of its turbines.\n" * 20)
    for name, body in BODIES.items():
        (source / name).write_bytes(body.encode("cp1252" if name == "latin.txt" else "utf-8"))
    rows = [
        f"{name},{','.join([f'{CANARY}{value}' for value in VALUES])},RESTRICTED"
        for name in ("secret.txt", "latin.txt")
    ]
    rows += [
        f"{CANARY}-name.txt,{CANARY},,,,,,SECRET",
        "pin.txt,,,,,,,RESTRICTED",
    ]
    (source / "metadata.csv").write_text("\n".join([f"doc_id,{','.join(VALUES)},sensitivity", *rows, ""]))
    (facts / "f.csv").write_text(
        "metric_code,entity,period_type,period,value,unit,source_doc_id,source_locator\n"
        f"REV,HOM,FY,2024,1.5,EUR_M,open.txt,open.txt#para1\n{CANARY},{CANARY},FY,2024,7,EUR,secret.txt,secret.txt#para1\n"
    )
    (tmp_path / "profile.toml").write_text(
        '[home]\ncompany_name = "Home"\nentity_code = "HOM"\n[home.synonyms]\n"home company" = "HOM"\n'
    )
    for name in ("dagster.yaml", "workspace.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


SETTINGS = {
    "RAGSPINE_SOURCE": "source", "RAGSPINE_STORE": "state/s.duckdb", "RAGSPINE_PROFILE": "profile.toml",
    "RAGSPINE_FACTS": "facts", "RAGSPINE_SNAPSHOTS": "snapshots", "PYTHONPATH": str(ROOT),
}  # fmt: skip
ASKED = (
    ["status"], ["labels"], ["labels", "--json"], ["search", "turbines"], ["graph", "HOM", "--unverified"], ["export", "jsonld"],
    ["backup"],
)  # fmt: skip


def launch(folder: Path, job: str) -> int:
    """Run a job as `make` does, and keep what it prints beside what it leaves."""
    (folder / "tmp").mkdir(exist_ok=True)
    with (folder / "printed.log").open("ab") as log:
        return subprocess.run(
            [sys.executable, "-m", "ragspine_assets.defs.launch", job],
            cwd=folder, env={**os.environ, "TMPDIR": str(folder / "tmp")}, stdout=log, stderr=log, check=False,
        ).returncode  # fmt: skip


def test_nothing_that_runs_checks_and_commands_leave_holds_restricted_text_names_values_or_digests(
    service: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(service)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    assert launch(service, "refresh") == 0, (service / "printed.log").read_text()
    for arguments in ASKED:
        cli.app(arguments, standalone_mode=False)
    (service / "asked.log").write_bytes(b"".join(capfdbinary.readouterr()))
    (service / "source" / "secret.txt").write_text(f"{CANARY} changed")
    with (service / "source" / "metadata.csv").open("a") as rows:
        rows.write(f"{CANARY}-gone.txt,{CANARY},,,,,,RESTRICTED\n")
    with ChunkStore(service / "state" / "s.duckdb").connect() as connection:
        texts = connection.execute(
            "SELECT doc_id, text FROM narrative_chunk WHERE sensitivity = 'RESTRICTED'"
        ).fetchall()
        connection.execute("UPDATE staged_chunk SET text = text || 'x'")
        connection.execute("UPDATE narrative_chunk SET version = 7")
    # The store has it: what follows is no search for what was never there.
    assert {"secret.txt", "front.md", "latin.txt", "pin.txt", f"{CANARY}-name.txt"} <= {doc_id for doc_id, _ in texts}
    assert launch(service, "checks") == 1
    assert all((service / name).is_dir() for name in (".dagster/storage", "build", "snapshots", "state/s.copies"))
    tried = [digest for data in (*BODIES.values(), *(text for _, text in texts)) for digest in digests(data.encode())]
    inside = [service / "source", service / "facts", service / "state"]
    closed = [CANARY, "secret.txt", "pin.txt", "latin.txt", "front.md", "broken.md", *tried]
    assert traces(service, closed, inside=inside) == []
    assert (service / "state").stat().st_mode & 0o077 == 0
    assert traces(service, [CANARY]) != []


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes, "utf16": lambda data: data.decode().encode("utf-16-be"), "lower": bytes.lower, "hex": lambda data: data.hex().encode(),
    "base64": base64.b64encode, "zlib": zlib.compress, "gzip": gzip.compress,
}  # fmt: skip


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("before", [b"", b"a", b"ab"])
def test_the_search_finds_a_word_however_it_is_packed(tmp_path: Path, name: str, before: bytes) -> None:
    (tmp_path / "file").write_bytes(PACKED[name](before + b"about " + CANARY.encode() + b" and more"))
    assert traces(tmp_path, [CANARY, "Other"]) == [f"'{CANARY}' in file"]
    assert traces(tmp_path, [CANARY], inside=[tmp_path / "file"]) == []


def test_the_search_finds_a_word_in_names_archives_and_databases(tmp_path: Path) -> None:
    (tmp_path / f"{CANARY}.txt").write_text("")
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", CANARY * 100)
    database = sqlite3.connect(tmp_path / "a.db")
    database.execute("CREATE TABLE t (a)")
    database.execute("INSERT INTO t VALUES (?)", [zlib.compress(CANARY.encode() * 100)])
    database.commit()
    database.close()
    assert [line.rpartition(" ")[2] for line in traces(tmp_path, [CANARY])] == [f"{CANARY}.txt", "a.db", "a.zip"]
