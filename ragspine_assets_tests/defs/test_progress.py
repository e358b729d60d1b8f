"""A run says on a terminal where it is, and nothing where output is piped."""

import sys
from collections.abc import Iterator

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
        instance.add_event_listener(run_id, listener(lines.append))
        made(instance, run_id)
    assert lines == [
        "some files (step 1)", "some files: parsed 2 of 4 files; 0 failed", "some files: all is well: BROKEN",
    ]  # fmt: skip


@pytest.mark.parametrize("terminal", [True, False])
def test_a_line_is_shown_on_a_terminal_only(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with dg.DagsterInstance.ephemeral() as instance:
        run_id = make_new_run_id()
        with shown_progress(instance, run_id):
            made(instance, run_id)
        heard = bool(instance._subscribers[run_id])
    assert heard == terminal
    shown = capsys.readouterr()
    assert ("starting" in shown.err) == terminal
