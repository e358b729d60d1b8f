"""From an audit's result to a check's verdict, and the checks of an asset as one step.

A step costs Dagster as much as a small check does, so the checks of one asset share one. Each stays a check of its own: it
is selected, evaluated, reported and blocking by itself.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature

from dagster import (
    AssetCheckExecutionContext,
    AssetCheckKey,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetsDefinition,
    Failure,
    MetadataValue,
    multi_asset_check,
)

from ragspine_assets.audit.result import MAX_EXAMPLES, AuditResult
from ragspine_assets.defs.boundary import step_boundary
from ragspine_assets.defs.naming import Naming
from ragspine_assets.defs.resources import ProfileResource, StoreResource
from ragspine_assets.defs.tables import lines
from ragspine_assets.policy import DomainProfile
from ragspine_assets.store import ChunkStore


@dataclass(frozen=True)
class Check:
    """A promise, and how it is proved.

    Attributes:
        name: the invariant.
        description: the invariant, in a sentence.
        prove: derives it again from what is stored; takes the resources that its parameters are named after.
    """

    name: str
    description: str
    prove: Callable[..., AuditResult]


def store_check(name: str, audit: Callable[[ChunkStore], AuditResult], description: str) -> Check:
    """Make a check out of an audit that reads only the store."""

    def prove(store: StoreResource) -> AuditResult:
        with store.open() as chunk_store:
            return audit(chunk_store)

    return Check(name, description, prove)


def profile_check(name: str, audit: Callable[[ChunkStore, DomainProfile], AuditResult], description: str) -> Check:
    """Make a check out of an audit that reads store and profile."""

    def prove(store: StoreResource, profile: ProfileResource) -> AuditResult:
        with store.open() as chunk_store:
            return audit(chunk_store, profile.load())

    return Check(name, description, prove)


def checks_of(asset: AssetsDefinition, *checks: Check, naming: Naming = Naming()) -> AssetChecksDefinition:
    """Make blocking checks on an asset that run in one step; where only some are selected, only those run.

    A check that breaks keeps none of the others from being evaluated. The step fails after them and names it.
    """
    needed = {check.name: tuple(signature(check.prove).parameters) for check in checks}

    @multi_asset_check(
        name=f"{asset.key.to_python_identifier()}_checks",
        specs=[AssetCheckSpec(c.name, asset=asset, blocking=True, description=c.description) for c in checks],
        required_resource_keys={naming.name(resource) for resources in needed.values() for resource in resources},
        can_subset=True,
        description=f"Proves the promises about {asset.key.to_user_string()}, one after the other.",
    )
    def evaluate(context: AssetCheckExecutionContext) -> Iterator[AssetCheckResult]:
        broke: dict[str, list[str]] = {}
        for check in checks:
            key = AssetCheckKey(asset.key, check.name)
            if key not in context.selected_asset_check_keys:
                continue
            resources = {resource: getattr(context.resources, naming.name(resource)) for resource in needed[check.name]}
            try:
                evaluated = step_boundary(check.name)(_evaluated)(check, key, resources)
            except Failure as failure:
                broke.setdefault(failure.description or "", []).append(check.name)
                continue
            yield evaluated
        if broke:
            raise Failure(" ".join(f"{', '.join(names)}: {message}" for message, names in broke.items()))

    return evaluate


def _evaluated(check: Check, key: AssetCheckKey, resources: Mapping[str, object]) -> AssetCheckResult:
    """Prove a promise and show what was found: counts and up to ten references, never text.

    A broken invariant is an ERROR; warnings alone give a passed check of severity WARN that lists them.
    """
    started = time.perf_counter()
    result = check.prove(**resources)
    metadata: dict[str, str | int | float | MetadataValue] = {
        "checked": result.checked,
        "violations": result.violations,
    }
    metadata |= result.counts
    if result.examples:
        metadata["first violations"] = lines(result.examples, "where")
    if result.warnings:
        metadata["warnings"] = len(result.warnings)
        metadata["to look at"] = lines(result.warnings[:MAX_EXAMPLES], "what")
    metadata["seconds"] = round(time.perf_counter() - started, 3)
    description = result.message
    if result.passed and result.warnings:
        description += f" {len(result.warnings)} things to look at."
    return AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=result.passed,
        severity=AssetCheckSeverity.WARN if result.passed and result.warnings else AssetCheckSeverity.ERROR,
        description=description,
        metadata=metadata,
    )
