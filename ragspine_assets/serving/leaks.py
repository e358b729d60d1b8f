"""Searching a snapshot for what must not be in it, byte by byte (SPEC 6.3, 6.6).

This proves what publishing promises and shares nothing with it but the file format. What is searched for is everything
that documents above the snapshot's ``max_label`` say: their text in overlapping pieces, their titles, paths, file names,
headings, entities and single words. What servable documents, facts or the profile hold too is no trace.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

import duckdb
import numpy as np
import pyarrow as pa
from ahocorasick_rs import BytesAhoCorasick
from numpy.typing import NDArray

from ragspine_assets.graph.values import CONTROLLED_TYPES
from ragspine_assets.index.analysis import make_analyzer
from ragspine_assets.index.tokens import tokenize
from ragspine_assets.policy import DomainProfile, Sensitivity, is_restricted, read_label
from ragspine_assets.serving.chunk_table import INDEX_LANGUAGE, SCHEMA, map_table
from ragspine_assets.serving.servable_view import profile_names
from ragspine_assets.serving.snapshot import Snapshot
from ragspine_assets.serving.snapshot_files import GRAPH_TABLES, LEXICAL, MANIFEST, PRODUCT, Level
from ragspine_assets.store.references import references
from ragspine_assets.store.schema import TABLES

if TYPE_CHECKING:
    from ragspine_assets.index.analysis import AnalyzerName

GRAPH_WORDS = (
    *sorted(CONTROLLED_TYPES), "co_occurs_with", "entity", "metric", "external_entity", "doc", "#doc", "company_profile",
    "profile", "metadata", "text", "fact", "external", "extracted",
)  # fmt: skip
"""What the graph calls its own things."""

PIECE = 32
"""Length of a piece of text, in bytes of UTF-8."""

STRIDE = 16
"""Distance between pieces: any 47 bytes of a text hold a whole one."""

LONG = 8
"""From this many bytes on a name cannot be found by chance among the bytes of numbers."""

SHORT = 2
"""Shorter names are in every text."""

_BLOCK = 1 << 20
_TELLING = 5
_ROWS = 4096
_JOINED = 256
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
    suspects = hidden.found_in(_files(snapshot), _values(snapshot))
    # What also stands in something servable tells nothing: it is taken off, and what is left is a trace.
    for material in _servable_material(connection, closed, snapshot, profile):
        if suspects.empty:
            break
        suspects.clear(material)
    found = {*suspects.documents(hidden)}
    for served in (snapshot, *map(snapshot.up_to, snapshot.manifest.levels)):
        found.update(_foreign_words(served, hidden.words))
    name = references(connection)
    return sorted(map(name, found))


def _foreign_words(snapshot: Snapshot, words: Mapping[str, str]) -> Iterator[str]:
    """Yield the documents of words that the index knows although the chunk it finds by them does not hold them."""
    analyzer = make_analyzer(cast("AnalyzerName", snapshot.manifest.analyzer))
    languages, codes = snapshot.chunks.values[INDEX_LANGUAGE], snapshot.chunks.codes[INDEX_LANGUAGE]
    read = zip(words, analyzer.words(list(words), list(languages)), strict=True)
    owners = {term: words[word] for word, terms in read for term in (word, *terms)}
    by_chunk: dict[int, list[str]] = {}
    for term in snapshot.lexical.terms:
        if term in owners:
            positions = snapshot.lexical.documents_with(term)
            by_chunk.setdefault(int(positions[0]) if len(positions) else -1, []).append(term)
    for position, terms in by_chunk.items():
        held: set[str] = set()
        if position >= 0:
            text, language = snapshot.chunks.texts()[position], languages[codes[position]]
            held = {*analyzer.terms(text, language), *analyzer.forms(text, language)}
        yield from (owners[term] for term in terms if term not in held)


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

    @property
    def empty(self) -> bool:
        return not (len(self.pieces) or self.names)

    def clear(self, material: str) -> None:
        """Take off what some servable text holds."""
        data = material.encode("utf-8", "surrogatepass")
        if len(self.pieces):
            self.pieces = self.pieces[~np.isin(self.pieces, _present(data, self.pieces))]
        if self.names:
            self.names -= _NameSearch(self.names).found([data])

    def documents(self, hidden: _Hidden) -> Iterator[str]:
        yield from (hidden.documents[one] for one in hidden.owners[np.isin(hidden.pieces, self.pieces)].tolist())
        for name in self.names:
            yield from hidden.names[name]


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
            encoded = (name or "").strip().encode("utf-8", "surrogatepass")
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
            found = _pieces(text.encode("utf-8", "surrogatepass"))
            pieces.append(found)
            owners.append(np.full(len(found), number[doc_id], np.int32))
        together = np.concatenate(pieces) if pieces else np.empty(0, np.uint64)
        order = np.argsort(together, kind="stable")
        owner = np.concatenate(owners)[order] if owners else np.empty(0, np.int32)
        return cls(documents, together[order], owner, names, words)

    def found_in(self, files: Iterable[bytes], values: Iterable[bytes]) -> _Suspects:
        """Return what is found in the bytes of files, and in values, where short names are looked for too."""
        pieces = [np.empty(0, np.uint64)]
        long = _NameSearch({name for name in self.names if len(name) >= LONG})
        names: set[bytes] = set()
        for block in files:
            pieces.append(_present(block, self.pieces))
            names |= long.found([block])
        names |= _NameSearch({name for name in self.names if len(name) < LONG}).found(values)
        return _Suspects(np.unique(np.concatenate(pieces)), names)


class _NameSearch:
    """Finds which of some names stand in some bytes, in one pass over them."""

    def __init__(self, names: set[bytes]) -> None:
        patterns = sorted(names)
        parts = [patterns[first : first + _NAMES] for first in range(0, len(patterns), _NAMES)]
        self._automata = [(part, BytesAhoCorasick(part)) for part in parts]

    def found(self, materials: Iterable[bytes]) -> set[bytes]:
        if not self._automata:
            return set()
        return {
            part[which]
            for data in materials
            for part, automaton in self._automata
            for which, _, _ in automaton.find_matches_as_indexes(data, overlapping=True)
        }


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[tuple[str, ...]]:
    reader = connection.cursor().execute(query)
    while rows := reader.fetchmany(_JOINED):
        yield from rows


_AT_ONCE = 1 << 20
"""Bytes whose pieces are hashed at once."""


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


def _pieces(data: bytes) -> Hashes:
    """Return the hashes of the pieces of a text, sorted, but of those that say nothing: rules and white space."""
    hashes = _hashes(data)[::STRIDE]
    if not len(hashes):
        return hashes
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), PIECE)[::STRIDE]
    different = (np.diff(np.sort(windows, axis=1), axis=1) != 0).sum(axis=1) + 1
    return np.unique(hashes[different >= _TELLING])


def _present(data: bytes, pieces: Hashes) -> Hashes:
    """Return which of some pieces, sorted by hash, stand anywhere in some bytes."""
    if len(data) < PIECE or not len(pieces):
        return np.empty(0, np.uint64)
    # Most places are ruled out by a table of some bits before anything is searched for.
    bits = min(max(len(pieces).bit_length() + 4, 12), 26)
    table = np.zeros(1 << bits, np.bool_)
    shift = np.uint64(64 - bits)
    table[pieces >> shift] = True
    found = []
    # Hashes take many times the room of what they are made from, so a large document is looked through in blocks.
    for first in range(0, len(data) - PIECE + 1, _AT_ONCE):
        hashes = _hashes(data[first : first + _AT_ONCE + PIECE - 1])
        likely = hashes[table[hashes >> shift]]
        place = np.searchsorted(pieces, likely)
        place[place == len(pieces)] = 0
        found.append(np.unique(likely[pieces[place] == likely]))
    return np.unique(np.concatenate(found))


def _files(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield the bytes of all files but the index terms, in blocks that overlap, so that nothing is lost between two.

    Terms are folded and stand end to end: they look like words that nobody wrote. `_foreign_words` compares them.
    """
    overlap = 4096
    for name in sorted([*snapshot.manifest.files, MANIFEST]):
        # A name in the folder is published like a byte of a file.
        yield name.encode()
        if name.endswith(f"{LEXICAL}/terms.npy"):
            continue
        with (snapshot.path / name).open("rb") as file:
            rest = b""
            while block := file.read(_BLOCK):
                yield rest + block
                rest = (rest + block)[-overlap:]


def _values(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield the strings of all tables, where numbers between them cannot look like letters."""
    for name in sorted(snapshot.manifest.files):
        if name.endswith(".arrow"):
            yield from _strings(map_table(snapshot.path / name))


def _strings(table: pa.Table) -> Iterator[bytes]:
    for column in table.columns:
        for chunk in column.chunks:
            array = chunk.dictionary if isinstance(chunk, pa.DictionaryArray) else chunk
            if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
                for first in range(0, len(array), _ROWS):
                    strings = array.slice(first, _ROWS).to_pylist()
                    yield "\n".join(filter(None, strings)).encode("utf-8", "surrogatepass")


def _servable_material(
    connection: duckdb.DuckDBPyConnection, closed: set[str], snapshot: Snapshot, profile: DomainProfile | None
) -> Iterator[str]:
    """Yield what is no secret: the format, the profile, facts, servable documents with all that is known of them."""
    yield _format_names(snapshot)
    yield "\n".join(_strings_in(profile) if profile else profile_names(connection))
    yield from _uncited(
        connection, "SELECT source_doc_id, source_locator, metric_code, entity, period, unit FROM fact", closed
    )
    closed = closed | _copies(connection, closed)
    yield from _joined(
        connection,
        "SELECT doc_id, doc_id, title, topic, entity, geography, period, language, source_locator, parent_locator, "
        "parent_id, heading, valid_as_of, chunk_id, text FROM narrative_chunk WHERE active",
        closed,
    )
    # Chunks of one long paragraph lie end to end in the file: what crosses a cut is in the text and in no chunk.
    yield from _joined(connection, "SELECT doc_id, text FROM document_text", closed)
    yield from _joined(
        connection,
        "SELECT doc_id, string_agg(text, '' ORDER BY seq) FROM narrative_chunk "
        "WHERE active AND doc_id NOT IN (SELECT doc_id FROM document_text) GROUP BY doc_id",
        closed,
    )
    yield from _joined(
        connection, "SELECT doc_id, window_text FROM narrative_chunk WHERE active AND window_text != ''", closed
    )


def _format_names(snapshot: Snapshot) -> str:
    """Return the words that stand in every snapshot, or that settings put there: no document has a say in them."""
    manifest = snapshot.manifest
    lexical = [path.read_text() for path in sorted(snapshot.path.rglob(f"{LEXICAL}/*.json"))]
    columns = [name for table in GRAPH_TABLES for name in TABLES[table]]
    return "\n".join(
        [*SCHEMA.names, *columns, *GRAPH_TABLES, *GRAPH_WORDS, *Sensitivity, *manifest.files, *lexical]
        + [field.name for field in dataclasses.fields(manifest)]
        + [field.name for field in dataclasses.fields(Level)]
        + [manifest.release, manifest.analyzer, manifest.analyzer_version, *manifest.chunkers, *manifest.counts]
        + [PRODUCT, MANIFEST, "format", "product", "checksum", "bytes", "sha256", "ARROW1", "NUMPY", "fortran_order"]
    )


def _joined(connection: duckdb.DuckDBPyConnection, query: str, closed: set[str]) -> Iterator[str]:
    rows = _rows(connection, query)
    while batch := list(islice(rows, _JOINED)):
        yield "\n".join(value for owner, *values in batch if owner not in closed for value in values if value)


def _copies(connection: duckdb.DuckDBPyConnection, closed: set[str]) -> set[str]:
    """Return the documents with the bytes of a closed one that no row of ``metadata.csv`` opens: nothing explains them."""
    hashes: dict[str, set[str]] = {}
    for doc_id, content in connection.execute(
        "SELECT doc_id, content_hash FROM document WHERE content_hash != '' AND label_reason NOT LIKE 'row of metadata.csv%' "
        "UNION SELECT doc_id, content_hash FROM document WHERE content_hash != '' AND doc_id IN (SELECT unnest(?))",
        [sorted(closed)],
    ).fetchall():
        hashes.setdefault(content, set()).add(doc_id)
    return set().union(*(owners for owners in hashes.values() if owners & closed))


def spells_closed(
    known: Collection[str], closed: Collection[str], refer: Callable[[str], str] | None = None
) -> Callable[[str], bool]:
    """Return a test whether a citation names one of some closed documents, in whatever spelling (SPEC 5.2, 5.4).

    The very id of a known document, with or without version and place, names that document and no other.

    Args:
        known: the ids of all documents.
        closed: those that must not be named.
        refer: gives the reference by which reports call a document (``doc:`` and digits); it names the document too.
    """
    called = {refer(doc_id).removeprefix("doc:") for doc_id in closed} if refer else set()
    ends: set[str] = set()
    for doc_id in closed:
        parts = _plain_path(doc_id).split("/")
        whole = ["/".join(parts[first:]) for first in range(len(parts))]
        ends.update(whole, (end.rpartition(".")[0] or end for end in whole))
    ends.discard("")

    @cache
    def spells(citation: str) -> bool:
        head = re.sub(r"(?:@v\d+)?(?:#[^#]*)?\Z", "", citation)
        for exact in (citation, head):
            if exact in known:
                return exact in closed
        plain = _plain_path(citation)
        if not called.isdisjoint(re.split(r"[^0-9a-z]+", plain.casefold())):
            return True
        # A path begins where a part, a word or a quotation begins, and ends where a word does.
        starts = [0, *(match.end() for match in re.finditer(r"[^\w.-]", plain))]
        stops = [len(plain), *(match.start() for match in re.finditer(r"[^\w-]", plain))]
        return any(plain[start:stop] in ends for start in starts[:_CUTS] for stop in stops[:_CUTS])

    return spells


def _uncited(connection: duckdb.DuckDBPyConnection, query: str, closed: set[str]) -> Iterator[str]:
    """Yield what facts say, but of those whose source or locator names a closed document."""
    known = {doc_id for (doc_id,) in connection.execute(KNOWN).fetchall()}
    spells = spells_closed(known, closed, references(connection))
    rows = _rows(connection, query)
    while batch := list(islice(rows, _JOINED)):
        yield "\n".join(value for row in batch if not (spells(row[0]) or spells(row[1])) for value in row if value)


KNOWN = "SELECT doc_id FROM document UNION SELECT doc_id FROM narrative_chunk"
"""Query for the ids of all documents."""

_CUTS = 64


def _plain_path(path: str) -> str:
    """Return a path in the plainest letters there are for it."""
    plain = unicodedata.normalize("NFKD", unquote(path)).casefold()
    plain = "".join(char for char in plain if unicodedata.category(char) not in {"Mn", "Cf", "Cc"})
    plain = re.sub(r"[/\\\u2044\u2215\s]*[/\\\u2044\u2215][/\\\u2044\u2215\s]*(?:\.[/\\])*", "/", plain)
    return re.sub(r"\s+", " ", plain).strip(" /")


def _strings_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield field.name
            yield from _strings_in(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _strings_in(key)
            yield from _strings_in(inner)
    elif isinstance(value, Iterable):
        for inner in value:
            yield from _strings_in(inner)
