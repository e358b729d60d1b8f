"""The seam for cutting a document's text into chunks (SPEC 2.2)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ragspine_assets.chunking.chunk import DEFAULT_MAX_CHARS, DEFAULT_OVERLAP_CHARS, Chunk, DocumentMeta


@runtime_checkable
class Chunker(Protocol):
    """Cuts a document's text into chunks.

    A chunker decides text, spans, headings and windows; ids, metadata, label and pages are stamped, and the rule of
    SPEC 2.4 is enforced, by the seam that calls it. It is trusted code: it sees RESTRICTED text.
    """

    def chunk(
        self,
        text: str,
        meta: DocumentMeta,
        *,
        max_chars: int = DEFAULT_MAX_CHARS,
        overlap_chars: int = DEFAULT_OVERLAP_CHARS,
    ) -> list[Chunk]:
        """Return the chunks of ``text`` in order.

        Args:
            text: the text of one document; offsets refer to its canonical form (SPEC 1.5).
            meta: what is known about the document.
            max_chars: longest chunk, in code points.
            overlap_chars: most text that neighbouring chunks share, in code points; less than ``max_chars``.

        Raises:
            ValueError: if the sizes are not as said, also for an empty text.
        """
        ...
