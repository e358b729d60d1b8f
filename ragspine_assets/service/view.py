"""What one audience sees of one release: the same answers as the library, as plain values (SPEC 8.1, 8.3)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING

from ragspine_assets.graph.values import PROFILE_SOURCE, is_unverified
from ragspine_assets.index.query import QueryTerm
from ragspine_assets.retrieval.context import NOT_FOUND, context_blocks
from ragspine_assets.retrieval.corpus import FILTER_KEYS
from ragspine_assets.service.refusal import Refusal
from ragspine_assets.serving.snapshot import Snapshot
from ragspine_assets.store.chunk_store import StoredChunk

if TYPE_CHECKING:
    from ragspine_assets.graph import DuckDBGraphStore

Answer = dict[str, object]
"""What is sent, as JSON has it."""

MOST_EDGES = 500
"""How many edges of the graph are shown at once."""

_UNPUBLISHED = ("ingested_at", "active")
NO_PASSAGE = "Nothing that you may see is called that in the current release; /search gives citations."
NO_DOCUMENT = "No document that you may see is called that in the current release."


class View:
    """What one audience sees of one release; nothing else has a part in any of its answers.

    It may be used by several threads.

    Args:
        snapshot: the release, up to the audience's highest label.
        filters: values that fields of whatever is shown must have.
    """

    def __init__(self, snapshot: Snapshot, filters: Mapping[str, str]) -> None:
        self.snapshot = snapshot
        self.filters = dict(filters)
        self._retriever = snapshot.retriever()
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Name of the release, as this audience knows it: what it may not see has no part in it."""
        return self.snapshot.manifest.name

    def search(
        self, query: str, *, filters: Mapping[str, str] | None = None, top_k: int = 10, explain: bool = False
    ) -> Answer:
        """Return the snippets that the library returns, each with its citation.

        Args:
            query: the question.
            filters: values that fields must have.
            top_k: how many snippets at most.
            explain: whether each snippet says which terms gave which score.
        """
        snippets = [{"citation": self._citation(one), **one} for one in self._snippets(query, filters, top_k)]
        if explain:
            asked = self.snapshot.asked(query, {**(filters or {}), **self.filters})
            for snippet in snippets:
                snippet["explain"] = self._explained(asked, str(snippet["chunk_id"]))
        return {"snapshot": self.name, **_corrected(snippets), "snippets": snippets}

    def context(
        self, query: str, *, filters: Mapping[str, str] | None = None, top_k: int = 10, budget: int | None = None
    ) -> Answer:
        """Return the numbered snippets as one text for a prompt, and which passage each number is.

        Args:
            query: the question.
            filters: values that fields must have.
            top_k: how many snippets at most.
            budget: how long the text may be, in code points.

        Raises:
            Refusal: the budget holds no citation.
        """
        snippets = self._snippets(query, filters, top_k)
        try:
            blocks = context_blocks(snippets, budget_chars=budget)
        except ValueError as error:
            # That sentence is ours: it speaks of lengths alone.
            raise Refusal(422, f"{error}.".replace("budget_chars", "budget")) from None
        sources = [
            {"number": number, "citation": self._citation(snippet)}
            | {key: snippet[key] for key in ("doc_id", "title", "source_locator", "sensitivity")}
            | {key: snippet[key] for key in ("heading_path", "parent_locator") if key in snippet}
            for number, snippet in enumerate(snippets[: len(blocks)], start=1)
        ]
        answer = {"context": "\n\n".join(blocks) or NOT_FOUND, "sources": sources}
        return {"snapshot": self.name, **_corrected(snippets), **answer}

    def chunk(self, citation: str) -> Answer:
        """Return the passage that a citation names, and what stands before and behind it.

        Raises:
            Refusal: there is none that this audience may see.
        """
        position = self.snapshot.position(citation)
        chunk = self.snapshot.chunks[position] if position is not None else None
        if position is None or chunk is None or not self._may_see(chunk):
            raise Refusal(404, NO_PASSAGE)
        positions = self.snapshot.chunks.of_document(chunk.doc_id).tolist()
        place = positions.index(position)
        around = {"previous": positions[place - 1] if place else None, "next": next(iter(positions[place + 1 :]), None)}
        return {
            "snapshot": self.name,
            **_fields(chunk),
            **{name: None if one is None else self.snapshot.chunks[one].citation for name, one in around.items()},
        }

    def document(self, doc_id: str, *, offset: int = 0, limit: int = 500) -> Answer:
        """Return what is known of a document, and the citations of each of its versions that is served.

        Args:
            doc_id: the document.
            offset: how many passages to pass over.
            limit: how many passages at most.

        Raises:
            Refusal: there is none that this audience may see.
        """
        positions = self.snapshot.chunks.of_document(doc_id).tolist()
        if not positions or not self._may_see(first := self.snapshot.chunks[positions[0]]):
            raise Refusal(404, NO_DOCUMENT)
        passages = [self.snapshot.chunks[position] for position in positions[offset : offset + limit]]
        names = ("doc_id", "title", *FILTER_KEYS, "sensitivity", "valid_as_of")
        shown = ("citation", "source_locator", "heading_path", "page_start", "page_end")
        citations = [{name: getattr(passage, name) for name in shown} for passage in passages]
        version = {"version": first.version, "passages": len(positions), "citations": citations}
        return {"snapshot": self.name, **{name: getattr(first, name) for name in names}, "versions": [version]}

    def graph(
        self, kind: str, node_id: str, *, depth: int = 1, types: Sequence[str] = (), unverified: bool = False
    ) -> Answer:
        """Return what the graph says about a node, with the evidence; each edge tells whether it is verified.

        Args:
            kind: of the node: ``entity``, ``metric``, ``doc`` and so on.
            node_id: its id.
            depth: how many edges away.
            types: only edges of these types; none for all.
            unverified: also edges that a model asserted.

        Raises:
            Refusal: there is no such node that this audience may see.
        """
        with self._lock:
            store = self._graph
            node = store.get_node(node_id, kind, include_model_derived=unverified)
            if node is None:
                raise Refusal(404, "The graph that you may see has no such node.")
            part = store.subgraph(
                [node_id], node_type=kind, depth=depth, edge_types=list(types) or None, include_model_derived=unverified
            )
            edges = part.edges[:MOST_EDGES]
            evidence = store.evidence_of(edges)
        ends = {(kind, node_id)} | {
            end for edge in edges for end in ((edge.src_type, edge.src), (edge.dst_type, edge.dst))
        }
        return {
            "snapshot": self.name,
            "nodes": [
                {"type": one.type, "id": one.id, "label": one.label, "metadata": dict(one.metadata)}
                for one in part.nodes
                if (one.type, one.id) in ends
            ],
            "edges": [
                {
                    "src": edge.src,
                    "src_type": edge.src_type,
                    "type": edge.type,
                    "dst": edge.dst,
                    "dst_type": edge.dst_type,
                }
                | {"verified": not is_unverified(edge), "metadata": dict(edge.metadata)}
                | {"evidence": [asdict(place) for place in places]}
                for edge, places in zip(edges, evidence, strict=True)
            ],
            "more": len(part.edges) - len(edges),
        }

    def state(self) -> Answer:
        """Return what is served: its name, its time, what is in it."""
        manifest = self.snapshot.manifest
        return {
            "snapshot": manifest.name,
            "published_at": manifest.published_at,
            "max_label": manifest.max_label,
            "counts": dict(manifest.counts) if not self.filters else {},
        }

    def _snippets(self, query: str, filters: Mapping[str, str] | None, top_k: int) -> list[dict[str, object]]:
        asked = {key: value for key, value in (filters or {}).items() if value}
        if any(asked.get(key, value) != value for key, value in self.filters.items()):
            return []
        return self._retriever.retrieve(query, filters={**asked, **self.filters}, top_k=top_k)

    def _may_see(self, chunk: StoredChunk) -> bool:
        return all(getattr(chunk, key) == value for key, value in self.filters.items())

    def _citation(self, snippet: Mapping[str, object]) -> str:
        position = self.snapshot.position(str(snippet["chunk_id"]))
        return str(snippet["chunk_id"]) if position is None else self.snapshot.citation(position)

    def _explained(self, asked: Sequence[QueryTerm], chunk_id: str) -> Answer:
        position = self.snapshot.position(chunk_id)
        if position is None:
            return {}
        lexical = self.snapshot.lexical
        return {
            "length": int(lexical.lengths()[position]),
            "terms": [
                {
                    "term": term,
                    "times_asked": times,
                    "passages_with_it": len(lexical.documents_with(term)),
                    "score": score,
                }
                for term, (times, score) in lexical.explain(asked, position).items()
            ],
        }

    @cached_property
    def _graph(self) -> DuckDBGraphStore:
        store = self.snapshot.graph()
        if self.filters:
            seen = [
                doc_id
                for doc_id in self.snapshot.chunks.values["doc_id"]
                if self._may_see(self.snapshot.chunks[int(self.snapshot.chunks.of_document(doc_id)[0])])
            ]
            with store.connect() as connection:
                for statement in _ONLY_FROM:
                    connection.execute(
                        statement, {"seen": seen, "profile": PROFILE_SOURCE} if "$seen" in statement else None
                    )
        return store


def _fields(chunk: StoredChunk) -> Answer:
    fields = asdict(chunk)
    return {"citation": chunk.citation, **{name: value for name, value in fields.items() if name not in _UNPUBLISHED}}


def _corrected(snippets: Sequence[Mapping[str, object]]) -> Answer:
    """Return what is told of an answer's question: the words that nothing was found by, and those looked for instead."""
    return {"corrected": snippets[0]["corrected"]} if snippets and "corrected" in snippets[0] else {}


def served_citations(hits: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the citations of some hits."""
    return [str(hit["citation"]) for hit in hits]


def served_windows(hits: Sequence[Mapping[str, object]]) -> list[str]:
    """Return what was shown around some hits, each once: ``{doc_id}@v{version}#para{a}-{b}``."""
    windows = {}
    for hit in hits:
        parent = str(hit.get("parent_locator") or "")
        if parent:
            windows[f"{str(hit['citation']).rpartition('#c')[0]}#{parent.rpartition('#')[2]}"] = None
    return list(windows)


_ENDS = (
    "SELECT src_type AS type, src AS id, source_doc_id, source_locator FROM graph_evidence "
    "UNION ALL SELECT dst_type, dst, source_doc_id, source_locator FROM graph_evidence"
)
# A node that another document named first is held by what may be seen and names it, with that place.
_ONLY_FROM = (
    "CREATE TEMP TABLE seen AS SELECT unnest($seen) AS doc_id UNION SELECT $profile",
    (
        "DELETE FROM graph_evidence WHERE source_doc_id NOT IN (SELECT doc_id FROM seen) "
        "OR (src_type = 'doc' AND src NOT IN (SELECT doc_id FROM seen)) OR (dst_type = 'doc' AND dst NOT IN (SELECT doc_id FROM seen))"
    ),
    (
        "DELETE FROM graph_edge WHERE (src_type, src, dst_type, dst, type) NOT IN "
        "(SELECT (src_type, src, dst_type, dst, type) FROM graph_evidence)"
    ),
    (
        "DELETE FROM graph_node WHERE source_doc_id NOT IN (SELECT doc_id FROM seen) "
        f"AND (type = 'doc' OR (type, id) NOT IN (SELECT (type, id) FROM ({_ENDS})))"
    ),
    (
        "UPDATE graph_node SET label = '', source_doc_id = place[1], source_locator = place[2] FROM ("
        f"SELECT type, id, min([source_doc_id, source_locator]) AS place FROM ({_ENDS}) GROUP BY ALL) e "
        "WHERE graph_node.type = e.type AND graph_node.id = e.id "
        "AND graph_node.source_doc_id NOT IN (SELECT doc_id FROM seen)"
    ),
    "DROP TABLE seen",
)
