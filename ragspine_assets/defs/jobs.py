"""Jobs (https://docs.dagster.io/guides/build/jobs).

`refresh` materialises everything and runs every check; `checks` runs every check on what is stored, and is what CI runs.
Steps run in one process: the store has one lock, and starting a process per step costs more than the work.
"""

from collections.abc import Mapping

from dagster import AssetSelection, define_asset_job, in_process_executor
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from ragspine_assets.config import ServiceConfig

SELECTING = ("chunker", "relation_extractor")
"""Resources whose selection travels with every launched run."""


def selection_tags(config: ServiceConfig) -> dict[str, str]:
    """Return the tags that say what a run was launched with."""
    return {"ragspine/chunker": config.chunker, "ragspine/relation_extractor": config.relation_extractor}


def extractor_settings(config: ServiceConfig) -> dict[str, object]:
    """Return the fields of the relation extractor's resource: a run config that named some would reset the others."""
    return {
        "spec": config.relation_extractor,
        "max_relations": config.max_relations,
        "max_relations_total": config.max_relations_total,
        "max_llm_calls": config.max_llm_calls,
        "token_budget": config.llm_token_budget,
        "concurrency": config.llm_concurrency,
        "dry_run": config.llm_dry_run,
    }


def selection_config(config: ServiceConfig, given: Mapping[str, object]) -> dict[str, object]:
    """Return the run config that selects chunker and extractor; what was given as a resource keeps its own."""
    chosen: dict[str, dict[str, object]] = {
        "chunker": {"spec": config.chunker, "max_chars": config.max_chars, "overlap_chars": config.overlap_chars},
        "relation_extractor": extractor_settings(config),
    }
    return {"resources": {name: {"config": chosen[name]} for name in SELECTING if name not in given}}


def make_jobs(config: ServiceConfig, given: Mapping[str, object]) -> tuple[UnresolvedAssetJobDefinition, ...]:
    """Return the jobs; their runs carry the selection in tags, those of `refresh` in their run config too, whoever launches them."""
    refresh = define_asset_job(
        "refresh",
        selection=AssetSelection.all(),
        executor_def=in_process_executor,
        tags=selection_tags(config),
        config=selection_config(config, given),
        description="Bring everything up to date with the source folder, profile and facts, and prove the promises.",
    )
    checks = define_asset_job(
        "checks",
        selection=AssetSelection.all_asset_checks(),
        executor_def=in_process_executor,
        tags=selection_tags(config),
        description="Prove every promise on what is stored, changing nothing. Fails when one is broken: this is for CI.",
    )
    return refresh, checks
