"""Saying in one line why a run failed, and telling it to somebody.

Belongs here: reading a run's events. The messages in them were written for the outside already (`step_boundary`); nothing
else of a run is looked at.
"""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    DagsterEvent,
    DagsterEventType,
    DagsterInstance,
    DagsterRun,
)

from ragspine_assets.config import SETTINGS
from ragspine_assets.errors import RagspineError, SettingError, is_cancel

_LONGEST = 600
_WHAT_TO_DO = "Its page in Dagster shows it step by step; docs/when-something-is-stuck.md says what to do."


@dataclass(frozen=True)
class FailedRun:
    """What a notifier is told.

    Attributes:
        run_id: the run's id.
        job: the job's name.
        line: one line: what failed, and what to do.
        reasons: each broken promise and each failed step in one sentence.
    """

    run_id: str
    job: str
    line: str
    reasons: tuple[str, ...] = ()


Notifier = Callable[[FailedRun], object]
"""Tells somebody about a failed run; what it returns is not looked at."""


def load_notifier(spec: str) -> Notifier | None:
    """Return the function that ``module:function`` names; None for ``''``.

    Raises:
        ValueError: there is no such module or function; the message says which.
    """
    if not spec.strip():
        return None
    module, _, name = spec.strip().partition(":")
    try:
        found = getattr(importlib.import_module(module), name) if name else None
    except BaseException as error:
        if is_cancel(error):
            raise
        words = f": {error}" if isinstance(error, ImportError | AttributeError | ValueError) else ""
        raise SettingError(f"The notifier {spec!r} cannot be loaded ({type(error).__name__}){words}.") from None
    if not callable(found):
        raise SETTINGS["notifier"].wrong(spec)
    return cast("Notifier", found)


def explain_failure(instance: DagsterInstance, run: DagsterRun) -> FailedRun:
    """Read from a failed run's events what failed and what to do about it."""
    events = [entry.dagster_event for entry in instance.all_logs(run.run_id) if entry.dagster_event]
    broken = list(_broken_promises(events))
    failed = list(_failed_steps(events, after_checks=bool(broken)))
    reasons = list(dict.fromkeys(broken + failed)) or list(_end_of_run(events)) or ["nothing says why."]
    job = run.job_name.strip("_").lower() if run.job_name.startswith("__") else run.job_name
    more = f" And {len(reasons) - 1} more." if len(reasons) > 1 else ""
    line = f"{job} (run {run.run_id[:8]}) failed: {_one_line(reasons[0])}{more} {_WHAT_TO_DO}"
    return FailedRun(run.run_id, job, line, tuple(reasons))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _broken_promises(events: list[DagsterEvent]) -> Iterator[str]:
    for event in events:
        if event.event_type is not DagsterEventType.ASSET_CHECK_EVALUATION:
            continue
        check = cast("AssetCheckEvaluation", event.event_specific_data)
        if not check.passed and check.severity is AssetCheckSeverity.ERROR:
            name = f"{check.asset_key.to_user_string()}: {check.check_name}"
            yield f"the promise {name} is broken. {check.description or ''}".strip()


def _failed_steps(events: list[DagsterEvent], *, after_checks: bool) -> Iterator[str]:
    for event in events:
        if not event.is_step_failure:
            continue
        failure = event.step_failure_data
        said = failure.user_failure_data.description if failure.user_failure_data else ""
        message = said or str(getattr(failure.error, "message", "") or event.message or "")
        # A blocking check that is red ends its step with an error that only repeats it.
        if after_checks and not said and "DagsterAssetCheckFailedError" in message:
            continue
        yield f"step {event.step_key}: {message}"


def _end_of_run(events: list[DagsterEvent]) -> Iterator[str]:
    """Say why a run ended that failed outside of any step: its process died, or it did not get its turn."""
    for event in events:
        if event.event_type is not DagsterEventType.RUN_FAILURE:
            continue
        error, ours = event.job_failure_data.error, _names_of_ours()
        while error is not None and error.cls_name not in ours:
            error = error.cause
        # Of another exception only the event's own words are told: its message may quote a document.
        yield error.message.partition(": ")[2] if error is not None else str(event.message)


def _names_of_ours() -> set[str]:
    """Return the names of all errors whose messages were written for the outside."""
    names, open_kinds = set[str](), [RagspineError]
    while open_kinds:
        kind = open_kinds.pop()
        names.add(kind.__name__)
        open_kinds += kind.__subclasses__()
    return names
