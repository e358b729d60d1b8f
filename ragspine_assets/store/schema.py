"""The tables of the store, and the additive migration that keeps old stores readable (SPEC 3.1, 3.2).

There is no schema version: a table's columns are it. Statements elsewhere name their columns, so a column this code
does not know is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from ragspine_assets.chunking.chunk import COLUMNS, ChunkColumn

from .database import transaction

_TEXT = "TEXT NOT NULL DEFAULT ''"
_COUNT = "INTEGER NOT NULL DEFAULT 0"
_BIG = "BIGINT NOT NULL DEFAULT 0"
_OWN_PLACE = ("doc_id", "valid_as_of")


def _type_of(column: ChunkColumn) -> str:
    kind = "INTEGER" if column.kind is int else "TEXT"
    if column.stored_default is None:
        return f"{kind} NOT NULL"
    return f"{kind} NOT NULL DEFAULT {column.stored_default if column.kind is int else repr(column.stored_default)}"


_CHUNK: Mapping[str, str] = {column.name: _type_of(column) for column in COLUMNS}

_METADATA: Mapping[str, str] = {
    column.name: _CHUNK[column.name] for column in COLUMNS if column.inherited and column.name not in _OWN_PLACE
}

_EDGE: Mapping[str, str] = dict.fromkeys(("src_type", "src", "dst_type", "dst", "type"), "TEXT NOT NULL")

TABLES: Mapping[str, Mapping[str, str]] = {
    "narrative_chunk": {
        **_CHUNK,
        "ingested_at": "TIMESTAMP",
        "version": "INTEGER NOT NULL DEFAULT 1",
        "active": "BOOLEAN NOT NULL DEFAULT TRUE",
    },
    # What the last run made of each document's current text, before it becomes a version.
    "staged_chunk": dict(_CHUNK),
    "staged_document": {
        "doc_id": "TEXT NOT NULL",
        "fingerprint": _TEXT,
        "rows_digest": _TEXT,
        "chunker": _TEXT,
    },
    # One row per document the store has ever seen.
    "document": {
        "doc_id": "TEXT NOT NULL",
        "status": _TEXT,
        "reason": _TEXT,
        "retry": "BOOLEAN NOT NULL DEFAULT FALSE",
        "content_hash": _TEXT,
        "bytes": _BIG,
        "suffix": _TEXT,
        "markup": _TEXT,
        "parser": _TEXT,
        "extraction": _TEXT,
        "encoding": _TEXT,
        "encoding_found_by": _TEXT,
        "pages": _COUNT,
        "characters": _BIG,
        "paragraphs": _COUNT,
        "text_hash": _TEXT,
        "left_out": _TEXT,
        **_METADATA,
        "valid_as_of": _TEXT,
        "label_reason": _TEXT,
        "policy_label": _TEXT,
        "policy_reason": _TEXT,
        "policy_hash": _TEXT,
        # What spoke for a label, and how much of each kind was read for the label only (SPEC 1.11); no words of it.
        "policy_findings": _TEXT,
        "label_only": _TEXT,
        "file_title": _TEXT,
        "front_matter": _TEXT,
        "front_matter_problem": _TEXT,
        "problems": _TEXT,
        "run_id": _TEXT,
        "changed_at": "TIMESTAMP",
    },
    "document_text": {
        "doc_id": "TEXT NOT NULL",
        "text": "TEXT NOT NULL",
        "page_starts": "INTEGER[]",
    },
    # What a file says beside its text, so that a new policy judges it without its being parsed again (SPEC 1.11).
    "document_reading": {"doc_id": "TEXT NOT NULL", "file_labels": "TEXT NOT NULL"},
    # What documents' files were before they changed or went: a copy of them is as secret as they were (SPEC 1.8).
    "earlier_content": {
        "doc_id": "TEXT NOT NULL",
        "content_hash": "TEXT NOT NULL",
        "sensitivity": "TEXT NOT NULL DEFAULT 'RESTRICTED'",
    },
    "label_history": {
        "doc_id": "TEXT NOT NULL",
        "old_label": _TEXT,
        "new_label": _TEXT,
        "reason": _TEXT,
        "run_id": _TEXT,
        "changed_at": "TIMESTAMP",
    },
    # What the proof of labels read in each document's file; no stage writes it (SPEC 6.3).
    "label_proof": {
        "doc_id": "TEXT NOT NULL",
        "rules": _TEXT,
        "stamp": _TEXT,
        "content_hash": _TEXT,
        "label": _TEXT,
        "reason": _TEXT,
        "problem": _TEXT,
    },
    # Settings that must live as long as the store: the source root, the key of document references.
    "store_setting": {"name": "TEXT NOT NULL", "value": "TEXT NOT NULL"},
    # Keyed hashes of documents that were purged: facts that still cite one stay out of the graph.
    "purged_document": {"reference": "TEXT NOT NULL", "purged_at": "TIMESTAMP"},
    # What found where, per document and version: the expensive part of the graph, kept between builds.
    "graph_scan": {"doc_id": "TEXT NOT NULL", "version": _COUNT, "vocabulary": _TEXT},
    "graph_mention": {
        "doc_id": "TEXT NOT NULL",
        "version": _COUNT,
        "entity": "TEXT NOT NULL",
        "chunk_id": _TEXT,
        "source_locator": "TEXT NOT NULL",
    },
    "fact": {
        "metric_code": _TEXT,
        "entity": _TEXT,
        "period_type": _TEXT,
        "period": _TEXT,
        "value": "DOUBLE",
        "unit": _TEXT,
        "source_doc_id": _TEXT,
        "source_locator": _TEXT,
    },
    # The controlled graph. A node is keyed by (type, id), an edge by its ends and type (SPEC 5.2, 5.3).
    "graph_node": {
        "type": "TEXT NOT NULL",
        "id": "TEXT NOT NULL",
        "label": _TEXT,
        "sensitivity": "TEXT NOT NULL DEFAULT 'INTERNAL'",
        "source_doc_id": "TEXT NOT NULL",
        "source_locator": "TEXT NOT NULL",
    },
    "graph_edge": {
        "src_type": "TEXT NOT NULL",
        "src": "TEXT NOT NULL",
        "dst_type": "TEXT NOT NULL",
        "dst": "TEXT NOT NULL",
        "type": "TEXT NOT NULL",
    },
    "graph_evidence": {
        "src_type": "TEXT NOT NULL",
        "src": "TEXT NOT NULL",
        "dst_type": "TEXT NOT NULL",
        "dst": "TEXT NOT NULL",
        "type": "TEXT NOT NULL",
        "kind": _TEXT,
        "source_doc_id": "TEXT NOT NULL",
        "source_locator": "TEXT NOT NULL",
        "chunk_id": _TEXT,
        "version": _COUNT,
    },
    # What a model was asked and proposed: its cache, and its own record. Keyed by model, prompt, parameters and text.
    "model_answer": {
        "answer_id": "TEXT NOT NULL",
        "model": _TEXT,
        "prompt_version": _TEXT,
        "parameters": _TEXT,
        "text_hash": _TEXT,
        "proposals": _TEXT,
        "problem": _TEXT,
        "answered_by": _TEXT,
        "input_tokens": _COUNT,
        "output_tokens": _COUNT,
        "asked_at": "TIMESTAMP",
    },
    # What extractors made and the seam accepted, whoever they are (SPEC 5.3).
    "extraction_record": {
        "extractor": _TEXT,
        "deterministic": "BOOLEAN NOT NULL DEFAULT FALSE",
        **_EDGE,
        "source_doc_id": "TEXT NOT NULL",
        "source_locator": "TEXT NOT NULL",
        "chunk_id": _TEXT,
        "version": _COUNT,
    },
    # What models assert, apart from the controlled graph (SPEC 5.3).
    "model_node": {
        "type": "TEXT NOT NULL",
        "id": "TEXT NOT NULL",
        "label": _TEXT,
        "sensitivity": "TEXT NOT NULL DEFAULT 'RESTRICTED'",
        "source_doc_id": "TEXT NOT NULL",
        "source_locator": "TEXT NOT NULL",
        "documents": _COUNT,
    },
    "model_edge": {
        **_EDGE,
        "derived": "TEXT NOT NULL DEFAULT 'model-derived'",
        "verified": "TEXT NOT NULL DEFAULT 'unverified'",
    },
    "model_evidence": {
        **_EDGE,
        "source_doc_id": "TEXT NOT NULL",
        "source_locator": "TEXT NOT NULL",
        "chunk_id": _TEXT,
        "version": _COUNT,
        "text_hash": _TEXT,
        "extractor": _TEXT,
        "model": _TEXT,
        "answer_id": _TEXT,
    },
    # What people decided about model edges, and the texts that each decision rests on (SPEC 5.9).
    "review_decision": {
        **_EDGE,
        "verdict": _TEXT,
        "decided_by": _TEXT,
        "decided_at": _TEXT,
    },
    "review_evidence": {**_EDGE, "doc_id": "TEXT NOT NULL", "text_hash": "TEXT NOT NULL"},
}
"""Every table: column name to type and constraints, in order."""

CHUNK_COLUMNS: tuple[str, ...] = tuple(_CHUNK)
"""Columns that a staged chunk and a stored chunk share."""


def pending_changes(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the statements that would bring the tables up to date; empty on a current schema. Reads only (SPEC 3.2)."""
    have: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = current_database() "
        "AND schema_name = 'main'"
    ).fetchall():
        have.setdefault(table, set()).add(column.lower())
    statements = []
    for table, columns in TABLES.items():
        if table not in have:
            definition = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            statements.append(f"CREATE TABLE {table} ({definition})")
            continue
        missing = [name for name in columns if name not in have[table]]
        if not missing:
            continue
        # DuckDB refuses to alter a table that an index depends on, so indexes go and come back.
        indexes = connection.execute(
            "SELECT index_name, sql FROM duckdb_indexes() WHERE database_name = current_database() "
            "AND schema_name = 'main' AND table_name = ? ORDER BY index_name",
            [table],
        ).fetchall()
        statements += [f'DROP INDEX "{name}"' for name, _ in indexes]
        statements += [f"ALTER TABLE {table} ADD COLUMN {name} {_addable(columns[name])}" for name in missing]
        statements += [sql for _, sql in indexes]
    return statements


def _addable(kind: str) -> str:
    """A column added to a table with rows needs a default wherever it must not be null."""
    if "NOT NULL" in kind and "DEFAULT" not in kind:
        return f"{kind} DEFAULT {'0' if kind.startswith('INTEGER') else chr(39) * 2}"
    return kind


def migrate(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Create and extend tables, additively, in one transaction; return the statements run (SPEC 3.2).

    Nothing is dropped, rebuilt or retyped. A current schema is not written to.
    """
    statements = pending_changes(connection)
    if statements:
        with transaction(connection):
            for statement in statements:
                connection.execute(statement)
    return statements
