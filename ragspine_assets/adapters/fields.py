"""What every framework is told about a passage, under the same names."""

from __future__ import annotations

from collections.abc import Mapping

from ragspine_assets.retrieval.context import snippet_text
from ragspine_assets.serving.snapshot import Snapshot

Value = str | int | float


def passage_of(snapshot: Snapshot, snippet: Mapping[str, object]) -> tuple[str, dict[str, Value]]:
    """Return the text that a model reads of a snippet, and its metadata.

    These are ``citation``, ``doc_id``, ``version``, ``title``, ``source_locator``, ``page`` (0 where there is none),
    ``label``, ``heading_path`` and ``score``.
    """
    chunk = snapshot.chunk(str(snippet["chunk_id"]))
    scores = snippet["scores"]
    known: dict[str, Value] = {
        "citation": chunk.citation if chunk else str(snippet["chunk_id"]),
        "doc_id": str(snippet["doc_id"]),
        "version": chunk.version if chunk else 1,
        "title": str(snippet["title"]),
        "source_locator": str(snippet["source_locator"]),
        "page": chunk.page_start if chunk else 0,
        "label": str(snippet["sensitivity"]),
        "heading_path": str(snippet.get("heading_path", "")),
        "score": float(scores["fused"]) if isinstance(scores, Mapping) else 0.0,
    }
    return snippet_text(snippet), known
