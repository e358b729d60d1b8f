"""Searching a snapshot for what must not be in it, byte by byte (SPEC 6.3, 6.6).

This proves what publishing promises and shares nothing with it but the file format. What is searched for is everything
that documents above the snapshot's ``max_label`` say: their text in overlapping pieces, their titles, paths, file names,
headings, entities and single words. What servable documents, facts or the profile hold too is no trace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath

import duckdb
import numpy as np
import pyarrow as pa
from ahocorasick_rs import BytesAhoCorasick
from numpy.typing import NDArray

from ragspine_assets.policy import DomainProfile, is_restricted, read_label
from ragspine_assets.retrieval.tokens import tokenize
from ragspine_assets.store.audit import references

from .content import profile_names
from .layout import CHUNKS, LEXICAL, MANIFEST
from .snapshot import Snapshot

PIECE = 32
"""Length of a piece of text, in bytes of UTF-8."""

STRIDE = 16
"""Distance between pieces: any 47 bytes of a text hold a whole one."""

LONG = 8
"""From this many bytes on a name cannot be found by chance among the bytes of numbers."""

SHORT = 2
"""Shorter names are in every text."""

_BLOCK = 1 << 20
_ROWS = 4096
_NAMES = 50_000

Hashes = NDArray[np.uint64]

# Fixed random numbers, one per byte value, and an odd factor: equal pieces hash alike, in any process.
_OF_BYTE = np.random.default_rng(20_240_229).integers(0, 2**64, 256, dtype=np.uint64)
_FACTOR = 0x9E3779B97F4A7C15


def isolation_traces(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, profile: DomainProfile | None = None
) -> list[str]:
    """Return the documents of which a snapshot holds something it must not hold, by reference, sorted.

    Args:
        connection: the open store.
        snapshot: what is searched.
        profile: the domain profile, whose names are no secret; without it, what the graph has of it counts.
    """
    limit = read_label(snapshot.manifest.max_label)
    closed = _closed_documents(connection, limit.rank)
    if not closed:
        return []
    hidden = _Hidden.of(connection, closed)
    suspects = hidden.found_in(_files(snapshot), _values(snapshot), snapshot.lexical.terms)
    if suspects.empty:
        return []
    # What also stands in something servable tells nothing: it is taken off, and what is left is a trace.
    for material in _servable_material(connection, closed, profile):
        suspects.clear(material)
        if suspects.empty:
            return []
    name = references(connection)
    return sorted({name(doc_id) for doc_id in suspects.documents(hidden)})


def _closed_documents(connection: duckdb.DuckDBPyConnection, limit: int) -> set[str]:
    ranks: dict[str, int] = {}
    for doc_id, label in connection.execute(
        "SELECT DISTINCT doc_id, sensitivity FROM document "
        "UNION SELECT DISTINCT doc_id, sensitivity FROM narrative_chunk WHERE active"
    ).fetchall():
        ranks[doc_id] = max(ranks.get(doc_id, 0), read_label(label).rank)
    # Old versions decide only where there is nothing else.
    for doc_id, label in connection.execute("SELECT DISTINCT doc_id, sensitivity FROM narrative_chunk").fetchall():
        if doc_id not in ranks and is_restricted(label):
            ranks[doc_id] = read_label(label).rank
    return {doc_id for doc_id, rank in ranks.items() if rank > limit}


@dataclasses.dataclass
class _Suspects:
    """What was found and not yet explained."""

    pieces: Hashes
    names: set[bytes]
    words: set[str]

    @property
    def empty(self) -> bool:
        return not (len(self.pieces) or self.names or self.words)

    def clear(self, material: str) -> None:
        """Take off what some servable text holds."""
        data = material.encode("utf-8", "surrogatepass")
        if len(self.pieces):
            self.pieces = self.pieces[~np.isin(self.pieces, _present(data, self.pieces))]
        if self.names:
            self.names -= _found_names([data], self.names)
        if self.words:
            self.words.difference_update(tokenize(material))

    def documents(self, hidden: _Hidden) -> Iterator[str]:
        yield from (hidden.documents[one] for one in hidden.owners[np.isin(hidden.pieces, self.pieces)].tolist())
        for name in self.names:
            yield from hidden.names[name]
        for word in self.words:
            yield hidden.words[word]


@dataclasses.dataclass
class _Hidden:
    """All that closed documents say.

    Attributes:
        documents: their ids.
        pieces: hashes of the pieces of their texts, sorted.
        owners: of each piece the position of its document.
        names: titles, paths and the like, with their documents.
        words: index terms of their texts, each with one document.
    """

    documents: list[str]
    pieces: Hashes
    owners: NDArray[np.int32]
    names: dict[bytes, set[str]]
    words: dict[str, str]

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection, closed: set[str]) -> _Hidden:
        documents = sorted(closed)
        number = {doc_id: position for position, doc_id in enumerate(documents)}
        names: dict[bytes, set[str]] = {}
        words: dict[str, str] = {}
        pieces: list[Hashes] = []
        owners: list[NDArray[np.int32]] = []

        def note(doc_id: str, name: str) -> None:
            encoded = name.strip().encode("utf-8", "surrogatepass")
            if len(encoded) >= SHORT:
                names.setdefault(encoded, set()).add(doc_id)

        for doc_id in documents:
            path = PurePosixPath(doc_id)
            for name in (doc_id, path.name, path.stem):
                note(doc_id, name)
        for doc_id, *said in _rows(
            connection,
            "SELECT DISTINCT doc_id, title, entity, heading FROM narrative_chunk "
            "UNION SELECT doc_id, title, entity, file_title FROM document",
        ):
            if doc_id in number:
                for name in said:
                    note(doc_id, name)
        for doc_id, text in _rows(
            connection, "SELECT doc_id, text FROM document_text UNION ALL SELECT doc_id, text FROM narrative_chunk"
        ):
            if doc_id not in number:
                continue
            for word in tokenize(text):
                words.setdefault(word, doc_id)
            # A line too short to hold a piece is looked for as a whole.
            for line in text.splitlines():
                if LONG <= len(line.strip().encode("utf-8", "surrogatepass")) < PIECE + STRIDE:
                    note(doc_id, line)
            found = np.unique(_hashes(text.encode("utf-8", "surrogatepass"))[::STRIDE])
            pieces.append(found)
            owners.append(np.full(len(found), number[doc_id], np.int32))
        together = np.concatenate(pieces) if pieces else np.empty(0, np.uint64)
        order = np.argsort(together, kind="stable")
        owner = np.concatenate(owners)[order] if owners else np.empty(0, np.int32)
        return cls(documents, together[order], owner, names, words)

    def found_in(self, files: Iterable[bytes], values: Iterable[bytes], terms: Sequence[str]) -> _Suspects:
        """Return what is found in the bytes of files, in values (names only), and among index terms."""
        pieces = [np.empty(0, np.uint64)]
        long = {name for name in self.names if len(name) >= LONG}
        names: set[bytes] = set()
        for block in files:
            pieces.append(_present(block, self.pieces))
            names |= _found_names([block], long - names)
        short = set(self.names) - long
        names |= _found_names(values, short)
        indexed = {term for term in terms if term in self.words}
        return _Suspects(np.unique(np.concatenate(pieces)), names, indexed)


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[tuple[str, ...]]:
    reader = connection.cursor().execute(query)
    while rows := reader.fetchmany(_ROWS):
        yield from rows


def _hashes(data: bytes) -> Hashes:
    """Return the hash of every piece of some bytes, at every place."""
    if len(data) < PIECE:
        return np.empty(0, np.uint64)
    hashes = _OF_BYTE[np.frombuffer(data, np.uint8)]
    width, factor = 1, _FACTOR
    while width < PIECE:
        # Two neighbouring pieces make one of twice the length.
        hashes = hashes[:-width] * np.uint64(factor) + hashes[width:]
        width, factor = 2 * width, factor * factor % 2**64
    return hashes


def _present(data: bytes, pieces: Hashes) -> Hashes:
    """Return which of some pieces, sorted by hash, stand anywhere in some bytes."""
    hashes = _hashes(data)
    if not len(hashes) or not len(pieces):
        return np.empty(0, np.uint64)
    # Most places are ruled out by a table of some bits before anything is searched for.
    bits = min(max(int(len(pieces)).bit_length() + 4, 12), 26)
    table = np.zeros(1 << bits, np.bool_)
    shift = np.uint64(64 - bits)
    table[pieces >> shift] = True
    likely = hashes[table[hashes >> shift]]
    place = np.searchsorted(pieces, likely)
    place[place == len(pieces)] = 0
    return np.unique(likely[pieces[place] == likely])


def _found_names(materials: Iterable[bytes], names: set[bytes]) -> set[bytes]:
    """Return which of some names stand in some bytes."""
    if not names:
        return set()
    patterns = sorted(names)
    automata = [patterns[first : first + _NAMES] for first in range(0, len(patterns), _NAMES)]
    compiled = [(part, BytesAhoCorasick(part)) for part in automata]
    found: set[bytes] = set()
    for data in materials:
        for part, automaton in compiled:
            found.update(part[which] for which, _, _ in automaton.find_matches_as_indexes(data, overlapping=True))
    return found


def _files(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield the bytes of all files in blocks that overlap, so that nothing is lost between two."""
    overlap = 4096
    for name in sorted([*snapshot.manifest.files, MANIFEST]):
        # A name in the folder is published like a byte of a file.
        yield name.encode()
        with (snapshot.path / name).open("rb") as file:
            rest = b""
            while block := file.read(_BLOCK):
                yield rest + block
                rest = (rest + block)[-overlap:]


def _values(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield the strings of all tables, and the manifest's, so that numbers between them cannot look like letters."""
    yield (snapshot.path / MANIFEST).read_bytes()
    for name in sorted(snapshot.manifest.files):
        if name.endswith(".arrow"):
            with pa.memory_map(str(snapshot.path / name), "r") as source:
                yield from _strings(pa.ipc.open_file(source).read_all())
    del CHUNKS_AND_INDEX


CHUNKS_AND_INDEX = (CHUNKS, LEXICAL)


def _strings(table: pa.Table) -> Iterator[bytes]:
    for column in table.columns:
        for chunk in column.chunks:
            array = chunk.dictionary if isinstance(chunk, pa.DictionaryArray) else chunk
            if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
                for first in range(0, len(array), _ROWS):
                    strings = array.slice(first, _ROWS).to_pylist()
                    yield "\n".join(filter(None, strings)).encode("utf-8", "surrogatepass")


def _servable_material(
    connection: duckdb.DuckDBPyConnection, closed: set[str], profile: DomainProfile | None
) -> Iterator[str]:
    """Yield what is no secret: servable documents with all that is known of them, facts, the profile."""
    yield from ("\n".join(_strings_of(dataclasses.asdict(profile))) if profile else "\n".join(profile_names(connection)),)
    # Names of the file format itself, which stand in every snapshot.
    yield "\n".join(_FORMAT_NAMES)
    yield from _joined(
        connection,
        "SELECT source_doc_id, metric_code, entity, period, unit, source_doc_id, source_locator FROM fact",
        closed,
    )
    yield from _joined(
        connection,
        "SELECT doc_id, doc_id, title, topic, entity, geography, period, language, source_locator, parent_locator, "
        "parent_id, heading, valid_as_of, chunk_id, text FROM narrative_chunk WHERE active",
        closed,
    )
    yield from _joined(connection, "SELECT doc_id, window_text FROM narrative_chunk WHERE active AND window_text != ''", closed)


_FORMAT_NAMES: tuple[str, ...] = ()


def _joined(connection: duckdb.DuckDBPyConnection, query: str, closed: set[str]) -> Iterator[str]:
    rows = _rows(connection, query)
    while batch := list(islice(rows, _ROWS)):
        yield "\n".join(value for owner, *values in batch if owner not in closed for value in values if value)


def _strings_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _strings_of(key)
            yield from _strings_of(inner)
    elif isinstance(value, Iterable):
        for inner in value:
            yield from _strings_of(inner)


Reference = Callable[[str], str]
