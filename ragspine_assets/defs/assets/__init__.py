"""The assets, one module each (https://docs.dagster.io/guides/build/assets).

An asset opens its resources, calls one library function and turns its report into a `MaterializeResult`. Assets return no
values: each stage reads its upstream from the store.
"""

from .chunk_store import chunk_store
from .chunks import chunks
from .facts import facts
from .raw_documents import raw_documents
from .relation_graph import relation_graph
from .serving_snapshot import serving_snapshot

ALL_ASSETS = (raw_documents, chunks, chunk_store, facts, relation_graph, serving_snapshot)

__all__ = ["ALL_ASSETS", "chunk_store", "chunks", "facts", "raw_documents", "relation_graph", "serving_snapshot"]
