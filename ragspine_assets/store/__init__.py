"""The chunk store: documents, staged chunks and versions in one DuckDB file (SPEC 3)."""

from .activation import ActivationReport, activate_staged
from .chunk_store import ChunkStore, StoredChunk
from .database import StoreBusyError, StoreError
from .intake import (
    DocumentChange,
    DocumentsReport,
    MassRemovalError,
    suggested_store,
    sync_documents,
)
from .narrative import NarrativeDocument, NarrativeReport, ingest_narrative
from .staging import StagingReport, stage_chunks

__all__ = [
    "ActivationReport",
    "ChunkStore",
    "DocumentChange",
    "DocumentsReport",
    "MassRemovalError",
    "NarrativeDocument",
    "NarrativeReport",
    "StagingReport",
    "StoreBusyError",
    "StoreError",
    "StoredChunk",
    "activate_staged",
    "ingest_narrative",
    "stage_chunks",
    "suggested_store",
    "sync_documents",
]
