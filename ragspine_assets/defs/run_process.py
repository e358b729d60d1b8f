"""Which process runs a run, and whether it is still there (SPEC 6.5).

Belongs here: the identity that a run writes about its own process, and the verdict on a run, which is a pure function of what
is known of it and of this machine. Does not belong here: reading and closing runs (see `runs`). A process is told by its
number together with the kernel's start time of it, the boot and the namespace of numbers: a number alone is used again.
"""

import json
import os
import platform
import subprocess
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from pathlib import Path

from dagster import DagsterRunStatus

PROCESS_TAG = "ragspine/process"
"""Tag of a run: the identity of its process, written by that process before it does anything else."""

_CLOCKS_DIFFER_S = 5.0
_UNBEGUN = frozenset({DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.CANCELING})
OPEN = _UNBEGUN | {DagsterRunStatus.STARTED}
"""Statuses of runs that may be dead. A run in the queue is not: the daemon takes it up when it is there again."""


class Verdict(Enum):
    """What can be said of a run: unknown is what nobody may act upon."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ProcessIdentity:
    """One process among all that ever were.

    Attributes:
        host: the machine.
        boot: which of its starts.
        namespace: in which namespace its number counts; containers have their own.
        pid: its number.
        started: when the kernel made it, in the kernel's own count since the boot, which no change of clock moves.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    started: str

    def tag(self, run_id: str) -> str:
        """Return the value of `PROCESS_TAG`; it names the run, since tags are copied when a run is launched from another."""
        return json.dumps({"run": run_id, **asdict(self)}, sort_keys=True)

    @classmethod
    def read(cls, tag: str, run_id: str) -> "ProcessIdentity | None":
        """Return what `tag` wrote for this run; None for anything else."""
        try:
            values = json.loads(tag)
            if values.pop("run") != run_id:
                return None
            return cls(**{**values, "pid": int(values["pid"])})
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


@dataclass(frozen=True)
class Process:
    """A process that is there.

    Attributes:
        started: as in `ProcessIdentity`.
        started_s: the same by the clock of now, seconds since 1970.
    """

    started: str
    started_s: float


@dataclass(frozen=True)
class Machine:
    """This machine as a process sees it.

    Attributes:
        host: as in `ProcessIdentity`, as are ``boot`` and ``namespace``.
        process: gives the process of a number, None where there is none or only its remains.
    """

    host: str
    boot: str
    namespace: str
    process: Callable[[int], Process | None]


@dataclass(frozen=True)
class SeenRun:
    """What is known of a run.

    Attributes:
        status: its status.
        identity: what its process wrote about itself; None before that.
        reported: numbers of processes in Dagster's own events about it, and when they were reported (seconds since 1970).
        server_is_here: whether the code server that starts its process answers on this machine.
        changed_s: when its status changed last, seconds since 1970.
        ours: whether a job of this project made it, so that its process writes an identity as soon as it has begun.
    """

    status: DagsterRunStatus
    identity: ProcessIdentity | None = None
    reported: tuple[tuple[int, float], ...] = ()
    server_is_here: bool = False
    changed_s: float = 0.0
    ours: bool = False


def judge(seen: SeenRun, here: Machine, *, now_s: float, patience_s: float, held: bool = False) -> Verdict:
    """Tell whether the process of a run is alive, from what is known of both.

    A run that wrote its identity is judged by it, on its own machine only. Before that, a number that Dagster reported may
    speak for it; it speaks against it only where its code server is at hand, and so this is its machine. Otherwise a run
    is given up by age, if its process never began: a slow start is no death.

    Args:
        seen: the run.
        here: this machine.
        now_s: the time, seconds since 1970.
        patience_s: seconds for which a run may have no process.
        held: whether a process that no run accounts for holds the store's lock: it may be this run's.
    """
    if seen.status not in OPEN:
        return Verdict.UNKNOWN
    if seen.identity is not None:
        return _judged_by_identity(seen.identity, here)
    processes = [(here.process(pid), reported_s) for pid, reported_s in seen.reported]
    if any(found and found.started_s <= reported_s + _CLOCKS_DIFFER_S for found, reported_s in processes):
        return Verdict.ALIVE
    if processes and seen.server_is_here and not any(found for found, _ in processes) and not held:
        return Verdict.DEAD
    given_up = now_s - seen.changed_s > patience_s and not held
    return Verdict.DEAD if given_up and (seen.ours or seen.status in _UNBEGUN) else Verdict.UNKNOWN


def _judged_by_identity(identity: ProcessIdentity, here: Machine) -> Verdict:
    if identity.host != here.host:
        return Verdict.UNKNOWN
    if identity.boot != here.boot:
        return Verdict.DEAD
    if identity.namespace != here.namespace:
        return Verdict.UNKNOWN
    found = here.process(identity.pid)
    return Verdict.ALIVE if found and found.started in (identity.started, "") else Verdict.DEAD


def this_machine() -> Machine:
    """Return the machine that this process runs on."""
    return Machine(*_place(), process=process_of)


def own_identity() -> ProcessIdentity:
    """Return the identity of the process that asks."""
    return identity_of(os.getpid())


def identity_of(pid: int) -> ProcessIdentity:
    """Return the identity of a process of this machine."""
    found = process_of(pid)
    return ProcessIdentity(*_place(), pid, found.started if found else "")


def process_of(pid: int) -> Process | None:
    """Return the process of a number; None where there is none, or a dead one that nobody has waited for.

    One that this user may not look at is there, with ``started`` unknown, ``''``.
    """
    unseen = None
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        unseen = Process("", 0.0)
    if not Path("/proc/self/stat").exists():
        return _process_told_by_ps(pid)
    try:
        values = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        if values[0] in "ZX":
            return None
        lines = Path("/proc/stat").read_text("ascii").splitlines()
    except (OSError, IndexError):
        return unseen
    booted_s = next(float(line.split()[1]) for line in lines if line.startswith("btime "))
    return Process(values[19], booted_s + int(values[19]) / os.sysconf("SC_CLK_TCK"))


def lock_holders(path: str | Path) -> frozenset[int]:
    """Return the processes that hold a lock on a file, as far as this system tells without touching the file."""
    with_locks = Path("/proc/locks")
    try:
        inode = str(os.stat(path).st_ino)
        lines = [line.split() for line in with_locks.read_text("ascii").splitlines()]
    except OSError:
        return frozenset()
    return frozenset(
        int(line[4]) for line in lines if len(line) > 5 and line[4].isdecimal() and line[5].rpartition(":")[2] == inode
    )


def others_hold(holders: Collection[int], accounted: Collection[int]) -> bool:
    """Whether a process holds a lock that is not among those whose runs are known."""
    return bool(set(holders) - set(accounted) - {os.getpid()})


@cache
def _place() -> tuple[str, str, str]:
    boot = _first_line("/proc/sys/kernel/random/boot_id") or _told_by("sysctl", "-n", "kern.bootsessionuuid")
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return f"{platform.node()} {_first_line('/etc/machine-id')}".strip(), boot, namespace


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text("ascii", "replace").strip()
    except OSError:
        return ""


def _told_by(*command: str) -> str:
    plain = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, env=plain).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _process_told_by_ps(pid: int) -> Process | None:
    state, _, started = _told_by("ps", "-o", "stat=,lstart=", "-p", str(pid)).partition(" ")
    if state.startswith("Z"):
        return None
    try:
        made = datetime.strptime(started.strip(), "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    except ValueError:
        return Process("", 0.0)
    return Process(started.strip(), made.timestamp())
