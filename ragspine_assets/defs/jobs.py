"""Jobs (https://docs.dagster.io/guides/build/jobs).

`refresh` materialises everything and runs every check; `checks` runs every check on what is stored, and is what CI runs.
Steps run in one process: the store has one lock, and starting a process per step costs more than the work.
"""

from collections.abc import Mapping, Sequence

from dagster import AssetKey, AssetSelection, define_asset_job, in_process_executor
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from ragspine_assets.config import ServiceConfig

from .naming import Naming
from .own_runs import OwnRuns
from .resources import RESOURCES

SELECTING = ("chunker", "relation_extractor")
"""Resources whose selection travels with every launched run."""


def selection_tags(config: ServiceConfig) -> dict[str, str]:
    """Return the tags that say what a run was launched with."""
    return {"ragspine/chunker": config.chunker, "ragspine/relation_extractor": config.relation_extractor}


def selection_config(
    config: ServiceConfig, given: Mapping[str, object], naming: Naming = Naming()
) -> dict[str, object]:
    """Return the run config that selects chunker and extractor; what was given as a resource keeps its own."""
    # All of it: a run config that named some fields would reset the others.
    chosen = {name: RESOURCES[name].values_of(config) for name in SELECTING if name not in given}
    return {"resources": {naming.name(name): {"config": values} for name, values in chosen.items()}}


def make_jobs(
    config: ServiceConfig, given: Mapping[str, object], assets: Sequence[AssetKey], own: OwnRuns
) -> tuple[UnresolvedAssetJobDefinition, ...]:
    """Return the jobs; their runs carry the selection in tags, those of `refresh` in their run config too, whoever launches them.

    Args:
        config: the selection.
        given: resources that were handed in, whose selection is not the configuration's.
        assets: what the jobs are about; a code location may have others.
        own: whose runs they make.
    """
    naming, tags = own.naming, {**selection_tags(config), **own.tags}
    refresh = define_asset_job(
        naming.name("refresh"),
        selection=AssetSelection.assets(*assets),
        executor_def=in_process_executor,
        tags=tags,
        config=selection_config(config, given, naming),
        description="Bring everything up to date with the source folder, profile and facts, and prove the promises.",
    )
    checks = define_asset_job(
        naming.name("checks"),
        selection=AssetSelection.checks_for_assets(*assets),
        executor_def=in_process_executor,
        tags=tags,
        description="Prove every promise on what is stored, changing nothing. Fails when one is broken: this is for CI.",
    )
    return refresh, checks
