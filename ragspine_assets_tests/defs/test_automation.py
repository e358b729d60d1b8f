"""Schedules, sensors and the order of runs, over a real folder and a real Dagster instance (SPEC 6.4, 6.5)."""

import dataclasses
import functools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from ragspine_assets.config import ServiceConfig
from ragspine_assets.defs import build_defs, failures, launch, sensors
from ragspine_assets.defs.failures import FailedRun, explain_failure
from ragspine_assets.defs.own_runs import OwnRuns
from ragspine_assets.defs.run_process import PROCESS_TAG, ProcessIdentity, own_identity
from ragspine_assets.defs.runs import take_turn
from ragspine_assets.documents.watching import watch_digest
from ragspine_assets.store import ChunkStore, StoreBusyError

CANARY = "Zanzibarquux"


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def instance_on_disk(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """Schedules are evaluated in another process, so they ask for an instance that one can open again."""
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home"), overrides={"telemetry": {"enabled": False}}) as made:
        yield made


@functools.cache
def refresh_job() -> dg.JobDefinition:
    return build_defs().resolve_job_def("refresh")


@pytest.fixture
def service(tmp_path: Path) -> ServiceConfig:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "a.txt").write_text("The first document.\n")
    (source / "deep" / "b.md").write_text("# The second\n\nIt says more.\n")
    facts = tmp_path / "facts"
    facts.mkdir()
    (facts / "f.csv").write_text("metric_code,entity,period_type,period,value,unit,source_doc_id,source_locator\n")
    profile = tmp_path / "profile.toml"
    profile.write_text('[home]\ncompany_name = "Home"\nentity_code = "HOM"\n')
    return ServiceConfig(
        source=str(source), store=str(tmp_path / "state" / "s.duckdb"), profile=str(profile), facts=str(facts),
        workers=1, chunker="parent_child", snapshots=str(tmp_path / "snapshots"),
    )  # fmt: skip


class Watch:
    """The source sensor as the daemon drives it: tick after tick, each with the cursor of the last."""

    def __init__(self, service: ServiceConfig, instance: dg.DagsterInstance) -> None:
        self.repository = build_defs(service).get_repository_def()
        self.sensor = self.repository.get_sensor_def("source_changed")
        self.instance = instance
        self.cursor: str | None = None
        self.keys: list[str] = []
        self.why = ""

    def tick(self) -> dg.RunRequest | None:
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, repository_def=self.repository, sensor_name="source_changed"
        )
        data = self.sensor.evaluate_tick(context)
        self.cursor = data.cursor
        self.why = data.skip_message or ""
        if not data.run_requests:
            return None
        (request,) = data.run_requests
        assert request.run_key
        assert request.run_key not in self.keys, "Dagster would not launch this"
        self.keys.append(request.run_key)
        return request

    def finish(self, request: dg.RunRequest, status: dg.DagsterRunStatus) -> dg.DagsterRun:
        """Keep a run as if it had been launched for a request and had ended."""
        run = self.instance.create_run_for_job(
            refresh_job(), tags=dict(request.tags), status=dg.DagsterRunStatus.STARTED
        )
        end = {
            dg.DagsterRunStatus.FAILURE: dg.DagsterEventType.RUN_FAILURE,
            dg.DagsterRunStatus.SUCCESS: dg.DagsterEventType.RUN_SUCCESS,
        }[status]
        self.instance.handle_run_event(run.run_id, dg.DagsterEvent(end.value, "refresh"))
        return run


@pytest.fixture
def watch(service: ServiceConfig, instance: dg.DagsterInstance) -> Watch:
    watch = Watch(service, instance)
    request = watch.tick()
    assert request
    watch.finish(request, dg.DagsterRunStatus.SUCCESS)
    return watch


# -- the sensor ----------------------------------------------------------------------------------------------------------


def test_the_first_look_asks_for_a_run_that_carries_the_selection(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    request = Watch(service, instance).tick()
    assert request
    assert request.tags["ragspine/chunker"] == "parent_child"
    assert request.run_config["resources"]["chunker"]["config"]["spec"] == "parent_child"
    assert request.run_config["resources"]["relation_extractor"]["config"]["spec"] == "none"


def test_names_cannot_be_tried_out_from_what_the_sensor_shows(watch: Watch, service: ServiceConfig) -> None:
    computed = watch_digest(service.source, profile=service.profile, facts=service.facts)
    assert computed not in f"{watch.cursor} {watch.keys}"
    with dg.DagsterInstance.ephemeral() as another:
        elsewhere = Watch(service, another)
        elsewhere.tick()
    assert elsewhere.cursor != watch.cursor


def test_a_hundred_looks_at_an_unchanged_folder_ask_for_nothing(watch: Watch) -> None:
    started = time.process_time()
    assert all(watch.tick() is None for _ in range(100))
    assert watch.why == "Source, profile and facts are as they were."
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "new.txt").write_text("new"),
        lambda root: (root / "a.txt").write_text("The first document. Longer.\n"),
        lambda root: os.utime(root / "a.txt", (1, 1)),
        lambda root: (root / "a.txt").rename(root / "c.txt"),
        lambda root: (root / "a.txt").rename(root / "deep" / "a.txt"),
        lambda root: (root / "deep" / "b.md").unlink(),
        lambda root: (root / "metadata.csv").write_text("doc_id,sensitivity\na.txt,RESTRICTED\n"),
        lambda root: (root.parent / "profile.toml").write_text('[home]\ncompany_name = "H"\nentity_code = "HOM"\n'),
        lambda root: (root.parent / "facts" / "g.csv").write_text("metric_code\n"),
        lambda root: os.utime(root.parent / "facts" / "f.csv", (1, 1)),
        lambda root: (root.parent / "profile.toml").unlink(),
    ],
    ids=["added", "changed", "touched", "renamed", "moved", "removed", "relabelled", "profile", "facts", "facts touched",
         "profile removed"],
)  # fmt: skip
def test_every_change_asks_for_one_run(watch: Watch, service: ServiceConfig, change: object) -> None:
    assert callable(change)
    change(Path(service.source))
    assert watch.tick() is not None
    assert watch.tick() is None


def test_what_is_no_document_asks_for_nothing(watch: Watch, service: ServiceConfig) -> None:
    Path(service.source, ".hidden.txt").write_text("x")
    Path(service.source, "~$a.docx").write_text("x")
    Path(service.source, "photo.png").write_text("x")
    assert watch.tick() is None


def test_a_state_that_comes_back_is_a_change_again(watch: Watch, service: ServiceConfig) -> None:
    path = Path(service.source, "a.txt")
    before, times = path.read_bytes(), path.stat()
    path.write_text("B")
    assert watch.tick() is not None
    path.write_bytes(before)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    again = watch.tick()
    assert again is not None
    assert again.run_key
    assert again.run_key.split("-")[0] == watch.keys[0].split("-")[0]


def test_a_run_that_failed_is_tried_twice_more_with_growing_pauses(
    watch: Watch, service: ServiceConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(service.source, "new.txt").write_text("new")
    request = watch.tick()
    assert request
    watch.finish(request, dg.DagsterRunStatus.FAILURE)
    assert watch.tick() is None
    assert "tried again in 10 min" in watch.why
    monkeypatch.setattr(sensors, "RETRY_AFTER_S", 0.0)
    for _ in range(2):
        request = watch.tick()
        assert request
        watch.finish(request, dg.DagsterRunStatus.FAILURE)
    assert watch.tick() is None
    assert "The last 3 runs of them failed" in watch.why
    Path(service.source, "new.txt").write_text("newer")
    assert watch.tick() is not None


def test_a_run_that_failed_and_then_succeeded_is_not_tried_again(
    watch: Watch, service: ServiceConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensors, "RETRY_AFTER_S", 0.0)
    Path(service.source, "new.txt").write_text("new")
    for status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS):
        request = watch.tick()
        assert request
        watch.finish(request, status)
    assert watch.tick() is None


def test_a_run_whose_process_died_counts_as_failed(
    watch: Watch, service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    Path(service.source, "new.txt").write_text("new")
    request = watch.tick()
    assert request
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    run = start_run(instance, dict(request.tags), dataclasses.replace(own_identity(), pid=gone.pid))
    assert watch.tick() is None
    assert f"Run {run.run_id[:8]} of them failed; it is tried again" in watch.why


def test_while_a_refresh_is_at_work_a_change_waits_and_is_not_forgotten(
    watch: Watch, service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    run = start_run(instance, OwnRuns(service.store).tags)
    Path(service.source, "new.txt").write_text("new")
    assert watch.tick() is None
    assert f"Run {run.run_id[:8]} (refresh) is at work" in watch.why
    instance.handle_run_event(run.run_id, dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, "refresh"))
    assert watch.tick() is not None


def test_a_source_that_is_not_there_is_said_and_its_return_is_no_change(watch: Watch, service: ServiceConfig) -> None:
    source = Path(service.source)
    source.rename(source.with_name("unmounted"))
    assert watch.tick() is None
    assert "does not exist; create it, mount it" in watch.why
    source.with_name("unmounted").rename(source)
    assert watch.tick() is None
    assert watch.why == "Source, profile and facts are as they were."


# -- defaults, schedules, freshness --------------------------------------------------------------------------------------


def test_schedules_and_sensors_are_on_unless_automation_is_switched_off() -> None:
    for automation, status in ((True, "RUNNING"), (False, "STOPPED")):
        repository = build_defs(ServiceConfig(automation=automation)).get_repository_def()
        found = {each.name: each.default_status.value for each in (*repository.schedule_defs, *repository.sensor_defs)}
        assert found == dict.fromkeys(("refresh_daily", "checks_hourly", "source_changed", "run_failed"), status)


def test_cron_zone_and_interval_come_from_the_environment() -> None:
    config = ServiceConfig.from_environment(
        {"RAGSPINE_REFRESH_CRON": "*/5 * * * *", "RAGSPINE_CHECKS_CRON": "1 * * * *", "RAGSPINE_TIMEZONE": "Asia/Tokyo",
         "RAGSPINE_WATCH_INTERVAL_S": "90"}
    )  # fmt: skip
    repository = build_defs(config).get_repository_def()
    schedules = {each.name: each for each in repository.schedule_defs}
    assert schedules["refresh_daily"].cron_schedule == "*/5 * * * *"
    assert schedules["checks_hourly"].cron_schedule == "1 * * * *"
    assert {each.execution_timezone for each in schedules.values()} == {"Asia/Tokyo"}
    assert repository.get_sensor_def("source_changed").minimum_interval_seconds == 90


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"refresh_cron": "at noon"}, "RAGSPINE_REFRESH_CRON must be a cron"),
        ({"checks_cron": "61 * * * *"}, "RAGSPINE_CHECKS_CRON must be a cron"),
        ({"timezone": "Mars/Olympus"}, "RAGSPINE_TIMEZONE must be a time zone"),
        ({"fresh_for_h": 0.0}, "RAGSPINE_FRESH_FOR_H must be a number above 0"),
        ({"notifier": "no_such_module:tell"}, "notifier 'no_such_module:tell' cannot be loaded"),
        ({"notifier": "os:sep"}, "RAGSPINE_NOTIFIER must be a function"),
    ],
)
def test_a_wrong_setting_of_automation_fails_when_the_definitions_load(
    setting: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        build_defs(ServiceConfig(**setting))  # pyright: ignore[reportArgumentType]


def test_a_schedules_run_carries_the_selection(service: ServiceConfig, instance_on_disk: dg.DagsterInstance) -> None:
    repository = build_defs(service).get_repository_def()
    context = dg.build_schedule_context(instance=instance_on_disk, repository_def=repository)
    (request,) = repository.get_schedule_def("refresh_daily").evaluate_tick(context).run_requests or ()
    assert request.tags["ragspine/chunker"] == "parent_child"
    assert request.run_config["resources"]["chunker"]["config"]["spec"] == "parent_child"


def test_the_hourly_checks_leave_the_field_to_a_run_that_is_at_work(
    service: ServiceConfig, instance_on_disk: dg.DagsterInstance
) -> None:
    repository = build_defs(service).get_repository_def()
    checks = repository.get_schedule_def("checks_hourly")
    run = start_run(instance_on_disk, OwnRuns(service.store).tags)
    data = checks.evaluate_tick(dg.build_schedule_context(instance=instance_on_disk, repository_def=repository))
    assert not data.run_requests
    assert run.run_id[:8] in (data.skip_message or "")
    instance_on_disk.handle_run_event(run.run_id, dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, "refresh"))
    assert checks.evaluate_tick(
        dg.build_schedule_context(instance=instance_on_disk, repository_def=repository)
    ).run_requests


def test_what_is_served_has_a_freshness_policy() -> None:
    graph = build_defs(ServiceConfig(fresh_for_h=10)).get_repository_def().asset_graph
    held = {key.to_user_string() for key in graph.get_all_asset_keys() if graph.get(key).freshness_policy}
    there = {key.to_user_string() for key in graph.get_all_asset_keys()}
    assert held == ({"serving_snapshot"} if "serving_snapshot" in there else {"chunk_store", "relation_graph"})


# -- runs take their turn ------------------------------------------------------------------------------------------------


def start_run(
    instance: dg.DagsterInstance, tags: dict[str, str] | None = None, who: ProcessIdentity | None = None
) -> dg.DagsterRun:
    """Make a run of a process, by default of this one."""
    run = instance.create_run_for_job(refresh_job(), status=dg.DagsterRunStatus.NOT_STARTED, tags=tags)
    instance.add_run_tags(run.run_id, {PROCESS_TAG: (who or own_identity()).tag(run.run_id)})
    instance.handle_run_event(run.run_id, dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, "refresh"))
    return run


def test_a_run_waits_for_one_that_started_earlier_and_never_for_a_later_one(instance: dg.DagsterInstance) -> None:
    first, second = start_run(instance), start_run(instance)
    take_turn(instance, first.run_id, wait_s=0)
    with pytest.raises(StoreBusyError, match=rf"Run {first.run_id[:8]} \(refresh, process {os.getpid()}\) is still"):
        take_turn(instance, second.run_id, wait_s=0.1, poll_s=0.02)
    said: list[str] = []
    ending = threading.Timer(
        0.3, instance.handle_run_event,
        (first.run_id, dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, "refresh")),
    )  # fmt: skip
    ending.start()
    take_turn(instance, second.run_id, wait_s=20, poll_s=0.05, say=said.append)
    ending.join()
    assert len(said) == 1


def test_a_run_that_cannot_have_its_turn_fails_and_names_who_is_at_work(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    other = start_run(instance, OwnRuns(service.store).tags)
    impatient = dataclasses.replace(service, turn_s=0.0)
    result = (
        build_defs(impatient).resolve_job_def("refresh").execute_in_process(instance=instance, raise_on_error=False)
    )
    assert not result.success
    assert not Path(service.store).exists()
    run = instance.get_run_by_id(result.run_id)
    assert run
    assert f"Run {other.run_id[:8]}" in explain_failure(instance, run).line


# -- telling about failures ----------------------------------------------------------------------------------------------

TOLD: list[FailedRun] = []


def tell(failed: FailedRun) -> None:
    TOLD.append(failed)


def tell_and_raise(failed: FailedRun) -> None:
    raise SystemExit(CANARY)


def failing(service: ServiceConfig, instance: dg.DagsterInstance) -> dg.DagsterRun:
    result = build_defs(service).resolve_job_def("refresh").execute_in_process(instance=instance, raise_on_error=False)
    run = instance.get_run_by_id(result.run_id)
    assert run
    assert run.status is dg.DagsterRunStatus.FAILURE
    return run


def react(service: ServiceConfig, instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Let the failure sensor of a location see one failed run, as the daemon does."""
    repository = build_defs(service).get_repository_def()
    event = next(
        entry.dagster_event
        for entry in instance.all_logs(run.run_id)
        if entry.dagster_event and entry.dagster_event.event_type is dg.DagsterEventType.RUN_FAILURE
    )
    context = dg.build_run_status_sensor_context(
        sensor_name="run_failed", dagster_instance=instance, dagster_run=run, dagster_event=event
    ).for_run_failure()
    sensor = repository.get_sensor_def("run_failed")
    assert callable(sensor)
    sensor(context)


def test_a_missing_source_is_told_in_one_line_with_what_to_do(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    TOLD.clear()
    gone = dataclasses.replace(service, source=service.source + "-gone", notifier=f"{__name__}:tell")
    run = failing(gone, instance)
    react(gone, instance, run)
    react(dataclasses.replace(gone, store=f"{gone.store}-of-another-corpus"), instance, run)
    (failed,) = TOLD
    assert failed.job == "refresh"
    assert "\n" not in failed.line
    assert "does not exist; create it, mount it" in failed.line
    assert "when-something-is-stuck" in failed.line


def test_a_broken_promise_is_told_by_name_with_where_and_what_to_do(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    assert build_defs(service).resolve_job_def("refresh").execute_in_process(instance=instance).success
    with ChunkStore(service.store).connect() as connection:
        connection.execute("UPDATE narrative_chunk SET text = 'forged' WHERE doc_id = 'a.txt'")
    result = build_defs(service).resolve_job_def("checks").execute_in_process(instance=instance, raise_on_error=False)
    run = instance.get_run_by_id(result.run_id)
    assert run
    failed = explain_failure(instance, run)
    assert "promise chunk_store: one_active_version_equal_to_staged is broken" in failed.line
    assert "a.txt" in failed.line
    assert "Run refresh" in failed.line


def test_a_notifier_that_raises_stops_nothing_and_its_message_is_not_logged(
    service: ServiceConfig, instance: dg.DagsterInstance, capfd: pytest.CaptureFixture[str]
) -> None:
    gone = dataclasses.replace(service, source=service.source + "-gone", notifier=f"{__name__}:tell_and_raise")
    react(gone, instance, failing(gone, instance))
    output = capfd.readouterr()
    assert "The notifier raised SystemExit" in output.out + output.err
    assert CANARY not in output.out + output.err


def test_without_a_notifier_there_is_none() -> None:
    assert failures.load_notifier(" ") is None


# -- a label that is raised between two runs -----------------------------------------------------------------------------


def test_the_hourly_checks_withdraw_what_a_raised_label_forbids_and_the_next_run_deletes_it(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    def job(name: str) -> dg.ExecuteInProcessResult:
        return build_defs(service).resolve_job_def(name).execute_in_process(instance=instance, raise_on_error=False)

    snapshots = Path(service.snapshots)
    assert job("refresh").success
    assert (snapshots / "CURRENT").exists()
    assert any(b"first document" in path.read_bytes() for path in snapshots.rglob("*") if path.is_file())
    Path(service.source, "metadata.csv").write_text("doc_id,sensitivity\na.txt,RESTRICTED\n")
    result = job("checks")
    assert not result.success
    broken = {
        check.check_name: check.description or "" for check in result.get_asset_check_evaluations() if not check.passed
    }
    assert broken.keys() == {"no_label_is_lower_than_its_source_says", "nothing_published_has_a_higher_label_now"}
    assert all("doc:" in sentence and "a.txt" not in sentence for sentence in broken.values())
    assert not (snapshots / "CURRENT").exists()
    assert job("refresh").success
    assert (snapshots / "CURRENT").exists()
    assert not any(b"first document" in path.read_bytes() for path in snapshots.rglob("*") if path.is_file())
    assert job("checks").success


def test_a_label_that_a_person_lowers_goes_through_a_whole_run(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    job = build_defs(service).resolve_job_def("refresh")
    with Path(service.facts, "f.csv").open("a") as facts:
        facts.write("REV,HOM,FY,2024,1.5,EUR,a.txt,a.txt#para1\n")
    for label in ("RESTRICTED", "PUBLIC"):
        Path(service.source, "metadata.csv").write_text(f"doc_id,sensitivity\na.txt,{label}\n")
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        assert [check.check_name for check in result.get_asset_check_evaluations() if not check.passed] == []
        assert result.success
    with ChunkStore(service.store).connect() as connection:
        labels = "SELECT version, sensitivity FROM narrative_chunk WHERE doc_id = 'a.txt' ORDER BY version"
        assert connection.execute(labels).fetchall() == [(1, "RESTRICTED"), (2, "PUBLIC")]
        assert connection.execute("SELECT source_doc_id FROM fact").fetchall() == [("a.txt",)]


# -- the history ---------------------------------------------------------------------------------------------------------


def test_processes_that_open_a_new_history_at_once_leave_one_that_opens(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    (tmp_path / "dagster.yaml").write_bytes((root / "dagster.yaml").read_bytes())
    code = "from ragspine_assets.defs.launch import open_instance\nwith open_instance() as i: print(len(i.get_runs()))"
    clean = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    command = [sys.executable, "-c", code]
    openers = [
        subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**clean, "PYTHONPATH": str(root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    assert [opener.communicate(timeout=120)[0] for opener in openers] == [b"0\n"] * 3
    again = subprocess.run(command, cwd=tmp_path, env={**clean, "PYTHONPATH": str(root)}, capture_output=True)
    assert again.stdout == b"0\n"


def test_a_history_that_cannot_be_written_is_told_without_a_traceback(
    tmp_path: Path, service: ServiceConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sqlalchemy.exc import OperationalError

    def full() -> dg.DagsterInstance:
        raise OperationalError(f"INSERT {CANARY}", {}, Exception("database or disk is full"))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launch, "open_instance", full)
    (tmp_path / "data" / "raw").mkdir(parents=True)
    assert launch.main(["refresh"]) == 1
    said = capsys.readouterr().err
    assert "cannot be read or written: database or disk is full. If the disk is full, make room" in said
    assert CANARY not in said


def test_a_history_whose_folder_cannot_be_made_is_told_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dagster.yaml").touch()
    (tmp_path / ".dagster").touch()
    (tmp_path / "data" / "raw").mkdir(parents=True)
    assert launch.main(["refresh"]) == 1
    assert "The history of runs cannot be opened" in capsys.readouterr().err
