"""When what is served counts as stale (https://docs.dagster.io/guides/observe/asset-freshness-policies).

Belongs here: the promise about age. A refresh that finds nothing to do counts as fresh; one that fails does not.
"""

from collections.abc import Sequence
from datetime import timedelta

from dagster import AssetsDefinition, AssetSpec, FreshnessPolicy

from ragspine_assets.config import ServiceConfig

from .naming import Naming

_SERVED = "serving_snapshot"


def with_freshness(assets: Sequence[AssetsDefinition], config: ServiceConfig, naming: Naming) -> list[AssetsDefinition]:
    """Return the assets, those that applications read with a freshness policy (SPEC 6.4).

    Args:
        assets: all assets of the location.
        config: after how many hours what is served is stale; a warning comes at two thirds of it.
        naming: what the assets are called.
    """
    fail = timedelta(hours=config.fresh_for_h)
    policy = FreshnessPolicy.time_window(fail_window=fail, warn_window=fail * 2 / 3)
    served = naming.asset_key(_SERVED)

    def attach(spec: AssetSpec) -> AssetSpec:
        return spec.replace_attributes(freshness_policy=policy) if spec.key == served else spec

    return [asset.map_asset_specs(attach) for asset in assets]
