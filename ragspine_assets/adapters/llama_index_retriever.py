"""LlamaIndex: `RagspineRetriever` (the extra ``[llama-index]``)."""

from __future__ import annotations

from collections.abc import Mapping

from llama_index.core.retrievers import BaseRetriever  # pyright: ignore[reportMissingImports]
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode  # pyright: ignore[reportMissingImports]

from ragspine_assets.adapters.fields import passage_of
from ragspine_assets.serving.snapshot import Snapshot


class RagspineRetriever(BaseRetriever):
    """Finds passages of a snapshot as LlamaIndex nodes, best first; metadata are those of `passage_of`.

    Args:
        snapshot: an open snapshot.
        max_label: highest label of a passage; None for the snapshot's own.
        top_k: how many at most.
        filters: values that metadata must have, or lists of which they must have one.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        max_label: str | None = None,
        top_k: int = 5,
        filters: Mapping[str, object] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._retriever = snapshot.retriever(max_label=max_label)
        self._top_k = top_k
        self._filters = filters
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        snippets = self._retriever.retrieve(query_bundle.query_str, filters=self._filters, top_k=self._top_k)
        passages = [passage_of(self._snapshot, snippet) for snippet in snippets]
        return [
            NodeWithScore(
                node=TextNode(id_=str(known["citation"]), text=text, metadata=known), score=float(known["score"])
            )
            for text, known in passages
        ]
