"""A run that dies at any moment loses nothing: the next one ends where an undisturbed one does (SPEC 1.9, 3.6).

The large version, with hundreds of documents and other kinds of trouble, is `make soak`.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ragspine_assets.graph import update_graph
from ragspine_assets.pipeline import activate_staged, stage_chunks
from ragspine_assets.policy import DomainProfile
from ragspine_assets.store import ChunkStore
from ragspine_assets_tests.conftest import Pipeline

ROOT = Path(__file__).resolve().parents[2]
PROFILE = DomainProfile(home_company_name="Home", home_entity_code="HOM", home_entity_synonyms={"turbine": "TUR"})
SECRET = "Zanzibarquux"
TABLES = {
    "document": "changed_at, run_id", "document_text": "", "staged_chunk": "", "narrative_chunk": "ingested_at, version",
    "graph_node": "", "graph_edge": "", "graph_evidence": "version",
}  # fmt: skip


def files(documents: int = 12) -> dict[str, str]:
    rng = random.Random(7)
    words = ["turbine", "river", "ledger", "archive", "cargo"]
    found = {
        f"part{n % 3}/d{n}.{'md' if n % 2 else 'txt'}": "\n".join(
            " ".join(rng.choices(words, k=9)) + f" {n}." for _ in range(rng.randint(2, 30))
        )
        for n in range(documents)
    }
    found["part0/secret.txt"] = f"{SECRET} turbine"
    found["metadata.csv"] = "doc_id,sensitivity\npart0/secret.txt,RESTRICTED\n"
    return found


def state(pipeline: Pipeline) -> dict[str, list[tuple[object, ...]]]:
    """Return what is stored and counts, without times and version numbers."""
    rows = {}
    for table, left_out in TABLES.items():
        excluded = f"EXCLUDE ({left_out})" if left_out else ""
        active = "WHERE active" if table == "narrative_chunk" else ""
        # A store remembers for ever which documents are gone.
        there = "WHERE status != 'removed'" if table == "document" else active
        rows[table] = pipeline.rows(f"SELECT * {excluded} FROM {table} {there} ORDER BY ALL")
    return rows


STAGES: list[Callable[[Pipeline], object]] = [
    lambda pipeline: pipeline.intake(),
    lambda pipeline: stage_chunks(pipeline.store),
    lambda pipeline: activate_staged(pipeline.store),
    lambda pipeline: update_graph(pipeline.store, pipeline.profile),
]

CHANGES: dict[str, Callable[[Path], object]] = {
    "raised": lambda root: (root / "metadata.csv").write_text(
        "doc_id,sensitivity\npart0/secret.txt,RESTRICTED\npart1/d1.md,RESTRICTED\n"
    ),
    "lowered": lambda root: (root / "metadata.csv").write_text("doc_id,sensitivity\npart0/secret.txt,PUBLIC\n"),
    "changed": lambda root: (root / "part1" / "d1.md").write_text("# Other\n\nAnother turbine.\n"),
    "removed": lambda root: (root / "part1" / "d1.md").unlink(),
    "emptied": lambda root: (root / "part1" / "d1.md").write_text(" \n"),
    "added": lambda root: (root / "new.txt").write_text("A new turbine."),
    "broken": lambda root: (root / "part1" / "d1.md").write_bytes(b"\xff\xfe\x00\xd8\x00"),
}


def restore(pipeline: Pipeline) -> None:
    pipeline.write(files())
    (pipeline.root / "new.txt").unlink(missing_ok=True)


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_that_stops_after_any_stage_is_finished_by_the_next_one_also_when_the_source_went_back(
    pipeline: Pipeline, change: str
) -> None:
    pipeline.profile = PROFILE
    restore(pipeline)
    pipeline.run()
    before = state(pipeline)
    for stages in range(1, len(STAGES)):
        CHANGES[change](pipeline.root)
        for stage in STAGES[:stages]:
            stage(pipeline)
        assert state(pipeline) != before
        restore(pipeline)
        # A row that is gone lowers no label by itself.
        pipeline.run(allow_lower_labels=change == "raised")
        assert state(pipeline) == before, f"stopped after stage {stages}"


def test_a_run_killed_at_a_random_moment_is_finished_by_the_next_one(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()

    def command(store: Path) -> list[str]:
        code = (
            "import sys\n"
            "from ragspine_assets_tests.conftest import Pipeline\n"
            "from ragspine_assets_tests.conformance.test_crashes import PROFILE\n"
            "from ragspine_assets.store import ChunkStore\n"
            "from pathlib import Path\n"
            "print('ready', flush=True)\n"
            f"Pipeline(Path({str(source)!r}), ChunkStore({str(store)!r}), profile=PROFILE).run()\n"
        )
        return [sys.executable, "-c", code]

    undisturbed = Pipeline(source, ChunkStore(tmp_path / "whole" / "s.duckdb"), profile=PROFILE)
    undisturbed.write(files(60))
    started = time.monotonic()
    undisturbed.run()
    lasts = time.monotonic() - started
    expected = state(undisturbed)
    for number, share in enumerate((0.1, 0.3, 0.5, 0.65, 0.8, 0.95)):
        store = tmp_path / f"killed{number}" / "s.duckdb"
        process = subprocess.Popen(command(store), stdout=subprocess.PIPE, cwd=ROOT, start_new_session=True)
        assert process.stdout
        process.stdout.readline()
        time.sleep(lasts * share)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        survivor = Pipeline(source, ChunkStore(store), profile=PROFILE)
        survivor.run()
        assert state(survivor) == expected, f"killed after {share:.0%} of a run"
        spill = store.with_name(store.name + ".tmp")
        assert not spill.exists() or not list(spill.iterdir())
