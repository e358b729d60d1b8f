"""Putting the definitions together; importing this module does no I/O."""

from collections.abc import Mapping, Sequence
from typing import cast

from dagster import Definitions, in_process_executor

from ragspine_assets.config import ServiceConfig
from ragspine_assets.errors import SettingError
from ragspine_assets.index.analysis import AnalyzerName

from .assets import make_assets
from .checks import make_checks
from .copies import make_backup
from .freshness import with_freshness
from .jobs import extractor_settings, make_jobs
from .naming import Naming
from .own_runs import OwnRuns
from .resources import (
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
from .schedules import make_schedules
from .sensors import make_sensors


def build_defs(
    config: ServiceConfig | None = None,
    *,
    key_prefix: str | Sequence[str] = (),
    group: str = "",
    resource_overrides: Mapping[str, object] | None = None,
) -> Definitions:
    """Return the definitions of one service; those of several, and anybody's own, stand together in `Definitions.merge`.

    Args:
        config: its settings; by default those of the environment.
        key_prefix: stands before the key of each asset, and before ``__`` in the names of resources, jobs, schedules and
            sensors. Services in one code location need one each; one of them may do without.
        group: group of all its assets; '' for those they have by themselves.
        resource_overrides: resources to use instead of those the settings give, by name without a prefix.

    Raises:
        ValueError: a setting has a wrong value, or an override names no resource; the message says what is allowed.
    """
    naming = Naming.of(key_prefix, group)
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
            key_prefix="/".join(naming.key_prefix),
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
            signing_key=config.signing_key,
        ),
        "questions": QuestionsResource(path=config.questions, floor=config.quality_floor),
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
    resources |= given
    store = resources["store"]
    own = OwnRuns(store.path if isinstance(store, StoreResource) else config.store, naming)
    assets = make_assets(naming)
    refresh, checks = make_jobs(config, given, [asset.key for asset in assets], own)
    backup, backup_schedules = make_backup(config, own)
    return Definitions(
        assets=with_freshness(assets, config, naming),
        asset_checks=make_checks(assets, naming),
        jobs=(refresh, checks, backup),
        schedules=(*make_schedules(config, given, refresh, checks, own), *backup_schedules),
        sensors=make_sensors(config, given, refresh, own),
        resources={naming.name(name): resource for name, resource in resources.items()},
    )


def build_location() -> Definitions:
    """Return the definitions of a code location that is this service's alone.

    What the UI materialises by itself has the executor of the location: here it is that of our jobs, since a process for
    each step costs more than the work. In somebody's project that choice is theirs.
    """
    return Definitions.merge(build_defs(), Definitions(executor=in_process_executor))
