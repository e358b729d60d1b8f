"""LangChain: `RagspineRetriever` (the extra ``[langchain]``)."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun  # pyright: ignore[reportMissingImports]
from langchain_core.documents import Document  # pyright: ignore[reportMissingImports]
from langchain_core.retrievers import BaseRetriever  # pyright: ignore[reportMissingImports]
from pydantic import ConfigDict

from ragspine_assets.adapters.fields import passage_of
from ragspine_assets.serving.snapshot import Snapshot


class RagspineRetriever(BaseRetriever):
    """Finds passages of a snapshot as LangChain documents, best first; metadata are those of `passage_of`.

    Attributes:
        snapshot: an open snapshot.
        max_label: highest label of a passage; None for the snapshot's own.
        top_k: how many at most.
        filters: values that metadata must have, or lists of which they must have one.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    snapshot: Snapshot
    max_label: str | None = None
    top_k: int = 5
    filters: dict[str, Any] | None = None

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        del run_manager
        snippets = self.snapshot.retriever(max_label=self.max_label).retrieve(
            query, filters=self.filters, top_k=self.top_k
        )
        passages = (passage_of(self.snapshot, snippet) for snippet in snippets)
        return [Document(page_content=text, metadata=known, id=str(known["citation"])) for text, known in passages]
