"""The stages that fill the store, named as the assets are: documents, chunks, versions (SPEC 1-3)."""

from .batch import NarrativeDocument, NarrativeReport, ingest_narrative
from .chunks import StagingReport, stage_chunks
from .documents import DocumentChange, DocumentsReport, MassRemovalError, suggested_store, sync_documents
from .versions import ActivationReport, activate_staged

__all__ = [
    "ActivationReport",
    "DocumentChange",
    "DocumentsReport",
    "MassRemovalError",
    "NarrativeDocument",
    "NarrativeReport",
    "StagingReport",
    "activate_staged",
    "ingest_narrative",
    "stage_chunks",
    "suggested_store",
    "sync_documents",
]
