"""Runs whose process is gone (SPEC 6.5).

Belongs here: closing runs that a killed process left open. Dagster itself keeps showing them as running, and counts them
against limits, for ever.
"""

import os

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

PID_TAG = "ragspine/pid"
_OPEN = [DagsterRunStatus.STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.CANCELING]


def close_dead_runs(instance: DagsterInstance, *, own: str = "") -> list[str]:
    """Mark runs of this machine whose process is gone as failed.

    Args:
        instance: where runs are kept.
        own: the run that asks; it is left alone.

    Returns:
        The ids of the runs that were closed.
    """
    closed = []
    for record in instance.get_run_records(RunsFilter(statuses=_OPEN)):
        run = record.dagster_run
        pid = _process_of(instance, run.run_id, run.tags)
        if run.run_id == own or pid is None or _is_alive(pid):
            continue
        instance.report_run_failed(
            run, f"The process {pid} that ran this is gone; whoever started the next run closed it."
        )
        closed.append(run.run_id)
    return closed


def _process_of(instance: DagsterInstance, run_id: str, tags: dict[str, str] | object) -> int | None:
    """Find the process of a run: in the tag of our launcher, else in Dagster's own event about it."""
    if isinstance(tags, dict) and tags.get(PID_TAG, "").isdecimal():
        return int(tags[PID_TAG])
    for entry in instance.all_logs(run_id):
        event = entry.dagster_event
        data = getattr(event, "event_specific_data", None) if event else None
        for key, value in (getattr(data, "metadata", None) or {}).items():
            number = getattr(value, "text", None) or getattr(value, "value", None)
            if key == "pid" and str(number).isdecimal():
                return int(str(number))
    return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A dead child that nobody has waited for still has a number.
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True
