"""Several corpora, and what somebody else made, in one code location and one instance (SPEC 6.1, 6.5)."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.execution.api import create_execution_plan
from dagster._core.utils import make_new_run_id

from ragspine_assets.component import RagspineComponent
from ragspine_assets.config import ServiceConfig
from ragspine_assets.defs import build_defs
from ragspine_assets.defs.assets.serving_snapshot import failed_upstream_checks
from ragspine_assets.defs.history import forget_old_runs, keep_history_private
from ragspine_assets.defs.naming import Naming
from ragspine_assets.defs.own_runs import OwnRuns
from ragspine_assets.defs.run_process import PROCESS_TAG, ProcessIdentity, own_identity
from ragspine_assets.defs.runs import close_dead_runs, runs_at_work, sign, take_turn

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "two_corpora"
A, B = OwnRuns("a.duckdb"), OwnRuns("b.duckdb", Naming(("corpus_b",)))


@dg.asset
def theirs() -> None:
    """What somebody else makes."""


def merged() -> dg.Definitions:
    return dg.Definitions.merge(
        build_defs(ServiceConfig(source="a", store="a.duckdb", backup_cron="0 3 * * *")),
        build_defs(
            ServiceConfig(source="b", store="b.duckdb", backup_cron="0 3 * * *"), key_prefix="corpus_b", group="b"
        ),
        dg.Definitions(
            assets=[theirs],
            jobs=[dg.define_asset_job("nightly", dg.AssetSelection.all())],
            executor=dg.multiprocess_executor,
            schedules=[dg.ScheduleDefinition(name="nightly", job_name="nightly", cron_schedule="0 1 * * *")],
        ),
    )


@pytest.fixture(scope="module")
def location() -> dg.Definitions:
    made = merged()
    dg.Definitions.validate_loadable(made)
    return made


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


# -- one code location ---------------------------------------------------------------------------------------------------


def test_two_corpora_and_somebodys_own_stand_side_by_side_under_names_of_their_own(location: dg.Definitions) -> None:
    repository = location.get_repository_def()
    graph = repository.asset_graph
    ours = {key.to_user_string() for key in build_defs().resolve_all_asset_keys()}
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == (
        ours | {f"corpus_b/{name}" for name in ours} | {"theirs"}
    )
    assert {graph.get(key).group_name for key in graph.get_all_asset_keys() if key.path[0] == "corpus_b"} == {"b"}
    assert {job.name for job in repository.get_all_jobs()} >= {
        "refresh", "checks", "backup", "corpus_b__refresh", "corpus_b__checks", "corpus_b__backup", "nightly",
    }  # fmt: skip
    names = {"refresh_daily", "checks_hourly", "backup_by_clock"}
    assert {s.name for s in repository.schedule_defs} == names | {f"corpus_b__{name}" for name in names} | {"nightly"}
    assert {s.name for s in repository.sensor_defs} == {
        "source_changed", "run_failed", "corpus_b__source_changed", "corpus_b__run_failed",
    }  # fmt: skip


def test_a_job_of_ours_takes_its_own_corpus_alone(location: dg.Definitions) -> None:
    for naming in (Naming(), Naming(("corpus_b",))):
        refresh = location.resolve_job_def(naming.name("refresh")).asset_layer.asset_graph
        assert {tuple(key.path[:-1]) for key in refresh.get_all_asset_keys()} == {naming.key_prefix}
        assert "theirs" not in {key.path[-1] for key in refresh.get_all_asset_keys()}
        checks = location.resolve_job_def(naming.name("checks")).asset_layer.asset_graph
        assert {tuple(key.asset_key.path[:-1]) for key in checks.asset_check_keys} == {naming.key_prefix}
        assert refresh.asset_check_keys == checks.asset_check_keys
        assert location.resolve_job_def(naming.name("refresh")).executor_def.name == "in_process"


@pytest.mark.parametrize("job", ["corpus_b__refresh", "corpus_b__checks", "nightly"])
def test_what_protects_a_corpus_under_a_prefix_is_no_matter_of_a_run_config(location: dg.Definitions, job: str) -> None:
    for resource, values, variable in (
        ("source", {"path": "/etc"}, "RAGSPINE_SOURCE"),
        ("store", {"path": "a.duckdb"}, "RAGSPINE_STORE"),
        ("store", {"key_prefix": ""}, "no setting changes it"),
        ("snapshots", {"max_label": "PUBLIC"}, "RAGSPINE_SNAPSHOT_MAX_LABEL"),
        ("source", {"allow_lower_labels": True}, "RAGSPINE_ALLOW_LOWER_LABELS"),
    ):
        with pytest.raises(dg.DagsterInvalidConfigError, match=variable):
            create_execution_plan(
                location.resolve_job_def(job), run_config={"resources": {f"corpus_b__{resource}": {"config": values}}}
            )
    chosen = {"resources": {"corpus_b__chunker": {"config": {"spec": "layout"}}}}
    create_execution_plan(location.resolve_job_def(job), run_config=chosen)


@pytest.mark.parametrize("given", [{"key_prefix": "corpus-b"}, {"key_prefix": ["a", ""]}, {"group": "two words"}])
def test_a_prefix_that_makes_no_name_is_refused_in_a_sentence(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^(key_prefix|group) may hold letters A-Z, digits and underscores; it is '"):
        build_defs(ServiceConfig(), **given)  # pyright: ignore[reportArgumentType]


# -- one instance --------------------------------------------------------------------------------------------------------


def a_run(
    instance: dg.DagsterInstance,
    *,
    tags: dict[str, str] | None = None,
    selection: tuple[str, ...] = (),
    process: ProcessIdentity | None = None,
    ended: bool = False,
) -> dg.DagsterRun:
    """Keep a run as a launch would: of a job that tags it, or of assets that were selected in the UI."""
    keys = frozenset(dg.AssetKey(name.split("/")) for name in selection) or None
    run = instance.add_run(
        dg.DagsterRun(
            "some_job", make_new_run_id(), tags=tags, asset_selection=keys, status=dg.DagsterRunStatus.NOT_STARTED
        )
    )
    if process:
        instance.add_run_tags(run.run_id, {PROCESS_TAG: process.tag(run.run_id)})
    for event in ("RUN_START", *(("RUN_SUCCESS",) if ended else ())):
        instance.handle_run_event(run.run_id, dg.DagsterEvent(dg.DagsterEventType[event].value, "some_job"))
    found = instance.get_run_by_id(run.run_id)
    assert found
    return found


def test_a_run_is_told_by_its_store_else_by_what_it_was_asked_for(instance: dg.DagsterInstance) -> None:
    assert A.tag == OwnRuns(os.path.realpath("a.duckdb")).tag != B.tag
    of_a, of_both = a_run(instance, tags=A.tags), a_run(instance, tags={**A.tags, **B.tags})
    begun_by_hand = a_run(instance, selection=("corpus_b/chunks", "corpus_b/facts"))
    mixed, others = a_run(instance, selection=("corpus_b/chunks", "theirs")), a_run(instance)
    before_the_tag = a_run(instance, tags={"ragspine/chunker": "none"})
    assert [A.has(run) for run in (of_a, of_both, begun_by_hand, mixed, others, before_the_tag)] == [
        True, True, False, False, False, True,
    ]  # fmt: skip
    assert [B.has(run) for run in (of_a, of_both, begun_by_hand, mixed, others, before_the_tag)] == [
        False, True, True, False, False, True,
    ]  # fmt: skip
    sign(instance, mixed.run_id, B)
    signed = instance.get_run_by_id(mixed.run_id)
    assert signed
    assert B.has(signed)
    assert signed.tags[B.tag] != B.tags[B.tag]


def gone() -> ProcessIdentity:
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    return ProcessIdentity(**{**vars(own_identity()), "pid": ended.pid})


def test_only_runs_of_the_same_store_are_waited_for_and_closed(instance: dg.DagsterInstance) -> None:
    alive, dead = own_identity(), gone()
    first_of_a = a_run(instance, tags=A.tags, process=alive)
    dead_of_a = a_run(instance, tags=A.tags, process=dead)
    of_b, dead_of_b = a_run(instance, tags=B.tags, process=alive), a_run(instance, tags=B.tags, process=dead)
    assert [run.run_id for run in runs_at_work(instance, among=B)] == [of_b.run_id]
    take_turn(instance, of_b.run_id, among=B, wait_s=0)
    assert close_dead_runs(instance, among=B) == [dead_of_b.run_id]
    # Where nobody says whose runs, those of the other store are waited for and closed.
    assert first_of_a.run_id in {run.run_id for run in runs_at_work(instance)}
    assert close_dead_runs(instance) == [dead_of_a.run_id]


def test_only_runs_that_are_wholly_ours_are_forgotten_and_those_of_before_the_tag_first(
    instance: dg.DagsterInstance,
) -> None:
    others = [a_run(instance, ended=True), a_run(instance, tags=A.tags, ended=True)]
    before = a_run(instance, tags={"ragspine/chunker": "none"}, ended=True)
    mixed = a_run(instance, selection=("corpus_b/chunks", "theirs"), ended=True)
    sign(instance, mixed.run_id, B)
    mine = [a_run(instance, tags=B.tags, ended=True) for _ in range(3)]
    assert forget_old_runs(instance, among=B, keep=4) == []
    assert forget_old_runs(instance, among=B, keep=2) == [before.run_id, mine[0].run_id]
    kept = {run.run_id for run in instance.get_runs()}
    assert kept == {*(run.run_id for run in others), mixed.run_id, mine[1].run_id, mine[2].run_id}
    assert forget_old_runs(instance, keep=4) == [others[0].run_id]


def test_what_a_check_of_one_corpus_found_keeps_no_other_from_publishing(instance: dg.DagsterInstance) -> None:
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(["corpus_b", "chunk_store"]),
            check_name="schema_is_complete",
            passed=False,
            metadata={},
        )
    )
    assert failed_upstream_checks(instance, Naming()) == []
    assert failed_upstream_checks(instance, B.naming) == ["corpus_b/chunk_store: schema_is_complete"]


def test_a_step_with_a_process_of_its_own_signs_with_the_process_that_runs_the_run(
    instance: dg.DagsterInstance,
) -> None:
    def signed(run: dg.DagsterRun) -> int:
        sign(instance, run.run_id, A)
        found = instance.get_run_by_id(run.run_id)
        assert found
        identity = ProcessIdentity.read(found.tags[PROCESS_TAG], run.run_id)
        assert identity
        return identity.pid

    by_steps, by_itself = a_run(instance), a_run(instance)
    instance.report_engine_event("Executing steps.", by_steps, EngineEventData.multiprocess(os.getppid()))
    instance.report_engine_event("Executing steps.", by_itself, EngineEventData.in_process(os.getpid()))
    assert (signed(by_steps), signed(by_itself)) == (os.getppid(), os.getpid())


def test_the_folder_of_somebodys_own_instance_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as theirs_too:
        keep_history_private(theirs_too)
        close_dead_runs(theirs_too, among=A)
    assert tmp_path.stat().st_mode & 0o777 == 0o755


# -- as a component ------------------------------------------------------------------------------------------------------


def test_attributes_are_the_settings_and_paths_start_at_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSPINE_STORE", "of-somebody-else.duckdb")
    component = RagspineComponent.resolve_from_yaml(
        "source: docs\nkey_prefix: [legal, contracts]\nmax_chars: 300\nsnapshots: /srv/snapshots\n"
        "trusted_keys: a.pem, keys/b.pem\n"
    )
    config = component.config(Path("/project"))
    assert (config.source, config.store) == ("/project/docs", "/project/data/ragspine/legal__contracts.duckdb")
    assert (config.profile, config.facts, config.review, config.snapshots) == ("", "", "", "/srv/snapshots")
    assert config.trusted_keys == "/project/a.pem,/project/keys/b.pem"
    assert (config.max_chars, config.overlap_chars) == (300, ServiceConfig().overlap_chars)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("source: docs\nmax_chars: many", "max_chars is 'many': input should be a valid integer"),
        (
            "source: docs\nsnapshot_keep: 0",
            "attribute snapshot_keep must be a whole number of at least 1; it is 0",
        ),
        ("source: docs\nsnapshot_max_label: SECRET", "attribute snapshot_max_label"),
        ("source: docs\nrefresh_cron: daily", "attribute refresh_cron must be a cron expression"),
        ("source: docs\nkey_prefix: corpus-b", "key_prefix may hold letters"),
        ("source: docs\nchunker: magic", "parent_child"),
    ],
)
def test_a_wrong_value_of_an_attribute_is_told_in_one_line(attributes: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        dg.build_defs_for_component(RagspineComponent.resolve_from_yaml(attributes))
    assert "\n" not in str(caught.value)
    assert "RAGSPINE_" not in str(caught.value)


def test_the_example_loads_as_a_server_loads_it_and_a_run_of_it_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("data", "__pycache__", ".dagster"))
    home = {**os.environ, "DAGSTER_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "dagster", "definitions", "validate"]
    done = subprocess.run(command, cwd=project, env=home, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (project / "data").exists()
    monkeypatch.syspath_prepend(str(project))
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        definitions = dg.load_from_defs_folder(path_within_project=project)
        assert definitions.resolve_job_def("handbook__refresh").execute_in_process(instance=instance).success
        handbook = OwnRuns(str(project / "data/ragspine/handbook.duckdb"), Naming(("handbook",)))
        (run,) = instance.get_runs()
        assert handbook.has(run)
        assert not OwnRuns(str(project / "data/ragspine/letters.duckdb"), Naming(("letters",))).has(run)
        answer = definitions.resolve_implicit_global_asset_job_def().get_subset(
            asset_selection={dg.AssetKey("leave_answer")}
        )
        (event,) = answer.execute_in_process(instance=instance).get_asset_materialization_events()
        assert event.materialization
        assert event.materialization.metadata["first"].value == "leave.md#para1-4"
    assert (project / "data" / "ragspine").stat().st_mode & 0o777 == 0o700
