"""Runs whose process is gone, and runs that are at work (SPEC 6.5).

Belongs here: closing runs that a killed process left open, which Dagster keeps showing as running for ever, and the order
in which runs take their turn. Two runs at once would do no harm to the store, whose lock is DuckDB's, but each would prove
its checks on what the other has half done.
"""

import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from dagster import DagsterEventType, DagsterInstance, DagsterRun, DagsterRunStatus, RunRecord, RunsFilter
from dagster._core.storage.tags import GRPC_INFO_TAG

from ragspine_assets.store import StoreBusyError

PID_TAG = "ragspine/pid"
_OPEN = [DagsterRunStatus.STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.CANCELING]
_STARTING_TAKES_S = 600.0
_CLOCKS_DIFFER_S = 5.0
_LISTENS_WITHIN_S = 1.0


@dataclass(frozen=True)
class RunAtWork:
    """A run whose process is alive.

    Attributes:
        run_id: its id.
        job: the job's name.
        pid: its process.
        started_s: when it started, seconds since 1970.
    """

    run_id: str
    job: str
    pid: int
    started_s: float


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
        pid = _process_of(instance, run)
        if run.run_id == own:
            continue
        if pid is not None and not _is_alive(pid, _started(record)):
            why = f"The process {pid} that ran this is gone; whoever started the next run closed it."
        elif pid is None and (_server_is_gone(run) or _never_started(record)):
            why = "No process ever took this run up; whoever started the next run closed it."
        else:
            continue
        instance.report_run_failed(run, f"{why} Run again: a run finishes what another began.")
        closed.append(run.run_id)
    return closed


def runs_at_work(instance: DagsterInstance, *, own: str = "") -> list[RunAtWork]:
    """Return the runs of this machine whose process is alive, the one that started first at the front.

    Args:
        instance: where runs are kept.
        own: a run to leave out.
    """
    found = []
    for record in instance.get_run_records(RunsFilter(statuses=[DagsterRunStatus.STARTED])):
        run: DagsterRun = record.dagster_run
        pid = _process_of(instance, run)
        if run.run_id != own and pid is not None and _is_alive(pid, _started(record)):
            found.append(RunAtWork(run.run_id, run.job_name.strip("_").lower(), pid, _started(record)))
    return sorted(found, key=lambda run: (run.started_s, run.run_id))


def take_turn(
    instance: DagsterInstance,
    own: str,
    *,
    wait_s: float,
    say: Callable[[str], None] = lambda _: None,
    poll_s: float = 0.5,
) -> None:
    """Wait until no run that started before this one is at work; those that start later wait for this one.

    The order is that of the start, so that two runs never wait for each other; a run whose process is gone is not
    waited for.

    Args:
        instance: where runs are kept.
        own: the run that wants its turn.
        wait_s: how many seconds to wait at most.
        say: called once with a line when there is something to wait for.
        poll_s: seconds between two looks.

    Raises:
        StoreBusyError: the time is over; the message names the run and its process.
    """
    record = instance.get_run_record_by_id(own)
    place = (_started(record) if record else time.time(), own)
    until = time.monotonic() + wait_s
    told = False
    while ahead := [run for run in runs_at_work(instance, own=own) if (run.started_s, run.run_id) < place]:
        first = ahead[0]
        name = f"Run {first.run_id[:8]} ({first.job}, process {first.pid})"
        if time.monotonic() >= until:
            raise StoreBusyError(
                f"{name} is still at work after {wait_s:.0f} s. Let it finish or terminate it in the UI, then run again."
            )
        if not told:
            say(f"{name} started earlier; waiting for it to finish.")
            told = True
        time.sleep(poll_s)


def _started(record: RunRecord) -> float:
    return record.start_time or record.create_timestamp.timestamp()


def _never_started(record: RunRecord) -> bool:
    return (
        record.dagster_run.status is DagsterRunStatus.STARTING
        and time.time() - record.update_timestamp.timestamp() > _STARTING_TAKES_S
    )


def _server_is_gone(run: DagsterRun) -> bool:
    """Tell whether the code server of this machine that was to start a run's process does not listen any more.

    Dagster notes a run's process only after that has loaded the definitions: a server that dies before that leaves a run
    that nothing else says is dead.
    """
    if run.status is not DagsterRunStatus.STARTING:
        return False
    try:
        server = json.loads(run.tags.get(GRPC_INFO_TAG, "{}"))
        if server.get("socket"):
            address, family = server["socket"], socket.AF_UNIX
        elif server.get("port") and server.get("host") in {"localhost", "127.0.0.1"}:
            address, family = (server["host"], int(server["port"])), socket.AF_INET
        else:
            return False
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(_LISTENS_WITHIN_S)
            probe.connect(address)
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    except (OSError, ValueError, AttributeError):
        return False
    return False


def _process_of(instance: DagsterInstance, run: DagsterRun) -> int | None:
    """Find the process of a run: in Dagster's own event about it, else in the tag of our launcher.

    The tag comes second, and only for a run that has started: the UI copies tags when a run is launched from another, and
    they name the process of that one.
    """
    for record in instance.get_records_for_run(run.run_id, of_type=DagsterEventType.ENGINE_EVENT).records:
        event = record.event_log_entry.dagster_event
        data = getattr(event, "event_specific_data", None) if event else None
        for key, value in (getattr(data, "metadata", None) or {}).items():
            number = getattr(value, "text", None) or getattr(value, "value", None)
            if key == "pid" and str(number).isdecimal():
                return int(str(number))
    named = run.tags.get(PID_TAG, "")
    return int(named) if named.isdecimal() and run.status is not DagsterRunStatus.STARTING else None


def _is_alive(pid: int, run_started_s: float) -> bool:
    """Tell whether a process is there and is the one that ran something at a time: numbers are used again."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            values = stat.read().rpartition(")")[2].split()
        # A dead child that nobody has waited for still has a number.
        if values[0] == "Z":
            return False
        with open("/proc/stat", encoding="ascii", errors="replace") as stat:
            booted = next(float(line.split()[1]) for line in stat if line.startswith("btime "))
        return booted + int(values[19]) / os.sysconf("SC_CLK_TCK") <= run_started_s + _CLOCKS_DIFFER_S
    except (OSError, ValueError, IndexError, StopIteration):
        return True
