"""The chunk store: documents, staged chunks and versions in one DuckDB file (SPEC 3)."""

from importlib import import_module
from typing import TYPE_CHECKING

from .chunk_store import ChunkStore, StoredChunk
from .database import StoreBusyError, StoreError

if TYPE_CHECKING:
    from ragspine_assets.pipeline.batch import ingest_narrative

__all__ = ["ChunkStore", "StoreBusyError", "StoreError", "StoredChunk", "ingest_narrative"]


def __getattr__(name: str) -> object:
    # The batch writer is promised here, and lives where all writing does, one room further on.
    if name == "ingest_narrative":
        return import_module("ragspine_assets.pipeline.batch").ingest_narrative
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
