"""Haystack: the component `RagspineRetriever` (the extra ``[haystack]``)."""

from __future__ import annotations

from typing import Any, Self

from haystack import Document, component, default_from_dict, default_to_dict  # pyright: ignore[reportMissingImports]

from ragspine_assets.adapters.fields import passage_of
from ragspine_assets.serving.snapshot import Snapshot


@component
class RagspineRetriever:
    """Finds passages of a snapshot as Haystack documents, best first; ``meta`` is that of `passage_of`.

    Args:
        path: folder of snapshots, or of one.
        max_label: highest label of a passage; None for the snapshot's own.
        top_k: how many at most.
        filters: values that metadata must have, or lists of which they must have one.
    """

    def __init__(
        self, path: str, max_label: str | None = None, top_k: int = 5, filters: dict[str, Any] | None = None
    ) -> None:
        self._given = {"path": path, "max_label": max_label, "top_k": top_k, "filters": filters}
        self._snapshot = Snapshot.open(path)
        self._retriever = self._snapshot.retriever(max_label=max_label)
        self._top_k = top_k
        self._filters = filters

    def to_dict(self) -> dict[str, Any]:
        """Return what a pipeline is saved with: the arguments, no text."""
        return default_to_dict(self, **self._given)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the component that was saved."""
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None) -> dict[str, Any]:
        """Find passages; ``top_k`` and ``filters`` stand for those the component was made with."""
        snippets = self._retriever.retrieve(query, filters=filters or self._filters, top_k=top_k or self._top_k)
        passages = (passage_of(self._snapshot, snippet) for snippet in snippets)
        return {
            "documents": [
                Document(id=str(known["citation"]), content=text, meta=known, score=float(known["score"]))
                for text, known in passages
            ]
        }
