"""The graph of a store: brought up to date, and looked at (SPEC 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragspine_assets.graph.build import GraphReport, rebuild_graph, servable_chunks
from ragspine_assets.graph.extractors import RelationExtractor
from ragspine_assets.graph.graph_store import readable_subgraph
from ragspine_assets.graph.mentions import Vocabulary
from ragspine_assets.graph.review import ReviewDecision
from ragspine_assets.graph.screening import extract_relations
from ragspine_assets.policy import DomainProfile
from ragspine_assets.store import ChunkStore


def update_graph(
    store: ChunkStore,
    profile: DomainProfile,
    relation_extractor: RelationExtractor | None = None,
    *,
    decisions: Sequence[ReviewDecision] | None = None,
) -> GraphReport:
    """Bring the graph of a store up to date with its chunks, facts and profile.

    No connection is held while an extractor works (SPEC 3.6): the store must not be held open by the caller either.

    Args:
        store: the chunk store, after `activate_staged`.
        profile: the domain profile.
        relation_extractor: takes further relations from the text, behind the seam of SPEC 5.3.
        decisions: all decisions of reviewers; None keeps those that are stored (SPEC 5.9).
    """
    if relation_extractor is None:
        with store.connect() as connection:
            return rebuild_graph(connection, profile, decisions=decisions)
    with store.connect() as connection:
        chunks = servable_chunks(connection)
    extraction = extract_relations(relation_extractor, chunks, Vocabulary(profile))
    with store.connect() as connection:
        return rebuild_graph(connection, profile, extraction=extraction, decisions=decisions)


@dataclass(frozen=True)
class GraphOverview:
    """The best connected part of the graph, small enough to draw.

    Attributes:
        nodes: ``(key, type, caption)`` each.
        edges: ``(source key, target key, type)`` each.
        words: what part of the graph it is.
    """

    nodes: list[tuple[str, str, str]]
    edges: list[tuple[str, str, str]]
    words: str


def graph_overview(store: ChunkStore, max_nodes: int = 60) -> GraphOverview:
    """Return the most connected nodes of a store's graph, and the edges between them."""
    with store.connect() as connection:
        part = readable_subgraph(connection, max_nodes=max_nodes)
        row = connection.execute("SELECT count(*) FROM graph_node").fetchone()
    total = row[0] if row else 0
    nodes = [(f"{n.type} {n.id}", n.type, n.label or n.id) for n in part.nodes]
    edges = [(f"{e.src_type} {e.src}", f"{e.dst_type} {e.dst}", e.type) for e in part.edges]
    words = f"The graph: {len(nodes)} of {total} nodes" if total > len(nodes) else f"The graph: all {total} nodes"
    return GraphOverview(nodes, edges, words)
