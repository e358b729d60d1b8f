"""The versioned chunk store: every version of every document's chunks, citable until purged (SPEC 3)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa

from ragspine_assets.chunking.chunk import FILTERS, Chunk
from ragspine_assets.policy import read_label

from .database import (
    MEMORY,
    MEMORY_LIMIT,
    VALUES_TOGETHER,
    StoreBusyError,
    StoreError,
    engine_error,
    engine_errors_translated,
    longest_together,
    open_database,
    raise_memory_limit,
    registered,
    transaction,
)
from .labels import raise_labels
from .schema import CHUNK_COLUMNS, TABLES, migrate, pending_changes

_STORED = (*CHUNK_COLUMNS, "ingested_at", "version", "active")
# A store of another origin may allow nulls where ours does not; they read back as the column's default.
_READ = ", ".join(
    "coalesce(strftime(ingested_at, '%Y-%m-%dT%H:%M:%S.%fZ'), '') AS ingested_at"
    if name == "ingested_at"
    else f"coalesce({name}, {kind.rpartition('DEFAULT ')[2]}) AS {name}"
    if "DEFAULT" in (kind := TABLES["narrative_chunk"][name])
    else name
    for name in _STORED
)


@dataclass(frozen=True)
class StoredChunk(Chunk):
    """A chunk as the store keeps it (SPEC 3.1).

    Attributes:
        ingested_at: when this version was written, UTC, ISO 8601; ``''`` for a chunk that was never stored.
        version: version of its document, from 1.
        active: whether this is the version that counts now.
    """

    ingested_at: str = ""
    version: int = 1
    active: bool = True

    @property
    def citation(self) -> str:
        """The durable name of this chunk: ``{doc_id}@v{version}#c{seq}``."""
        return f"{self.doc_id}@v{self.version}#c{self.seq}"

    def as_chunk(self) -> Chunk:
        """Return what a chunker made, without what the store added."""
        return Chunk(**{name: getattr(self, name) for name in CHUNK_COLUMNS})


# How many bytes a text has is not kept; of a text file it is about what the file has. Values that are read together
# follow each other in the table.
_LONGEST = f"""
    SELECT coalesce(max(size), 0)::BIGINT FROM (
        SELECT sum(greatest(d.characters, least(d.bytes, 4 * d.characters)))
            OVER (ORDER BY t.rowid ROWS {VALUES_TOGETHER - 1} PRECEDING) AS size
        FROM document_text t JOIN document d USING (doc_id))
"""


def longest_text(connection: duckdb.DuckDBPyConnection) -> int:
    """Return about how many bytes the texts have that DuckDB reads together, at most."""
    return connection.execute(_LONGEST).fetchall()[0][0]


# What fits a column of numbers.
_NUMBER = re.compile("[0-9]{1,9}")
_STORED_FIELDS = tuple(field.name for field in fields(StoredChunk))


class ChunkStore:
    """One DuckDB file with every chunk of every version (SPEC 3).

    Each call opens the file and closes it again, so that other processes get their turn; ``with store:`` keeps it open
    for several calls. The schema is created or migrated when the store is first opened.

    Args:
        path: the store file, or ``:memory:``. The file is created with mode 0600.
        wait_s: seconds to wait, with back-off, while another process holds the store.
        memory_limit: what DuckDB's buffers may take before it spills beside the store, in MB as ``192MB``. Very long
            documents get more.
        threads: threads a query may use; at most 4 when not given.
        keep_open: leave the file open between calls, until `close`: whoever makes many calls in a row saves the time of
            opening it. Nobody else gets a turn.

    Raises:
        StoreBusyError: (any call) another process held the store for too long; the message names it.
        StoreError: (any call) the file is not a store, or cannot be opened.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        wait_s: float = 30.0,
        memory_limit: str = MEMORY_LIMIT,
        threads: int | None = None,
        keep_open: bool = False,
    ) -> None:
        self.path = path if str(path) == MEMORY else Path(path)
        self._wait_s = wait_s
        self._memory_limit = memory_limit
        self._threads = threads
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._held = ExitStack()
        self._keep_open = keep_open
        self._kept: duckdb.DuckDBPyConnection | None = None
        self._file = ExitStack()
        self._migrated = False
        if str(path) == MEMORY:
            self.__enter__()

    def __repr__(self) -> str:
        return f"ChunkStore({str(self.path)!r})"

    def __enter__(self) -> Self:
        if self._connection is None:
            self._held.enter_context(self.connect())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if str(self.path) != MEMORY:
            self._held.close()

    @property
    def is_open(self) -> bool:
        """Whether this store holds the file open now."""
        return self._connection is not None

    def close(self) -> None:
        """Close the file if this store holds it open."""
        self._held.close()
        self._kept = None
        self._file.close()

    def connect(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """Open the store for a block of work, with a current schema; nested blocks share one connection."""
        return self._connect()

    @contextmanager
    def _connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        if self._connection is not None:
            yield self._connection
            return
        connection = self._kept or self._open()
        self._connection = connection
        try:
            with engine_errors_translated(self.path):
                yield connection
        except BaseException:
            # Whatever state it is in, the next call finds the file as it is on disk.
            self._keep(None)
            raise
        else:
            self._keep(connection if self._keep_open else None)
        finally:
            self._connection = None

    def _open(self) -> duckdb.DuckDBPyConnection:
        try:
            connection = self._file.enter_context(
                open_database(self.path, wait_s=self._wait_s, memory_limit=self._memory_limit, threads=self._threads)
            )
        except StoreBusyError:
            # Who makes many calls in a row has waited for all of them.
            self._wait_s = 0.0 if self._keep_open else self._wait_s
            raise
        try:
            with engine_errors_translated(self.path):
                if not self._migrated:
                    migrate(connection)
                self.raise_memory_limit(connection)
        except BaseException:
            self._file.close()
            raise
        self._migrated = True
        return connection

    def raise_memory_limit(self, connection: duckdb.DuckDBPyConnection, coming: Sequence[int] = ()) -> None:
        """Let DuckDB have more memory than usual where documents are very long, see `database.raise_memory_limit`.

        Args:
            connection: the open store.
            coming: bytes of the texts that will be stored, in their order.
        """
        # What replaces a text may come to lie beside it.
        raise_memory_limit(connection, longest_text(connection) + longest_together(coming), self._memory_limit)

    def _keep(self, connection: duckdb.DuckDBPyConnection | None) -> None:
        self._kept = connection
        if connection is None:
            self._file.close()

    def init_schema(self) -> None:
        """Create what is missing and add missing columns; silent on a current schema (SPEC 3.2)."""
        with self.connect() as connection:
            migrate(connection)

    def pending_migrations(self) -> list[str]:
        """Return the statements ``init_schema`` would run on this file, without running them."""
        with open_database(self.path, wait_s=self._wait_s) as connection:
            return pending_changes(connection)

    def replace_doc_chunks(self, doc_id: str, chunks: Sequence[Chunk], valid_as_of: str = "") -> int:
        """Make ``chunks`` the active version of a document, in one transaction (SPEC 3.3).

        The former version is deactivated and stays citable. An empty list withdraws the document. A label outside the
        lattice is stored as RESTRICTED, and a label higher than that of older versions raises theirs.

        Args:
            doc_id: the document; every chunk must name it.
            chunks: the chunks of the new version, in order of ``seq``.
            valid_as_of: date for which the content is valid; each chunk's own where empty.

        Returns:
            The number of the new version, or of the one withdrawn (0 where there was none).

        Raises:
            ValueError: a chunk belongs to another document, or a ``seq`` is there twice.
        """
        return self.replace_chunks({doc_id: chunks}, valid_as_of)[doc_id]

    def replace_chunks(self, documents: Mapping[str, Sequence[Chunk]], valid_as_of: str = "") -> dict[str, int]:
        """Make chunks the active version of each of several documents, in one transaction; see `replace_doc_chunks`.

        Args:
            documents: ``doc_id`` to the chunks of its new version.
            valid_as_of: date for which the contents are valid; each chunk's own where empty.

        Returns:
            The number of each document's new version, or of the one withdrawn.

        Raises:
            ValueError: as `replace_doc_chunks`; nothing is written.
        """
        for doc_id, chunks in documents.items():
            if any(chunk.doc_id != doc_id for chunk in chunks):
                raise ValueError(f"replace_doc_chunks({doc_id!r}): a chunk names another document.")
            if len({chunk.seq for chunk in chunks}) != len(chunks):
                raise ValueError(f"replace_doc_chunks({doc_id!r}): two chunks have the same seq.")
        if not documents:
            return {}
        incoming = pa.table({"doc_id": pa.array(list(documents), pa.string())})
        with self.connect() as connection, transaction(connection):
            with registered(connection, _ids=incoming):
                versions = dict.fromkeys(documents, 0) | dict(
                    connection.execute(
                        "SELECT doc_id, max(version) FROM narrative_chunk SEMI JOIN _ids USING (doc_id) GROUP BY doc_id"
                    ).fetchall()
                )
                connection.execute(
                    "UPDATE narrative_chunk AS c SET active = FALSE FROM _ids i WHERE c.doc_id = i.doc_id AND active"
                )
            written = {doc_id: chunks for doc_id, chunks in documents.items() if chunks}
            versions |= {doc_id: versions[doc_id] + 1 for doc_id in written}
            insert_chunks(connection, _rows(chain.from_iterable(written.values()), valid_as_of), versions)
            raise_labels(
                connection,
                {
                    doc_id: (max((read_label(c.sensitivity) for c in chunks), key=lambda s: s.rank), "a later version")
                    for doc_id, chunks in written.items()
                },
            )
        return versions

    def iter_chunks(
        self,
        *,
        doc_id: str | None = None,
        topic: str | None = None,
        entity: str | None = None,
        geography: str | None = None,
        period: str | None = None,
        language: str | None = None,
        include_inactive: bool = False,
    ) -> Iterator[StoredChunk]:
        """Yield stored chunks, ordered by ``(doc_id, seq, version)``; active ones only unless told otherwise.

        The store is held while the iterator lives. This is inside the trust boundary: RESTRICTED chunks are among
        them (SPEC 4.1).
        """
        given = dict(zip(FILTERS, (doc_id, topic, entity, geography, period, language), strict=True))
        wanted = {name: value for name, value in given.items() if value is not None}
        conditions = [f"{name} = ?" for name in wanted] + ([] if include_inactive else ["active"])
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        with self.connect() as connection:
            reader = connection.cursor().execute(
                f"SELECT {_READ} FROM narrative_chunk {where} ORDER BY doc_id, seq, version", list(wanted.values())
            )
            while rows := reader.fetchmany(2048):
                for row in rows:
                    yield _stored(row)

    def latest_chunks(self, doc_ids: Collection[str]) -> dict[str, list[StoredChunk]]:
        """Return the chunks of the last version of some documents, withdrawn ones too, by document in order of ``seq``."""
        found: dict[str, list[StoredChunk]] = {}
        wanted = pa.table({"doc_id": pa.array(list(doc_ids), pa.string())})
        with self.connect() as connection, registered(connection, _wanted=wanted):
            rows = connection.execute(
                f"SELECT {_READ} FROM narrative_chunk SEMI JOIN _wanted USING (doc_id) "
                "QUALIFY version = max(version) OVER (PARTITION BY doc_id) ORDER BY doc_id, seq"
            ).fetchall()
        for chunk in map(_stored, rows):
            found.setdefault(chunk.doc_id, []).append(chunk)
        return found

    def read_chunks(self, keys: Sequence[tuple[str, int]]) -> list[StoredChunk]:
        """Return the active chunks with the given ``(doc_id, seq)``, ordered by them; missing ones are left out."""
        if not keys:
            return []
        wanted = pa.table({"doc_id": [doc_id for doc_id, _ in keys], "seq": [seq for _, seq in keys]})
        with self.connect() as connection, registered(connection, _wanted=wanted):
            rows = connection.execute(
                f"SELECT {_READ} FROM narrative_chunk SEMI JOIN _wanted USING (doc_id, seq) WHERE active "
                "ORDER BY doc_id, seq"
            ).fetchall()
        return [_stored(row) for row in rows]

    def resolve(self, citation: str) -> StoredChunk | None:
        """Return the chunk a citation ``{doc_id}@v{version}#c{seq}`` names, active or not; None if there is none."""
        head, _, seq = citation.rpartition("#c")
        doc_id, _, version = head.rpartition("@v")
        if not (doc_id and _NUMBER.fullmatch(seq) and _NUMBER.fullmatch(version)):
            return None
        with self.connect() as connection:
            row = connection.execute(
                f"SELECT {_READ} FROM narrative_chunk WHERE doc_id = ? AND version = ? AND seq = ?",
                [doc_id, int(version), int(seq)],
            ).fetchone()
        return _stored(row) if row else None

    def count(self, *, include_inactive: bool = False) -> int:
        """Return how many chunks there are; active ones only unless told otherwise."""
        with self.connect() as connection:
            where = "" if include_inactive else "WHERE active"
            row = connection.execute(f"SELECT count(*) FROM narrative_chunk {where}").fetchone()
        return row[0] if row else 0


def _stored(row: tuple[object, ...]) -> StoredChunk:
    return StoredChunk(**dict(zip(_STORED, row, strict=True)))  # pyright: ignore[reportArgumentType]


def _rows(chunks: Iterable[Chunk], valid_as_of: str) -> pa.RecordBatch:
    columns: dict[str, list[object]] = {name: [] for name in CHUNK_COLUMNS}
    for chunk in chunks:
        for name in CHUNK_COLUMNS:
            columns[name].append(getattr(chunk, name))
    columns["sensitivity"] = [str(read_label(label)) for label in columns["sensitivity"]]
    if valid_as_of:
        columns["valid_as_of"] = [valid_as_of] * len(columns["doc_id"])
    return pa.RecordBatch.from_pydict(columns)


def insert_chunks(connection: duckdb.DuckDBPyConnection, rows: pa.RecordBatch, versions: Mapping[str, int]) -> None:
    """Append rows with the columns of a chunk as active rows, each with the version number of its document."""
    if not rows.num_rows:
        return
    names = ", ".join(CHUNK_COLUMNS)
    now = datetime.now(UTC).replace(tzinfo=None)
    numbers = pa.array([versions[doc_id] for doc_id in rows.column("doc_id").to_pylist()], pa.int32())
    incoming = pa.Table.from_batches([rows]).append_column("version", numbers)
    try:
        with registered(connection, _incoming=incoming):
            connection.execute(
                f"INSERT INTO narrative_chunk ({names}, ingested_at, version, active) "
                f"SELECT {names}, ?, version, TRUE FROM _incoming",
                [now],
            )
    except duckdb.Error as error:
        message = f"The chunks could not be stored ({type(error).__name__}); nothing was changed."
        raise engine_error(error) or StoreError(message) from None
