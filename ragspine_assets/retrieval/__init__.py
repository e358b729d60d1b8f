"""Retrieval: tokens, lexical index, fusion, the judge (first exit), the link (second exit), the context (SPEC 4)."""

from ragspine_assets.index.bm25 import bm25_scores
from ragspine_assets.index.tokens import tokenize
from ragspine_assets.retrieval.context import NodePostprocessor, build_context, snippet_text
from ragspine_assets.retrieval.embedding import EmbeddingBackend
from ragspine_assets.retrieval.fusion import rrf_fuse
from ragspine_assets.retrieval.narrative_index import NarrativeIndex, RetrievalResult
from ragspine_assets.retrieval.narrative_link import NarrativeIndexRetriever
from ragspine_assets.retrieval.question import QuestionError
from ragspine_assets.retrieval.rerank import ListwiseJudge, listwise_rerank, parse_listwise_response

__all__ = [
    "EmbeddingBackend",
    "ListwiseJudge",
    "NarrativeIndex",
    "NarrativeIndexRetriever",
    "NodePostprocessor",
    "QuestionError",
    "RetrievalResult",
    "bm25_scores",
    "build_context",
    "listwise_rerank",
    "parse_listwise_response",
    "rrf_fuse",
    "snippet_text",
    "tokenize",
]
