"""Chunks as Arrow columns: the form in which they go to the store (SPEC 3.3), made without a chunk object.

What varies from chunk to chunk is computed, what a document gives to all its chunks is repeated, and a window that
many children share stands once in the dictionary of its column.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ragspine_assets.chunking.chunk import COLUMNS, DocumentMeta
from ragspine_assets.chunking.spans import CHUNK_COLUMNS, INHERITED_COLUMNS, NUMBER_COLUMNS, Columns, default_of

_ADDITIVE = frozenset(column.name for column in COLUMNS if column.additive)
_DIGESTED = tuple(name for name in CHUNK_COLUMNS if name not in _ADDITIVE)
_REPEATED = frozenset({*INHERITED_COLUMNS, "window_text"})


def _column_type(name: str) -> pa.DataType:
    if name in NUMBER_COLUMNS:
        return pa.int32()
    return pa.dictionary(pa.int32(), pa.string()) if name in _REPEATED else pa.string()


CHUNK_SCHEMA = pa.schema([pa.field(name, _column_type(name), nullable=False) for name in CHUNK_COLUMNS])
"""The columns of a chunk in the order of SPEC 2.1; what many rows repeat is dictionary-encoded."""


@dataclass(slots=True)
class RowsBuilder:
    """Gathers the columns of documents until they are made into one Arrow batch."""

    rows: int = 0
    characters: int = 0
    window_characters: int = 0
    _columns: dict[str, list[Any]] = field(default_factory=dict)
    _metas: list[DocumentMeta] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)
    _windows: list[int] = field(default_factory=list)
    _window_texts: list[str] = field(default_factory=lambda: [""])

    def add(self, columns: Columns) -> None:
        """Append the rows of a document."""
        rows = columns.rows
        for name, values in {**columns.numbers, **columns.texts}.items():
            # Where only some documents have a column, it is filled up to this one's first row.
            own = self._columns.setdefault(name, [])
            own.extend([default_of(name)] * (self.rows - len(own)))
            own.extend(values)
        self._metas.append(columns.meta)
        self._sizes.append(rows)
        base = len(self._window_texts)
        self._windows.extend([number + base if number >= 0 else 0 for number in columns.windows] or [0] * rows)
        self._window_texts.extend(columns.window_texts)
        self.rows += rows
        self.characters += columns.characters
        self.window_characters += columns.window_characters

    def finish(self) -> tuple[pa.RecordBatch, list[str]]:
        """Return the rows, possibly none, and the digest of each document's."""
        of_document = pa.array(np.repeat(np.arange(len(self._sizes), dtype=np.int32), self._sizes))
        arrays: list[pa.Array] = []
        for name, kind in zip(CHUNK_SCHEMA.names, CHUNK_SCHEMA.types, strict=True):
            values = self._columns.get(name, [])
            if name == "window_text":
                texts = pa.array(self._window_texts, pa.string())
                arrays.append(pa.DictionaryArray.from_arrays(pa.array(self._windows, pa.int32()), texts))
            elif name in INHERITED_COLUMNS:
                texts = pa.array([getattr(meta, name) for meta in self._metas], pa.string())
                arrays.append(pa.DictionaryArray.from_arrays(of_document, texts))
            elif not values:
                arrays.append(pa.repeat(pa.scalar(default_of(name), kind), self.rows))
            else:
                missing = [default_of(name)] * (self.rows - len(values))
                arrays.append(pa.array([*values, *missing] if missing else values, kind))
        rows = pa.RecordBatch.from_arrays(arrays, schema=CHUNK_SCHEMA)
        return rows, _digests(rows, self._sizes)


def rows_digest(rows: pa.Table | pa.RecordBatch) -> str:
    """Return the digest of one document's chunks: SHA-256 of all their columns; the same on any machine.

    First come the rows, each as 32-bit little-endian integers in the order of SPEC 2.1: a number as it is, for a text
    how many bytes it has in UTF-8, or -1 where it is that of the row before. Then come the texts that are counted there,
    column by column. A column that was added later counts where a row of the document has something in it, behind all
    others, by its name and the digest of its values.

    Args:
        rows: the document's rows ordered by ``seq``, with every column of `CHUNK_SCHEMA`; others are ignored.
    """
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    (batch,) = table.select(CHUNK_SCHEMA.names).cast(CHUNK_SCHEMA).combine_chunks().to_batches() or [
        pa.RecordBatch.from_pylist([], CHUNK_SCHEMA)
    ]
    return _digests(batch, [batch.num_rows])[0]


def _digests(rows: pa.RecordBatch, sizes: Sequence[int]) -> list[str]:
    """Return the digests of documents whose rows follow one another, so many of each; see `rows_digest`."""
    bounds = np.cumsum([0, *sizes])
    opens = np.zeros(rows.num_rows + 1, bool)
    opens[bounds] = True
    numbers = np.full((rows.num_rows, len(_DIGESTED)), -1, "<i4")
    texts: list[tuple[memoryview, list[int]]] = []
    for place, name in enumerate(_DIGESTED):
        column = rows.column(name)
        if name in NUMBER_COLUMNS:
            numbers[:, place] = column.to_numpy()
            continue
        begins = opens[:-1] | _changes(column)
        values = (column if begins.all() else column.filter(pa.array(begins))).cast(pa.string())
        if not len(values):
            continue
        ends = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
        numbers[begins, place] = np.diff(ends)
        places = ends[np.concatenate(([0], np.cumsum(begins)))[bounds]].tolist()
        if places[-1] > places[0]:
            texts.append((memoryview(values.buffers()[2]), places))
    added = {name: values for name in sorted(_ADDITIVE) if any(values := rows.column(name).to_pylist())}
    digests = []
    for document, (first, behind) in enumerate(pairwise(bounds.tolist())):
        digest = hashlib.sha256(numbers[first:behind].data)
        for values, places in texts:
            digest.update(values[places[document] : places[document + 1]])
        for name, values in added.items():
            if any(here := values[first:behind]):
                digest.update(f"{name}={hashlib.sha256(repr(here).encode()).hexdigest()}".encode())
        digests.append(digest.hexdigest())
    return digests


def _changes(column: pa.Array) -> NDArray[np.bool_]:
    """Tell of each row whether its text differs from that of the row before; of the first, that it does not."""
    if isinstance(column, pa.DictionaryArray):
        # The same text may stand in the dictionary more than once.
        codes = column.dictionary.dictionary_encode().indices.to_numpy()[column.indices.to_numpy()]
        return np.concatenate(([False], codes[1:] != codes[:-1]))[: len(column)]
    # Loading it takes as long as cutting a thousand documents: not before there is something to cut.
    import pyarrow.compute as pc

    different = pc.call_function("not_equal", [column[1:], column[:-1]]).to_numpy(zero_copy_only=False)
    return np.concatenate(([False], different))[: len(column)]
