"""The seam between the graph and whoever extracts relations from text (SPEC 5.3).

An extractor decides ends and types, and nothing else. What it may see, which lineage is real, and whether its edges are
a model's is decided here, the same way for a third party's extractor as for our own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragspine_assets.graph.extractors import RelationExtractor
from ragspine_assets.graph.mentions import Vocabulary
from ragspine_assets.graph.model import (
    CONTROLLED_TYPES,
    EDGE_META_DERIVED,
    EDGE_META_VERIFIED,
    ENTITY,
    PROVENANCE_MODEL_DERIVED,
    PROVENANCE_UNVERIFIED,
    GraphEdge,
)
from ragspine_assets.policy import is_restricted


@dataclass(frozen=True)
class GraphChunk:
    """What an extractor sees of one chunk: a copy, of a document that is not RESTRICTED."""

    doc_id: str
    chunk_id: str
    seq: int
    entity: str
    text: str
    source_locator: str
    sensitivity: str = "INTERNAL"
    version: int = 0


@dataclass(frozen=True)
class ExtractedEdge:
    """An edge of a deterministic extractor that the seam accepted, with the chunk it comes from."""

    src_type: str
    src: str
    dst_type: str
    dst: str
    type: str
    doc_id: str
    source_locator: str
    chunk_id: str = ""
    version: int = 0


@dataclass(frozen=True)
class Extraction:
    """What came through the seam.

    Attributes:
        edges: edges of a deterministic extractor, for the controlled tables.
        model_edges: edges of any other extractor, stamped with both markers; they have tables of their own.
        refused: how many edges were refused, by reason.
    """

    edges: tuple[ExtractedEdge, ...] = ()
    model_edges: tuple[GraphEdge, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)


def extract_relations(
    extractor: RelationExtractor,
    chunks: Sequence[GraphChunk],
    vocabulary: Vocabulary,
) -> Extraction:
    """Call an extractor and return what of its answer may enter the graph (SPEC 5.3).

    Chunks of a document with any RESTRICTED chunk are not handed over. Refused, and counted by reason, are: what is no
    `GraphEdge` (`shape`); a document and locator that are not those of one chunk that was handed over (`lineage`); an
    empty end or type (`empty`); a controlled type (`controlled_type`); an end or type in which the security gate finds
    an external entity (`external`); an edge between a node and itself (`self_loop`). Edges of an extractor that does
    not declare `deterministic = True` get both markers, whatever they say of themselves.

    Args:
        extractor: anything with `extract`.
        chunks: the chunks it may see.
        vocabulary: the profile's names, to turn ends into nodes, and its security gate.
    """
    secret = {chunk.doc_id for chunk in chunks if is_restricted(chunk.sensitivity)}
    handed = tuple(chunk for chunk in chunks if chunk.doc_id not in secret)
    places = {(chunk.doc_id, chunk.source_locator): chunk for chunk in reversed(handed)}
    deterministic = getattr(extractor, "deterministic", False) is True
    refused: Counter[str] = Counter()
    edges: list[ExtractedEdge] = []
    model_edges: list[GraphEdge] = []
    external: dict[str, bool] = {}
    for edge in extractor.extract(handed):
        # A third party's extractor may return anything.
        if not isinstance(edge, GraphEdge):  # pyright: ignore[reportUnnecessaryIsInstance]
            refused["shape"] += 1
            continue
        place = places.get((edge.metadata.get("source_doc_id", ""), edge.metadata.get("source_locator", "")))
        reason = _refusal(edge, place)
        if reason is None:
            for name in (edge.src, edge.dst, edge.type):
                if name not in external:
                    external[name] = vocabulary.names_external(name)
            if external[edge.src] or external[edge.dst] or external[edge.type]:
                reason = "external"
        if reason is not None or place is None:
            refused[reason or "lineage"] += 1
            continue
        src_type, src = _end(edge.src, edge.src_type, vocabulary)
        dst_type, dst = _end(edge.dst, edge.dst_type, vocabulary)
        if (src_type, src) == (dst_type, dst):
            refused["self_loop"] += 1
        elif deterministic:
            edges.append(
                ExtractedEdge(
                    src_type,
                    src,
                    dst_type,
                    dst,
                    edge.type,
                    place.doc_id,
                    place.source_locator,
                    place.chunk_id,
                    place.version,
                )
            )
        else:
            metadata = {
                **edge.metadata,
                EDGE_META_DERIVED: PROVENANCE_MODEL_DERIVED,
                EDGE_META_VERIFIED: PROVENANCE_UNVERIFIED,
            }
            model_edges.append(GraphEdge(src, dst, edge.type, metadata, src_type, dst_type))
    return Extraction(tuple(dict.fromkeys(edges)), tuple(model_edges), dict(sorted(refused.items())))


def _refusal(edge: GraphEdge, place: GraphChunk | None) -> str | None:
    if place is None:
        return "lineage"
    if not edge.src.strip() or not edge.dst.strip() or not edge.type.strip():
        return "empty"
    if edge.type.strip().casefold() in CONTROLLED_TYPES:
        return "controlled_type"
    return None


def _end(name: str, kind: str, vocabulary: Vocabulary) -> tuple[str, str]:
    return (kind, name) if kind and kind != ENTITY else vocabulary.resolve_entity(name)
