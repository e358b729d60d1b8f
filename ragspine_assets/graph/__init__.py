"""The relation graph: what the profile, the facts and the texts say about each other, with every source kept."""

from ragspine_assets.graph.answer_cache import AnswerCache, AnswersInMemory, StoredAnswers
from ragspine_assets.graph.asserted_tables import ModelReport
from ragspine_assets.graph.build import (
    GraphReport,
    build_relation_graph,
    graph_digest,
    rebuild_graph,
    servable_chunks,
    withdraw_documents,
)
from ragspine_assets.graph.exports import export_graphml, export_jsonld
from ragspine_assets.graph.extractors import (
    DeterministicRelationExtractor,
    RelationExtractor,
    asks_a_model,
    extractor_names,
    make_relation_extractor,
)
from ragspine_assets.graph.facts import FactsError, FactsReport, fact_table, facts_of, read_facts, write_facts
from ragspine_assets.graph.graph_store import DuckDBGraphStore, GraphStore, readable_subgraph
from ragspine_assets.graph.llm_extractor import LLMRelationExtractor, LLMReport
from ragspine_assets.graph.mentions import Vocabulary
from ragspine_assets.graph.picture import draw_subgraph, neighbourhood_picture
from ragspine_assets.graph.review import ReviewDecision, ReviewError, ReviewReport, read_decisions, review_template
from ragspine_assets.graph.screening import Extraction, GraphChunk, extract_relations
from ragspine_assets.graph.update import GraphOverview, graph_overview, update_graph
from ragspine_assets.graph.values import (
    CONTROLLED_TYPES,
    EDGE_META_DERIVED,
    EDGE_META_VERIFIED,
    PROVENANCE_MODEL_DERIVED,
    PROVENANCE_UNVERIFIED,
    Evidence,
    Fact,
    GraphEdge,
    GraphNode,
    NodeList,
    Subgraph,
    is_unverified,
)

__all__ = [
    "CONTROLLED_TYPES",
    "EDGE_META_DERIVED",
    "EDGE_META_VERIFIED",
    "PROVENANCE_MODEL_DERIVED",
    "PROVENANCE_UNVERIFIED",
    "AnswerCache",
    "AnswersInMemory",
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
    "LLMRelationExtractor",
    "LLMReport",
    "ModelReport",
    "NodeList",
    "RelationExtractor",
    "ReviewDecision",
    "ReviewError",
    "ReviewReport",
    "StoredAnswers",
    "Subgraph",
    "Vocabulary",
    "asks_a_model",
    "build_relation_graph",
    "draw_subgraph",
    "export_graphml",
    "export_jsonld",
    "extract_relations",
    "extractor_names",
    "fact_table",
    "facts_of",
    "graph_digest",
    "graph_overview",
    "is_unverified",
    "make_relation_extractor",
    "neighbourhood_picture",
    "read_decisions",
    "read_facts",
    "readable_subgraph",
    "rebuild_graph",
    "review_template",
    "servable_chunks",
    "update_graph",
    "withdraw_documents",
    "write_facts",
]
