"""Importing a store of the rag-spine library: SQLite, with the same table (SPEC 3.5).

Versions, which of them counts, labels and locators are kept. A label that is none is RESTRICTED, and no older version of a
document ends up less protected than a newer one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import duckdb
import pyarrow as pa

from ragspine_assets.policy import Sensitivity, is_known_label, most_restricted
from ragspine_assets.store.chunk_store import ChunkStore
from ragspine_assets.store.database import StoreError, transaction
from ragspine_assets.store.schema import CHUNK_COLUMNS, TABLES

_TABLE = "narrative_chunk"
_REQUIRED = ("chunk_id", "doc_id", "seq", "text", "source_locator", "version", "active")
_COLUMNS = (*CHUNK_COLUMNS, "ingested_at", "version", "active")
_NUMBERS = {name for name in CHUNK_COLUMNS if TABLES[_TABLE][name].startswith("INTEGER")} | {"version", "active"}
_HEADER = b"SQLite format 3\0"
_ROWS = 4096

Row = dict[str, object]


@dataclass(frozen=True)
class ImportReport:
    """What an import brought.

    Attributes:
        documents: documents imported.
        versions: versions of them.
        chunks: chunks of all versions.
        already_there: documents that the store had before, which were left as they are.
        unknown_labels: chunks whose label is none and became RESTRICTED.
    """

    documents: int = 0
    versions: int = 0
    chunks: int = 0
    already_there: int = 0
    unknown_labels: int = 0


def import_sqlite(store: ChunkStore, path: str | Path) -> ImportReport:
    """Copy the documents of a rag-spine store that this store does not have, all of them or none.

    Args:
        store: the store to import into.
        path: the SQLite file. It is only read.

    Raises:
        StoreError: the file is missing, no SQLite file, has no such table, or a row in it is unusable.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            if file.read(len(_HEADER)) != _HEADER:
                raise StoreError(f"{path} is no SQLite file. Give the store file of rag-spine, `*.db` or `*.sqlite`.")
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}). Give the store file of rag-spine.") from None
    source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        with store.connect() as connection, transaction(connection):
            return _import(source, connection, path)
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be read as SQLite ({type(error).__name__}); nothing was imported.") from None
    finally:
        source.close()


def _import(source: sqlite3.Connection, connection: duckdb.DuckDBPyConnection, path: Path) -> ImportReport:
    have = {row[1].lower() for row in source.execute(f"PRAGMA table_info({_TABLE})")}
    if not have:
        raise StoreError(f"{path} has no table {_TABLE}: it is no store of rag-spine. Nothing was imported.")
    if missing := [name for name in _REQUIRED if name not in have]:
        raise StoreError(f"{path}: the table {_TABLE} has no column {', '.join(missing)}. Nothing was imported.")
    known = {
        row[0]
        for row in connection.execute("SELECT doc_id FROM narrative_chunk UNION SELECT doc_id FROM document").fetchall()
    }
    documents = versions = chunks = there = unknown = 0
    waiting: list[Row] = []
    for doc_id, rows in groupby(_rows(source, have, path), key=lambda row: row["doc_id"]):
        if doc_id in known:
            there += 1
            continue
        documents += 1
        of_version = {version: list(part) for version, part in groupby(rows, key=lambda row: row["version"])}
        unknown += sum(not is_known_label(row["sensitivity"]) for part in of_version.values() for row in part)
        versions += len(of_version)
        for row in _protected(of_version):
            waiting.append(row)
            chunks += 1
        if len(waiting) >= _ROWS:
            _insert(connection, waiting)
            waiting = []
    if waiting:
        _insert(connection, waiting)
    return ImportReport(documents, versions, chunks, there, unknown)


def _rows(source: sqlite3.Connection, have: set[str], path: Path) -> Iterator[Row]:
    names = [name for name in _COLUMNS if name in have]
    # The type of a value is the row's in SQLite, not the column's.
    reader = source.execute(f"SELECT {', '.join(names)} FROM {_TABLE} ORDER BY doc_id, version, seq")
    for number, values in enumerate(reader, start=1):
        row: Row = {name: 0 if name in _NUMBERS else "" for name in _COLUMNS}
        try:
            for name, value in zip(names, values, strict=True):
                if name in _NUMBERS:
                    row[name] = int(value or 0)
                elif isinstance(value, str):
                    row[name] = value
                elif value is not None:
                    raise TypeError(name)
            if not row["doc_id"] or not row["text"]:
                raise ValueError("empty")
        except (TypeError, ValueError):
            raise StoreError(
                f"{path}: row {number} in order of document, version and seq has a value of a wrong type, or no document "
                "or no text. Nothing was imported."
            ) from None
        yield row


def _protected(of_version: Mapping[object, Sequence[Row]]) -> Iterator[Row]:
    """Yield the rows with the labels they get: one per version, never lower than that of a later version."""
    numbers = sorted(of_version, key=lambda version: int(str(version)))
    labels: dict[object, Sensitivity] = {}
    highest = Sensitivity.PUBLIC
    for number in reversed(numbers):
        highest = most_restricted(highest, *(row["sensitivity"] for row in of_version[number]))
        labels[number] = highest
    live = [number for number in numbers if any(row["active"] for row in of_version[number])]
    for number in numbers:
        for row in of_version[number]:
            yield {**row, "sensitivity": str(labels[number]), "active": bool(live) and number == live[-1]}


def _insert(connection: duckdb.DuckDBPyConnection, rows: Sequence[Row]) -> None:
    columns = {name: [row[name] for row in rows] for name in (*CHUNK_COLUMNS, "version", "active")}
    columns["ingested_at"] = [_moment(row["ingested_at"]) for row in rows]
    types = {"ingested_at": pa.timestamp("us"), "active": pa.bool_()}
    table = pa.table(
        {
            name: pa.array(values, types.get(name, pa.int32() if name in _NUMBERS else pa.string()))
            for name, values in columns.items()
        }
    )
    connection.register("_imported", table)
    try:
        names = ", ".join(columns)
        connection.execute(f"INSERT INTO narrative_chunk ({names}) SELECT {names} FROM _imported")
    finally:
        connection.unregister("_imported")


def _moment(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
