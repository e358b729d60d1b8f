"""The second exit: hits become snippets, and nothing RESTRICTED becomes one (SPEC 4.6, 4.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, Protocol

from ragspine_assets.policy.lattice import Sensitivity, read_label
from ragspine_assets.retrieval.context import NodePostprocessor, Snippet
from ragspine_assets.retrieval.narrative_index import TOP_K, RetrievalResult, servable_label
from ragspine_assets.retrieval.question import Filters, read_filters, require_question


class RetrievableIndex(Protocol):
    """What a retriever searches: `NarrativeIndex`, or another index with its ``retrieve``.

    It may also take ``max_label``; then it is told which labels are of use, and need not find the others.
    """

    def retrieve(
        self,
        query: str,
        *,
        top_k: int = TOP_K,
        topic: str | Sequence[str] | None = None,
        entity: str | Sequence[str] | None = None,
        geography: str | Sequence[str] | None = None,
        period: str | Sequence[str] | None = None,
        language: str | Sequence[str] | None = None,
    ) -> Sequence[RetrievalResult]:
        """Return at most ``top_k`` hits, best first."""
        ...


class NarrativeIndexRetriever:
    """Finds snippets for a query; whatever index it is given, none of them is RESTRICTED.

    Args:
        index: what to search. It is not trusted to keep RESTRICTED chunks back.
        max_label: highest label a snippet may have.
        retry_without_filters: whether a search that found nothing is repeated without its filters. Snippets of the
            second search say ``filters_relaxed: True``.
        postprocessor: what to do with the snippets that are left, one step or several in this order.

    Raises:
        ValueError: ``max_label`` is RESTRICTED or no label.
    """

    def __init__(
        self,
        index: RetrievableIndex,
        *,
        max_label: str = Sensitivity.CONFIDENTIAL,
        retry_without_filters: bool = False,
        postprocessor: NodePostprocessor | Sequence[NodePostprocessor] | None = None,
    ) -> None:
        self._index = index
        self._max_label = servable_label(max_label)
        self._retry = retry_without_filters
        if postprocessor is None:
            self._postprocessors: Sequence[NodePostprocessor] = ()
        else:
            self._postprocessors = postprocessor if isinstance(postprocessor, Sequence) else (postprocessor,)
        knows_labels = "max_label" in signature(index.retrieve).parameters
        self._hints = {"max_label": self._max_label.value} if knows_labels else {}

    def retrieve(
        self, query: str, *, filters: Mapping[str, object] | None = None, top_k: int = TOP_K, **keywords: object
    ) -> list[Snippet]:
        """Return snippets, best first (SPEC 4.6).

        Args:
            query: the question.
            filters: values that ``topic``, ``entity``, ``geography``, ``period`` or ``language`` must have, or lists of
                which they must have one; other keys and empty values are ignored.
            top_k: how many at most. Hits that may not leave use up no place.
            **keywords: the same filters as keywords: ``topic="hr"``.

        Raises:
            QuestionError: an argument is of another kind; the message names it.
        """
        top_k = require_question(query, top_k)
        wanted = read_filters(filters, keywords)
        snippets = [_to_snippet(hit) for hit in self._hits(query, wanted, top_k)]
        if not snippets and wanted and self._retry:
            snippets = [{**_to_snippet(hit), "filters_relaxed": True} for hit in self._hits(query, {}, top_k)]
        for postprocessor in self._postprocessors:
            snippets = postprocessor.postprocess(query, snippets)
        return snippets

    def _hits(self, query: str, filters: Filters, top_k: int) -> list[RetrievalResult]:
        if top_k <= 0:
            return []
        # An index of somebody else's may know single values only.
        given: dict[str, Any] = {name: each[0] if len(each) == 1 else list(each) for name, each in filters.items()}
        asked, seen = top_k, -1
        while True:
            found = self._index.retrieve(query, top_k=asked, **given, **self._hints)
            kept = _exit(found, self._max_label)
            # An index that gave fewer than asked for, or no more than last time, has no more to give.
            if len(kept) >= top_k or len(found) < asked or len(found) <= seen:
                return kept[:top_k]
            asked, seen = 2 * asked, len(found)


def _exit(hits: Iterable[RetrievalResult], max_label: Sensitivity) -> list[RetrievalResult]:
    """Return the hits that may leave; RESTRICTED is above any ``max_label``."""
    return [hit for hit in hits if read_label(hit.chunk.sensitivity) <= max_label]


def _to_snippet(result: RetrievalResult) -> Snippet:
    """Return what a hit looks like outside; only hits that passed the exit come here (SPEC 4.7).

    The window goes into ``prompt_text``. Text, locator and id stay the child's, since they are the evidence.
    """
    chunk = result.chunk
    snippet: Snippet = {
        "text": chunk.text,
        "doc_id": chunk.doc_id,
        "title": chunk.title,
        "source_locator": chunk.source_locator,
        "chunk_id": chunk.chunk_id,
        "topic": chunk.topic,
        "entity": chunk.entity,
        "geography": chunk.geography,
        "period": chunk.period,
        "language": chunk.language,
        "sensitivity": chunk.sensitivity,
        "scores": {
            "bm25": float(result.bm25_score),
            "vector": float(result.vector_score),
            "fused": float(result.fused_score),
        },
    }
    if chunk.window_text:
        snippet["prompt_text"] = chunk.window_text
    if chunk.parent_locator:
        snippet["parent_locator"] = chunk.parent_locator
    if chunk.heading_path:
        snippet["heading_path"] = chunk.heading_path
    if result.corrected:
        snippet["corrected"] = {word: list(others) for word, others in result.corrected.items()}
    return snippet
