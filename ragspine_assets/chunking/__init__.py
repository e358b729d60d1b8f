"""A document's text becomes chunks: protocol, seam, one file per strategy, factory (SPEC 2)."""

from ragspine_assets.chunking.chunk import Chunk, DocumentMeta
from ragspine_assets.chunking.default import DefaultChunker, chunk_document
from ragspine_assets.chunking.factory import make_chunker
from ragspine_assets.chunking.layout import LayoutAwareChunker
from ragspine_assets.chunking.parent_child import ParentChildChunker
from ragspine_assets.chunking.protocol import Chunker
from ragspine_assets.chunking.sentence_window import SentenceWindowChunker
from ragspine_assets.chunking.structure import StructureChunker
from ragspine_assets.chunking.third_party import ChunkerError

__all__ = [
    "Chunk",
    "Chunker",
    "ChunkerError",
    "DefaultChunker",
    "DocumentMeta",
    "LayoutAwareChunker",
    "ParentChildChunker",
    "SentenceWindowChunker",
    "StructureChunker",
    "chunk_document",
    "make_chunker",
]
