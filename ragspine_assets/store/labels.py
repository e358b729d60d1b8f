"""Labels in the store: raised in every place that holds one, and never lowered behind anybody's back (SPEC 1.8, 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import duckdb
import pyarrow as pa

from ragspine_assets.policy import Sensitivity

from .database import registered

Withdraw = Callable[[duckdb.DuckDBPyConnection, Sequence[str]], None]
"""Removes documents from what was derived from them, within the caller's transaction."""

RANK = "(CASE {column} " + " ".join(f"WHEN '{label}' THEN {label.rank}" for label in Sensitivity) + " ELSE 3 END)"
"""SQL for the rank of a label column; a label outside the lattice ranks as RESTRICTED."""


def rank_of(column: str) -> str:
    """Return the SQL expression for the rank of a label held in ``column``."""
    return RANK.format(column=column)


_TABLES = ("narrative_chunk", "staged_chunk")


def raise_labels(
    connection: duckdb.DuckDBPyConnection,
    labels: Mapping[str, tuple[Sensitivity, str]],
    *,
    run_id: str = "",
    withdraw: Withdraw | None = None,
) -> list[str]:
    """Raise documents' labels everywhere, within the caller's transaction; lower ones are left as they are.

    All versions of a document's chunks, its staged chunks and its state get the higher label, the change is kept with
    its reason, and what was derived from a document that became RESTRICTED is withdrawn.

    Args:
        connection: the open store, in a transaction.
        labels: doc_id to the new label and its reason.
        run_id: the run that raises them.
        withdraw: called with the documents that are RESTRICTED now.

    Returns:
        The documents whose label was raised anywhere, sorted.
    """
    if not labels:
        return []
    ids = sorted(labels)
    incoming = pa.table(
        {
            "doc_id": ids,
            "label": [str(labels[doc_id][0]) for doc_id in ids],
            "rank": [labels[doc_id][0].rank for doc_id in ids],
            "reason": [labels[doc_id][1] for doc_id in ids],
        }
    )
    with registered(connection, _labels=incoming):
        raised: set[str] = set()
        for table in _TABLES:
            raised.update(
                row[0]
                for row in connection.execute(
                    f"SELECT DISTINCT t.doc_id FROM {table} t JOIN _labels l USING (doc_id) "
                    f"WHERE {rank_of('t.sensitivity')} < l.rank"
                ).fetchall()
            )
            connection.execute(
                f"UPDATE {table} AS t SET sensitivity = l.label FROM _labels l "
                f"WHERE t.doc_id = l.doc_id AND {rank_of('t.sensitivity')} < l.rank"
            )
        # What is staged is no longer what its fingerprint says: should the label go back before the next cut, it is due.
        connection.execute("UPDATE staged_document AS s SET fingerprint = '' FROM _labels l WHERE s.doc_id = l.doc_id")
        documents = connection.execute(
            "SELECT d.doc_id, d.sensitivity, l.label, l.reason FROM document d JOIN _labels l USING (doc_id) "
            f"WHERE {rank_of('d.sensitivity')} < l.rank ORDER BY d.doc_id"
        ).fetchall()
        raised.update(row[0] for row in documents)
        record_label_changes(connection, documents, run_id=run_id)
        connection.execute(
            "UPDATE document AS d SET sensitivity = l.label, label_reason = l.reason FROM _labels l "
            f"WHERE d.doc_id = l.doc_id AND {rank_of('d.sensitivity')} < l.rank"
        )
    restricted = sorted(doc_id for doc_id in raised if labels[doc_id][0] is Sensitivity.RESTRICTED)
    if withdraw is not None and restricted:
        withdraw(connection, restricted)
    return sorted(raised)


def record_label_changes(
    connection: duckdb.DuckDBPyConnection, changes: Sequence[tuple[str, str, str, str]], *, run_id: str
) -> None:
    """Append ``(doc_id, old label, new label, reason)`` rows to the label history; ``''`` is "no label yet"."""
    if not changes:
        return
    doc_ids, old, new, reasons = (list(column) for column in zip(*changes, strict=True))
    incoming = pa.table({"doc_id": doc_ids, "old_label": old, "new_label": new, "reason": reasons})
    with registered(connection, _changes=incoming):
        connection.execute(
            "INSERT INTO label_history (doc_id, old_label, new_label, reason, run_id, changed_at) "
            "SELECT doc_id, old_label, new_label, reason, ?, ? FROM _changes",
            [run_id, datetime.now(UTC).replace(tzinfo=None)],
        )
