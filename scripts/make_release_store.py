"""Make the golden project of a release: a store, a snapshot and a Dagster history as this release leaves them.

Run once when a release is made, `python scripts/make_release_store.py`; later releases must go on with what it made, so it
is never made again for an old release. The texts are invented here.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from ragspine_assets.store import ChunkStore

ROOT = Path(__file__).resolve().parents[1]
RELEASES = ROOT / "ragspine_assets_tests" / "store" / "releases"
FILES = {
    "source/notes.txt": "The mill stands by the river.\nIts wheel turns a lathe.\n",
    "source/plan.md": "---\ntopic: works\n---\n# Plan\n\nThe lathe moves to the upper floor.\n\n## When\n\nAfter the harvest.\n",
    "source/hidden.txt": "The price of the lathe is a secret.\n",
    "source/牧場.txt": "牛は丘の上にいる。\n",
    "source/metadata.csv": "doc_id,title,sensitivity\nhidden.txt,Price,RESTRICTED\nnotes.txt,Notes,PUBLIC\n",
    "profile.toml": '[home]\ncompany_name = "Mill"\nentity_code = "MIL"\n[home.synonyms]\nlathe = "LAT"\n',
    "facts.csv": (
        "metric_code,entity,period_type,period,value,unit,source_doc_id,source_locator\n"
        "LOAD,MIL,FY,2024,3,T,notes.txt,notes.txt#para1\n"
    ),
}
CHANGED = {"source/notes.txt": "The mill stands by the river.\nIts wheel turns two lathes.\n"}
SETTINGS = {
    "RAGSPINE_SOURCE": "source", "RAGSPINE_STORE": "s.duckdb", "RAGSPINE_PROFILE": "profile.toml",
    "RAGSPINE_FACTS": "facts.csv", "RAGSPINE_SNAPSHOTS": "snapshots", "RAGSPINE_WORKERS": "1",
    "RAGSPINE_CHUNKER": "parent_child",
}  # fmt: skip


def launch(folder: Path, job: str) -> str:
    """Run a job in a folder as the command line does; return what it said."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RAGSPINE_", "DAGSTER_"))}
    done = subprocess.run(
        [sys.executable, "-m", "ragspine_assets.defs.launch", job], cwd=folder, capture_output=True, text=True,
        env={**clean, "PYTHONPATH": str(ROOT), **SETTINGS}, timeout=300,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{job} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files below a folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", default=version("ragspine_assets"))
    release = parser.parse_args().release
    target = RELEASES / release
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, FILES)
        shutil.copy(ROOT / "dagster.yaml", folder)
        launch(folder, "refresh")
        write(folder, CHANGED)
        launch(folder, "refresh")
        with ChunkStore(folder / "s.duckdb").connect() as connection:
            rows = connection.execute(
                "SELECT doc_id || '@v' || version || '#c' || seq, text, source_locator, sensitivity, active "
                "FROM narrative_chunk ORDER BY ALL"
            ).fetchall()
            history = connection.execute(
                "SELECT doc_id, old_label, new_label FROM label_history ORDER BY ALL"
            ).fetchall()
        shutil.rmtree(folder / ".dagster" / "compute_logs", ignore_errors=True)
        target.mkdir(parents=True, exist_ok=True)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:xz", preset=9) as archive:
            archive.add(folder, arcname=".", filter=_anonymous)
        (target / "project.tar.xz").write_bytes(packed.getvalue())
    expected = {"chunks": [list(row) for row in rows], "label_history": [list(row) for row in history]}
    (target / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{target}: {len(rows)} chunks, {len(packed.getvalue()) / 1024:.0f} KiB")


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if member.name.endswith((".opening", ".wal")) or "/build/" in member.name:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
