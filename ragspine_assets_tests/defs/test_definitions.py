"""The code location as the server loads it, and what its parts promise (SPEC 6)."""

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import dagster as dg
import pytest

from ragspine_assets.config import SETTINGS, ServiceConfig, Setting, environment_name, settings_page
from ragspine_assets.defs import build_defs
from ragspine_assets.defs.resources import ChunkerResource, SourceResource, StoreResource
from ragspine_assets.errors import SettingError
from ragspine_assets.index.analysis import AnalyzerName

ROOT = Path(__file__).resolve().parents[2]


def repository(**settings: object) -> dg.RepositoryDefinition:
    return build_defs(ServiceConfig(**settings)).get_repository_def()  # pyright: ignore[reportArgumentType]


def test_the_location_loads_as_the_server_loads_it() -> None:
    code = "from ragspine_assets.definitions import defs; from dagster import Definitions; Definitions.validate_loadable(defs)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=ROOT)


def test_loading_the_location_writes_nothing(tmp_path: Path) -> None:
    code = "import ragspine_assets.definitions"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=tmp_path, env=environment)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [True, False])
def test_loading_the_location_leaves_the_collector_of_garbage_as_it_was(given: bool) -> None:
    code = (
        f"import gc; gc.enable() if {given} else gc.disable(); before = gc.get_threshold(); import ragspine_assets.component;"
        # Whoever takes us into a process of their own has it as it was.
        "assert (gc.get_freeze_count(), gc.get_threshold()) == (0, before); import ragspine_assets.definitions;"
        f"assert gc.isenabled() is {given}; assert gc.get_freeze_count() > 100_000"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=ROOT)


def test_assets_hang_together_as_documented() -> None:
    graph = repository().asset_graph
    parents = {
        key.to_user_string(): {p.to_user_string() for p in graph.get(key).parent_keys}
        for key in graph.get_all_asset_keys()
    }
    assert parents == {
        "raw_documents": set(),
        "chunks": {"raw_documents"},
        "chunk_store": {"chunks"},
        "facts": {"chunk_store"},
        "relation_graph": {"chunk_store", "facts"},
        "serving_snapshot": {"chunk_store", "relation_graph"},
        "retrieval_quality": {"serving_snapshot"},
    }


def test_every_asset_says_what_it_is_who_owns_it_and_what_it_is_made_with() -> None:
    graph = repository().asset_graph
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert node.description
        assert len(node.description) > 60
        assert node.kinds
        assert node.owners
        assert node.group_name != "default"
        assert node.code_version


def test_every_check_of_these_assets_is_there_and_blocks() -> None:
    graph = repository().asset_graph
    names = {f"{key.asset_key.to_user_string()}: {key.name}" for key in graph.asset_check_keys}
    assert names == {
        "raw_documents: labels_are_in_the_lattice",
        "raw_documents: every_file_is_accounted_for",
        "raw_documents: no_label_is_lower_than_its_source_says",
        "raw_documents: no_document_is_below_what_its_file_says",
        "chunks: chunks_quote_and_cover_the_text",
        "chunks: windows_contain_their_chunk",
        "chunks: chunks_carry_their_documents_label",
        "chunk_store: one_active_version_equal_to_staged",
        "chunk_store: nothing_restricted_leaves_the_retriever",
        "chunk_store: schema_is_complete",
        "relation_graph: graph_has_no_restricted_trace",
        "relation_graph: every_edge_has_evidence_that_resolves",
        "relation_graph: model_edges_are_marked_recorded_and_apart",
        "relation_graph: model_edges_name_nobody_external",
        "serving_snapshot: fast_index_agrees_with_bm25",
        "serving_snapshot: lower_audiences_are_served_as_if_nothing_else_were_there",
        "serving_snapshot: files_equal_the_servable_rows",
        "serving_snapshot: nothing_published_has_a_higher_label_now",
        "serving_snapshot: snapshot_has_no_restricted_trace",
        "retrieval_quality: release_answers_no_worse",
    }
    for key in graph.asset_check_keys:
        check = graph.get_check_spec(key)
        assert check.blocking
        assert check.description


def test_jobs_run_in_one_process() -> None:
    for name in ("refresh", "checks", "backup"):
        assert build_defs().resolve_job_def(name).executor_def.name == "in_process"


def test_a_copy_is_made_by_the_clock_only_where_a_time_is_set() -> None:
    assert not [name for name in schedule_names(ServiceConfig()) if "backup" in name]
    assert "backup_by_clock" in schedule_names(ServiceConfig(backup_cron="0 3 * * *"))
    with pytest.raises(ValueError, match="RAGSPINE_BACKUP_CRON"):
        build_defs(ServiceConfig(backup_cron="every day"))


def schedule_names(config: ServiceConfig) -> list[str]:
    return [schedule.name for schedule in build_defs(config).get_repository_def().schedule_defs]


def test_the_checks_job_runs_every_check_and_materialises_nothing() -> None:
    job = build_defs().resolve_job_def("checks")
    assert job.asset_layer.asset_graph.asset_check_keys == repository().asset_graph.asset_check_keys
    assert set(job.graph.node_dict) == {
        f"{asset}_checks"
        for asset in (
            "raw_documents",
            "chunks",
            "chunk_store",
            "relation_graph",
            "serving_snapshot",
            "retrieval_quality",
        )
    }


def test_an_override_replaces_a_resource_and_an_unknown_one_is_refused() -> None:
    defs = build_defs(resource_overrides={"store": StoreResource(path="elsewhere.duckdb")})
    assert defs.resources
    assert defs.resources["store"].path == "elsewhere.duckdb"
    with pytest.raises(ValueError, match=r"No such resource: shop\. There are: source, store"):
        build_defs(resource_overrides={"shop": StoreResource()})


def test_an_unknown_field_of_a_resource_is_refused() -> None:
    with pytest.raises(ValueError, match="folder"):
        SourceResource(folder="x")  # pyright: ignore[reportCallIssue]


def test_an_unknown_chunker_fails_when_the_definitions_load_and_says_what_there_is() -> None:
    with pytest.raises(ValueError, match="parent_child"):
        repository(chunker="no-such-chunker")


@pytest.mark.parametrize(("max_chars", "overlap_chars"), [(0, 0), (10, 10), (10, -1)])
def test_sizes_that_are_not_legal_are_refused(max_chars: int, overlap_chars: int) -> None:
    with pytest.raises(ValueError, match="chars"):
        ChunkerResource(max_chars=max_chars, overlap_chars=overlap_chars).make()


# -- settings ------------------------------------------------------------------------------------------------------------


def test_every_setting_has_an_environment_name_and_a_meaning() -> None:
    assert {setting.variable for setting in SETTINGS.values()} >= {
        "RAGSPINE_SOURCE", "RAGSPINE_STORE", "RAGSPINE_PROFILE", "RAGSPINE_FACTS", "RAGSPINE_SNAPSHOTS",
        "RAGSPINE_CHUNKER", "RAGSPINE_RELATION_EXTRACTOR", "RAGSPINE_LLM_MODEL", "RAGSPINE_LLM_BASE_URL",
    }  # fmt: skip
    assert all(setting.meaning for setting in SETTINGS.values())


def test_the_page_of_settings_is_what_the_settings_say() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
    assert page.read_text(encoding="utf-8") == settings_page(), "python -m ragspine_assets.config > docs/settings.md"


def test_the_analyzers_are_those_that_the_index_has() -> None:
    assert SETTINGS["analyzer"].choices == get_args(AnalyzerName)


@pytest.mark.parametrize("setting", [each for each in SETTINGS.values() if not isinstance(each.default, (str, bool))])
def test_no_number_outside_its_limits_is_taken_and_the_limit_itself_is_where_it_may_be(setting: Setting) -> None:
    least, above = setting.least, setting.above
    step = -1 if above is None else 0
    low = (above if least is None else least) or 0
    for wrong in (str(low + step), "many", "", "nan", "inf"):
        with pytest.raises(ValueError, match=rf"{setting.variable} must be .* number .*it is"):
            setting.read(wrong)
    assert setting.read(str(low - step if step else 0.5)) > low - 1
    with pytest.raises(ValueError, match=setting.variable):
        ServiceConfig(**{setting.name: low + step})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("RAGSPINE_ANALYZER", "stemed", r"one of default, stemmed, plain; it is 'stemed'\. Did you mean 'stemmed'\?"),
        ("RAGSPINE_LLM_DRY_RUN", "ture", r"one of 1, true, .*; it is 'ture'\."),
        ("RAGSPINE_SNAPSHOT_MAX_LABLE", "INTERNAL", r"no setting RAGSPINE_SNAPSHOT_MAX_LABLE\. Did you mean RAGSPINE_SNAPSHOT_MAX_LABEL\?"),
        ("RAGSPINE_ALLOW_MASS_REMOVALS", "1", "Did you mean RAGSPINE_ALLOW_MASS_REMOVAL"),
    ],
)  # fmt: skip
def test_a_typing_error_is_told_with_what_was_meant(variable: str, value: str, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        ServiceConfig.from_environment({variable: value})


def test_variables_of_others_are_no_typing_errors() -> None:
    others = {
        "RAGSPINE_LLM_API_KEY": "k",
        "RAGSPINE_ENTIRELY_NEW": "1",
        "SNAPSHOT_MAX_LABLE": "x",
        "RAGSPINE_SOURCES": "",
    }
    assert ServiceConfig.from_environment(others) == ServiceConfig()


def test_settings_come_from_the_environment() -> None:
    config = ServiceConfig.from_environment(
        {"RAGSPINE_MAX_CHARS": "300", "RAGSPINE_ALLOW_MASS_REMOVAL": "yes", "RAGSPINE_CHUNKER": " layout "}
    )
    assert (config.max_chars, config.allow_mass_removal, config.chunker) == (300, True, "layout")


def test_a_setting_of_a_wrong_type_is_named() -> None:
    with pytest.raises(ValueError, match="RAGSPINE_MAX_CHARS must be a whole number of at least 1; it is 'many'"):
        ServiceConfig.from_environment({"RAGSPINE_MAX_CHARS": "many"})
    assert environment_name("max_chars") == "RAGSPINE_MAX_CHARS"


def test_a_source_of_ones_own_gets_a_store_of_its_own_and_nothing_of_the_demo(tmp_path: Path) -> None:
    config = ServiceConfig.from_environment({"RAGSPINE_SOURCE": str(tmp_path)})
    assert config.store.startswith(f"data/stores/{tmp_path.name}-")
    assert (config.profile, config.facts) == ("", "")
    named = ServiceConfig.from_environment(
        {"RAGSPINE_SOURCE": str(tmp_path), "RAGSPINE_STORE": "s.duckdb", "RAGSPINE_PROFILE": "p.toml"}
    )
    assert (named.store, named.profile) == ("s.duckdb", "p.toml")


def test_pyproject_and_workspace_agree_on_the_location() -> None:
    import tomllib

    import yaml

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["dagster"]
    (entry,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    module = entry["python_module"]
    assert module["module_name"] == project["module_name"]
    assert module["location_name"] == project["code_location_name"]
    assert module["working_directory"] == project["working_directory"] == "."
