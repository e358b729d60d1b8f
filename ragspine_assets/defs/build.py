"""Putting the definitions together; importing this module does no I/O."""

from collections.abc import Mapping

from dagster import Definitions, in_process_executor

from ragspine_assets.config import ServiceConfig

from .assets import ALL_ASSETS
from .checks import ALL_CHECKS
from .jobs import make_jobs
from .resources import (
    ChunkerResource,
    FactsResource,
    ProfileResource,
    RelationExtractorResource,
    SourceResource,
    StoreResource,
)


def build_defs(
    config: ServiceConfig | None = None, *, resource_overrides: Mapping[str, object] | None = None
) -> Definitions:
    """Return the definitions of one service.

    Args:
        config: its settings; by default those of the environment.
        resource_overrides: resources to use instead of those the settings give, by name.

    Raises:
        ValueError: a setting has a wrong value, or an override names no resource; the message says what is allowed.
    """
    config = config or ServiceConfig.from_environment()
    resources: dict[str, object] = {
        "source": SourceResource(
            path=config.source,
            max_file_bytes=config.max_file_bytes,
            time_limit_s=config.time_limit_s,
            workers=config.workers,
            allow_mass_removal=config.allow_mass_removal,
        ),
        "store": StoreResource(path=config.store, wait_s=config.wait_s, turn_s=config.turn_s),
        "profile": ProfileResource(path=config.profile),
        "facts_source": FactsResource(path=config.facts),
        "chunker": ChunkerResource(spec=config.chunker, max_chars=config.max_chars, overlap_chars=config.overlap_chars),
        "relation_extractor": RelationExtractorResource(spec=config.relation_extractor),
    }
    unknown = sorted(set(resource_overrides or ()) - resources.keys())
    if unknown:
        raise ValueError(f"No such resource: {', '.join(unknown)}. There are: {', '.join(resources)}.")
    return Definitions(
        assets=ALL_ASSETS,
        asset_checks=ALL_CHECKS,
        jobs=make_jobs(config, resource_overrides or {}),
        resources={**resources, **(resource_overrides or {})},
        executor=in_process_executor,
    )
