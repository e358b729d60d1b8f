"""Asset checks: one per invariant (https://docs.dagster.io/guides/test/asset-checks).

A check calls an audit, which re-derives the invariant from what is stored, and shows its verdict. An invariant is
enforced where data is written; a check that fails means that the data is wrong, and an exception that the check itself
broke.
"""

from collections.abc import Mapping, Sequence

from dagster import AssetChecksDefinition, AssetsDefinition

from ragspine_assets.defs.naming import Naming

from .documents import DOCUMENT_CHECKS
from .graph import GRAPH_CHECKS
from .quality import QUALITY_CHECKS
from .serving import SERVING_CHECKS
from .stored import CHUNK_CHECKS, STORE_CHECKS
from .verdicts import Check, checks_of

ALL_CHECKS: Mapping[str, tuple[Check, ...]] = {
    "raw_documents": DOCUMENT_CHECKS,
    "chunks": CHUNK_CHECKS,
    "chunk_store": STORE_CHECKS,
    "relation_graph": GRAPH_CHECKS,
    "serving_snapshot": SERVING_CHECKS,
    "retrieval_quality": QUALITY_CHECKS,
}
"""The checks by the name of their stage; all of them block."""


def make_checks(assets: Sequence[AssetsDefinition], naming: Naming) -> tuple[AssetChecksDefinition, ...]:
    """Return the checks on the assets of one corpus."""
    by_key = {asset.key: asset for asset in assets}
    return tuple(
        checks_of(by_key[naming.asset_key(stage)], *checks, naming=naming) for stage, checks in ALL_CHECKS.items()
    )


__all__ = ["ALL_CHECKS", "make_checks"]
