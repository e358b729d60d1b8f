"""Nodes, edges, evidence and facts: the values every part of the relation graph speaks in (SPEC 5.2, 5.3, 6.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import NoReturn

EDGE_META_DERIVED = "derived"
"""Metadata key that says who made an edge when it was not the controlled path."""
EDGE_META_VERIFIED = "verified"
"""Metadata key that says whether anybody checked the edge."""
PROVENANCE_MODEL_DERIVED = "model-derived"
"""Value of `EDGE_META_DERIVED` on every edge a model asserted."""
PROVENANCE_UNVERIFIED = "unverified"
"""Value of `EDGE_META_VERIFIED` on every edge a model asserted."""

EDGE_META_CHUNK = "chunk_id"
"""Metadata key of the chunk that a model's edge was taken from."""
EDGE_META_MODEL = "model"
"""Metadata key of the model that asserted an edge."""
EDGE_META_ANSWER = "answer"
"""Metadata key of the kept answer that asserted an edge: a hash of model, prompt version, parameters and text."""

PROFILE_SOURCE = "company_profile"
"""`source_doc_id` of whatever the domain profile states."""

ENTITY = "entity"
METRIC = "metric"
EXTERNAL_ENTITY = "external_entity"
DOC = "doc"
MODEL_ENTITY = "model_entity"
"""Kind of a node that only a model names: whatever is called like it, its name is all that is known of it."""
REVIEW_SOURCE = "review_decisions"
"""`source_doc_id` of an edge that a reviewer accepted."""
DECISION = "decision-"
"""How the place of a decision begins: `{document it rests on}#decision-{hash of the edge}`."""

PARENT_OF = "parent_of"
DERIVES = "derives"
COMPETES_WITH = "competes_with"
MENTIONS = "mentions"
CO_OCCURS_WITH = "co_occurs_with"

CONTROLLED_TYPES = frozenset({PARENT_OF, DERIVES, COMPETES_WITH, MENTIONS})
"""Edge types that only the profile, the facts and the chunks' own entities make; no extractor may (SPEC 5.3)."""


class _ReadOnlyMapping(dict[str, str]):
    """A mapping of strings that prints, pickles and serialises like a dict and cannot be changed."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the metadata of a node or edge is read-only")

    __setitem__ = __delitem__ = __ior__ = _refuse  # pyright: ignore[reportAssignmentType]
    clear = pop = popitem = setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[type[_ReadOnlyMapping], tuple[dict[str, str]]]:
        return type(self), (dict(self),)


@dataclass(frozen=True)
class GraphNode:
    """One node, keyed by `(type, id)`: a document called like an entity is another node (SPEC 5.2).

    Attributes:
        id: entity or metric code, display name of an external entity, derived value, or `doc_id`.
        type: `entity`, `metric`, `external_entity`, `doc` or the name of a derived dimension.
        label: what to show; may be empty.
        metadata: read-only; a stored node has `source_doc_id`, `source_locator` and `sensitivity`.
    """

    id: str
    type: str
    label: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", _ReadOnlyMapping(self.metadata))


@dataclass(frozen=True)
class GraphEdge:
    """One directed edge, keyed by its ends and its type (SPEC 5.3).

    Attributes:
        src: id of the node it starts from.
        dst: id of the node it leads to.
        type: what the relation is.
        metadata: read-only; a stored edge has `source_doc_id` and `source_locator` of its first evidence in natural
            order, and both provenance markers when a model asserted it. All evidence: `DuckDBGraphStore.evidence`.
        src_type: type of the node `src`; empty where an extractor leaves it to the seam.
        dst_type: type of the node `dst`; likewise.
    """

    src: str
    dst: str
    type: str
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    src_type: str = ""
    dst_type: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", _ReadOnlyMapping(self.metadata))


@dataclass(frozen=True)
class Evidence:
    """One place that supports an edge (SPEC 5.3).

    Attributes:
        kind: `profile`, `metadata` (the chunk's own entity), `text` (a synonym in the chunk's text), `fact`,
            `external` (a fact of a document that the store does not know), `extracted` (a deterministic extractor),
            `review` (a reviewer's decision), `reviewed` (what the decision rests on) or `model` (a model's assertion).
        source_doc_id: the document, or `company_profile`.
        source_locator: the paragraphs in it.
        chunk_id: the chunk, empty where the evidence is not one.
        version: version of the document, 0 where unknown.
        model: the model that asserted it; only for kind `model`.
        answer_id: the kept answer of that model, where its extractor keeps answers.
        asserted_at: when that answer was given, UTC, ISO 8601; empty where unknown.
    """

    kind: str
    source_doc_id: str
    source_locator: str
    chunk_id: str = ""
    version: int = 0
    model: str = ""
    answer_id: str = ""
    asserted_at: str = ""


def is_unverified(edge: GraphEdge) -> bool:
    """Tell whether an edge is a model's assertion and nothing more."""
    return edge.metadata.get(EDGE_META_VERIFIED) == PROVENANCE_UNVERIFIED


@dataclass(frozen=True)
class Subgraph:
    """Nodes and the edges among them, both in a fixed order."""

    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphEdge, ...] = ()

    @property
    def unverified(self) -> tuple[GraphEdge, ...]:
        """Those of the edges that a model asserted and nobody checked."""
        return tuple(filter(is_unverified, self.edges))


class NodeList(list[GraphNode]):
    """Nodes that a read found, and the unverified edges it went by.

    A node that would not have been found without such an edge carries both markers in its metadata.

    Attributes:
        unverified: the edges that a model asserted among those the answer rests on; empty unless they were asked for.
    """

    def __init__(self, nodes: Iterable[GraphNode] = (), unverified: Iterable[GraphEdge] = ()) -> None:
        super().__init__(nodes)
        self.unverified = tuple(unverified)


@dataclass(frozen=True)
class Fact:
    """One value of one metric of one entity in one period, with the place it was read from (SPEC 6.1).

    Raises:
        ValueError: if it has no source document, no locator, or a value that is not a finite number.
    """

    metric_code: str
    entity: str
    period_type: str
    period: str
    value: float
    unit: str
    source_doc_id: str
    source_locator: str

    def __post_init__(self) -> None:
        if not self.source_doc_id or not self.source_locator:
            raise ValueError("a fact needs source_doc_id and source_locator: every fact says where it comes from")
        if not isfinite(self.value):
            raise ValueError("the value of a fact must be a finite number")
