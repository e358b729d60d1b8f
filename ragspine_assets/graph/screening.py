"""The seam between the graph and whoever extracts relations from text (SPEC 5.3).

An extractor decides ends and types, and nothing else. What it may see, which lineage is real, and whether its edges are
a model's is decided here, the same way for a third party's extractor as for our own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from ragspine_assets.errors import RagspineError, is_cancel
from ragspine_assets.graph.extractors import RelationExtractor
from ragspine_assets.graph.grounding import cleaned_name
from ragspine_assets.graph.mentions import Vocabulary
from ragspine_assets.graph.values import (
    CONTROLLED_TYPES,
    DOC,
    EDGE_META_ANSWER,
    EDGE_META_CHUNK,
    EDGE_META_DERIVED,
    EDGE_META_MODEL,
    EDGE_META_VERIFIED,
    ENTITY,
    EXTERNAL_ENTITY,
    METRIC,
    MODEL_ENTITY,
    PROVENANCE_MODEL_DERIVED,
    PROVENANCE_UNVERIFIED,
    GraphEdge,
)
from ragspine_assets.policy import fold_text, is_restricted

_NOT_A_LETTER = re.compile(r"[\W_]+")
_CONTROLLED = frozenset(_NOT_A_LETTER.sub("", fold_text(kind)) for kind in CONTROLLED_TYPES)


_OURS = "ragspine_assets."


class ExtractorError(RagspineError):
    """A third party's extractor failed; the message names it and the type of what it raised, and quotes nothing."""


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
    """An edge that the seam accepted, with the chunk it comes from.

    Attributes:
        text_hash: sha256 of the chunk's text; only for a model's edge.
        model: the model that asserted it, as its extractor says; likewise.
        answer_id: the kept answer that it was taken from, where the extractor keeps answers; likewise.
    """

    src_type: str
    src: str
    dst_type: str
    dst: str
    type: str
    doc_id: str
    source_locator: str
    chunk_id: str = ""
    version: int = 0
    text_hash: str = ""
    model: str = ""
    answer_id: str = ""


@dataclass(frozen=True)
class Extraction:
    """What came through the seam.

    Attributes:
        edges: edges of a deterministic extractor, for the controlled tables.
        model_edges: edges of any other extractor, stamped with both markers; they have tables of their own.
        refused: how many edges were refused, by reason.
        asserted: the model's edges again, each with the chunk it comes from.
        extractor: name of the extractor.
    """

    edges: tuple[ExtractedEdge, ...] = ()
    model_edges: tuple[GraphEdge, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    asserted: tuple[ExtractedEdge, ...] = ()
    extractor: str = ""


def extract_relations(
    extractor: RelationExtractor,
    chunks: Sequence[GraphChunk],
    vocabulary: Vocabulary,
) -> Extraction:
    """Call an extractor and return what of its answer may enter the graph (SPEC 5.3).

    Chunks of a document with any RESTRICTED chunk are not handed over. Refused, and counted by reason, are: what is no
    `GraphEdge` (`shape`); a document and locator that are not those of one chunk that was handed over (`lineage`); an
    empty end or type (`empty`), a name that is too long or holds control characters; an end of a deterministic extractor
    that is another document, an unknown metric or of an unknown kind (`end`); a controlled type (`controlled_type`) of a deterministic extractor, whose edges go into
    the controlled tables; an end or type in which the security gate finds an external entity (`external`); an edge
    between a node and itself (`self_loop`). Edges of an extractor that does not declare `deterministic = True` get both
    markers, whatever they say of themselves; their ends are the profile's entities and metrics or names of their own,
    never documents, and a name that is too long or holds control characters is refused by that reason.

    Args:
        extractor: anything with `extract`.
        chunks: the chunks it may see.
        vocabulary: the profile's names, to turn ends into nodes, and its security gate.
    """
    secret = {chunk.doc_id for chunk in chunks if is_restricted(chunk.sensitivity)}
    handed = tuple(chunk for chunk in chunks if chunk.doc_id not in secret)
    places: dict[tuple[str, str], list[GraphChunk]] = {}
    for chunk in handed:
        places.setdefault((chunk.doc_id, chunk.source_locator), []).append(chunk)
    deterministic = getattr(extractor, "deterministic", False) is True
    refused: Counter[str] = Counter()
    edges: list[ExtractedEdge] = []
    model_edges: list[GraphEdge] = []
    asserted: list[ExtractedEdge] = []
    external: dict[str, bool] = {}
    hashes: dict[str, str] = {}
    for edge in _extracted(extractor, handed):
        # A third party's extractor may return anything.
        if not isinstance(edge, GraphEdge):  # pyright: ignore[reportUnnecessaryIsInstance]
            refused["shape"] += 1
            continue
        if not all(isinstance(part, str) for part in (edge.src, edge.dst, edge.type, edge.src_type, edge.dst_type)):
            refused["shape"] += 1
            continue
        place = _place(edge, places)
        reason = _refusal(edge, place, deterministic)
        if (
            reason is None
            and deterministic
            and not all(
                _may_end(name, kind, place, vocabulary)
                for name, kind in ((edge.src, edge.src_type), (edge.dst, edge.dst_type))
            )
        ):
            reason = "end"
        if reason is None:
            for name in (edge.src, edge.dst, edge.type):
                if name not in external:
                    external[name] = vocabulary.names_external(name)
            if external[edge.src] or external[edge.dst] or external[edge.type]:
                reason = "external"
        if reason is not None or place is None:
            refused[reason or "lineage"] += 1
            continue
        end = _end if deterministic else _model_end
        src_type, src = end(edge.src, edge.src_type, vocabulary)
        dst_type, dst = end(edge.dst, edge.dst_type, vocabulary)
        if EXTERNAL_ENTITY in (src_type, dst_type):
            refused["external"] += 1
            continue
        if (src_type, src) == (dst_type, dst):
            refused["self_loop"] += 1
            continue
        kind = edge.type if deterministic else edge.type.strip()
        found = ExtractedEdge(
            *(src_type, src, dst_type, dst, kind),
            *(place.doc_id, place.source_locator, place.chunk_id, place.version),
        )
        if deterministic:
            edges.append(found)
            continue
        if place.text not in hashes:
            hashes[place.text] = text_hash(place.text)
        metadata = {
            **edge.metadata,
            EDGE_META_DERIVED: PROVENANCE_MODEL_DERIVED,
            EDGE_META_VERIFIED: PROVENANCE_UNVERIFIED,
        }
        model_edges.append(GraphEdge(src, dst, kind, metadata, src_type, dst_type))
        asserted.append(
            replace(
                found,
                text_hash=hashes[place.text],
                model=edge.metadata.get(EDGE_META_MODEL, ""),
                answer_id=edge.metadata.get(EDGE_META_ANSWER, ""),
            )
        )
    return Extraction(
        tuple(dict.fromkeys(edges)),
        tuple(model_edges),
        dict(sorted(refused.items())),
        tuple(dict.fromkeys(asserted)),
        type(extractor).__qualname__,
    )


def _extracted(extractor: RelationExtractor, chunks: tuple[GraphChunk, ...]) -> Sequence[GraphEdge]:
    try:
        return tuple(extractor.extract(chunks))
    except BaseException as error:
        # An extractor of ours raises what was written for the outside: that the store is busy, for one.
        if is_cancel(error) or (isinstance(error, Exception) and type(extractor).__module__.startswith(_OURS)):
            raise
        failure = f"the relation extractor {type(extractor).__name__} raised {type(error).__name__}"
    # Raised out here, so that the foreign exception, which may quote a text, is not this one's context.
    raise ExtractorError(failure)


def _place(edge: GraphEdge, places: Mapping[tuple[str, str], Sequence[GraphChunk]]) -> GraphChunk | None:
    """Return the chunk an edge says it comes from: long paragraphs give several chunks one locator."""
    key = edge.metadata.get("source_doc_id", ""), edge.metadata.get("source_locator", "")
    chunks = places.get(key, ())
    named = edge.metadata.get(EDGE_META_CHUNK, "")
    return next((chunk for chunk in chunks if chunk.chunk_id == named), chunks[0] if chunks else None)


def text_hash(text: str) -> str:
    """Return the sha256 of a chunk's text, as DuckDB computes it too."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _refusal(edge: GraphEdge, place: GraphChunk | None, deterministic: bool) -> str | None:
    if place is None:
        return "lineage"
    if not edge.src.strip() or not edge.dst.strip() or not edge.type.strip():
        return "empty"
    if problem := next((why for name in (edge.src, edge.dst, edge.type) if (why := cleaned_name(name)[1])), None):
        return problem
    if deterministic and _NOT_A_LETTER.sub("", fold_text(edge.type)) in _CONTROLLED:
        return "controlled_type"
    return None


def _may_end(name: str, kind: str, place: GraphChunk | None, vocabulary: Vocabulary) -> bool:
    """Tell whether an edge of rules may end there: at a node that exists, and never at a document but its own."""
    if kind == DOC:
        return place is not None and name == place.doc_id
    if kind == METRIC:
        return bool(vocabulary.known_metric(name))
    return kind in ("", ENTITY, EXTERNAL_ENTITY)


def _end(name: str, kind: str, vocabulary: Vocabulary) -> tuple[str, str]:
    return (kind, name) if kind and kind != ENTITY else vocabulary.resolve_entity(name)


def _model_end(name: str, kind: str, vocabulary: Vocabulary) -> tuple[str, str]:
    """Return the node a model means: one that the profile knows, or a name that stands for itself."""
    if kind == METRIC and (metric := vocabulary.known_metric(name)):
        return METRIC, metric
    if kind == EXTERNAL_ENTITY or vocabulary.resolve_entity(name)[0] == EXTERNAL_ENTITY:
        return EXTERNAL_ENTITY, name
    code = vocabulary.known_entity(name)
    return (ENTITY, code) if code else (MODEL_ENTITY, cleaned_name(name)[0])
