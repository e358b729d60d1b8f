"""Writing ``chunks.arrow`` as its rows come, in memory that does not grow with them (SPEC 6.6).

A reader wants each column in one piece, to use it where it lies in the file; a writer of Arrow files wants a piece in
memory before it writes it. So columns grow in files of their own. Arrow is then given columns of the same shape that
hold nothing but zeros, which take no memory, and where it writes one of them the bytes of its file are written instead.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ragspine_assets.serving.chunk_table import (
    INDEX_LANGUAGE,
    NUMBERS,
    PLAIN_TEXTS,
    REPEATED_TEXTS,
    SCHEMA,
    FiledTexts,
    ranks_of,
)

_COPIED = 1 << 20
_KEPT_WHOLE = 64
"""Values longer than this, in characters, are remembered by a hash."""


class _Numbers:
    """A column of int32 in a file."""

    def __init__(self, folder: str) -> None:
        self.file: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - lives as long as the table
        self.size = 0

    def add(self, values: NDArray[np.int32]) -> None:
        self.file.write(np.ascontiguousarray(values).data)
        self.size += len(values)

    def read(self) -> NDArray[np.int32]:
        self.file.seek(0)
        return np.fromfile(self.file, np.int32, self.size)


class _Strings:
    """A column of large_string in two files: bytes, and where each string begins."""

    def __init__(self, folder: str) -> None:
        self.data: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - lives as long as the table
        self.offsets: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - lives as long as the table
        self.offsets.write(np.zeros(1, np.int64).data)
        self.size = 0
        self.bytes = 0

    def add(self, strings: pa.Array) -> None:
        if not len(strings):
            return
        _, offsets, data = strings.buffers()
        places = np.frombuffer(offsets, np.int64, len(strings) + 1, strings.offset * 8)
        begin, end = places.item(0), places.item(-1)
        if end > begin:
            self.data.write(memoryview(data)[begin:end])
        self.offsets.write((places[1:] - begin + self.bytes).data)
        self.bytes += end - begin
        self.size += len(strings)

    def texts(self) -> FiledTexts:
        self.data.flush()
        self.offsets.seek(0)
        offsets = np.fromfile(self.offsets, np.int64, self.size + 1)
        return FiledTexts(offsets, os.dup(self.data.fileno()), 0)


class _Repeated:
    """A column of strings that repeat: each value once, numbered by where it comes first."""

    def __init__(self, folder: str) -> None:
        self.values = _Strings(folder)
        self.codes = _Numbers(folder)
        self._numbers: dict[str | bytes, int] = {}

    def add(self, strings: pa.Array) -> None:
        encoded = strings.dictionary_encode()
        new, numbers = [], np.empty(len(encoded.dictionary), np.int32)
        # Values are numbered by where they come first in the column, which is their order in the dictionary.
        for place, value in enumerate(encoded.dictionary.to_pylist()):
            key = value if len(value) <= _KEPT_WHOLE else _digest(value)
            number = self._numbers.setdefault(key, len(self._numbers))
            if number == self.values.size + len(new):
                new.append(value)
            numbers[place] = number
        self.values.add(pa.array(new, pa.large_string()))
        self.codes.add(numbers[encoded.indices.to_numpy()])


def _digest(value: str) -> bytes:
    return hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class ChunkTableWriter:
    """Writes the table of `SCHEMA`, batch by batch.

    Args:
        folder: where columns are kept until the table is written; nothing stays there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = tempfile.mkdtemp(dir=folder, prefix=".columns-")
        self._plain = {name: _Strings(self._folder) for name in PLAIN_TEXTS}
        self._repeated = {name: _Repeated(self._folder) for name in REPEATED_TEXTS}
        self._numbers = {name: _Numbers(self._folder) for name in NUMBERS}
        self.rows = 0
        """How many rows there are."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        strings = [*self._plain.values(), *(column.values for column in self._repeated.values())]
        numbers = [*self._numbers.values(), *(column.codes for column in self._repeated.values())]
        for file in [*(s.data for s in strings), *(s.offsets for s in strings), *(n.file for n in numbers)]:
            file.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows: every column of `SCHEMA` but `INDEX_LANGUAGE`, texts as strings."""
        self.rows += batch.num_rows
        for name in PLAIN_TEXTS:
            self._plain[name].add(batch.column(name).cast(pa.large_string()))
        for name in REPEATED_TEXTS:
            self._repeated[name].add(batch.column(name).cast(pa.large_string()))
        for name in NUMBERS:
            self._numbers[name].add(batch.column(name).cast(pa.int32()).to_numpy())

    def texts(self) -> FiledTexts:
        """Return the texts of the rows so far."""
        return self._plain["text"].texts()

    def numbers(self, name: str) -> NDArray[np.int32]:
        """Return a column of numbers."""
        return self._numbers[name].read()

    def repeated(self, name: str) -> tuple[list[str], NDArray[np.int32]]:
        """Return the values of a column that repeat, and of each row the number of its value."""
        column = self._repeated[name]
        return list(column.values.texts()), column.codes.read()

    def ranks(self) -> NDArray[np.int8]:
        """Return the rank of each row's label in the lattice."""
        return ranks_of(*self.repeated("sensitivity"))

    def write(self, path: Path, languages: Sequence[str], language_codes: NDArray[np.int32]) -> None:
        """Write the table.

        Args:
            path: the file to write.
            languages: by which languages' rules the rows are read.
            language_codes: of each row the number of its language.
        """
        read_by = _Repeated(self._folder)
        read_by.values.add(pa.array(list(languages), pa.large_string()))
        read_by.codes.add(language_codes)
        columns = {**self._plain, **self._repeated, **self._numbers, INDEX_LANGUAGE: read_by}
        sources: dict[int, BinaryIO] = {}
        arrays = [_blank(columns[name], sources) for name in SCHEMA.names]
        with path.open("wb") as file:
            sink = _Filled(file, sources)
            with pa.PythonFile(sink, "w") as output, pa.ipc.new_file(output, SCHEMA) as writer:
                if self.rows:
                    writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
        if self.rows and sources:
            raise RuntimeError(f"Arrow wrote {len(sources)} columns from elsewhere than where they were given to it")


class _Filled:
    """What Arrow writes to: where it writes a blank buffer, the bytes of a file are put instead.

    Args:
        file: the file to write.
        sources: by the address of each blank buffer the file that has its bytes; those that were written are taken out.
    """

    closed = False

    def __init__(self, file: BinaryIO, sources: dict[int, BinaryIO]) -> None:
        self._file = file
        self._sources = sources

    def write(self, data: bytes | pa.Buffer) -> int:
        source = None if isinstance(data, bytes) else self._sources.pop(data.address, None)
        if source is None:
            return self._file.write(data)
        source.seek(0)
        shutil.copyfileobj(source, self._file, _COPIED)
        return len(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True


def _zeros(size: int) -> mmap.mmap:
    return mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _blank(column: _Numbers | _Strings | _Repeated, sources: dict[int, BinaryIO]) -> pa.Array:
    """Return a column of the same shape that takes no memory: pages that nobody wrote to are one page."""

    def note(pages: mmap.mmap, size: int, file: BinaryIO) -> pa.Buffer:
        buffer = pa.py_buffer(pages)
        if size:
            sources[buffer.address] = file
        return buffer

    if isinstance(column, _Numbers):
        size = column.size * 4
        return pa.Array.from_buffers(pa.int32(), column.size, [None, note(_zeros(size), size, column.file)])
    if isinstance(column, _Repeated):
        codes, values = _blank(column.codes, sources), _blank(column.values, sources)
        return pa.DictionaryArray.from_arrays(codes, values, safe=False)
    offsets = _zeros((column.size + 1) * 8)
    # Arrow writes as many bytes of strings as the last offset says.
    offsets[column.size * 8 : column.size * 8 + 8] = np.int64(column.bytes).tobytes()
    places = note(offsets, column.size, column.offsets)
    data = note(_zeros(column.bytes), column.bytes, column.data)
    return pa.Array.from_buffers(pa.large_string(), column.size, [None, places, data])
