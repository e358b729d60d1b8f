"""Chunks as Arrow columns: the form in which they go to the store (SPEC 3.3), made without a chunk object.

What varies from chunk to chunk is computed, what a document gives to all its chunks is repeated, and a window that
many children share stands once in the dictionary of its column.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

import pyarrow as pa

from ragspine_assets.chunking.chunk import Chunk, DocumentMeta
from ragspine_assets.chunking.cuts import Cuts, page_of
from ragspine_assets.chunking.locator import locator
from ragspine_assets.documents.normalise import CanonicalText

_NUMBERS = frozenset({"seq", "para_start", "para_end", "page_start", "page_end", "char_start", "char_end"})
_WINDOW_TYPE = pa.dictionary(pa.int32(), pa.string())
_COLUMNS = tuple(column.name for column in fields(Chunk))
_INHERITED = (
    "doc_id",
    "title",
    "topic",
    "entity",
    "geography",
    "period",
    "language",
    "sensitivity",
    "valid_as_of",
)


def _column_type(name: str) -> pa.DataType:
    if name in _NUMBERS:
        return pa.int32()
    return _WINDOW_TYPE if name == "window_text" else pa.string()


CHUNK_SCHEMA = pa.schema([pa.field(name, _column_type(name), nullable=False) for name in _COLUMNS])
"""The columns of a chunk in the order of SPEC 2.1; windows are dictionary-encoded."""

BLOCK_ROWS = 1024
"""Rows that are made and digested at once; a constant of the digest."""


@dataclass(slots=True)
class Block:
    """Up to `BLOCK_ROWS` chunks of one document as Python columns.

    Attributes:
        numbers: the columns that hold numbers.
        texts: the columns that hold text, but for ``window_text``.
        windows: for each row the index into ``window_texts``, -1 for none.
        window_texts: the different windows of these rows.
    """

    numbers: dict[str, list[int]]
    texts: dict[str, list[str]]
    windows: list[int]
    window_texts: list[str]

    @property
    def rows(self) -> int:
        """Number of chunks."""
        return len(self.windows)

    @property
    def characters(self) -> int:
        """Code points of text and windows, a measure of the memory it takes."""
        return sum(map(len, self.texts["text"])) + sum(map(len, self.window_texts))


def blocks(
    document: CanonicalText, meta: DocumentMeta, cuts: Cuts, page_starts: Sequence[int] = ()
) -> Iterator[Block]:
    """Yield the chunks that ``cuts`` describe as blocks of columns; equal to what `chunks_from_cuts` gives."""
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
    pages = [page_of(page_starts, paragraph) for paragraph in (*para_starts, *para_ends)] if page_starts else [0] * (
        2 * count
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
    texts: dict[str, list[str]] = {name: [getattr(meta, name)] * count for name in _INHERITED}
    texts["chunk_id"] = [f"{doc_id}#c{seq}" for seq in range(first, behind)]
    texts["text"] = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    texts["source_locator"] = [locator(prefix, a, b) for a, b in zip(para_starts, para_ends, strict=True)]
    texts["parent_id"] = [f"{doc_id}#s{k}" if k >= 0 else "" for k in cuts.sections[rows]] or empty
    texts["heading"] = cuts.headings[rows] or empty
    texts["parent_locator"] = cuts.parent_locators[rows] or empty
    windows = cuts.windows[rows] or [-1] * count
    local = {number: i for i, number in enumerate(dict.fromkeys(number for number in windows if number >= 0))}
    windows = [local.get(number, -1) for number in windows]
    spans = [cuts.window_spans[number] for number in local]
    if spans:
        locators = [locator(prefix, a, b) for _, _, a, b in spans]
        texts["parent_locator"] = [
            locators[number] if number >= 0 else named
            for number, named in zip(windows, texts["parent_locator"], strict=True)
        ]
    return Block(numbers, texts, windows, [text[start:end] for start, end, _, _ in spans])


@dataclass(slots=True)
class RowsBuilder:
    """Gathers blocks of columns until they are made into one Arrow batch."""

    rows: int = 0
    characters: int = 0
    _numbers: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _texts: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _windows: list[int] = field(default_factory=list)
    _window_texts: list[str] = field(default_factory=lambda: [""])

    def add(self, block: Block) -> None:
        """Append the rows of a block."""
        for name, numbers in block.numbers.items():
            self._numbers[name].extend(numbers)
        for name, texts in block.texts.items():
            self._texts[name].extend(texts)
        base = len(self._window_texts)
        self._windows.extend([number + base if number >= 0 else 0 for number in block.windows])
        self._window_texts.extend(block.window_texts)
        self.rows += block.rows
        self.characters += block.characters

    def take(self) -> pa.RecordBatch:
        """Return the rows gathered so far, possibly none, and start anew."""
        arrays: list[pa.Array] = []
        for column in CHUNK_SCHEMA:
            if column.name == "window_text":
                arrays.append(
                    pa.DictionaryArray.from_arrays(
                        pa.array(self._windows, pa.int32()), pa.array(self._window_texts, pa.string())
                    )
                )
            else:
                values = self._numbers[column.name] if column.name in _NUMBERS else self._texts[column.name]
                arrays.append(pa.array(values, column.type))
        self.rows = self.characters = 0
        self._numbers.clear()
        self._texts.clear()
        self._windows, self._window_texts = [], [""]
        return pa.RecordBatch.from_arrays(arrays, schema=CHUNK_SCHEMA)


class RowsDigest:
    """SHA-256 of all columns of one document's chunks, in order; the same on any machine.

    Rows are taken in blocks of `BLOCK_ROWS`. Of a block each column is hashed in the order of SPEC 2.1: numbers as
    64-bit little-endian integers, text as runs of equal values: how many runs, at which row each begins, how many
    bytes its value has in UTF-8, and the values.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"chunk rows 1")

    def add(self, block: Block) -> None:
        """Add the next rows; every block but the last must be full."""
        window_texts = block.window_texts
        windows = [window_texts[number] if number >= 0 else "" for number in block.windows]
        self.add_columns(block.numbers, {**block.texts, "window_text": windows})

    def add_columns(self, numbers: Mapping[str, Sequence[int]], texts: Mapping[str, Sequence[str]]) -> None:
        """Add the next rows as plain columns, see `add`."""
        parts: list[bytes] = [_integers([len(numbers["seq"])])]
        for name in _COLUMNS:
            if name in _NUMBERS:
                parts.append(_integers(numbers[name]))
            else:
                parts.extend(_text_runs(texts[name]))
        self._hash.update(b"".join(parts))

    def hexdigest(self) -> str:
        """Return the digest as 64 hex digits."""
        return self._hash.hexdigest()


def _integers(values: Iterable[int]) -> bytes:
    packed = array("q", values)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _text_runs(values: Sequence[str]) -> tuple[bytes, bytes]:
    if values[0] is values[-1] and values.count(values[0]) == len(values):
        begins = [0]
    else:
        pairs = enumerate(zip(values, values[1:], strict=False), start=1)
        begins = [0, *(i for i, (before, value) in pairs if value is not before and value != before)]
    runs = [values[i].encode() for i in begins]
    return _integers([len(begins), *begins, *map(len, runs)]), b"".join(runs)


def rows_digest(rows: pa.Table | pa.RecordBatch) -> str:
    """Return the digest of one document's chunks from their rows, as `chunk_batches` reports it.

    Args:
        rows: the document's rows ordered by ``seq``, with every column of `CHUNK_SCHEMA`; others are ignored.
    """
    digest = RowsDigest()
    for first in range(0, rows.num_rows, BLOCK_ROWS):
        part = rows.slice(first, BLOCK_ROWS)
        digest.add_columns(
            {name: part.column(name).to_pylist() for name in _COLUMNS if name in _NUMBERS},
            {name: part.column(name).to_pylist() for name in _COLUMNS if name not in _NUMBERS},
        )
    return digest.hexdigest()
