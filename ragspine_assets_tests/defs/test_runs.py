"""Jobs over a real folder, a real store and a real Dagster instance (SPEC 6)."""

import dataclasses
from pathlib import Path

import dagster as dg
import pytest

from ragspine_assets.config import ServiceConfig
from ragspine_assets.defs import build_defs
from ragspine_assets.defs.assets import ALL_STAGES
from ragspine_assets.defs.boundary import step_boundary
from ragspine_assets.defs.jobs import selection_config
from ragspine_assets.store import ChunkStore

CANARY = "Zanzibarquux"


@pytest.fixture
def service(tmp_path: Path) -> ServiceConfig:
    source = tmp_path / "source"
    source.mkdir()
    (source / "open.txt").write_text("The home company tells everybody.\n" * 20)
    (source / "metadata.csv").write_text("doc_id,title,sensitivity\nsecret.txt,T,RESTRICTED\n")
    (source / "secret.txt").write_text(f"{CANARY} is in the text.")
    profile = tmp_path / "profile.toml"
    profile.write_text('[home]\ncompany_name = "Home"\nentity_code = "HOM"\n[home.synonyms]\n"home company" = "HOM"\n')
    facts = tmp_path / "facts"
    facts.mkdir()
    (facts / "f.csv").write_text(
        "metric_code,entity,period_type,period,value,unit,source_doc_id,source_locator\n"
        "REV,HOM,FY,2024,1.5,EUR_M,open.txt,open.txt#para1\n"
    )
    return ServiceConfig(
        source=str(source),
        store=str(tmp_path / "state" / "s.duckdb"),
        profile=str(profile),
        facts=str(facts),
        workers=1,
    )


def run(job: str, service: ServiceConfig, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    return build_defs(service).resolve_job_def(job).execute_in_process(instance=instance, raise_on_error=False)


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, object]:
    (event,) = [e for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey(asset)]
    assert event.materialization
    return {key: value.value for key, value in event.materialization.metadata.items()}


def data_versions(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    return {
        e.asset_key.to_user_string(): e.materialization.tags["dagster/data_version"]
        for e in result.get_asset_materialization_events()
        if e.asset_key and e.materialization and e.materialization.tags
    }


def test_refresh_materialises_and_proves_everything(service: ServiceConfig, instance: dg.DagsterInstance) -> None:
    result = run("refresh", service, instance)
    assert result.success
    assert len(result.get_asset_materialization_events()) == len(ALL_STAGES)
    evaluations = result.get_asset_check_evaluations()
    assert len(evaluations) == len(build_defs(service).get_repository_def().asset_graph.asset_check_keys)
    assert all(evaluation.passed and evaluation.description for evaluation in evaluations)


def test_a_second_refresh_writes_nothing_and_keeps_every_data_version(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    first = run("refresh", service, instance)
    second = run("refresh", service, instance)
    assert data_versions(first) == data_versions(second)
    assert metadata(second, "chunk_store")["chunks written"] == 0
    assert metadata(second, "relation_graph")["written"] is False
    assert metadata(second, "raw_documents")["documents unchanged"] == 2


def test_every_asset_shows_a_table_a_schema_and_a_count(service: ServiceConfig, instance: dg.DagsterInstance) -> None:
    result = run("refresh", service, instance)
    for asset in ("raw_documents", "chunks", "chunk_store", "facts", "relation_graph", "serving_snapshot"):
        shown = metadata(result, asset)
        assert isinstance(shown["dagster/row_count"], int)
        assert any(isinstance(value, dg.TableSchema) for value in shown.values()), asset
    for asset in ("raw_documents", "chunks", "chunk_store", "relation_graph", "serving_snapshot"):
        assert any(str(value).startswith("![") for value in metadata(result, asset).values()), asset


def test_a_label_raised_to_restricted_takes_the_document_out_of_the_graph(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    run("refresh", service, instance)
    Path(service.source, "metadata.csv").write_text("doc_id,sensitivity\nsecret.txt,RESTRICTED\nopen.txt,RESTRICTED\n")
    assert run("refresh", service, instance).success
    with ChunkStore(service.store).connect() as connection:
        assert connection.execute("SELECT DISTINCT sensitivity FROM narrative_chunk").fetchall() == [("RESTRICTED",)]
        assert connection.execute("SELECT count(*) FROM graph_node WHERE type = 'doc'").fetchall() == [(0,)]
        assert connection.execute("SELECT count(*) FROM graph_edge WHERE type = 'mentions'").fetchall() == [(0,)]
        assert connection.execute("SELECT count(*) FROM fact").fetchall() == [(0,)]


def test_a_broken_promise_fails_the_checks_job_and_stops_what_is_downstream(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    run("refresh", service, instance)
    with ChunkStore(service.store).connect() as connection:
        connection.execute("UPDATE narrative_chunk SET text = 'forged' WHERE doc_id = 'open.txt'")
    result = run("checks", service, instance)
    assert not result.success
    broken = {e.check_name: e.description or "" for e in result.get_asset_check_evaluations() if not e.passed}
    assert "open.txt" in broken["one_active_version_equal_to_staged"]
    assert run("refresh", service, instance).success
    assert run("checks", service, instance).success


def test_a_foreign_exception_leaves_a_step_without_its_message(instance: dg.DagsterInstance) -> None:
    @dg.op
    @step_boundary("raw_documents")
    def leaking() -> None:
        try:
            raise KeyError(f"{CANARY} cause")
        except KeyError as error:
            raise RuntimeError(f"{CANARY} in the message") from error

    @dg.job
    def job() -> None:
        leaking()

    result = job.execute_in_process(instance=instance, raise_on_error=False)
    assert not result.success
    entries = " ".join(str(entry) for entry in instance.all_logs(result.run_id))
    assert CANARY not in entries
    assert "RuntimeError in raw_documents" in entries


@pytest.mark.parametrize("place", ["documents/reading.py", "serving/layout.py"])
def test_an_error_of_the_system_is_told_by_its_reason_and_by_a_path_only_where_that_is_our_own(
    tmp_path: Path, place: str
) -> None:
    raising = tmp_path / "ragspine_assets" / place
    error = PermissionError(13, f"{CANARY} text", f"/snapshots/{CANARY}")
    namespace: dict[str, object] = {"error": error}
    exec(compile("def step():\n    raise error\n", str(raising), "exec"), namespace)
    with pytest.raises(dg.Failure) as caught:
        step_boundary("a_step")(namespace["step"])()  # pyright: ignore[reportArgumentType]
    said = str(caught.value.description)
    assert "permission denied" in said
    assert "a_step" in said
    assert f"{CANARY} text" not in said
    assert (CANARY in said) == place.startswith("serving/")


def test_the_same_exception_without_the_boundary_does_leak(instance: dg.DagsterInstance) -> None:
    @dg.op
    def leaking() -> None:
        raise RuntimeError(f"{CANARY} in the message")

    @dg.job
    def job() -> None:
        leaking()

    result = job.execute_in_process(instance=instance, raise_on_error=False)
    assert CANARY in " ".join(str(entry) for entry in instance.all_logs(result.run_id))


def test_a_profile_with_a_wrong_type_fails_the_run_and_names_file_and_key(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    Path(service.profile).write_text('[home]\ncompany_name = 3\nentity_code = "HOM"\n')
    result = run("refresh", service, instance)
    assert not result.success
    entries = " ".join(str(entry) for entry in instance.all_logs(result.run_id))
    assert "company_name" in entries
    assert "profile.toml" in entries


def test_the_selection_travels_with_a_run_and_decides_what_it_does(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    selected = dataclasses.replace(service, chunker="parent_child", max_chars=200, overlap_chars=20)
    job = build_defs(selected).resolve_job_def("refresh")
    run_config = selection_config(selected, {})
    result = job.execute_in_process(instance=instance, run_config=run_config, raise_on_error=False)
    assert result.success
    kept = instance.get_run_by_id(result.run_id)
    assert kept
    assert kept.tags["ragspine/chunker"] == "parent_child"
    assert kept.run_config["resources"]["chunker"]["config"]["spec"] == "parent_child"
    assert "ParentChild" in str(metadata(result, "chunks")["chunker"])
    with ChunkStore(service.store).connect() as connection:
        assert connection.execute("SELECT count(*) FROM narrative_chunk WHERE window_text = ''").fetchall() == [(0,)]


def test_run_config_may_select_another_chunker_for_one_run(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    job = build_defs(service).resolve_job_def("refresh")
    config = {"resources": {"chunker": {"config": {"spec": "sentence-window"}}}}
    result = job.execute_in_process(instance=instance, run_config=config, raise_on_error=False)
    assert result.success
    assert "SentenceWindow" in str(metadata(result, "chunks")["chunker"])


def test_a_raised_label_withdraws_what_is_served_although_the_run_fails(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    source = Path(service.source)
    for n in range(30):
        (source / f"{n}.txt").write_text(f"Text number {n}.")
    assert run("refresh", service, instance).success
    current = Path(service.snapshots_folder(), "CURRENT")
    assert current.exists()
    for n in range(30):
        (source / f"{n}.txt").unlink()
    (source / "metadata.csv").write_text("doc_id,sensitivity\nsecret.txt,RESTRICTED\nopen.txt,RESTRICTED\n")
    assert not run("refresh", service, instance).success
    assert not current.exists()


def test_sizes_that_are_not_legal_fail_when_the_definitions_load(service: ServiceConfig) -> None:
    with pytest.raises(ValueError, match="overlap"):
        build_defs(dataclasses.replace(service, max_chars=80))


def test_a_damaged_store_is_said_to_be_damaged(service: ServiceConfig, instance: dg.DagsterInstance) -> None:
    assert run("refresh", service, instance).success
    with Path(service.store).open("r+b") as store:
        store.truncate(300_000)
    result = run("checks", service, instance)
    assert not result.success
    entries = " ".join(str(entry) for entry in instance.all_logs(result.run_id))
    assert "damaged" in entries or "cannot be opened" in entries
