"""Chunks as Arrow columns: the form in which they go to the store (SPEC 3.3), made without a chunk object.

What varies from chunk to chunk is computed, what a document gives to all its chunks is repeated, and a window that
many children share stands once in the dictionary of its column.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from ragspine_assets.chunking.cuts import BLOCK_ROWS, CHUNK_COLUMNS, NUMBER_COLUMNS, Block

_WINDOW_TYPE = pa.dictionary(pa.int32(), pa.string())


def _column_type(name: str) -> pa.DataType:
    if name in NUMBER_COLUMNS:
        return pa.int32()
    return _WINDOW_TYPE if name == "window_text" else pa.string()


CHUNK_SCHEMA = pa.schema([pa.field(name, _column_type(name), nullable=False) for name in CHUNK_COLUMNS])
"""The columns of a chunk in the order of SPEC 2.1; windows are dictionary-encoded."""


@dataclass(slots=True)
class RowsBuilder:
    """Gathers blocks of columns until they are made into one Arrow batch."""

    rows: int = 0
    characters: int = 0
    _numbers: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _texts: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _constants: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _sizes: list[int] = field(default_factory=list)
    _windows: list[int] = field(default_factory=list)
    _window_texts: list[str] = field(default_factory=lambda: [""])

    def add(self, block: Block) -> None:
        """Append the rows of a block."""
        for name, numbers in block.numbers.items():
            self._numbers[name].extend(numbers)
        for name, value in block.constants.items():
            self._constants[name].append(value)
        self._sizes.append(block.rows)
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
        of_block = pa.array(np.repeat(np.arange(len(self._sizes)), self._sizes))
        for column in CHUNK_SCHEMA:
            if column.name == "window_text":
                arrays.append(
                    pa.DictionaryArray.from_arrays(
                        pa.array(self._windows, pa.int32()), pa.array(self._window_texts, pa.string())
                    )
                )
            elif column.name in self._constants:
                arrays.append(pa.array(self._constants[column.name], column.type).take(of_block))
            else:
                values = self._numbers[column.name] if column.name in NUMBER_COLUMNS else self._texts[column.name]
                arrays.append(pa.array(values, column.type))
        self.rows = self.characters = 0
        self._numbers.clear()
        self._texts.clear()
        self._constants.clear()
        self._sizes.clear()
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
        windows = block.window_column() if block.window_texts else None
        texts = block.texts if windows is None else {**block.texts, "window_text": windows}
        self.add_columns(block.numbers, texts, block.constants if windows else {**block.constants, "window_text": ""})

    def add_columns(
        self,
        numbers: Mapping[str, Sequence[int]],
        texts: Mapping[str, Sequence[str]],
        constants: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Add the next rows as plain columns, see `add`; ``constants`` have one value in all of them."""
        parts: list[bytes] = [_integers([len(numbers["seq"])])]
        for name in CHUNK_COLUMNS:
            if name in NUMBER_COLUMNS:
                parts.append(_integers(numbers[name]))
            elif name in constants:
                parts.extend(_one_run(constants[name]))
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


@lru_cache(maxsize=256)
def _one_run(value: str) -> tuple[bytes, bytes]:
    encoded = value.encode()
    return _integers([1, 0, len(encoded)]), encoded


def _text_runs(values: Sequence[str]) -> tuple[bytes, bytes]:
    if values[0] is values[-1] and values.count(values[0]) == len(values):
        begins = [0]
    else:
        pairs = enumerate(pairwise(values), start=1)
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
            {name: part.column(name).to_pylist() for name in CHUNK_COLUMNS if name in NUMBER_COLUMNS},
            {name: part.column(name).to_pylist() for name in CHUNK_COLUMNS if name not in NUMBER_COLUMNS},
        )
    return digest.hexdigest()
