"""Putting the definitions together; importing this module does no I/O."""

from collections.abc import Mapping
from typing import cast

from dagster import Definitions, in_process_executor

from ragspine_assets.config import ServiceConfig
from ragspine_assets.errors import SettingError
from ragspine_assets.index.analysis import AnalyzerName

from .assets import ALL_ASSETS
from .checks import ALL_CHECKS
from .copies import make_backup
from .freshness import with_freshness
from .jobs import extractor_settings, make_jobs
from .resources import (
    ChunkerResource,
    FactsResource,
    LLMProviderResource,
    ProfileResource,
    RelationExtractorResource,
    ReviewResource,
    SnapshotsResource,
    SourceResource,
    StoreResource,
)
from .schedules import make_schedules
from .sensors import make_sensors


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
            allow_lower_labels=config.allow_lower_labels,
        ),
        "store": StoreResource(
            path=config.store,
            wait_s=config.wait_s,
            turn_s=config.turn_s,
            starting_s=config.starting_s,
            runs_kept=config.runs_kept,
        ),
        "profile": ProfileResource(path=config.profile),
        "facts_source": FactsResource(path=config.facts),
        "chunker": ChunkerResource(spec=config.chunker, max_chars=config.max_chars, overlap_chars=config.overlap_chars),
        "snapshots": SnapshotsResource(
            path=config.snapshots_folder(),
            max_label=config.snapshot_max_label,
            keep=config.snapshot_keep,
            analyzer=cast("AnalyzerName", config.analyzer),
            levels=config.snapshot_levels,
            clients=config.clients_file(),
        ),
        "relation_extractor": RelationExtractorResource(**extractor_settings(config)),  # pyright: ignore[reportArgumentType]
        "llm_provider": LLMProviderResource(
            model=config.llm_model,
            base_url=config.llm_base_url,
            time_limit_s=config.llm_time_limit_s,
            attempts=3,
            max_wait_s=60.0,
        ),
        "review": ReviewResource(path=config.review),
    }
    unknown = sorted(set(resource_overrides or ()) - resources.keys())
    if unknown:
        raise SettingError(f"No such resource: {', '.join(unknown)}. There are: {', '.join(resources)}.")
    given = resource_overrides or {}
    refresh, checks = make_jobs(config, given)
    backup, backup_schedules = make_backup(config)
    return Definitions(
        assets=with_freshness(ALL_ASSETS, config),
        asset_checks=ALL_CHECKS,
        jobs=(refresh, checks, backup),
        schedules=(*make_schedules(config, given, refresh, checks), *backup_schedules),
        sensors=make_sensors(config, given, refresh),
        resources={**resources, **(resource_overrides or {})},
        executor=in_process_executor,
    )
