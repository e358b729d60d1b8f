"""The chunk store: documents, staged chunks and versions in one DuckDB file (SPEC 3)."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragspine_assets.pipeline.batch import ingest_narrative

    from .chunk_store import ChunkStore, StoredChunk
    from .database import StoreBusyError, StoreError

__all__ = ["ChunkStore", "StoreBusyError", "StoreError", "StoredChunk", "ingest_narrative"]

# Loaded when asked for: whoever only opens the file needs no Arrow. The batch writer is promised here, and lives where
# all writing does, one room further on.
_HOME = {
    "ChunkStore": ".chunk_store",
    "StoredChunk": ".chunk_store",
    "StoreBusyError": ".database",
    "StoreError": ".database",
    "ingest_narrative": "ragspine_assets.pipeline.batch",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name], __name__), name)
