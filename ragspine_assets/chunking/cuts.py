"""How a text is cut, as columns of numbers: the form all built-in chunkers work in.

Chunks as objects (for those who call a chunker) and chunks as Arrow columns (for the store) are both made from
`Cuts`, so that neither is the other's copy and no text is held twice while a document is being cut.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, make_dataclass

from ragspine_assets.chunking.chunk import (
    DEFAULT_MAX_CHARS,
    DEFAULT_OVERLAP_CHARS,
    Chunk,
    DocumentMeta,
    require_sizes,
)
from ragspine_assets.chunking.locator import locator
from ragspine_assets.documents.normalise import CanonicalText, canonical_text, normalise_text

BLOCK_ROWS = 1024
"""How many chunks are made at once, as columns; also a constant of the rows' digest."""

CHUNK_COLUMNS = tuple(column.name for column in fields(Chunk))
"""The columns of a chunk, in the order of SPEC 2.1."""

NUMBER_COLUMNS = frozenset({"seq", "para_start", "para_end", "page_start", "page_end", "char_start", "char_end"})
"""Those that hold whole numbers; all others hold text."""

_HEADING_CHARS = 2_000

# A frozen dataclass sets each field by a call; a plain one with the same slots is filled four times faster, and becomes
# the frozen one by changing its class.
_Draft = make_dataclass("_Draft", [(column.name, column.type) for column in fields(Chunk)], slots=True)

_INHERITED = ("doc_id", "title", "topic", "entity", "geography", "period", "language", "sensitivity", "valid_as_of")


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
        window_starts: offset of each window.
        window_ends: offset behind each window.
        window_para_starts: first paragraph of each window.
        window_para_ends: last paragraph of each window.
        parent_locators: for a chunker that names a parent without showing it; else empty.
    """

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    para_starts: list[int] = field(default_factory=list)
    para_ends: list[int] = field(default_factory=list)
    sections: list[int] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    windows: list[int] = field(default_factory=list)
    window_starts: list[int] = field(default_factory=list)
    window_ends: list[int] = field(default_factory=list)
    window_para_starts: list[int] = field(default_factory=list)
    window_para_ends: list[int] = field(default_factory=list)
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


def shortened_heading(text: str) -> str:
    """Return the first line of a heading, with an ellipsis at its end if it has more than 2,000 code points.

    Every chunk of a section repeats the heading, so that one endless line would cost quadratic space.
    """
    line = text.partition("\n")[0]
    return line if len(line) <= _HEADING_CHARS else line[: _HEADING_CHARS - 1] + "…"


def page_of(page_starts: Sequence[int], paragraph: int) -> int:
    """Return the page on which a paragraph starts, 0 when pages are unknown.

    Args:
        page_starts: for each page the number of the first paragraph on or after its start, ascending.
        paragraph: number of a paragraph, from 1.
    """
    return bisect_right(page_starts, paragraph)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Make many small objects without the garbage collector looking through them again and again.

    They refer to nothing but strings and numbers; the search for cycles among them takes a third of the time and makes
    it grow in jumps.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def chunks_from_cuts(
    document: CanonicalText, meta: DocumentMeta, cuts: Cuts, page_starts: Sequence[int] = ()
) -> list[Chunk]:
    """Return the chunks that ``cuts`` describe, with ids, metadata, locators and pages (SPEC 2.1)."""
    chunks: list[Chunk] = []
    with collector_paused():
        for block in blocks(document, meta, cuts, page_starts):
            given = {name: [value] * block.rows for name, value in block.constants.items()}
            columns = {**given, **block.texts, **block.numbers, "window_text": block.window_column()}
            drafts = list(map(_Draft, *(columns[name] for name in CHUNK_COLUMNS)))
            for draft in drafts:
                draft.__class__ = Chunk
            chunks.extend(drafts)
    return chunks


@dataclass(slots=True)
class Block:
    """Up to `BLOCK_ROWS` chunks of one document as Python columns.

    Attributes:
        numbers: the columns that hold numbers.
        constants: the columns that hold what the document gives to all its chunks.
        texts: the other columns that hold text, but for ``window_text``.
        windows: for each row the index into ``window_texts``, -1 for none.
        window_texts: the different windows of these rows.
    """

    numbers: dict[str, list[int]]
    constants: dict[str, str]
    texts: dict[str, list[str]]
    windows: list[int]
    window_texts: list[str]

    @property
    def rows(self) -> int:
        """Number of chunks."""
        return len(self.windows)

    def window_column(self) -> list[str]:
        """Return ``window_text`` of each row; equal windows are the same string."""
        texts = self.window_texts
        return [texts[number] if number >= 0 else "" for number in self.windows]

    @property
    def characters(self) -> int:
        """Code points of text and windows, a measure of the memory it takes."""
        return sum(map(len, self.texts["text"])) + sum(map(len, self.window_texts))


def blocks(document: CanonicalText, meta: DocumentMeta, cuts: Cuts, page_starts: Sequence[int] = ()) -> Iterator[Block]:
    """Yield the chunks that ``cuts`` describe as blocks of columns."""
    for first in range(0, len(cuts), BLOCK_ROWS):
        yield _block(document, meta, cuts, page_starts, first, min(first + BLOCK_ROWS, len(cuts)))


def _block(
    document: CanonicalText, meta: DocumentMeta, cuts: Cuts, page_starts: Sequence[int], first: int, behind: int
) -> Block:
    text = document.text
    doc_id, prefix = meta.doc_id, meta.locator_prefix
    rows = slice(first, behind)
    count = behind - first
    starts, ends = cuts.starts[rows], cuts.ends[rows]
    para_starts, para_ends = cuts.para_starts[rows], cuts.para_ends[rows]
    empty = [""] * count
    pages = (
        [page_of(page_starts, paragraph) for paragraph in (*para_starts, *para_ends)]
        if page_starts
        else [0] * (2 * count)
    )
    numbers = {
        "seq": list(range(first, behind)),
        "para_start": para_starts,
        "para_end": para_ends,
        "page_start": pages[:count],
        "page_end": pages[count:],
        "char_start": starts,
        "char_end": ends,
    }
    constants = {name: getattr(meta, name) for name in _INHERITED}
    texts: dict[str, list[str]] = {}
    texts["chunk_id"] = [f"{doc_id}#c{seq}" for seq in range(first, behind)]
    texts["text"] = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    texts["source_locator"] = [locator(prefix, a, b) for a, b in zip(para_starts, para_ends, strict=True)]
    texts["parent_id"] = [f"{doc_id}#s{k}" if k >= 0 else "" for k in cuts.sections[rows]] or empty
    texts["heading"] = cuts.headings[rows] or empty
    texts["parent_locator"] = cuts.parent_locators[rows] or empty
    windows = cuts.windows[rows] or [-1] * count
    window_texts: list[str] = []
    if cuts.window_starts:
        numbers_here = list(dict.fromkeys(number for number in windows if number >= 0))
        local = dict(zip(numbers_here, range(len(numbers_here)), strict=True))
        windows = [local.get(number, -1) for number in windows]
        window_texts = [text[cuts.window_starts[number] : cuts.window_ends[number]] for number in numbers_here]
        locators = [
            locator(prefix, cuts.window_para_starts[number], cuts.window_para_ends[number]) for number in numbers_here
        ]
        texts["parent_locator"] = [
            locators[number] if number >= 0 else named
            for number, named in zip(windows, texts["parent_locator"], strict=True)
        ]
    return Block(numbers, constants, texts, windows, window_texts)
