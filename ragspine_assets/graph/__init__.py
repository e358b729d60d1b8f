"""The relation graph: what the profile, the facts and the texts say about each other, with every source kept."""

from ragspine_assets.graph.build import (
    GraphReport,
    build_relation_graph,
    graph_digest,
    rebuild_graph,
    servable_chunks,
    withdraw_documents,
)
from ragspine_assets.graph.extractors import (
    DeterministicRelationExtractor,
    RelationExtractor,
    make_relation_extractor,
)
from ragspine_assets.graph.facts import FactsError, FactsReport, fact_table, facts_of, read_facts, write_facts
from ragspine_assets.graph.graph_store import DuckDBGraphStore, GraphStore, readable_subgraph
from ragspine_assets.graph.mentions import Vocabulary
from ragspine_assets.graph.model import (
    CONTROLLED_TYPES,
    EDGE_META_DERIVED,
    EDGE_META_VERIFIED,
    PROVENANCE_MODEL_DERIVED,
    PROVENANCE_UNVERIFIED,
    Evidence,
    Fact,
    GraphEdge,
    GraphNode,
    Subgraph,
)
from ragspine_assets.graph.pipeline import GraphOverview, graph_overview, update_graph
from ragspine_assets.graph.seam import Extraction, GraphChunk, extract_relations

__all__ = [
    "CONTROLLED_TYPES",
    "EDGE_META_DERIVED",
    "EDGE_META_VERIFIED",
    "PROVENANCE_MODEL_DERIVED",
    "PROVENANCE_UNVERIFIED",
    "DeterministicRelationExtractor",
    "DuckDBGraphStore",
    "Evidence",
    "Extraction",
    "Fact",
    "FactsError",
    "FactsReport",
    "GraphChunk",
    "GraphEdge",
    "GraphNode",
    "GraphOverview",
    "GraphReport",
    "GraphStore",
    "RelationExtractor",
    "Subgraph",
    "Vocabulary",
    "build_relation_graph",
    "extract_relations",
    "fact_table",
    "facts_of",
    "graph_digest",
    "graph_overview",
    "make_relation_extractor",
    "read_facts",
    "readable_subgraph",
    "rebuild_graph",
    "servable_chunks",
    "update_graph",
    "withdraw_documents",
    "write_facts",
]
