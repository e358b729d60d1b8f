"""From an audit's result to a check's verdict, and checks that need nothing but the store."""

from collections.abc import Callable

from dagster import (
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetsDefinition,
    MetadataValue,
    asset_check,
)

from ragspine_assets.defs.boundary import step_boundary
from ragspine_assets.defs.resources import StoreResource
from ragspine_assets.defs.tables import lines
from ragspine_assets.store import ChunkStore
from ragspine_assets.store.audit import MAX_EXAMPLES, AuditResult


def verdict(result: AuditResult) -> AssetCheckResult:
    """Show an audit: counts and up to ten references, never text.

    A broken invariant is an ERROR; warnings alone give a passed check of severity WARN that lists them.
    """
    metadata: dict[str, str | int | MetadataValue] = {"checked": result.checked, "violations": result.violations}
    metadata |= result.counts
    if result.examples:
        metadata["first violations"] = lines(result.examples, "where")
    if result.warnings:
        metadata["warnings"] = len(result.warnings)
        metadata["to look at"] = lines(result.warnings[:MAX_EXAMPLES], "what")
    description = result.message
    if result.passed and result.warnings:
        description += f" {len(result.warnings)} things to look at."
    return AssetCheckResult(
        passed=result.passed,
        severity=AssetCheckSeverity.WARN if result.passed and result.warnings else AssetCheckSeverity.ERROR,
        description=description,
        metadata=metadata,
    )


def store_check(
    asset: AssetsDefinition, name: str, audit: Callable[[ChunkStore], AuditResult], description: str
) -> AssetChecksDefinition:
    """Make a blocking check out of an audit that reads only the store."""

    @asset_check(asset=asset, name=name, blocking=True, description=description)
    @step_boundary(name)
    def check(store: StoreResource) -> AssetCheckResult:
        with store.open() as chunk_store:
            return verdict(audit(chunk_store))

    return check
