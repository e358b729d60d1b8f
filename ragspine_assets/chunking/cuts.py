"""How a text is cut, as columns of numbers: the form all built-in chunkers work in.

Chunks as objects (for those who call a chunker) and chunks as Arrow columns (for the store) are both made from
`Cuts`, so that neither is the other's copy and no text is held twice while a document is being cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from ragspine_assets.chunking.chunk import (
    DEFAULT_MAX_CHARS,
    DEFAULT_OVERLAP_CHARS,
    Chunk,
    DocumentMeta,
    require_sizes,
)
from ragspine_assets.chunking.locator import locator
from ragspine_assets.documents.normalise import CanonicalText, canonical_text, normalise_text


@dataclass(frozen=True, slots=True)
class SourceText:
    """A document's text in the two forms a chunker needs (SPEC 1.5).

    Attributes:
        normalised: the text as it was, but for newlines and control characters; structure lives here.
        canonical: its paragraphs; offsets refer to this.
    """

    normalised: str
    canonical: CanonicalText


def source_text(text: str) -> SourceText:
    """Return both forms of a text, normalising it first."""
    normalised = normalise_text(text)
    return SourceText(normalised, canonical_text(normalised))


@dataclass(frozen=True, slots=True)
class Cuts:
    """The chunks of one document, as columns; those that a chunker does not fill stay empty.

    Attributes:
        starts: offset of each chunk in the canonical text.
        ends: offset behind each chunk.
        para_starts: first paragraph of each chunk, from 1.
        para_ends: last paragraph of each chunk.
        sections: number of each chunk's section, -1 for none, or empty.
        headings: heading of each chunk's section, or empty.
        windows: for each chunk the index of its window, -1 for none, or empty.
        window_spans: ``(start, end, first paragraph, last paragraph)`` of each window.
        parent_locators: for a chunker that names a parent without showing it; else empty.
    """

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    para_starts: list[int] = field(default_factory=list)
    para_ends: list[int] = field(default_factory=list)
    sections: list[int] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    windows: list[int] = field(default_factory=list)
    window_spans: list[tuple[int, int, int, int]] = field(default_factory=list)
    parent_locators: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.starts)


class CutChunker(ABC):
    """A built-in chunker: says where to cut, and leaves making chunks to `chunks_from_cuts`."""

    @abstractmethod
    def cuts(self, source: SourceText, meta: DocumentMeta, max_chars: int, overlap_chars: int) -> Cuts:
        """Return where to cut; the sizes are legal."""

    def chunk(
        self,
        text: str,
        meta: DocumentMeta,
        *,
        max_chars: int = DEFAULT_MAX_CHARS,
        overlap_chars: int = DEFAULT_OVERLAP_CHARS,
    ) -> list[Chunk]:
        """Return the chunks of ``text``, see `Chunker.chunk`."""
        require_sizes(max_chars, overlap_chars)
        source = source_text(text)
        return chunks_from_cuts(source.canonical, meta, self.cuts(source, meta, max_chars, overlap_chars))


def page_of(page_starts: Sequence[int], paragraph: int) -> int:
    """Return the page on which a paragraph starts, 0 when pages are unknown.

    Args:
        page_starts: for each page the number of the first paragraph on or after its start, ascending.
        paragraph: number of a paragraph, from 1.
    """
    return bisect_right(page_starts, paragraph)


def chunks_from_cuts(
    document: CanonicalText, meta: DocumentMeta, cuts: Cuts, page_starts: Sequence[int] = ()
) -> list[Chunk]:
    """Return the chunks that ``cuts`` describe, with ids, metadata, locators and pages (SPEC 2.1)."""
    text = document.text
    doc_id = meta.doc_id
    prefix = meta.locator_prefix
    head = (meta.title, meta.topic, meta.entity, meta.geography, meta.period, meta.language, meta.sensitivity)
    valid_as_of = meta.valid_as_of
    windows = [text[start:end] for start, end, _, _ in cuts.window_spans]
    window_locators = [locator(prefix, first, last) for _, _, first, last in cuts.window_spans]
    chunks: list[Chunk] = []
    for seq, (start, end, first, last) in enumerate(
        zip(cuts.starts, cuts.ends, cuts.para_starts, cuts.para_ends, strict=True)
    ):
        section = cuts.sections[seq] if cuts.sections else -1
        window = cuts.windows[seq] if cuts.windows else -1
        parent_locator = cuts.parent_locators[seq] if cuts.parent_locators else ""
        chunks.append(
            Chunk(
                f"{doc_id}#c{seq}",
                doc_id,
                seq,
                text[start:end],
                f"{prefix}#para{first}" if first == last else locator(prefix, first, last),
                first,
                last,
                *head,
                f"{doc_id}#s{section}" if section >= 0 else "",
                cuts.headings[seq] if cuts.headings else "",
                windows[window] if window >= 0 else "",
                window_locators[window] if window >= 0 else parent_locator,
                bisect_right(page_starts, first),
                bisect_right(page_starts, last),
                start,
                end,
                valid_as_of,
            )
        )
    return chunks
