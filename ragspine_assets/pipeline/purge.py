"""Forgetting a document: no row of it, and no byte of it in the store's file, is left (SPEC 3.3, 6.7).

DuckDB keeps deleted bytes after DELETE, CHECKPOINT and VACUUM. So rows are deleted first, in one transaction; then the
tables are copied into a fresh file beside the store, which takes the store's place in one step. The store's lock is held
from the copy to the switch: nobody can write into a file that is about to be replaced.
"""

from __future__ import annotations

import mmap
import os
import secrets
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from ragspine_assets.policy import document_reference
from ragspine_assets.store.chunk_store import ChunkStore, longest_text
from ragspine_assets.store.database import (
    MEMORY,
    StoreError,
    attach,
    memory_database,
    private_files,
    raise_memory_limit,
    spill_folder,
    transaction,
)
from ragspine_assets.store.labels import Withdraw
from ragspine_assets.store.references import reference_key, set_setting, setting

_NAMING_COLUMNS = ("doc_id", "source_doc_id")
_ATTEMPTS = 3


@dataclass
class PurgeReport:
    """What forgetting a document removed, and what still names it.

    Attributes:
        doc_id: the document.
        reference: how event logs name it if it was RESTRICTED.
        rows: rows deleted, by table.
        snapshots: published snapshots that were deleted, because they held it.
        bytes_before: size of the store's file, bytes.
        bytes_after: its size now.
        file_is_there: whether its file is still in the source: the next run would bring it back.
        named_in: files of the event history that name it; they are left as they are.
        left: tables and columns that still hold its id; to be reported as a fault.
        copies: copies of the store that held it and were purged too.
        unreached: copies that could not be purged, each with the reason; they are to be deleted.
    """

    doc_id: str
    reference: str = ""
    rows: dict[str, int] = field(default_factory=dict)
    snapshots: list[str] = field(default_factory=list)
    bytes_before: int = 0
    bytes_after: int = 0
    file_is_there: bool = False
    named_in: list[Path] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    copies: list[Path] = field(default_factory=list)
    unreached: dict[str, str] = field(default_factory=dict)

    @property
    def found(self) -> bool:
        """Whether the store, a copy or a snapshot held anything of it."""
        return bool(self.rows or self.snapshots or self.copies)


def purge_document(
    store: ChunkStore,
    doc_id: str,
    *,
    withdraw: Withdraw | None = None,
    snapshots: Callable[[Sequence[str]], Sequence[str]] | None = None,
    history: str | Path | None = None,
    copies: Sequence[Path] = (),
    wait_s: float = 30.0,
) -> PurgeReport:
    """Remove a document from the store, physically, and from what was derived from it.

    Every table loses its rows: chunks of all versions, staged rows, text, state, label history, evidence, answers of
    models about its texts. Only a keyed hash of its id stays, so that facts that cite it stay out of the graph. Its
    citations resolve no more. Purging again what is gone does no harm, and finishes what a killed purge began.

    Args:
        store: the chunk store; it must not be held open.
        doc_id: the document.
        withdraw: removes documents from what was derived from them, as `sync_documents` takes it.
        snapshots: deletes the published snapshots that hold some documents and returns their names.
        history: folder of Dagster's history; its files that name the document are listed.
        copies: copies of the store, which are purged in the same way.
        wait_s: seconds to wait while another process holds the store.

    Raises:
        StoreBusyError: another process held the store for too long.
        StoreError: no document is named, or the fresh file cannot be written, because the disk is full for example. The rows are deleted then,
            but their bytes are still in the file; purge again.
    """
    doc_id = unicodedata.normalize("NFC", doc_id)
    if not doc_id.strip():
        # Every empty column of every table would look like it.
        raise StoreError("No document is named. Its id is its path below the source, as `ragspine search` prints it.")
    report = PurgeReport(doc_id)
    if store.is_open and str(store.path) != MEMORY:
        raise StoreError("The store is held open by the caller. Close it, then purge.")
    with store.connect() as connection:
        report.reference = document_reference(doc_id, reference_key(connection))
        report.file_is_there = _is_in_source(connection, Path(str(store.path)), doc_id)
        with transaction(connection):
            report.rows = delete_document(connection, doc_id, withdraw)
        report.left = _still_named(connection, doc_id)
    if str(store.path) != MEMORY:
        path = Path(os.path.abspath(store.path))
        report.bytes_before = path.stat().st_size
        rewrite(path, wait_s=wait_s)
        report.bytes_after = path.stat().st_size
    for copy in copies:
        try:
            held = purge_document(ChunkStore(copy, wait_s=wait_s), doc_id, withdraw=withdraw, wait_s=wait_s)
        except StoreError as error:
            report.unreached[str(copy)] = str(error)
        else:
            report.copies += [copy] if held.rows else []
            report.left += [f"{copy}: {left}" for left in held.left]
    if snapshots is not None:
        report.snapshots = list(snapshots([doc_id]))
    if history is not None:
        report.named_in = files_that_name(history, [doc_id, report.reference])
    return report


def delete_document(
    connection: duckdb.DuckDBPyConnection, doc_id: str, withdraw: Withdraw | None = None
) -> dict[str, int]:
    """Delete a document's rows and remember, by its reference, that it was purged; within the caller's transaction.

    Returns:
        Rows deleted, by table. Their bytes are in the file until it is rewritten.
    """
    rows = _delete_rows(connection, doc_id)
    if "document_text" in rows and (most := setting(connection, "most_documents")):
        # What was forgotten on purpose is not what a later run should miss.
        set_setting(connection, "most_documents", str(max(0, int(most) - 1)))
    if withdraw is not None:
        withdraw(connection, [doc_id])
    if rows:
        _remember(connection, document_reference(doc_id, reference_key(connection)))
    return rows


def purged_among(connection: duckdb.DuckDBPyConnection, doc_ids: Sequence[str]) -> set[str]:
    """Return those of some documents that were purged and have not come back: facts of them are left out (SPEC 5.2)."""
    purged = {row[0] for row in connection.execute("SELECT reference FROM purged_document").fetchall()}
    if not purged:
        return set()
    key = reference_key(connection)
    known = {row[0] for row in connection.execute("SELECT doc_id FROM document").fetchall()}
    return {doc_id for doc_id in doc_ids if doc_id not in known and document_reference(doc_id, key) in purged}


def leave_out_purged(connection: duckdb.DuckDBPyConnection, facts: pa.Table) -> pa.Table:
    """Return a table of facts without those that cite a purged document in their column ``source_doc_id``."""
    purged = purged_among(connection, sorted(set(facts["source_doc_id"].to_pylist())))
    if not purged:
        return facts
    return facts.filter(pa.array([doc_id not in purged for doc_id in facts["source_doc_id"].to_pylist()], pa.bool_()))


def _delete_rows(connection: duckdb.DuckDBPyConnection, doc_id: str) -> dict[str, int]:
    """Delete the rows of every table that belong to a document, tables of later releases too."""
    deleted: dict[str, int] = {}
    for table, column in connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = current_database() "
        "AND schema_name = 'main' AND NOT internal AND list_contains(?, column_name) "
        "AND table_name IN (SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() "
        "AND NOT temporary) ORDER BY ALL",
        [list(_NAMING_COLUMNS)],
    ).fetchall():
        # Evidence in the graph's tables goes with its edges and nodes, which only their room knows.
        if table.startswith("graph_") and column == "source_doc_id":
            continue
        (count,) = connection.execute(f'DELETE FROM "{table}" WHERE "{column}" = ?', [doc_id]).fetchall()[0]
        if count:
            deleted[table] = deleted.get(table, 0) + int(count)
    return deleted


def _remember(connection: duckdb.DuckDBPyConnection, reference: str) -> None:
    connection.execute("DELETE FROM purged_document WHERE reference = ?", [reference])
    connection.execute(
        "INSERT INTO purged_document (reference, purged_at) VALUES (?, ?)",
        [reference, datetime.now(UTC).replace(tzinfo=None)],
    )


def _still_named(connection: duckdb.DuckDBPyConnection, doc_id: str) -> list[str]:
    """Look for the id in every text column of every table, by itself and as the start of a locator or a chunk's id."""
    left = []
    for table, column in connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = current_database() "
        "AND schema_name = 'main' AND NOT internal AND data_type = 'VARCHAR' "
        "AND table_name IN (SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() "
        "AND NOT temporary) ORDER BY ALL"
    ).fetchall():
        (count,) = connection.execute(
            f'SELECT count(*) FROM "{table}" WHERE "{column}" = $id OR starts_with("{column}", $id || \'#\') '
            f"OR starts_with(\"{column}\", $id || '@v')",
            {"id": doc_id},
        ).fetchall()[0]
        if count:
            left.append(f"{table}.{column}: {count}")
    return left


def _is_in_source(connection: duckdb.DuckDBPyConnection, store: Path, doc_id: str) -> bool:
    rows = connection.execute("SELECT value FROM store_setting WHERE name = 'source_root'").fetchall()
    return bool(rows) and os.path.lexists(os.path.join(store.parent, rows[0][0], doc_id))


# -- the file ------------------------------------------------------------------------------------------------------------


def rewrite(path: str | Path, *, wait_s: float = 30.0, memory_limit: str = "320MB") -> None:
    """Copy a store into a fresh file that takes its place: what was deleted is in it no more.

    Killed at any instant, the store is the old file or the new one; the next one who opens the store removes the rest.

    Args:
        path: the store's file.
        wait_s: seconds to wait while another process holds the store.
        memory_limit: what DuckDB's buffers may take before it spills beside the store.

    Raises:
        StoreBusyError: another process held the store for too long.
        StoreError: the fresh file cannot be written.
    """
    path = Path(os.path.abspath(path))
    folder = spill_folder(path) / f"rewrite-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with private_files():
            folder.mkdir(parents=True)
            for _ in range(_ATTEMPTS):
                if _copied_and_switched(path, folder, wait_s, memory_limit):
                    return
                # A process that died since left a log of changes; opening the store for writing takes them in.
                with _attached(path, folder, wait_s, memory_limit, read_only=False) as connection:
                    connection.execute("CHECKPOINT store")
        raise StoreError(f"The store {path} does not come to rest: other processes keep dying on it. Try again later.")
    except (OSError, duckdb.Error) as error:
        raise StoreError(
            f"The store {path} cannot be copied ({_kind(error)}), so the bytes of what was deleted are still in it. Make "
            f"room for {path.stat().st_size / 1e6:.0f} MB beside it, then purge again."
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copied_and_switched(path: Path, folder: Path, wait_s: float, memory_limit: str) -> bool:
    fresh = folder / "fresh.duckdb"
    fresh.unlink(missing_ok=True)
    # Read-only, so that closing it writes nothing where the fresh file lies then; its lock keeps every writer out.
    with _attached(path, folder, wait_s, memory_limit, read_only=True) as connection:
        log = path.with_name(path.name + ".wal")
        if log.exists():
            return False
        attach(connection, fresh, "fresh")
        connection.execute("USE store")
        # A text is read from one file and compressed into the other: both want the room at the same time.
        raise_memory_limit(connection, 2 * longest_text(connection), memory_limit)
        connection.execute("USE memory")
        connection.execute("COPY FROM DATABASE store TO fresh")
        connection.execute("CHECKPOINT fresh")
        connection.execute("DETACH fresh")
        fresh.chmod(0o600)
        to_disk(fresh)
        os.replace(fresh, path)
        to_disk(path.parent)
    return True


@contextmanager
def _attached(
    path: Path, folder: Path, wait_s: float, memory_limit: str, *, read_only: bool
) -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(memory_database(memory_limit=memory_limit, threads=1, spill=folder)) as connection:
        attach(connection, path, "store", wait_s=wait_s, read_only=read_only)
        yield connection


def _kind(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or type(error).__name__


def to_disk(path: Path) -> None:
    """See that a file, or what a folder lists, survives a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- the history ---------------------------------------------------------------------------------------------------------


def files_that_name(folder: str | Path, names: Sequence[str]) -> list[Path]:
    """Return the files below a folder that hold one of some names, as they are or as JSON escapes them; sorted.

    Only bytes are compared. Names of a few characters are found in much that does not mean them.
    """
    needles = {name.encode("utf-8", "surrogateescape") for name in names if name}
    needles |= {name.encode("ascii", "backslashreplace").replace(b"\\x", b"\\u00") for name in names if name}
    found = []
    for where, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path = Path(where, name)
            with suppress(OSError, ValueError), path.open("rb") as file:
                if not os.fstat(file.fileno()).st_size:
                    continue
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    if any(content.find(needle) >= 0 for needle in needles):
                        found.append(path)
    return found
