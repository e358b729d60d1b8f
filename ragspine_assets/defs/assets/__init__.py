"""The assets, one module each (https://docs.dagster.io/guides/build/assets).

An asset opens its resources, calls one library function and turns its report into a `MaterializeResult`. Assets return no
values: each stage reads its upstream from the store.
"""

from dagster import AssetsDefinition

from ragspine_assets.defs.naming import Naming

from .chunk_store import chunk_store
from .chunks import chunks
from .facts import facts
from .raw_documents import raw_documents
from .relation_graph import relation_graph
from .retrieval_quality import retrieval_quality
from .serving_snapshot import serving_snapshot

ALL_STAGES = (raw_documents, chunks, chunk_store, facts, relation_graph, serving_snapshot, retrieval_quality)


def make_assets(naming: Naming) -> tuple[AssetsDefinition, ...]:
    """Return the assets of one corpus."""
    return tuple(stage.define(naming) for stage in ALL_STAGES)


__all__ = ["ALL_STAGES", "make_assets"]
