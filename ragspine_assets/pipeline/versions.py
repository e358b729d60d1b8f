"""Third stage: staged chunks become versions (SPEC 3.3).

The stage compares the staged rows of each document with its active ones. Where they differ, a new version is written;
where nothing is staged any more, the active version is deactivated. Both happen in one transaction.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime

import duckdb

from ragspine_assets.store.chunk_store import ChunkStore
from ragspine_assets.store.database import transaction
from ragspine_assets.store.schema import CHUNK_COLUMNS

# Rows are compared by document through a sum of row hashes: streaming, whatever the size of the store. A document that
# came through the API has no state row; it belongs to nobody's folder and is left alone.
_ROW_HASH = f"sum(hash({', '.join(CHUNK_COLUMNS)})::HUGEINT)"
_DIFFERENCES = f"""
    CREATE OR REPLACE TEMP TABLE _difference AS
    WITH staged AS (SELECT doc_id, count(*) AS n, {_ROW_HASH} AS h FROM staged_chunk GROUP BY doc_id),
         live AS (SELECT doc_id, count(*) AS n, {_ROW_HASH} AS h FROM narrative_chunk WHERE active GROUP BY doc_id),
         last AS (SELECT doc_id, max(version) AS version FROM narrative_chunk GROUP BY doc_id)
    SELECT doc_id, staged.n IS NOT NULL AS is_staged, live.n IS NOT NULL AS is_live,
           coalesce(last.version, 0) AS version
    FROM staged FULL JOIN live USING (doc_id) LEFT JOIN last USING (doc_id)
    WHERE (staged.n IS DISTINCT FROM live.n OR staged.h IS DISTINCT FROM live.h)
      AND (staged.n IS NOT NULL OR doc_id IN (SELECT doc_id FROM document))
"""


@dataclass
class ActivationReport:
    """What a run made of the versions.

    Attributes:
        outcomes: documents by what happened: new (first version), changed (new version), unchanged, removed
            (deactivated).
        chunks_written: rows of the versions written.
        seconds: time by part of the work.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    chunks_written: int = 0
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


def activate_staged(store: ChunkStore) -> ActivationReport:
    """Write a new version of each document whose staged chunks differ from its active ones."""
    report = ActivationReport()
    with store.connect() as connection:
        started = time.perf_counter()
        connection.execute(_DIFFERENCES)
        compared = time.perf_counter()
        report.seconds["comparing"] = compared - started
        for is_staged, version, n in connection.execute(
            "SELECT is_staged, version > 0, count(*) FROM _difference GROUP BY ALL"
        ).fetchall():
            report.outcomes["removed" if not is_staged else "changed" if version else "new"] += n
        if report.outcomes:
            report.chunks_written = _write(connection)
        connection.execute("DROP TABLE _difference")
        row = connection.execute("SELECT count(DISTINCT doc_id) FROM narrative_chunk WHERE active").fetchone()
        report.outcomes["unchanged"] = (row[0] if row else 0) - report.outcomes["new"] - report.outcomes["changed"]
        report.seconds["writing"] = time.perf_counter() - compared
    return report


def _write(connection: duckdb.DuckDBPyConnection) -> int:
    names = ", ".join(CHUNK_COLUMNS)
    # What is larger than this goes to the file at once: windows would be written whole to the log first.
    connection.execute("SET checkpoint_threshold = '1MB'")
    try:
        return _write_versions(connection, names)
    finally:
        connection.execute("RESET checkpoint_threshold")


def _write_versions(connection: duckdb.DuckDBPyConnection, names: str) -> int:
    with transaction(connection):
        connection.execute(
            "UPDATE narrative_chunk SET active = FALSE WHERE active AND doc_id IN (SELECT doc_id FROM _difference)"
        )
        row = connection.execute(
            f"INSERT INTO narrative_chunk ({names}, ingested_at, version, active) "
            f"SELECT {', '.join('s.' + name for name in CHUNK_COLUMNS)}, ?, d.version + 1, TRUE "
            "FROM staged_chunk s JOIN _difference d USING (doc_id) WHERE d.is_staged",
            [datetime.now(UTC).replace(tzinfo=None)],
        ).fetchone()
    return row[0] if row else 0
