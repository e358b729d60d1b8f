"""Columns of a published file, read where they lie (SPEC 6.6).

Nothing is copied or decoded when a snapshot is opened: a hit's values are made when the hit is. Arrow's own way to a row,
`take`, costs as much as the search.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar, overload
from weakref import finalize

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ragspine_assets.chunking.chunk import COLUMNS
from ragspine_assets.index.lexical import LexicalIndex, Texts
from ragspine_assets.policy.lattice import Sensitivity, read_label
from ragspine_assets.retrieval.corpus import FILTER_KEYS, Column, Corpus
from ragspine_assets.store.chunk_store import StoredChunk

T = TypeVar("T")

_PUBLISHED = tuple(column for column in COLUMNS if column.published)

PLAIN_TEXTS = tuple(column.name for column in _PUBLISHED if column.kind is str and not column.repeats)
"""Columns whose values hardly repeat."""

REPEATED_TEXTS = tuple(column.name for column in _PUBLISHED if column.kind is str and column.repeats)
"""Columns whose values repeat: each value is stored once."""

NUMBERS = (*(column.name for column in _PUBLISHED if column.kind is int), "version")
"""Columns of numbers."""

ADDITIVE = tuple(column.name for column in _PUBLISHED if column.additive)
"""Columns that files of former releases may lack."""

INDEX_LANGUAGE = "index_language"
"""By which language's rules a chunk was read, see `retrieval.analysis.Analyzer`; a repeated text."""

SCHEMA = pa.schema(
    [(name, pa.large_string()) for name in PLAIN_TEXTS]
    + [(name, pa.dictionary(pa.int32(), pa.large_string())) for name in (*REPEATED_TEXTS, INDEX_LANGUAGE)]
    + [(name, pa.int32()) for name in NUMBERS]
)
"""What ``chunks.arrow`` holds, one row per chunk, in natural order of ``chunk_id``."""


_FEW = 256


def map_table(path: Path) -> pa.Table:
    """Return the table of an Arrow file, memory-mapped; it stays readable when the file is deleted.

    Raises:
        OSError, pa.ArrowInvalid: it is no whole Arrow file.
    """
    return pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()


def table_in_slices(path: Path, rows: int = 16_384) -> Iterator[pa.Table]:
    """Yield the rows of an Arrow file, some at a time, where they lie; what was read does not stay in memory.

    Raises:
        OSError, pa.ArrowInvalid: it is no whole Arrow file.
    """
    with path.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    table = pa.ipc.open_file(pa.py_buffer(pages)).read_all()
    for first in range(0, table.num_rows, rows):
        yield table.slice(first, rows)
        pages.madvise(mmap.MADV_DONTNEED)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table as one Arrow file of one batch; the same table gives the same bytes."""
    # Buffers that are larger than their content would be written with what happens to stand behind it.
    batches = table.combine_chunks().to_batches()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _single(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _with_default(table: pa.Table, name: str) -> pa.Table:
    field = SCHEMA.field(name)
    if not pa.types.is_dictionary(field.type):
        default: str | int = "" if pa.types.is_large_string(field.type) else 0
        return table.append_column(field, pa.repeat(pa.scalar(default, field.type), table.num_rows))
    codes = pa.repeat(pa.scalar(0, pa.int32()), table.num_rows)
    return table.append_column(field, pa.DictionaryArray.from_arrays(codes, pa.array([""], pa.large_string())))


def texts_of(array: pa.Array) -> Texts:
    """Return the strings of a large_string array without nulls, unread."""
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return Texts(memoryview(b""), np.zeros(1, np.int64))
    places = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
    return Texts(memoryview(data) if data is not None else memoryview(b""), places)


def codes_of(array: pa.Array) -> NDArray[np.int32]:
    """Return an int32 array without nulls, uncopied."""
    data = array.buffers()[1]
    return np.frombuffer(data, np.int32, len(array), array.offset * 4) if data is not None else np.empty(0, np.int32)


class FiledTexts(Texts):
    """Strings that are read from their file one by one.

    A page of a memory map, once touched, counts as this process's memory, with many around it; long texts of which a few
    are shown would soon be there whole.

    Args:
        offsets: where each begins; one more than there are strings.
        descriptor: the open file, which is closed when nothing reads from it any more.
        start: where in the file the strings begin.
        data: the same bytes, for those who want them where they lie.
    """

    def __init__(
        self, offsets: NDArray[np.integer], descriptor: int, start: int, data: memoryview = memoryview(b"")
    ) -> None:
        super().__init__(data, offsets)
        self._descriptor = descriptor
        self._start = start
        finalize(self, os.close, descriptor)

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> list[str]: ...
    def __getitem__(self, position: int | slice) -> str | list[str]:
        if isinstance(position, slice) or position < 0:
            return super().__getitem__(position)
        begin, end = self._offsets.item(position), self._offsets.item(position + 1)
        return str(os.pread(self._descriptor, end - begin, self._start + begin), "utf-8", "surrogatepass")

    def span(self, first: int, behind: int) -> bytes:
        """Return the UTF-8 bytes of neighbouring strings, end to end."""
        begin, end = self._offsets.item(first), self._offsets.item(behind)
        return os.pread(self._descriptor, end - begin, self._start + begin)


class Numbering(Mapping[str, int]):
    """Which number a value has; the values are read when somebody asks."""

    def __init__(self, values: Texts) -> None:
        self._values = values

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {value: number for number, value in enumerate(self._values)}

    def __getitem__(self, value: str) -> int:
        return self._numbers[value]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._values)


class PublishedChunks(Sequence[StoredChunk]):
    """The chunks of a snapshot, each made when it is asked for.

    Args:
        table: the table of ``chunks.arrow``.
    """

    @classmethod
    def of_file(cls, path: Path) -> PublishedChunks:
        """Return the chunks of an Arrow file, which stay readable when it is deleted.

        Raises:
            OSError, pa.ArrowInvalid: it is no whole Arrow file.
            ValueError: it has other columns.
        """
        source = pa.memory_map(str(path), "r")
        beginning = source.read_buffer(1)
        table = pa.ipc.open_file(source).read_all()
        for name in ADDITIVE:
            if name not in table.schema.names:
                table = _with_default(table, name)
        if table.select(SCHEMA.names).schema != SCHEMA:
            raise ValueError("other columns")
        chunks = cls(table)
        for columns, name in ((chunks._texts, "text"), (chunks._at_hand, "window_text")):
            held = columns[name]
            if isinstance(held, Texts) and len(held.data):
                array = _single(table.column(name))
                strings = array.dictionary if isinstance(array, pa.DictionaryArray) else array
                start = strings.buffers()[2].address - beginning.address
                columns[name] = FiledTexts(held.offsets, os.open(path, os.O_RDONLY), start, held.data)
        return chunks

    def __init__(self, table: pa.Table) -> None:
        self._size = table.num_rows
        self._texts: dict[str, Sequence[str]] = {name: texts_of(_single(table.column(name))) for name in PLAIN_TEXTS}
        values: dict[str, Texts] = {}
        codes: dict[str, NDArray[np.int32]] = {}
        for name in (*REPEATED_TEXTS, INDEX_LANGUAGE):
            array = _single(table.column(name))
            values[name] = texts_of(array.dictionary)
            codes[name] = codes_of(array.indices)
        self.values: Mapping[str, Texts] = values
        self.codes: Mapping[str, NDArray[np.int32]] = codes
        self.numbers: Mapping[str, NDArray[np.int32]] = {
            name: codes_of(_single(table.column(name))) for name in NUMBERS
        }
        # A list is several times faster than a buffer, and few values are soon read.
        self._at_hand: dict[str, Sequence[str]] = {
            name: list(texts) if len(texts) <= _FEW else texts for name, texts in values.items()
        }

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, position: int) -> StoredChunk: ...
    @overload
    def __getitem__(self, position: slice) -> list[StoredChunk]: ...
    def __getitem__(self, position: int | slice) -> StoredChunk | list[StoredChunk]:
        if isinstance(position, slice):
            return [self[one] for one in range(*position.indices(self._size))]
        if not 0 <= position < self._size:
            raise IndexError(position)
        texts, values, codes, numbers = self._texts, self._at_hand, self.codes, self.numbers
        row: dict[str, object] = {name: column[position] for name, column in texts.items()}
        row |= {name: values[name][codes[name].item(position)] for name in REPEATED_TEXTS}
        row |= {name: column.item(position) for name, column in numbers.items()}
        return StoredChunk(**row)  # pyright: ignore[reportArgumentType]

    def texts(self) -> Texts | ChosenTexts:
        """Return the chunks' texts."""
        texts = self._texts["text"]
        assert isinstance(texts, Texts)
        return texts

    def up_to(self, label: Sensitivity) -> PublishedChunks:
        """Return the chunks whose label is not above one, as if the file held no other."""
        ranks = self.ranks()
        return self if (ranks <= label.rank).all() else ChosenChunks(self, np.flatnonzero(ranks <= label.rank))

    def ranks(self) -> NDArray[np.int8]:
        """Return the rank of each chunk's label in the lattice."""
        return ranks_of(self.values["sensitivity"], self.codes["sensitivity"])

    def column(self, name: str) -> Column:
        """Return a column of repeated texts as the search uses it."""
        return Column(Numbering(self.values[name]), self.codes[name])

    @cached_property
    def _documents(self) -> dict[str, int]:
        return {doc_id: number for number, doc_id in enumerate(self.values["doc_id"])}

    @cached_property
    def _by_document(self) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        codes = self.codes["doc_id"]
        starts = np.zeros(len(self.values["doc_id"]) + 1, np.int64)
        np.cumsum(np.bincount(codes, minlength=len(starts) - 1), out=starts[1:])
        return np.argsort(codes, kind="stable"), starts

    def of_document(self, doc_id: str) -> NDArray[np.intp]:
        """Return the positions of a document's chunks; none if it is not here."""
        number = self._documents.get(doc_id)
        if number is None:
            return np.empty(0, np.intp)
        order, starts = self._by_document
        return order[starts[number] : starts[number + 1]]

    def labels(self) -> pa.Table:
        """Return the label of each document: `doc_id`, `sensitivity`."""
        documents, first = np.unique(self.codes["doc_id"], return_index=True)
        labels = self.codes["sensitivity"][first]
        return pa.table(
            {
                "doc_id": pa.array([self.values["doc_id"][number] for number in documents.tolist()], pa.string()),
                "sensitivity": pa.array(
                    [self.values["sensitivity"][number] for number in labels.tolist()], pa.string()
                ),
            }
        )

    def corpus(self, lexical: LexicalIndex) -> Corpus:
        """Return what `NarrativeIndex` serves."""
        return Corpus(
            chunks=self,
            lexical=lexical,
            languages=self.column(INDEX_LANGUAGE),
            columns={name: self.column(name) for name in FILTER_KEYS},
            ranks=self.ranks(),
        )

    def parent_numbers(self) -> NDArray[np.int64]:
        """Return a number per parent, see `Corpus.parents`."""
        own = np.arange(self._size, dtype=np.int64)
        none = Numbering(self.values["parent_id"]).get("", -1)
        sections = self.codes["parent_id"].astype(np.int64)
        keys = self.codes["doc_id"].astype(np.int64) * max(len(self.values["parent_id"]), 1) + sections
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        return np.where(sections == none, own, first[which])


def ranks_of(labels: Iterable[str], codes: NDArray[np.integer]) -> NDArray[np.int8]:
    """Return the rank in the lattice of each of some labels, which are given by their numbers."""
    ranks = np.array([read_label(label).rank for label in labels] or [0], np.int8)
    return ranks[codes] if len(codes) else np.empty(0, np.int8)


class ChosenTexts(Sequence[str]):
    """Some of many strings, none of them copied.

    Args:
        texts: all of them.
        positions: which.
    """

    def __init__(self, texts: Sequence[str], positions: NDArray[np.integer]) -> None:
        self._texts = texts
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> list[str]: ...
    def __getitem__(self, position: int | slice) -> str | list[str]:
        if isinstance(position, slice):
            return [self._texts[int(one)] for one in self._positions[position]]
        return self._texts[int(self._positions[position])]


class _Chosen(Mapping[str, T]):
    """Values by column, each made when it is asked for the first time."""

    def __init__(self, names: Iterable[str], make: Callable[[str], T]) -> None:
        self._names = tuple(names)
        self._make = make
        self._made: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class ChosenChunks(PublishedChunks):
    """Some chunks of a snapshot, in its order, as if there were no others: no value of another is among theirs.

    Args:
        whole: all chunks.
        positions: which, ascending.
    """

    def __init__(self, whole: PublishedChunks, positions: NDArray[np.intp]) -> None:
        self._size = len(positions)
        self._whole = whole
        self.positions = positions
        """Where each stands in the file."""
        self._columns = _Chosen(whole.values, self._column)
        self.values = _Chosen(whole.values, lambda name: self._columns[name][0])
        self.codes = _Chosen(whole.values, lambda name: self._columns[name][1])
        self.numbers = _Chosen(whole.numbers, lambda name: whole.numbers[name][positions])

    def _column(self, name: str) -> tuple[Texts, NDArray[np.int32]]:
        codes = self._whole.codes[name][self.positions]
        values = self._whole.values[name]
        used = np.zeros(len(values), np.bool_)
        used[codes] = True
        numbers = np.cumsum(used, dtype=np.int32) - 1
        return Texts.of(values[one] for one in np.flatnonzero(used).tolist()), numbers[codes]

    @overload
    def __getitem__(self, position: int) -> StoredChunk: ...
    @overload
    def __getitem__(self, position: slice) -> list[StoredChunk]: ...
    def __getitem__(self, position: int | slice) -> StoredChunk | list[StoredChunk]:
        if isinstance(position, slice):
            return [self[one] for one in range(*position.indices(self._size))]
        if not 0 <= position < self._size:
            raise IndexError(position)
        return self._whole[self.positions.item(position)]

    def texts(self) -> ChosenTexts:
        """Return the chunks' texts."""
        return ChosenTexts(self._whole.texts(), self.positions)
