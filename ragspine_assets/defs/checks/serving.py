"""Checks on `serving_snapshot`."""

from ragspine_assets.audit.raw_documents import labels_of_source
from ragspine_assets.audit.result import AuditResult
from ragspine_assets.audit.serving import (
    audit_levels,
    audit_published_files,
    audit_published_isolation,
    audit_published_labels,
    audit_ranking,
)
from ragspine_assets.defs.resources import ProfileResource, SnapshotsResource, SourceResource, StoreResource

from .verdicts import Check


def _files_equal_the_servable_rows(store: StoreResource, snapshots: SnapshotsResource) -> AuditResult:
    """Compare the files with the store (SPEC 6.6)."""
    with store.open() as chunk_store:
        return audit_published_files(chunk_store, snapshots.path)


def _snapshot_has_no_restricted_trace(
    store: StoreResource, snapshots: SnapshotsResource, profile: ProfileResource
) -> AuditResult:
    """Search every byte for what RESTRICTED documents say (SPEC 6.6)."""
    with store.open() as chunk_store:
        return audit_published_isolation(chunk_store, snapshots.path, profile.load())


def _nothing_published_has_a_higher_label_now(
    store: StoreResource, snapshots: SnapshotsResource, source: SourceResource, profile: ProfileResource
) -> AuditResult:
    """Compare what is published with the labels of this moment, in the store and in the source (SPEC 6.6)."""
    with store.open() as chunk_store:
        said = labels_of_source(chunk_store, source.path, profile.load().sensitivity)
        return audit_published_labels(chunk_store, snapshots.path, source_labels=said)


def _fast_index_agrees_with_bm25(store: StoreResource, snapshots: SnapshotsResource) -> AuditResult:
    """Compute scores again by the formula (SPEC 4.3)."""
    # Nothing is asked of the store: others may have it, and the index the memory it took.
    store.open_briefly()
    return audit_ranking(snapshots.path)


def _lower_audiences_are_served_as_if_nothing_else_were_there(
    store: StoreResource, snapshots: SnapshotsResource
) -> AuditResult:
    """Compare what each level is made of with the rows that it may have (SPEC 8.3)."""
    with store.open() as chunk_store:
        return audit_levels(chunk_store, snapshots.path)


SERVING_CHECKS = (
    Check(
        "files_equal_the_servable_rows",
        "The current snapshot holds the store's servable chunks and graph, all of them and nothing else, and every file has "
        "the sha256 that the manifest says.",
        _files_equal_the_servable_rows,
    ),
    Check(
        "snapshot_has_no_restricted_trace",
        "No byte of the current snapshot is RESTRICTED text, or a title, path, heading, entity or word that no servable "
        "document, fact or the profile holds too.",
        _snapshot_has_no_restricted_trace,
    ),
    Check(
        "nothing_published_has_a_higher_label_now",
        "No published document, in the current snapshot or a kept one, has a label above what its snapshot may hold. Where "
        "the current one breaks this, it is withdrawn at once.",
        _nothing_published_has_a_higher_label_now,
    ),
    Check(
        "fast_index_agrees_with_bm25",
        "For queries drawn from the published texts, the published index gives every chunk the score that BM25 has by its "
        "definition, and equal scores in the order of chunk ids.",
        _fast_index_agrees_with_bm25,
    ),
    Check(
        "lower_audiences_are_served_as_if_nothing_else_were_there",
        "For each label below the highest up to which somebody is served, every term, count, length and row of the graph is that "
        "of a snapshot that never held anything above it, so that no score or number tells that something higher exists.",
        _lower_audiences_are_served_as_if_nothing_else_were_there,
    ),
)
