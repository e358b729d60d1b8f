"""How documents are named outside of the store, and the settings that live as long as it (SPEC 6.1)."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import duckdb

from ragspine_assets.policy import document_reference

OPEN_DOCUMENTS = """
    SELECT doc_id FROM (SELECT doc_id, sensitivity FROM document UNION ALL SELECT doc_id, sensitivity FROM narrative_chunk)
    GROUP BY doc_id HAVING bool_and(coalesce(sensitivity IN ('PUBLIC', 'INTERNAL', 'CONFIDENTIAL'), FALSE))
"""
"""SQL for the ids of documents that may be named outside: nothing the store holds of them is RESTRICTED, in any version."""


def reference_key(connection: duckdb.DuckDBPyConnection) -> bytes:
    """Return the store's key for document references, making it at first use."""
    kept = setting(connection, "reference_key")
    if kept:
        return bytes.fromhex(kept)
    key = secrets.token_bytes(32)
    set_setting(connection, "reference_key", key.hex())
    return key


def setting(connection: duckdb.DuckDBPyConnection, name: str) -> str | None:
    """Return a setting of the store, None where it was never set."""
    rows = connection.execute("SELECT value FROM store_setting WHERE name = ?", [name]).fetchall()
    return rows[0][0] if rows else None


def set_setting(connection: duckdb.DuckDBPyConnection, name: str, value: str) -> None:
    """Keep a setting that must live as long as the store."""
    connection.execute("DELETE FROM store_setting WHERE name = ?", [name])
    connection.execute("INSERT INTO store_setting (name, value) VALUES (?, ?)", [name, value])


def references(connection: duckdb.DuckDBPyConnection) -> Callable[[str], str]:
    """Return a function that names a document outside the store: by id, or by keyed hash where it must stay unknown."""
    open_ids: set[str] = set()
    key = b""

    def name(doc_id: str) -> str:
        nonlocal key
        if not key:
            # Where nothing is broken nobody is named, and the tables need not be read for it.
            key = reference_key(connection)
            # On a connection of its own, since somebody may be reading from this one.
            with connection.cursor() as own:
                open_ids.update(row[0] for row in own.execute(OPEN_DOCUMENTS).fetchall())
        return doc_id if doc_id in open_ids else document_reference(doc_id, key)

    return name
