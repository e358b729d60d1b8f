"""Which runs are dead: no live run is closed, and every dead one is (SPEC 6.5)."""

import dataclasses
import functools
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import duckdb
import pytest
from dagster._core.events import EngineEventData
from dagster._core.storage.tags import GRPC_INFO_TAG
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.defs import runs
from ragspine_assets.defs.launch import open_instance
from ragspine_assets.defs.run_process import (
    PROCESS_TAG,
    Machine,
    Process,
    ProcessIdentity,
    SeenRun,
    Verdict,
    judge,
    lock_holders,
    own_identity,
    process_of,
    this_machine,
)
from ragspine_assets.defs.runs import close_dead_runs, runs_at_work, sign

PATIENCE_S = 600.0
STATUS = dg.DagsterRunStatus
SECOND = 100  # ticks of the kernel


# -- the verdict, over every life a run can have --------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Life:
    """What happened to a run, in seconds since its record was made; None is never, or not yet."""

    pid: int
    launched: float | None
    began: float | None
    reported: float | None
    started: float | None
    signed: float | None
    killed: float | None
    rebooted: float | None
    reused_after: float | None
    elsewhere: bool
    server_is_here: bool
    ours: bool
    seen_at: float

    def happened(self, when: float | None) -> bool:
        ends = [end for end in (self.killed, self.rebooted) if end is not None]
        return when is not None and when <= self.seen_at and all(when <= end for end in ends)

    @property
    def ended(self) -> bool:
        return any(end is not None and end <= self.seen_at for end in (self.killed, self.rebooted))

    @property
    def status(self) -> dg.DagsterRunStatus:
        if self.happened(self.started):
            return STATUS.STARTED
        return STATUS.STARTING if self.happened(self.launched) else STATUS.NOT_STARTED

    @property
    def changed_s(self) -> float:
        return max(
            when for when in (0.0, self.launched, self.started) if when is not None and self.happened(when or 0.0)
        )

    def seen(self) -> SeenRun:
        identity = None
        if self.happened(self.signed):
            assert self.began is not None
            where = ("other", "o", "ns") if self.elsewhere else ("here", "one", "ns")
            identity = ProcessIdentity(*where, self.pid, str(int(self.began * SECOND)))
        reported = ((self.pid, self.reported),) if self.happened(self.reported) and self.reported is not None else ()
        return SeenRun(
            self.status, identity, reported, self.server_is_here and not self.elsewhere, self.changed_s, self.ours
        )

    def here(self) -> Machine:
        table: dict[int, Process] = {}
        if self.happened(self.began) and not self.ended and not self.elsewhere and self.began is not None:
            table[self.pid] = Process(str(int(self.began * SECOND)), self.began)
        elif self.ended and self.reused_after is not None and not self.elsewhere:
            end = min(end for end in (self.killed, self.rebooted) if end is not None)
            again = end + 6.0 + self.reused_after
            if again <= self.seen_at:
                table[self.pid] = Process(str(int(again * SECOND)), again)
        boot = "two" if self.rebooted is not None and self.rebooted <= self.seen_at else "one"
        return Machine("here", boot, "ns", table.get)


@st.composite
def lives(draw: st.DrawFn) -> Life:
    """Lives whose process begins within the patience, which is what the setting is for."""
    seconds = functools.partial(st.floats, allow_nan=False)
    launched = draw(seconds(0, 100))
    began = launched + draw(seconds(0, PATIENCE_S - 1))
    reported = began + draw(seconds(0, 60))
    started = reported + draw(seconds(0, 60))
    signed = started + draw(seconds(0, 60))
    # While Dagster has said nothing of the process, the record is as old as its last change of status.
    never = st.none()
    return Life(
        pid=draw(st.integers(2, 9)),
        launched=launched,
        began=began,
        reported=min(reported, launched + PATIENCE_S),
        started=started,
        signed=signed,
        killed=draw(never | seconds(0, 4000)),
        rebooted=draw(never | seconds(0, 4000)),
        reused_after=draw(never | seconds(0, 500)),
        elsewhere=draw(st.booleans()),
        server_is_here=draw(st.booleans()),
        ours=draw(st.booleans()),
        seen_at=draw(seconds(0, 8000)),
    )


@settings(max_examples=150)
@given(lives(), st.booleans())
def test_no_run_whose_process_lives_is_ever_dead(life: Life, held: bool) -> None:
    if not life.ended and not (life.elsewhere and not life.happened(life.signed)):
        assert judge(life.seen(), life.here(), now_s=life.seen_at, patience_s=PATIENCE_S, held=held) is not Verdict.DEAD


@settings(max_examples=150)
@given(lives())
def test_every_run_that_signed_is_dead_as_soon_as_its_process_is(life: Life) -> None:
    if life.ended and life.happened(life.signed) and not life.elsewhere:
        assert judge(life.seen(), life.here(), now_s=life.seen_at, patience_s=PATIENCE_S) is Verdict.DEAD


@settings(max_examples=150)
@given(lives())
def test_every_run_whose_process_died_before_it_signed_is_dead_after_the_patience(life: Life) -> None:
    if life.ended and not life.happened(life.signed) and (life.ours or life.status is not STATUS.STARTED):
        now = life.changed_s + PATIENCE_S + 1
        late = dataclasses.replace(life, seen_at=max(now, life.seen_at))
        assert judge(late.seen(), late.here(), now_s=late.seen_at, patience_s=PATIENCE_S) is Verdict.DEAD
        assert judge(late.seen(), late.here(), now_s=late.seen_at, patience_s=PATIENCE_S, held=True) is not Verdict.DEAD


@settings(max_examples=50)
@given(lives())
def test_a_run_of_another_machine_is_never_judged_by_a_number(life: Life) -> None:
    elsewhere = dataclasses.replace(life, elsewhere=True)
    if elsewhere.happened(elsewhere.signed):
        crowded = Machine("here", "one", "ns", lambda _: Process("1", 0.0))
        for machine in (Machine("here", "one", "ns", lambda _: None), crowded):
            verdict = judge(elsewhere.seen(), machine, now_s=life.seen_at, patience_s=PATIENCE_S)
            assert verdict is Verdict.UNKNOWN


def test_a_process_of_another_namespace_is_not_judged_by_its_number() -> None:
    signed = SeenRun(STATUS.STARTED, ProcessIdentity("here", "one", "container", 7, "1"))
    assert judge(signed, Machine("here", "one", "ns", lambda _: None), now_s=1e9, patience_s=1) is Verdict.UNKNOWN


@pytest.mark.parametrize("status", [STATUS.QUEUED, STATUS.MANAGED, *[s for s in STATUS if "SUCC" in s.value]])
def test_a_run_in_the_queue_or_at_its_end_is_not_judged(status: dg.DagsterRunStatus) -> None:
    gone = SeenRun(status, ProcessIdentity("here", "one", "ns", 7, "1"))
    assert judge(gone, Machine("here", "one", "ns", lambda _: None), now_s=1e9, patience_s=1) is Verdict.UNKNOWN


def test_the_order_of_record_and_process_alone_would_close_live_runs() -> None:
    """The reverse: judged by when its record was made, a run that starts slowly is another process's."""
    slow = Life(7, 1, 30, 31, 40, 41, None, None, None, False, True, True, 35)
    process = slow.here().process(7)
    assert process is not None
    assert process.started_s > slow.changed_s + 5
    assert judge(slow.seen(), slow.here(), now_s=35, patience_s=PATIENCE_S) is Verdict.ALIVE


def test_an_identity_is_of_one_run_and_survives_being_written() -> None:
    who = own_identity()
    assert ProcessIdentity.read(who.tag("a-run"), "a-run") == who
    for tag in (
        "",
        "7",
        "{}",
        "[]",
        "null",
        '{"run": "a-run"}',
        who.tag("another-run"),
        '{"run": "a-run", "pid": 1, "x": 2}',
    ):
        assert ProcessIdentity.read(tag, "a-run") is None


def test_this_process_is_there_and_a_dead_one_is_not_also_while_nobody_waits_for_it() -> None:
    found = process_of(os.getpid())
    assert found is not None
    assert abs(found.started_s - time.time()) < 24 * 3600
    child = subprocess.Popen([sys.executable, "-c", ""])
    until = time.monotonic() + 20
    while process_of(child.pid) is not None:
        assert time.monotonic() < until
        time.sleep(0.02)
    child.wait()
    assert process_of(child.pid) is None


# -- a real instance -----------------------------------------------------------------------------------------------------


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@dg.op
def nothing() -> None:
    """Do nothing: a run is judged by its record, whatever it is to do."""


@dg.job(name="checks", tags={"ragspine/chunker": "none"})
def job() -> None:
    nothing()


@contextmanager
def other_process(code: str = "import sys; sys.stdin.read()") -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def identity_of(pid: int) -> ProcessIdentity:
    found = process_of(pid)
    return dataclasses.replace(own_identity(), pid=pid, started=found.started if found else "1")


def create(instance: dg.DagsterInstance, *events: str, tags: dict[str, str] | None = None) -> dg.DagsterRun:
    run = instance.create_run_for_job(job, tags={**job.tags, **(tags or {})}, status=STATUS.NOT_STARTED)
    for event in events:
        happen(instance, run, event)
    return run


def happen(instance: dg.DagsterInstance, run: dg.DagsterRun, event: str) -> None:
    kind = dg.DagsterEventType[event]
    instance.handle_run_event(run.run_id, dg.DagsterEvent(kind.value, "checks"))


def report(instance: dg.DagsterInstance, run: dg.DagsterRun, pid: int) -> None:
    instance.report_engine_event("Started process for run.", run, EngineEventData.in_process(pid))


def status(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRunStatus:
    now = instance.get_run_by_id(run.run_id)
    assert now
    return now.status


def test_a_run_that_starts_slowly_is_left_alone_at_every_moment(instance: dg.DagsterInstance) -> None:
    run = create(instance)
    assert close_dead_runs(instance) == []
    happen(instance, run, "RUN_STARTING")
    assert close_dead_runs(instance) == []
    with other_process() as late:
        report(instance, run, late.pid)
        assert close_dead_runs(instance) == []
        happen(instance, run, "RUN_START")
        assert close_dead_runs(instance) == []
        assert [work.pid for work in runs_at_work(instance)] == [late.pid]
        instance.add_run_tags(run.run_id, {PROCESS_TAG: identity_of(late.pid).tag(run.run_id)})
        assert close_dead_runs(instance) == []
        assert [work.pid for work in runs_at_work(instance)] == [late.pid]
    assert close_dead_runs(instance) == [run.run_id]
    assert status(instance, run) is STATUS.FAILURE


def test_a_number_that_another_process_got_since_is_not_taken_for_the_runs_process(
    instance: dg.DagsterInstance,
) -> None:
    run = create(instance, "RUN_START")
    with other_process() as other:
        reused = dataclasses.replace(identity_of(other.pid), started="1")
        instance.add_run_tags(run.run_id, {PROCESS_TAG: reused.tag(run.run_id)})
        assert runs_at_work(instance) == []
        assert close_dead_runs(instance) == [run.run_id]


def test_a_run_that_was_launched_with_the_tags_of_a_dead_one_is_not_taken_for_dead(
    instance: dg.DagsterInstance,
) -> None:
    with other_process() as dead:
        tags = {PROCESS_TAG: identity_of(dead.pid).tag("another-run")}
    copied = create(instance, "RUN_STARTING", tags=tags)
    assert close_dead_runs(instance) == []
    sign(instance, copied.run_id)
    happen(instance, copied, "RUN_START")
    assert close_dead_runs(instance) == []
    assert [run.pid for run in runs_at_work(instance)] == [os.getpid()]


def test_a_run_killed_while_it_loads_is_closed_at_once_where_its_server_is(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "server"))
        server.listen()
        info = json.dumps({"host": "localhost", "socket": str(tmp_path / "server")})
        run = create(instance, "RUN_STARTING", tags={GRPC_INFO_TAG: info})
        assert close_dead_runs(instance) == []
        with other_process() as loading:
            report(instance, run, loading.pid)
            assert close_dead_runs(instance) == []
        assert close_dead_runs(instance) == [run.run_id]


def test_a_run_whose_server_is_gone_may_still_begin_and_is_given_up_by_age(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    info = json.dumps({"host": "localhost", "socket": str(tmp_path / "gone")})
    run = create(instance, "RUN_STARTING", tags={GRPC_INFO_TAG: info})
    assert close_dead_runs(instance) == []
    time.sleep(0.02)
    assert close_dead_runs(instance, patience_s=0.01) == [run.run_id]


@pytest.mark.parametrize("info", [{"host": "code.example", "port": 1}, {"host": "localhost", "port": 1}, [], None])
def test_a_run_that_a_server_at_an_address_is_starting_is_left_alone(
    instance: dg.DagsterInstance, info: object
) -> None:
    run = create(instance, "RUN_STARTING", tags={GRPC_INFO_TAG: json.dumps(info)})
    with other_process() as gone:
        pass
    report(instance, run, gone.pid)
    assert close_dead_runs(instance) == []


def test_a_cancelled_run_whose_process_is_gone_ends_as_cancelled(instance: dg.DagsterInstance) -> None:
    run = create(instance, "RUN_START")
    with other_process() as dead:
        instance.add_run_tags(run.run_id, {PROCESS_TAG: identity_of(dead.pid).tag(run.run_id)})
    happen(instance, run, "RUN_CANCELING")
    assert close_dead_runs(instance) == [run.run_id]
    assert status(instance, run) is STATUS.CANCELED


def test_while_a_process_that_no_run_accounts_for_holds_the_store_nothing_is_given_up_by_age(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    store = tmp_path / "s.duckdb"
    duckdb.connect(str(store)).close()
    run = create(instance, "RUN_STARTING")
    code = f"import sys; sys.path[:] = {sys.path!r}; import duckdb, time; c = duckdb.connect({str(store)!r}); print('held', flush=True); time.sleep(600)"
    with other_process(code) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert lock_holders(store) == {holder.pid}
        time.sleep(0.02)
        assert close_dead_runs(instance, store=store, patience_s=0.01) == []
        other = create(instance, "RUN_START")
        instance.add_run_tags(other.run_id, {PROCESS_TAG: identity_of(holder.pid).tag(other.run_id)})
        # Now it is known whose lock it is.
        assert close_dead_runs(instance, store=store, patience_s=0.01) == [run.run_id]


def test_a_run_that_ends_while_it_is_looked_at_keeps_its_end(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create(instance, "RUN_START")
    with other_process() as dead:
        instance.add_run_tags(run.run_id, {PROCESS_TAG: identity_of(dead.pid).tag(run.run_id)})

    def judged(*arguments: object, **named: object) -> Verdict:
        happen(instance, run, "RUN_SUCCESS")
        return Verdict.DEAD

    monkeypatch.setattr(runs, "judge", judged)
    assert close_dead_runs(instance) == []
    assert status(instance, run) is STATUS.SUCCESS


STAGES: list[tuple[str, ...]] = [
    (), ("RUN_STARTING",), ("RUN_STARTING", "RUN_START"), ("RUN_START", "RUN_CANCELING"),
]  # fmt: skip
DOORS: list[dict[str, str]] = [
    {}, {GRPC_INFO_TAG: '{"socket": "/nowhere"}'}, {"dagster/sensor_name": "source_changed"},
    {"dagster/schedule_name": "checks_hourly"},
]  # fmt: skip


@contextmanager
def crowd(instance: dg.DagsterInstance, size: int) -> Iterator[dict[str, bool]]:
    """Make runs as a terminal, the UI, a sensor and a schedule leave them, at every stage; which can be told to be dead."""
    rng = random.Random(18)
    with other_process() as living:
        with other_process() as killed:
            who = {True: identity_of(living.pid), False: identity_of(killed.pid)}
        dead: dict[str, bool] = {}
        for number in range(size):
            alive, signed = bool(number % 2), bool(number % 3)
            run = create(instance, *rng.choice(STAGES), tags=DOORS[number % 4])
            report(instance, run, who[alive].pid)
            if signed:
                instance.add_run_tags(run.run_id, {PROCESS_TAG: who[alive].tag(run.run_id)})
            dead[run.run_id] = not alive and signed
        yield dead


def test_of_many_runs_of_four_doors_live_ones_stay_and_dead_ones_go(instance: dg.DagsterInstance) -> None:
    with crowd(instance, 48) as dead:
        assert sorted(close_dead_runs(instance)) == sorted(run_id for run_id in dead if dead[run_id])
        time.sleep(0.02)
        assert not any(dead[run_id] for run_id in close_dead_runs(instance, patience_s=0.01))
        assert len([run for run in instance.get_runs() if not run.is_finished]) == 24


def test_of_three_who_close_at_once_one_closes(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance, crowd(instance, 5) as dead:
        closed: list[str] = []

        def call() -> None:
            with dg.DagsterInstance.from_ref(instance.get_ref()) as own:
                closed.extend(close_dead_runs(own))

        callers = [threading.Thread(target=call) for _ in range(3)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert sorted(closed) == sorted(run_id for run_id in dead if dead[run_id])


def test_a_history_that_is_just_made_has_no_dead_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    shutil.copy(Path(__file__).resolve().parents[2] / "dagster.yaml", tmp_path)
    with open_instance() as fresh:
        assert close_dead_runs(fresh) == []


def test_without_the_second_look_a_success_would_become_a_failure(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create(instance, "RUN_START")
    stale = instance.get_run_by_id(run.run_id)
    assert stale
    seen = SeenRun(STATUS.STARTED, dataclasses.replace(own_identity(), started="1"))
    happen(instance, run, "RUN_SUCCESS")
    close: Callable[..., None] = runs._close
    close(instance, stale, seen)
    assert status(instance, run) is STATUS.FAILURE


def test_this_machine_knows_itself() -> None:
    here, who = this_machine(), own_identity()
    assert (who.host, who.boot, who.namespace) == (here.host, here.boot, here.namespace)
    assert judge(SeenRun(STATUS.STARTED, who), here, now_s=0, patience_s=0) is Verdict.ALIVE
