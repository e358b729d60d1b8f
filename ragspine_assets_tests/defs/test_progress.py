"""A run says on a terminal where it is, and nothing where output is piped."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.utils import make_new_run_id

from ragspine_assets.defs.progress import listener, shown_progress


@dg.asset(check_specs=[dg.AssetCheckSpec("all_is_well", asset="some_files")])
def some_files(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
    context.log.info("parsed 2 of 4 files; 0 failed")
    context.log.debug("what nobody needs to see")
    yield dg.MaterializeResult()
    yield dg.AssetCheckResult(passed=False, check_name="all_is_well")


def made(instance: dg.DagsterInstance, run_id: str) -> None:
    job = dg.Definitions([some_files]).resolve_implicit_global_asset_job_def()
    job.execute_in_process(instance=instance, run_id=run_id)


def test_the_line_follows_steps_what_they_say_and_checks() -> None:
    lines: list[str] = []
    with dg.DagsterInstance.ephemeral() as instance:
        run_id = make_new_run_id()
        instance.add_event_listener(run_id, listener(lines.append, 1))
        made(instance, run_id)
    assert lines == [
        "some files (step 1 of 1)", "some files: parsed 2 of 4 files; 0 failed", "some files: all is well: BROKEN",
    ]  # fmt: skip


@pytest.mark.parametrize("terminal", [True, False])
def test_a_line_is_shown_on_a_terminal_only_and_in_no_file_of_the_run(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        run_id = make_new_run_id()
        with shown_progress(instance, run_id, 1):
            made(instance, run_id)
            time.sleep(0.2 if terminal else 0)
    assert ("all is well: BROKEN" in capfd.readouterr().err) == terminal
    assert not any("BROKEN" in path.read_text() for path in tmp_path.rglob("*.err"))
