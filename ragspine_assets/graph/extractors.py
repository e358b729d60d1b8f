"""Who finds relations beyond the controlled ones (SPEC 5.5), and how one is selected.

An extractor only proposes: `seam.extract_relations` decides what it sees and what of its answer is taken.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ragspine_assets.errors import SettingError
from ragspine_assets.graph.mentions import Vocabulary
from ragspine_assets.graph.values import CO_OCCURS_WITH, EXTERNAL_ENTITY, GraphEdge
from ragspine_assets.policy import DomainProfile, is_restricted

if TYPE_CHECKING:
    from ragspine_assets.graph.screening import GraphChunk
    from ragspine_assets.llm import LLMProvider

EXTRACTOR_ENV = "RAGSPINE_RELATION_EXTRACTOR"
"""Environment variable that selects the extractor where none is given."""

_DETERMINISTIC = ("deterministic", "rule", "cooccurrence")
_MODEL = ("llm", "on")


@runtime_checkable
class RelationExtractor(Protocol):
    """Anything that proposes edges from chunks.

    An extractor with an attribute `deterministic = True` promises the same answer for the same chunks, without a model.
    Without it, its edges are stamped as model-derived and unverified, and kept apart (SPEC 5.3).
    """

    def extract(self, chunks: Sequence[GraphChunk]) -> tuple[GraphEdge, ...]:
        """Return edges whose metadata name `source_doc_id` and `source_locator` of one of the chunks each."""
        ...


class DeterministicRelationExtractor:
    """Co-occurrence: every two different entities of one document (SPEC 5.5).

    Entities are those of the chunks' metadata, and the profile's synonyms in their text when a profile is given. One
    edge per pair and document, `src < dst`, with the first chunk that names both as lineage, else the one in which the
    pair becomes complete. No marker of a model, no RESTRICTED chunk.

    A document that names very many entities would give a square of edges: beyond `max_entities_per_document` only those
    named in most chunks are paired (then the first in order), and `entities_left_out` counts the others.

    Attributes:
        deterministic: always True.
        entities_left_out: entities that the last `extract` did not pair, over all documents.
    """

    deterministic = True

    def __init__(self, profile: DomainProfile | None = None, *, max_entities_per_document: int = 100) -> None:
        if max_entities_per_document < 2:
            raise ValueError("max_entities_per_document must be at least 2: a pair has two ends")
        self._vocabulary = Vocabulary(profile) if profile else None
        self._limit = max_entities_per_document
        self.entities_left_out = 0

    def extract(self, chunks: Sequence[GraphChunk]) -> tuple[GraphEdge, ...]:
        """Return the co-occurrences, sorted by ends and document."""
        self.entities_left_out = 0
        documents: dict[str, list[GraphChunk]] = {}
        secret = set()
        for chunk in chunks:
            documents.setdefault(chunk.doc_id, []).append(chunk)
            if is_restricted(getattr(chunk, "sensitivity", "INTERNAL")):
                secret.add(chunk.doc_id)
        edges = [
            edge
            for doc_id in sorted(documents.keys() - secret)
            for edge in self._of_document(doc_id, sorted(documents[doc_id], key=_order))
        ]
        return tuple(sorted(edges, key=lambda edge: (edge.src, edge.dst)))

    def _of_document(self, doc_id: str, chunks: Sequence[GraphChunk]) -> list[GraphEdge]:
        places: dict[str, list[int]] = {}
        for number, chunk in enumerate(chunks):
            for entity in self._entities(chunk):
                places.setdefault(entity, []).append(number)
        ranked = sorted(places, key=lambda entity: (-len(places[entity]), entity))
        self.entities_left_out += max(0, len(ranked) - self._limit)
        chosen = sorted(ranked[: self._limit])
        edges = []
        for number, src in enumerate(chosen):
            here = set(places[src])
            for dst in chosen[number + 1 :]:
                first = next((place for place in places[dst] if place in here), max(places[src][0], places[dst][0]))
                lineage = {"source_doc_id": doc_id, "source_locator": chunks[first].source_locator}
                edges.append(GraphEdge(src, dst, CO_OCCURS_WITH, lineage))
        return edges

    def _entities(self, chunk: GraphChunk) -> set[str]:
        named = (chunk.entity or "").strip()
        if self._vocabulary is None:
            return {named} if named else set()
        found = set(self._vocabulary.entities_in(chunk.text))
        if named:
            kind, code = self._vocabulary.resolve_entity(named)
            # External entities have one relation only, the profile's.
            if kind != EXTERNAL_ENTITY:
                found.add(code)
        return found


def _order(chunk: GraphChunk) -> int:
    return getattr(chunk, "seq", 0)


def make_relation_extractor(
    spec: str | None = None,
    *,
    provider: LLMProvider | None = None,
    profile: DomainProfile | None = None,
    **kwargs: object,
) -> RelationExtractor | None:
    """Return the extractor a name stands for, or None (SPEC 5.6).

    Args:
        spec: case and outer spaces do not matter; None reads `RAGSPINE_RELATION_EXTRACTOR`. Nothing, blank and `none`
            mean no extractor; `deterministic`, `rule` and `cooccurrence` mean co-occurrence; `llm` and `on` mean a
            model's, which without a provider is honestly None.
        provider: the model.
        profile: the domain profile, for its names and its gate.
        **kwargs: handed to `DeterministicRelationExtractor` or `LLMRelationExtractor`.

    Raises:
        ValueError: if the name stands for nothing, and the message lists what there is; or if a model's extractor gets
            neither profile nor `security_gate`.
    """
    name = (os.environ.get(EXTRACTOR_ENV, "") if spec is None else spec).strip().casefold()
    if name in {"", "none"}:
        return None
    if name in _DETERMINISTIC:
        return DeterministicRelationExtractor(profile, **kwargs)  # pyright: ignore[reportArgumentType]
    if name in _MODEL:
        if provider is None:
            return None
        # Imported here, since the seam that it needs is made of this module.
        from ragspine_assets.graph.llm_extractor import LLMRelationExtractor

        return LLMRelationExtractor(provider, profile=profile, **kwargs)  # pyright: ignore[reportArgumentType]
    raise SettingError(f"there is no relation extractor {name!r}; choose one of {', '.join(extractor_names())}")


def extractor_names() -> tuple[str, ...]:
    """Return every name that `make_relation_extractor` knows."""
    return ("none", *_DETERMINISTIC, *_MODEL)


def asks_a_model(spec: str) -> bool:
    """Tell whether a name stands for a model's extractor."""
    return spec.strip().casefold() in _MODEL
