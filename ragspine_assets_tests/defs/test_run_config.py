"""Who launches a run chooses how documents are cut and related, and nothing that protects them."""

from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.api import create_execution_plan
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.config import ServiceConfig
from ragspine_assets.defs import build_defs
from ragspine_assets.defs.jobs import selection_config
from ragspine_assets.defs.resources import (
    RESOURCES,
    ChunkerResource,
    FactsResource,
    LLMProviderResource,
    ProfileResource,
    QuestionsResource,
    RelationExtractorResource,
    ReviewResource,
    SnapshotsResource,
    SourceResource,
    StoreResource,
)

CONFIG = ServiceConfig(snapshots="data/snapshots", llm_model="m", llm_base_url="http://127.0.0.1:9/v1")
DEFINITIONS = build_defs(CONFIG)
JOBS = ("refresh", "checks")
OTHERS = {
    ("profile", "path"): ("", "RAGSPINE_PROFILE"),
    ("source", "path"): ("/etc", "RAGSPINE_SOURCE"),
    ("source", "allow_mass_removal"): (True, "RAGSPINE_ALLOW_MASS_REMOVAL"),
    ("source", "allow_lower_labels"): (True, "RAGSPINE_ALLOW_LOWER_LABELS"),
    ("source", "max_file_bytes"): (1, "RAGSPINE_MAX_FILE_BYTES"),
    ("source", "time_limit_s"): (1e9, "RAGSPINE_TIME_LIMIT_S"),
    ("source", "workers"): (64, "RAGSPINE_WORKERS"),
    ("store", "path"): ("/tmp/other.duckdb", "RAGSPINE_STORE"),
    ("store", "wait_s"): (0.0, "RAGSPINE_WAIT_S"),
    ("store", "turn_s"): (0.0, "RAGSPINE_TURN_S"),
    ("store", "starting_s"): (0.0, "RAGSPINE_STARTING_S"),
    ("store", "runs_kept"): (1, "RAGSPINE_RUNS_KEPT"),
    ("store", "key_prefix"): ("other", "no setting changes it"),
    ("facts_source", "path"): ("/etc", "RAGSPINE_FACTS"),
    ("snapshots", "path"): ("/tmp/public", "RAGSPINE_SNAPSHOTS"),
    ("snapshots", "max_label"): ("INTERNAL", "RAGSPINE_SNAPSHOT_MAX_LABEL"),
    ("snapshots", "keep"): (0, "RAGSPINE_SNAPSHOT_KEEP"),
    ("snapshots", "analyzer"): ("stemmed", "RAGSPINE_ANALYZER"),
    ("snapshots", "levels"): ("PUBLIC", "RAGSPINE_SNAPSHOT_LEVELS"),
    ("snapshots", "clients"): ("/etc/clients.toml", "RAGSPINE_CLIENTS"),
    ("snapshots", "signing_key"): ("/tmp/other.pem", "RAGSPINE_SIGNING_KEY"),
    ("questions", "path"): ("", "RAGSPINE_QUESTIONS"),
    ("questions", "floor"): (0.5, "RAGSPINE_QUALITY_FLOOR"),
    ("llm_provider", "model"): ("other", "RAGSPINE_LLM_MODEL"),
    ("llm_provider", "base_url"): ("http://127.0.0.1:1/v1", "RAGSPINE_LLM_BASE_URL"),
    ("llm_provider", "time_limit_s"): (1.0, "RAGSPINE_LLM_TIME_LIMIT_S"),
    ("llm_provider", "attempts"): (99, "no setting changes it"),
    ("llm_provider", "max_wait_s"): (0.0, "no setting changes it"),
    ("review", "path"): ("/tmp/review.csv", "RAGSPINE_REVIEW"),
}


def launch(job: str, resources: Mapping[str, Mapping[str, object]], definitions: dg.Definitions = DEFINITIONS) -> None:
    """Do what every launch does first, before a run or a resource is made."""
    config = {"resources": {name: {"config": dict(values)} for name, values in resources.items()}}
    create_execution_plan(definitions.resolve_job_def(job), run_config=config)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(("resource", "field"), OTHERS)
def test_what_protects_is_refused_before_the_launch_with_the_variable_to_set(
    job: str, resource: str, field: str
) -> None:
    value, variable = OTHERS[resource, field]
    with pytest.raises(dg.DagsterInvalidConfigError, match=variable):
        launch(job, {resource: {field: value}})


@pytest.mark.parametrize(
    "made",
    [
        SourceResource(), StoreResource(), ProfileResource(), FactsResource(), SnapshotsResource(), ReviewResource(),
        LLMProviderResource(), QuestionsResource(),
    ],
    ids=lambda made: type(made).__name__,
)  # fmt: skip
def test_every_field_of_what_protects_is_among_those_tried(made: dg.ConfigurableResource) -> None:
    tried = {field for _, field in OTHERS}
    assert set(type(made).model_fields) <= tried


def test_with_the_fields_that_dagster_makes_of_a_resource_another_profile_would_be_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        ProfileResource, "_config_schema", property(lambda self: super(ProfileResource.__mro__[1], self)._config_schema)
    )
    launch("refresh", {"profile": {"path": ""}}, build_defs(CONFIG))


def test_what_the_service_was_started_with_may_be_repeated() -> None:
    launch(
        "refresh", {"profile": {"path": CONFIG.profile}, "source": {"allow_mass_removal": False, "time_limit_s": 60}}
    )


@given(st.sampled_from(sorted(OTHERS)), st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False))
@settings(max_examples=40)
def test_no_other_value_of_what_protects_ever_passes(where: tuple[str, str], value: object) -> None:
    resource, field = where
    resources = DEFINITIONS.resources or {}
    try:
        launch("refresh", {resource: {field: value}})
    except dg.DagsterInvalidConfigError:
        return
    assert value == getattr(resources[resource], field)


@pytest.mark.parametrize("resource", ["source", "store", "llm_provider", "chunker", "relation_extractor"])
def test_no_field_reads_the_environment_of_the_service(resource: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-not-to-be-told")
    made = (DEFINITIONS.resources or {})[resource]
    for field in type(made).model_fields:
        if field != "parameters":
            with pytest.raises(dg.DagsterInvalidConfigError) as caught:
                launch("refresh", {resource: {field: {"env": "SECRET_KEY"}}})
            assert "sk-not-to-be-told" not in str(caught.value)


def test_a_reference_to_the_environment_among_parameters_is_not_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-not-to-be-told")
    with pytest.raises(dg.DagsterInvalidConfigError) as caught:
        launch(
            "refresh", {"chunker": {"spec": "sentence_window", "parameters": {"window_size": {"env": "SECRET_KEY"}}}}
        )
    assert "sk-not-to-be-told" not in str(caught.value)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(
    ("resource", "values", "said"),
    [
        ("chunker", {"spec": "no-such"}, "none, default.*sentence_window.*no-such"),
        ("chunker", {"max_chars": -1}, r"max_chars .RAGSPINE_MAX_CHARS. must be a whole number of at least 1; it is -1"),
        ("chunker", {"max_chars": 50, "overlap_chars": 50}, "overlap_chars must be at least 0 and less than max_chars"),
        ("chunker", {"spec": "sentence_window", "parameters": {"widow": 2}}, "widow"),
        ("chunker", {"max_chars": "many"}, "max_chars.*many"),
        ("relation_extractor", {"spec": "magic"}, "none, deterministic.*llm.*magic"),
        ("relation_extractor", {"max_relations": 0}, r"RAGSPINE_MAX_RELATIONS\) must be a whole number of at least 1; it is 0\."),
        ("relation_extractor", {"concurrency": 0}, r"RAGSPINE_LLM_CONCURRENCY\) must be .* it is 0"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_before_the_launch_with_what_is_allowed(
    job: str, resource: str, values: dict[str, object], said: str
) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match=f"(?s){said}"):
        launch(job, {resource: values})


@pytest.mark.parametrize(
    "values",
    [
        {"spec": "parent-child"}, {"spec": "parent_child", "max_chars": 200, "overlap_chars": 0}, {"max_chars": 1000},
        {"spec": "sentence_window", "parameters": {"window_size": 0}},
    ],
)  # fmt: skip
def test_chunker_and_sizes_may_be_chosen(values: dict[str, object]) -> None:
    launch("refresh", {"chunker": values, "relation_extractor": {"spec": "deterministic", "max_llm_calls": 3}})


def test_what_a_run_config_leaves_out_is_as_the_service_was_started() -> None:
    definitions = build_defs(ServiceConfig(max_chars=300, overlap_chars=10, chunker="layout"))
    chunker = (definitions.resources or {})["chunker"]
    assert isinstance(chunker, ChunkerResource)
    # With the default of 480 instead, 350 would pass too.
    launch("refresh", {"chunker": {"overlap_chars": 299}}, definitions)
    with pytest.raises(dg.DagsterInvalidConfigError, match=r"less than max_chars .300."):
        launch("refresh", {"chunker": {"overlap_chars": 350}}, definitions)


def test_two_services_in_one_process_keep_their_own_values() -> None:
    one, other = build_defs(ServiceConfig(profile="one.toml")), build_defs(ServiceConfig(profile="other.toml"))
    launch("refresh", {"profile": {"path": "one.toml"}}, one)
    launch("refresh", {"profile": {"path": "other.toml"}}, other)
    with pytest.raises(dg.DagsterInvalidConfigError):
        launch("refresh", {"profile": {"path": "one.toml"}}, other)


def test_what_schedules_sensors_and_the_command_line_launch_with_is_accepted() -> None:
    config = ServiceConfig(chunker="  Parent_Child ", relation_extractor="LLM", max_chars=200)
    definitions = build_defs(config)
    create_execution_plan(definitions.resolve_job_def("refresh"), run_config=selection_config(config, {}))


def test_a_refused_launch_leaves_nothing_behind(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    config = ServiceConfig(source=str(tmp_path), store=str(tmp_path / "s" / "s.duckdb"), profile="", facts="")
    with pytest.raises(dg.DagsterInvalidConfigError):
        build_defs(config).resolve_job_def("refresh").execute_in_process(
            instance=instance, run_config={"resources": {"store": {"config": {"path": str(tmp_path / "x.duckdb")}}}}
        )
    assert instance.get_runs() == []
    assert not list(tmp_path.rglob("*.duckdb"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"snapshot_keep": 0}, r"RAGSPINE_SNAPSHOT_KEEP must be a whole number of at least 1; it is 0\."),
        ({"workers": -1}, "RAGSPINE_WORKERS must be .* it is -1"),
        ({"snapshot_max_label": "RESTRICTED"}, "RAGSPINE_SNAPSHOT_MAX_LABEL"),
        ({"max_relations": 0}, "RAGSPINE_MAX_RELATIONS"),
    ],
)
def test_a_wrong_setting_of_the_service_is_named_when_it_loads(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build_defs(ServiceConfig(**settings))  # pyright: ignore[reportArgumentType]


def test_a_field_of_another_resource_is_not_made_up() -> None:
    assert set(RelationExtractorResource.model_fields) == set(RelationExtractorResource.settings())


@pytest.mark.parametrize("resource", [kind for name, kind in RESOURCES.items() if name != "snapshots"])
def test_a_resource_made_by_hand_is_as_the_settings_are_when_nothing_is_set(resource: type) -> None:
    assert resource().model_dump() == resource.configured(ServiceConfig()).model_dump()


def test_every_setting_of_documents_and_store_reaches_the_resource_that_takes_it() -> None:
    changed = {name: value for name, value in CHANGED.items() if name != "snapshots"}
    made = build_defs(ServiceConfig(**changed)).resources or {}  # pyright: ignore[reportArgumentType]
    reached = {
        setting: getattr(made[name], field)
        for name, kind in RESOURCES.items()
        for field, setting in kind.settings().items()
    }
    assert {name: reached[name] for name in changed} == changed


CHANGED: dict[str, object] = {
    "source": "s", "store": "t.duckdb", "profile": "p", "facts": "f", "snapshot_max_label": "INTERNAL", "snapshot_keep": 4,
    "snapshot_levels": "PUBLIC", "clients": "c.toml", "analyzer": "stemmed", "chunker": "layout", "max_chars": 99, "overlap_chars": 9, "relation_extractor": "llm",
    "llm_model": "m", "llm_base_url": "http://127.0.0.1:9/v1", "llm_time_limit_s": 1.5, "llm_concurrency": 2,
    "max_llm_calls": 3, "llm_token_budget": 5, "llm_dry_run": True, "max_relations": 6, "max_relations_total": 7,
    "review": "r.csv", "workers": 8, "time_limit_s": 2.5, "max_file_bytes": 10, "wait_s": 0.5, "turn_s": 1.0,
    "starting_s": 2.0, "runs_kept": 11, "allow_mass_removal": True, "allow_lower_labels": True,
}  # fmt: skip


def test_a_password_in_an_address_is_not_shown_where_it_is_refused() -> None:
    with pytest.raises(ValueError, match="RAGSPINE_LLM_BASE_URL") as caught:
        LLMProviderResource(base_url="http://me:Zanzibarquux@127.0.0.1/v1")
    assert "Zanzibarquux" not in str(caught.value)


def test_an_unknown_field_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"no field workrs; there are path, .* Did you mean 'workers'\?"):
        SourceResource(workrs=2)  # pyright: ignore[reportCallIssue]
