"""An extractor without a model: who reports to whom, where a text says so in these words."""

import re
from collections.abc import Sequence

from ragspine_assets.graph import GraphEdge
from ragspine_assets.graph.screening import GraphChunk

_NAME = r"([A-Z]\w+(?: [A-Z]\w+)*)"
_SAYS = re.compile(rf"\b{_NAME} reports to {_NAME}\b")


class ReportingLines:
    """Proposes ``reports_to``; whoever calls it takes an edge only if its lineage is a chunk that it was shown.

    ``deterministic`` is a promise: the same chunks give the same edges, and no model is asked. Without it every edge would
    be marked as model-derived and unverified. RESTRICTED chunks are never handed in.
    """

    deterministic = True

    def extract(self, chunks: Sequence[GraphChunk]) -> tuple[GraphEdge, ...]:
        """Return an edge for each sentence that says so, with the chunk that holds it as its source."""
        return tuple(
            GraphEdge(
                found.group(1), found.group(2), "reports_to",
                {"source_doc_id": chunk.doc_id, "source_locator": chunk.source_locator},
            )
            for chunk in chunks
            for found in _SAYS.finditer(chunk.text)
        )  # fmt: skip
