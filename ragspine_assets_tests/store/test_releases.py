"""What earlier releases left goes on working: their store, their snapshot and their Dagster history (SPEC 3.2).

The golden projects are made by `scripts/make_release_store.py`, one per release, and are never made again.
"""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import dagster as dg
import pytest

from ragspine_assets.serving import Snapshot
from ragspine_assets.store import ChunkStore

ROOT = Path(__file__).resolve().parents[2]
RELEASES = sorted(path.parent for path in (Path(__file__).parent / "releases").glob("*/project.tar.xz"))
SETTINGS = {
    "RAGSPINE_SOURCE": "source", "RAGSPINE_STORE": "s.duckdb", "RAGSPINE_PROFILE": "profile.toml",
    "RAGSPINE_FACTS": "facts.csv", "RAGSPINE_SNAPSHOTS": "snapshots", "RAGSPINE_WORKERS": "1",
    "RAGSPINE_CHUNKER": "parent_child",
}  # fmt: skip


def launch(folder: Path, job: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RAGSPINE_", "DAGSTER_"))}
    return subprocess.run(
        [sys.executable, "-m", "ragspine_assets.defs.launch", job], cwd=folder, capture_output=True, text=True,
        env={**clean, "PYTHONPATH": str(ROOT), **SETTINGS}, timeout=180,
    )  # fmt: skip


def test_there_is_a_golden_project_of_the_first_release() -> None:
    assert RELEASES[0].name == "0.1.0"


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_a_releases_store_snapshot_and_history_go_on_working(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(release / "project.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    expected = json.loads((release / "expected.json").read_text(encoding="utf-8"))

    store = ChunkStore(tmp_path / "s.duckdb")
    for citation, text, locator, sensitivity, active in expected["chunks"]:
        chunk = store.resolve(citation)
        assert chunk is not None
        assert (chunk.text, chunk.source_locator, chunk.sensitivity, chunk.active) == (
            text,
            locator,
            sensitivity,
            active,
        )

    monkeypatch.chdir(tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        old_runs = {run.run_id for run in instance.get_runs()}
        assert len(old_runs) == 2
        assert instance.get_latest_materialization_event(dg.AssetKey("chunk_store")) is not None

    refreshed = launch(tmp_path, "refresh")
    assert refreshed.returncode == 0, refreshed.stdout + refreshed.stderr
    assert launch(tmp_path, "checks").returncode == 0
    for citation, text, _, _, _ in expected["chunks"]:
        chunk = store.resolve(citation)
        assert chunk is not None
        assert chunk.text == text
    with store.connect() as connection:
        history = connection.execute("SELECT doc_id, old_label, new_label FROM label_history ORDER BY ALL").fetchall()
    assert set(map(tuple, expected["label_history"])) <= set(history)
    assert Snapshot.open(tmp_path / "snapshots").retriever().retrieve("mill")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert old_runs < {run.run_id for run in instance.get_runs()}
