"""Checks on `serving_snapshot`."""

from dagster import AssetCheckResult, asset_check

from ragspine_assets.defs.assets import serving_snapshot
from ragspine_assets.defs.boundary import step_boundary
from ragspine_assets.defs.resources import ProfileResource, SnapshotsResource, SourceResource, StoreResource
from ragspine_assets.serving.audit import (
    audit_published_files,
    audit_published_isolation,
    audit_published_labels,
    audit_ranking,
)
from ragspine_assets.store.audit import labels_of_source

from .verdicts import verdict


@asset_check(
    asset=serving_snapshot,
    name="files_equal_the_servable_rows",
    blocking=True,
    description=(
        "The current snapshot holds the store's servable chunks and graph, all of them and nothing else, and every file has "
        "the sha256 that the manifest says."
    ),
)
@step_boundary("files_equal_the_servable_rows")
def files_equal_the_servable_rows(store: StoreResource, snapshots: SnapshotsResource) -> AssetCheckResult:
    """Compare the files with the store (SPEC 6.6)."""
    with store.open() as chunk_store:
        return verdict(audit_published_files(chunk_store, snapshots.path))


@asset_check(
    asset=serving_snapshot,
    name="snapshot_has_no_restricted_trace",
    blocking=True,
    description=(
        "No byte of the current snapshot is RESTRICTED text, or a title, path, heading, entity or word that no servable "
        "document, fact or the profile holds too."
    ),
)
@step_boundary("snapshot_has_no_restricted_trace")
def snapshot_has_no_restricted_trace(
    store: StoreResource, snapshots: SnapshotsResource, profile: ProfileResource
) -> AssetCheckResult:
    """Search every byte for what RESTRICTED documents say (SPEC 6.6)."""
    with store.open() as chunk_store:
        return verdict(audit_published_isolation(chunk_store, snapshots.path, profile.load()))


@asset_check(
    asset=serving_snapshot,
    name="nothing_published_has_a_higher_label_now",
    blocking=True,
    description=(
        "No published document, in the current snapshot or a kept one, has a label above what its snapshot may hold. Where "
        "the current one breaks this, it is withdrawn at once."
    ),
)
@step_boundary("nothing_published_has_a_higher_label_now")
def nothing_published_has_a_higher_label_now(
    store: StoreResource, snapshots: SnapshotsResource, source: SourceResource, profile: ProfileResource
) -> AssetCheckResult:
    """Compare what is published with the labels of this moment, in the store and in the source (SPEC 6.6)."""
    with store.open() as chunk_store:
        said = labels_of_source(chunk_store, source.path, profile.load().sensitivity)
        return verdict(audit_published_labels(chunk_store, snapshots.path, source_labels=said))


@asset_check(
    asset=serving_snapshot,
    name="fast_index_agrees_with_bm25",
    blocking=True,
    description=(
        "For queries drawn from the published texts, the published index gives every chunk the score that BM25 has by its "
        "definition, and equal scores in the order of chunk ids."
    ),
)
@step_boundary("fast_index_agrees_with_bm25")
def fast_index_agrees_with_bm25(snapshots: SnapshotsResource) -> AssetCheckResult:
    """Compute scores again by the formula (SPEC 4.3)."""
    return verdict(audit_ranking(snapshots.path))


SERVING_CHECKS = (
    files_equal_the_servable_rows,
    snapshot_has_no_restricted_trace,
    nothing_published_has_a_higher_label_now,
    fast_index_agrees_with_bm25,
)
