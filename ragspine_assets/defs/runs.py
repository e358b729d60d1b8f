"""Runs whose process is gone, and runs that are at work (SPEC 6.5).

Belongs here: closing runs that a killed process left open, which Dagster keeps showing as running for ever, and the order
in which runs take their turn. Two runs at once would do no harm to the store, whose lock is DuckDB's, but each would prove
its checks on what the other has half done.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dagster import DagsterEventType, DagsterInstance, DagsterRun, DagsterRunStatus, RunRecord, RunsFilter
from dagster._core.storage.tags import GRPC_INFO_TAG

from ragspine_assets.config import ServiceConfig
from ragspine_assets.store import StoreBusyError

from .history import keep_history_private
from .own_runs import OwnRuns
from .run_process import (
    OPEN,
    PROCESS_TAG,
    Machine,
    ProcessIdentity,
    SeenRun,
    Verdict,
    identity_of,
    judge,
    lock_holders,
    others_hold,
    this_machine,
)

STARTING_S = ServiceConfig.starting_s
"""Seconds for which a run may have no process before it counts as dead, where nobody says otherwise."""

_LISTENS_WITHIN_S = 1.0
_OURS = "ragspine/"


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


def sign(instance: DagsterInstance, run_id: str, among: OwnRuns | None = None) -> None:
    """Write the identity of the process that runs a run, and whose run it is, where others judge it by them."""
    run = instance.get_run_by_id(run_id)
    parent = os.getppid()
    # A step with a process of its own ends before its run does, and was started by the process that runs the run.
    by_parent = run is not None and parent in {pid for pid, _ in _reported(instance, run)}
    identity = identity_of(parent if by_parent else os.getpid())
    whose = among.tags_for(run) if among and run else {}
    instance.add_run_tags(run_id, {PROCESS_TAG: identity.tag(run_id), **whose})


def close_dead_runs(
    instance: DagsterInstance,
    *,
    own: str = "",
    among: OwnRuns | None = None,
    store: str | Path = "",
    patience_s: float = STARTING_S,
) -> list[str]:
    """Mark runs of this machine whose process is gone as failed, or as cancelled if that had been asked for.

    Several may do this at once: one at a time looks, and each run is read once more after its process was seen to be gone.

    Args:
        instance: where runs are kept.
        own: the run that asks; it is left alone.
        among: whose runs are looked at; None for all that the instance keeps.
        store: the store's file, where `among` does not name it: while a process that no run accounts for holds it, no run is given up by its age.
        patience_s: seconds for which a run may have no process before it counts as dead.

    Returns:
        The ids of the runs that were closed.
    """
    closed = []
    here = this_machine()
    store = store or (among.store if among else "")
    with _one_at_a_time(instance):
        seen = {
            record.dagster_run.run_id: _seen(instance, record)
            for record in instance.get_run_records(RunsFilter(statuses=sorted(OPEN, key=str)))
            if record.dagster_run.run_id != own and (among is None or among.has(record.dagster_run))
        }
        held = False
        if seen and (holders := lock_holders(store) if store else frozenset()):
            alive = [pid for run in seen.values() if _verdict(run, here) is Verdict.ALIVE for pid in _pids(run)]
            held = others_hold(holders, alive)
        for run_id, run in seen.items():
            if _verdict(run, here, patience_s=patience_s, held=held) is not Verdict.DEAD:
                continue
            now = instance.get_run_by_id(run_id)
            # What a process wrote before it died counts: it may have ended the run, or only now begun it.
            if now is None or now.status is not run.status or (PROCESS_TAG in now.tags and run.identity is None):
                continue
            _close(instance, now, run)
            closed.append(run_id)
    return closed


def _close(instance: DagsterInstance, run: DagsterRun, seen: SeenRun) -> None:
    pids = _pids(seen)
    why = f"The process {pids[-1]} that ran this is gone" if pids else "No process ever took this run up"
    message = f"{why}; whoever started the next run closed it. Run again: a run finishes what another began."
    if run.status is DagsterRunStatus.CANCELING:
        instance.report_run_canceled(run, message)
    else:
        instance.report_run_failed(run, message)


def runs_at_work(instance: DagsterInstance, *, own: str = "", among: OwnRuns | None = None) -> list[RunAtWork]:
    """Return the runs of this machine whose process is alive, the one that started first at the front.

    Args:
        instance: where runs are kept.
        own: a run to leave out.
        among: whose runs are looked at; None for all that the instance keeps.
    """
    found = []
    here = this_machine()
    for record in instance.get_run_records(RunsFilter(statuses=[DagsterRunStatus.STARTED])):
        run: DagsterRun = record.dagster_run
        if among is not None and not among.has(run):
            continue
        seen = _seen(instance, record)
        if run.run_id != own and _verdict(seen, here) is Verdict.ALIVE:
            found.append(RunAtWork(run.run_id, run.job_name.strip("_").lower(), _pids(seen)[-1], _started(record)))
    return sorted(found, key=lambda run: (run.started_s, run.run_id))


def take_turn(
    instance: DagsterInstance,
    own: str,
    *,
    among: OwnRuns | None = None,
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
        among: whose runs it waits for; None for all that the instance keeps.
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
    while ahead := [run for run in runs_at_work(instance, own=own, among=among) if (run.started_s, run.run_id) < place]:
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


@contextmanager
def _one_at_a_time(instance: DagsterInstance) -> Iterator[None]:
    """Keep other processes of this machine from closing the same runs: a failure would be told twice."""
    # Dagster makes this folder when it first keeps something in it, which a fresh history has not done.
    folder = Path(instance.root_directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        keep_history_private(instance)
        descriptor = os.open(folder / ".closing", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        # Somebody's instance may have no folder to write to; a failure told twice is better than none told.
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _started(record: RunRecord) -> float:
    return record.start_time or record.create_timestamp.timestamp()


def _verdict(seen: SeenRun, here: Machine, *, patience_s: float = float("inf"), held: bool = False) -> Verdict:
    return judge(seen, here, now_s=time.time(), patience_s=patience_s, held=held)


def _pids(seen: SeenRun) -> list[int]:
    return [seen.identity.pid] if seen.identity else [pid for pid, _ in seen.reported]


def _seen(instance: DagsterInstance, record: RunRecord) -> SeenRun:
    run = record.dagster_run
    identity = ProcessIdentity.read(run.tags.get(PROCESS_TAG, ""), run.run_id)
    return SeenRun(
        run.status,
        identity,
        reported=() if identity else _reported(instance, run),
        server_is_here=identity is None and _server_is_here(run),
        changed_s=record.update_timestamp.timestamp(),
        ours=any(name.startswith(_OURS) for name in run.tags),
    )


def _server_is_here(run: DagsterRun) -> bool:
    """Whether the code server that starts a run's process answers at a socket of this machine's files."""
    try:
        address = json.loads(run.tags.get(GRPC_INFO_TAG, "{}")).get("socket")
        if not address:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_LISTENS_WITHIN_S)
            probe.connect(address)
    except (OSError, ValueError, AttributeError):
        return False
    return True


def _reported(instance: DagsterInstance, run: DagsterRun) -> tuple[tuple[int, float], ...]:
    """Find the processes that Dagster's own events name for a run, each with the time of the event."""
    found = []
    for record in instance.get_records_for_run(run.run_id, of_type=DagsterEventType.ENGINE_EVENT).records:
        entry = record.event_log_entry
        data = getattr(entry.dagster_event, "event_specific_data", None)
        for key, value in (getattr(data, "metadata", None) or {}).items():
            number = str(getattr(value, "text", None) or getattr(value, "value", None))
            if key == "pid" and number.isdecimal():
                found.append((int(number), entry.timestamp))
    return tuple(found)
