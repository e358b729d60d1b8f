"""Temporary tables that the set-based statements of this room work on, and what holds them together.

Every temporary table is called `gx_...`; none outlives the call that made it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import duckdb
import pyarrow as pa

from ragspine_assets.documents.citations import closed_citations, fold_path
from ragspine_assets.natural_order import natural_key_sql
from ragspine_assets.policy import Sensitivity, document_reference, read_label
from ragspine_assets.store.arrow_tables import table_of
from ragspine_assets.store.database import registered, transaction
from ragspine_assets.store.references import setting

__all__ = [
    "CITES_CLOSED",
    "CITING",
    "closed_documents",
    "existing_tables",
    "guarded_documents",
    "label_names",
    "label_ranks",
    "registered",
    "stage_citations",
    "stage_document_states",
    "table_of",
    "temporary",
    "transaction",
]

_REFERENCE = re.compile(r"(?<![0-9a-z])[0-9a-f]{12}(?![0-9a-z])")
RESTRICTED_RANK = Sensitivity.RESTRICTED.rank

FIRST_PLACE = f"list_concat({natural_key_sql('source_doc_id')}, {natural_key_sql('source_locator')})"
"""SQL for what evidence is sorted by: its document and its place there, in natural order."""


@contextmanager
def temporary(con: duckdb.DuckDBPyConnection, *names: str) -> Iterator[None]:
    """Drop temporary tables at the end of a block, whatever happens in it."""
    try:
        yield
    finally:
        with suppress(duckdb.Error):
            for name in names:
                con.execute(f"DROP TABLE IF EXISTS temp.{name}")


def existing_tables(con: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Return the names of the tables of the open database, temporary ones left out."""
    rows = con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE NOT temporary AND database_name = current_database()"
    ).fetchall()
    return frozenset(str(name) for (name,) in rows)


def label_ranks(labels: Sequence[str | None]) -> pa.Table:
    """Return, for labels as stored, what each means in the lattice: `raw`, `rank` (0 to 3)."""
    return table_of(
        {"raw": labels, "rank": [read_label(label).rank for label in labels]},
        pa.schema([("raw", pa.string()), ("rank", pa.int32())]),
    )


def label_names() -> pa.Table:
    """Return the lattice as a table: `rank`, `label`."""
    return table_of(
        {"rank": [label.rank for label in Sensitivity], "label": [label.value for label in Sensitivity]},
        pa.schema([("rank", pa.int64()), ("label", pa.string())]),
    )


def stage_document_states(con: duckdb.DuckDBPyConnection) -> None:
    """Make `gx_state`: for each document the store knows its label's rank, and whether it is there at all.

    The label is the strictest of the document's row and its active chunks; the chunks of old versions decide only
    where there is neither. Columns: `doc_id, rank, restricted, removed, active`.
    """
    tables = existing_tables(con)
    parts = []
    if "narrative_chunk" in tables:
        parts.append(
            "SELECT doc_id, sensitivity AS raw, CASE WHEN active THEN 'active' ELSE 'old' END AS origin, '' AS status"
            " FROM narrative_chunk"
        )
    if "document" in tables:
        parts.append("SELECT doc_id, sensitivity AS raw, 'document' AS origin, status FROM document")
    stated = " UNION ALL ".join(parts) or "SELECT '' AS doc_id, '' AS raw, '' AS origin, '' AS status WHERE FALSE"
    con.execute(f"CREATE OR REPLACE TEMP TABLE gx_stated AS SELECT DISTINCT * FROM ({stated})")
    raw = [label for (label,) in con.execute("SELECT DISTINCT raw FROM gx_stated ORDER BY raw").fetchall()]
    with registered(con, gx_rank=label_ranks(raw)):
        con.execute(
            f"""
            CREATE OR REPLACE TEMP TABLE gx_state AS
            SELECT *, rank >= {RESTRICTED_RANK} AS restricted FROM (
                SELECT
                    doc_id,
                    coalesce(max(rank) FILTER (origin <> 'old'), max(rank)) AS rank,
                    CASE WHEN bool_or(origin = 'document')
                        THEN bool_or(status = 'removed')
                        ELSE NOT bool_or(origin = 'active') END AS removed,
                    bool_or(origin = 'active') AS active
                FROM gx_stated JOIN gx_rank ON gx_stated.raw IS NOT DISTINCT FROM gx_rank.raw
                GROUP BY doc_id
            )
            """
        )
    con.execute("DROP TABLE gx_stated")


CITING = "gx_citing"
"""Temporary table of what `stage_citations` found, column `citation`."""


def stage_citations(
    con: duckdb.DuckDBPyConnection, relations: Iterable[str], closed: Iterable[str], guarded: Iterable[str] = ()
) -> None:
    """Make `gx_citing`: what relations say in `source_doc_id` and `source_locator` that names a closed document, or may.

    Args:
        con: the connection.
        relations: tables with the two columns.
        closed: ids of the closed documents.
        guarded: ids that only the very id may cite, see `closed_citations`.
    """
    closed, guarded = frozenset(closed), frozenset(guarded)
    citing: set[str] = set()
    if closed or guarded:
        tables = existing_tables(con)
        known = {
            doc_id
            for table in ("document", "narrative_chunk")
            if table in tables
            for (doc_id,) in con.execute(f"SELECT DISTINCT doc_id FROM {table}").fetchall()
        }
        said = " UNION ".join(
            f"SELECT {column} FROM {relation}"
            for relation in relations
            for column in ("source_doc_id", "source_locator")
        )
        rows = con.execute(said).fetchall() if said else []
        citing = closed_citations((citation for (citation,) in rows if citation), known | closed, closed, guarded)
        key = setting(con, "reference_key") if "store_setting" in tables else None
        if key:
            # What names such a document in reports names it here too: its reference.
            digits = {document_reference(doc_id, bytes.fromhex(key))[4:] for doc_id in closed | guarded}
            citing |= {
                citation
                for (citation,) in rows
                if citation and not digits.isdisjoint(_REFERENCE.findall(fold_path(citation)))
            }
    with registered(con, gx_citing_in=table_of({"citation": sorted(citing)}, pa.schema([("citation", pa.string())]))):
        con.execute(f"CREATE OR REPLACE TEMP TABLE {CITING} AS SELECT * FROM gx_citing_in")


def closed_documents(con: duckdb.DuckDBPyConnection, *, removed: bool = False) -> list[str]:
    """Return the documents that are RESTRICTED by `gx_state`; where asked for, those that are gone too."""
    where = "restricted OR removed" if removed else "restricted"
    return [doc_id for (doc_id,) in con.execute(f"SELECT doc_id FROM gx_state WHERE {where}").fetchall()]


def guarded_documents(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the documents above INTERNAL by `gx_state`: what is cited and unknown counts as INTERNAL (SPEC 5.2)."""
    return [
        doc_id
        for (doc_id,) in con.execute(f"SELECT doc_id FROM gx_state WHERE rank > {Sensitivity.INTERNAL.rank}").fetchall()
    ]


CITES_CLOSED = f"(source_doc_id IN (FROM {CITING}) OR source_locator IN (FROM {CITING}))"
"""Condition that a row cites a closed document, after `stage_citations`."""
