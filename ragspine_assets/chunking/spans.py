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
    COLUMNS,
    DEFAULT_MAX_CHARS,
    DEFAULT_OVERLAP_CHARS,
    Chunk,
    DocumentMeta,
    require_sizes,
)
from ragspine_assets.chunking.locator import locator
from ragspine_assets.documents.normalise import CanonicalText, canonical_of_normalised, normalise_text

CHUNK_COLUMNS = tuple(column.name for column in COLUMNS)
"""The columns of a chunk, in the order of SPEC 2.1."""

NUMBER_COLUMNS = frozenset(column.name for column in COLUMNS if column.kind is int)
"""Those that hold whole numbers; all others hold text."""

INHERITED_COLUMNS = tuple(column.name for column in COLUMNS if column.inherited)
"""Those that a document gives to all its chunks."""

PATH_SEPARATOR = " > "
"""What stands between the headings of a path."""

_HEADING_CHARS = 2_000

# A frozen dataclass sets each field by a call; a plain one with the same slots is filled four times faster, and becomes
# the frozen one by changing its class.
_Draft = make_dataclass("_Draft", [(column.name, column.type) for column in fields(Chunk)], slots=True)


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
    return SourceText(normalised, canonical_of_normalised(normalised))


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
        heading_paths: the headings above each chunk, outermost first, or empty.
        window_head_starts: offset of what is shown on a line of its own before each window, or empty.
        window_head_ends: offset behind it; equal to its start where there is nothing.
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
    heading_paths: list[tuple[str, ...]] = field(default_factory=list)
    window_head_starts: list[int] = field(default_factory=list)
    window_head_ends: list[int] = field(default_factory=list)

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


def joined_path(path: Sequence[str]) -> str:
    """Return a path of headings as it is stored and shown, shortened as headings are (SPEC 2.9)."""
    return shortened_heading(PATH_SEPARATOR.join(path))


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
    columns = columns_from_cuts(document, meta, cuts, page_starts)
    rows = columns.rows
    values: dict[str, Sequence[object]] = {**columns.numbers, **columns.texts, "window_text": columns.window_column()}
    values.update((name, [getattr(meta, name)] * rows) for name in INHERITED_COLUMNS)
    drafts: list[Chunk] = []
    with collector_paused():
        drafts.extend(map(_Draft, *(values.get(name) or [default_of(name)] * rows for name in CHUNK_COLUMNS)))
        for draft in drafts:
            draft.__class__ = Chunk
    return drafts


def default_of(column: str) -> str | int:
    """Return what a column of a chunk holds where nothing is known."""
    return 0 if column in NUMBER_COLUMNS else ""


@dataclass(frozen=True, slots=True)
class Columns:
    """The chunks of one document as Python columns.

    Attributes:
        meta: what the document gives to all its chunks.
        numbers: the columns that hold numbers; one that is not there holds zeros.
        texts: the columns that hold text, but for those of ``meta`` and ``window_text``; one that is not there is empty.
        windows: for each row the index into ``window_texts``, -1 for none; empty where no row has a window.
        window_texts: the windows.
    """

    meta: DocumentMeta
    numbers: dict[str, list[int]]
    texts: dict[str, list[str]]
    windows: list[int]
    window_texts: list[str]

    @property
    def rows(self) -> int:
        """Number of chunks."""
        return len(self.numbers["seq"])

    @property
    def characters(self) -> int:
        """Code points of texts and windows, a measure of the memory they take here."""
        return sum(map(len, self.texts["text"])) + sum(map(len, self.window_texts))

    @property
    def window_characters(self) -> int:
        """Code points of the windows of all rows, a measure of the memory that they take where each row has its own."""
        sizes = [*map(len, self.window_texts), 0]
        return sum(map(sizes.__getitem__, self.windows))

    def window_column(self) -> list[str]:
        """Return ``window_text`` of each row; equal windows are the same string."""
        texts = [*self.window_texts, ""]
        return list(map(texts.__getitem__, self.windows))


def columns_from_cuts(
    document: CanonicalText, meta: DocumentMeta, cuts: Cuts, page_starts: Sequence[int] = ()
) -> Columns:
    """Return the chunks that ``cuts`` describe, with ids, locators and pages (SPEC 2.1), as columns."""
    text = document.text
    doc_id, prefix = meta.doc_id, meta.locator_prefix
    numbers = {
        "seq": list(range(len(cuts))),
        "para_start": cuts.para_starts,
        "para_end": cuts.para_ends,
        "char_start": cuts.starts,
        "char_end": cuts.ends,
    }
    if page_starts:
        numbers["page_start"] = [page_of(page_starts, paragraph) for paragraph in cuts.para_starts]
        numbers["page_end"] = [page_of(page_starts, paragraph) for paragraph in cuts.para_ends]
    texts = {
        "chunk_id": [f"{doc_id}#c{seq}" for seq in range(len(cuts))],
        "text": [text[start:end] for start, end in zip(cuts.starts, cuts.ends, strict=True)],
        "source_locator": [locator(prefix, a, b) for a, b in zip(cuts.para_starts, cuts.para_ends, strict=True)],
    }
    if cuts.sections:
        texts["parent_id"] = [f"{doc_id}#s{k}" if k >= 0 else "" for k in cuts.sections]
    if cuts.headings:
        texts["heading"] = cuts.headings
    if any(cuts.heading_paths):
        joined = {path: joined_path(path) for path in set(cuts.heading_paths)}
        texts["heading_path"] = [joined[path] for path in cuts.heading_paths]
    if cuts.parent_locators:
        texts["parent_locator"] = cuts.parent_locators
    if cuts.windows:
        shown = [locator(prefix, a, b) for a, b in zip(cuts.window_para_starts, cuts.window_para_ends, strict=True)]
        named = cuts.parent_locators or [""] * len(cuts)
        texts["parent_locator"] = [
            shown[number] if number >= 0 else other for number, other in zip(cuts.windows, named, strict=True)
        ]
    window_texts = [text[start:end] for start, end in zip(cuts.window_starts, cuts.window_ends, strict=True)]
    if cuts.window_head_starts:
        heads = zip(cuts.window_head_starts, cuts.window_head_ends, window_texts, strict=True)
        window_texts = [f"{text[start:end]}\n{window}" if start < end else window for start, end, window in heads]
    return Columns(meta, numbers, texts, cuts.windows, window_texts)
