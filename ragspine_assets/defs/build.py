"""Putting the definitions together; importing this module does no I/O."""

from collections.abc import Mapping, Sequence

from dagster import Definitions, in_process_executor

from ragspine_assets.config import ServiceConfig
from ragspine_assets.errors import SettingError

from .assets import make_assets
from .checks import make_checks
from .copies import make_backup
from .freshness import with_freshness
from .jobs import make_jobs
from .naming import Naming
from .own_runs import OwnRuns
from .resources import RESOURCES, StoreResource
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
    resources: dict[str, object] = {name: kind.configured(config) for name, kind in RESOURCES.items()}
    resources["store"] = StoreResource.configured(config, key_prefix="/".join(naming.key_prefix))
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
