"""Checks on `raw_documents`."""

from ragspine_assets.audit.file_labels import audit_file_labels
from ragspine_assets.audit.raw_documents import audit_labels, audit_source, audit_source_labels
from ragspine_assets.audit.result import AuditResult
from ragspine_assets.defs.resources import ProfileResource, SourceResource, StoreResource

from .verdicts import Check, store_check


def _every_file_is_accounted_for(source: SourceResource, store: StoreResource, profile: ProfileResource) -> AuditResult:
    """Compare the folder with the store (SPEC 1.6)."""
    with store.open() as chunk_store:
        default = profile.load().sensitivity.default_level
        return audit_source(chunk_store, source.path, source.metadata_table(), default)


def _no_label_is_lower(source: SourceResource, store: StoreResource, profile: ProfileResource) -> AuditResult:
    """Derive every label again from the folder (SPEC 1.8)."""
    with store.open() as chunk_store:
        return audit_source_labels(chunk_store, source.path, profile.load().sensitivity)


def _no_document_is_below_its_file(
    source: SourceResource, store: StoreResource, profile: ProfileResource
) -> AuditResult:
    """Derive what files say of themselves again from their bytes (SPEC 1.10, 1.11)."""
    with store.open() as chunk_store:
        policy = profile.load().sensitivity
        return audit_file_labels(chunk_store, source.path, policy, limits=source.limits(), workers=source.processes())


DOCUMENT_CHECKS = (
    store_check(
        "labels_are_in_the_lattice",
        audit_labels,
        "Every document has a label of the lattice PUBLIC < INTERNAL < CONFIDENTIAL < RESTRICTED, and the reason for it.",
    ),
    Check(
        "every_file_is_accounted_for",
        "Every supported file of the source has a state in the store. Files that failed, files without text and rows of "
        "metadata.csv that match nothing are listed as warnings.",
        _every_file_is_accounted_for,
    ),
    Check(
        "no_label_is_lower_than_its_source_says",
        "No document is less protected in the store than metadata.csv, its front matter, its path and the policy say at "
        "this moment.",
        _no_label_is_lower,
    ),
    Check(
        "no_document_is_below_what_its_file_says",
        "No document is less protected in the store than the bytes of its file say: by a keyword or a printed marking "
        "anywhere in it, headers, comments and properties included, or by a label that it carries.",
        _no_document_is_below_its_file,
    ),
)
