"""Runs launched at the same moment from a terminal, the UI and a schedule, in every pairing: `make e2e` (SPEC 3.6, 6.5)."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from ragspine_assets.store import ChunkStore
from ragspine_assets_tests.conformance.test_crashes import files, state
from ragspine_assets_tests.conftest import Pipeline

from .server import ENDED, ROOT, Server, running

pytestmark = pytest.mark.skipif(os.environ.get("E2E") != "1", reason="a schedule takes a minute to fire: make e2e")

SETTINGS = {"RAGSPINE_SOURCE": "source", "RAGSPINE_STORE": "s.duckdb", "RAGSPINE_WORKERS": "1"}
LIMIT_S = 120

End = Callable[[], str]
"""Waits for a launched run, and returns why it failed; nothing when it succeeded."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("at-once")
    pipeline_of(folder).write(files())
    with running(
        folder, **SETTINGS, RAGSPINE_REFRESH_CRON="* * * * *", RAGSPINE_CHECKS_CRON="* * * * *",
        RAGSPINE_WATCH_INTERVAL_S="3600",
    ) as started:  # fmt: skip
        yield started


def pipeline_of(folder: Path, store: str = "s.duckdb") -> Pipeline:
    return Pipeline(folder / "source", ChunkStore(folder / store))


def from_a_terminal(server: Server, job: str = "refresh", **settings: str) -> End:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RAGSPINE_", "DAGSTER_"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "ragspine_assets.defs.launch", job], cwd=server.folder, text=True,
        env={**clean, **SETTINGS, "PYTHONPATH": str(ROOT), **settings}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip

    def end() -> str:
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
        return output if process.returncode else ""

    return end


def from_the_ui(server: Server, job: str = "refresh") -> End:
    return ended(server, server.launch(job))


def ended(server: Server, run_id: str) -> End:
    def end() -> str:
        status = server.wait_for(run_id, LIMIT_S)
        return "" if status == "SUCCESS" else f"{status}: {server.events(run_id)}"

    return end


def prove(server: Server) -> None:
    """See that no run is left open, that each had its turn, and that the store is that of one undisturbed run."""
    until = time.monotonic() + LIMIT_S
    while left := [run for run in server.runs() if run.status not in ENDED]:
        assert time.monotonic() < until, left
        time.sleep(0.3)
    spans = server.spans()
    assert all(end <= start for (_, end), (start, _) in pairwise(spans)), spans
    undisturbed = pipeline_of(server.folder, f"undisturbed{time.time_ns()}.duckdb")
    undisturbed.run()
    assert state(pipeline_of(server.folder)) == state(undisturbed)


@pytest.mark.parametrize(
    ("one", "other"),
    [(from_a_terminal, from_a_terminal), (from_a_terminal, from_the_ui), (from_the_ui, from_the_ui)],
)
def test_two_runs_launched_at_once_both_finish(
    server: Server, one: Callable[[Server], End], other: Callable[[Server], End]
) -> None:
    (server.folder / "source" / "part1" / "d1.md").write_text(f"Another turbine, {random.random()}.\n")
    ends = [one(server), other(server)]
    assert [end() for end in ends] == ["", ""]
    prove(server)


def test_a_run_of_a_terminal_is_launched_again_from_the_ui(server: Server) -> None:
    before = {run.run_id for run in server.runs()}
    assert from_a_terminal(server)() == ""
    (run_id,) = {run.run_id for run in server.runs()} - before
    assert server.wait_for(server.launch_again(run_id), LIMIT_S) == "SUCCESS"


def test_what_a_schedule_launches_and_what_a_person_launches_then_all_finish(server: Server) -> None:
    (server.folder / "source" / "part2" / "d2.txt").write_text(f"Another turbine, {random.random()}.\n")
    before = {run.run_id for run in server.runs()}
    until = time.monotonic() + 75
    while not (fired := scheduled(server, before)):
        assert time.monotonic() < until, "no schedule fired"
        time.sleep(0.2)
    ends = [from_a_terminal(server), from_the_ui(server), *(ended(server, run_id) for run_id in fired.values())]
    assert [end() for end in ends] == [""] * len(ends)
    prove(server)
    assert from_a_terminal(server, "checks")() == ""
    # The hourly proof keeps out of the way of a run at work, or waits for its turn.
    assert set(fired) <= {"refresh_daily", "checks_hourly"}
    runs = [run for run in server.runs() if run.tags.get("dagster/schedule_name") == "refresh_daily"]
    assert runs
    assert {run.status for run in runs} == {"SUCCESS"}


def scheduled(server: Server, before: set[str]) -> dict[str, str]:
    """Return the runs that schedules launched lately, by schedule."""
    return {
        run.tags["dagster/schedule_name"]: run.run_id
        for run in server.runs()
        if "dagster/schedule_name" in run.tags and run.run_id not in before
    }
