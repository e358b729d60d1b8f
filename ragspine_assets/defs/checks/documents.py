"""Checks on `raw_documents`."""

from dagster import AssetCheckResult, asset_check

from ragspine_assets.defs.assets import raw_documents
from ragspine_assets.defs.boundary import step_boundary
from ragspine_assets.defs.resources import ProfileResource, SourceResource, StoreResource
from ragspine_assets.store.audit import audit_labels, audit_source, audit_source_labels

from .verdicts import store_check, verdict

labels_are_known = store_check(
    raw_documents,
    "labels_are_in_the_lattice",
    audit_labels,
    "Every document has a label of the lattice PUBLIC < INTERNAL < CONFIDENTIAL < RESTRICTED, and the reason for it.",
)


@asset_check(
    asset=raw_documents,
    name="every_file_is_accounted_for",
    blocking=True,
    description=(
        "Every supported file of the source has a state in the store. Files that failed, files without text and rows of "
        "metadata.csv that match nothing are listed as warnings."
    ),
)
@step_boundary("every_file_is_accounted_for")
def every_file_is_accounted_for(source: SourceResource, store: StoreResource) -> AssetCheckResult:
    """Compare the folder with the store (SPEC 1.6)."""
    with store.open() as chunk_store:
        return verdict(audit_source(chunk_store, source.path, source.metadata_table()))


@asset_check(
    asset=raw_documents,
    name="no_label_is_lower_than_its_source_says",
    blocking=True,
    description=(
        "No document is less protected in the store than metadata.csv, its front matter, its path and the policy say at "
        "this moment."
    ),
)
@step_boundary("no_label_is_lower_than_its_source_says")
def no_label_is_lower(source: SourceResource, store: StoreResource, profile: ProfileResource) -> AssetCheckResult:
    """Derive every label again from the folder (SPEC 1.8)."""
    with store.open() as chunk_store:
        return verdict(audit_source_labels(chunk_store, source.path, profile.load().sensitivity))


DOCUMENT_CHECKS = (labels_are_known, every_file_is_accounted_for, no_label_is_lower)
