"""Proofs over `chunk_store`: versions without gaps, equal to what is staged, and a whole schema (SPEC 3.2, 3.3)."""

from __future__ import annotations

from ragspine_assets.store.chunk_store import ChunkStore
from ragspine_assets.store.references import references
from ragspine_assets.store.schema import CHUNK_COLUMNS, TABLES
from ragspine_assets.store.text_batches import CHARACTERS, WITHIN, in_groups

from .result import AuditResult

_HELD = """
    SELECT doc_id, max(char_end) FROM (
        SELECT doc_id, char_end FROM staged_chunk
        UNION ALL SELECT doc_id, char_end FROM narrative_chunk WHERE active
    ) GROUP BY doc_id ORDER BY doc_id
"""
# A document that came through the API is staged nowhere and has no state: nothing is said about it.
_OURS = "doc_id IN (SELECT doc_id FROM document UNION SELECT doc_id FROM staged_chunk)"
_OTHER_COUNT = f"""
    SELECT doc_id FROM (SELECT doc_id, count(*) AS n FROM staged_chunk GROUP BY doc_id) s
    FULL JOIN (SELECT doc_id, count(*) AS n FROM narrative_chunk WHERE active GROUP BY doc_id) l USING (doc_id)
    WHERE s.n IS DISTINCT FROM l.n AND {_OURS}
"""
# Windows repeat and may be thousands of characters long: of them a digest is kept for the comparison.
_ROW = ", ".join(name for name in CHUNK_COLUMNS if name != "window_text") + (
    ", CASE window_text WHEN '' THEN '' ELSE md5(window_text) END AS window_text"
)
_OTHER_ROWS = f"""
    SELECT DISTINCT doc_id FROM (SELECT {_ROW} FROM staged_chunk WHERE doc_id {WITHIN}) s
    FULL JOIN (SELECT {_ROW} FROM narrative_chunk WHERE active AND doc_id {WITHIN}) l USING (doc_id, seq)
    WHERE ({" OR ".join(f"s.{name} IS DISTINCT FROM l.{name}" for name in CHUNK_COLUMNS if name not in ("doc_id", "seq"))})
      AND {_OURS}
"""


def audit_versions(store: ChunkStore) -> AuditResult:
    """One active version per document, versions without gaps, and the active one equals what is staged (SPEC 3.3)."""
    result = AuditResult()
    with store.connect() as connection:
        name = references(connection)
        row = connection.execute("SELECT count(DISTINCT doc_id) FROM narrative_chunk").fetchone()
        result.checked = row[0] if row else 0
        for doc_id, why in connection.execute(
            """
            SELECT doc_id, 'several active versions' FROM narrative_chunk WHERE active
            GROUP BY doc_id HAVING count(DISTINCT version) > 1
            UNION ALL
            SELECT doc_id, 'gap in versions' FROM narrative_chunk
            GROUP BY doc_id HAVING max(version) != count(DISTINCT version) OR min(version) != 1
            UNION ALL
            SELECT doc_id, 'gap in seq' FROM narrative_chunk
            GROUP BY doc_id, version HAVING max(seq) + 1 != count(*) OR count(DISTINCT seq) != count(*)
            UNION ALL
            SELECT doc_id, 'an older version is active' FROM narrative_chunk
            GROUP BY doc_id HAVING max(version) FILTER (active) < max(version)
            ORDER BY 1, 2
            """
        ).fetchall():
            result.violate(f"{name(doc_id)} ({why})")
        differing = {doc_id for (doc_id,) in connection.execute(_OTHER_COUNT).fetchall()}
        sizes = connection.execute(_HELD).fetchall()
        for group in in_groups(connection, sizes, _OTHER_ROWS, limit=4 * CHARACTERS):
            differing.update(group.column("doc_id").to_pylist())
        for doc_id in sorted(differing):
            result.violate(f"{name(doc_id)} (active version differs from what is staged)")
    return result.conclude(
        f"All {result.checked} documents have one active version at most, without gaps, equal to what is staged.",
        "documents break the rule of versions. Run refresh; if it stays, restore the store from a copy.",
    )


def audit_schema(store: ChunkStore) -> AuditResult:
    """Every table has every column, and rows older than a column read back with its default (SPEC 3.2)."""
    result = AuditResult()
    with store.connect() as connection:
        for table, columns in TABLES.items():
            present = {row[1]: row[4] for row in connection.execute(f"PRAGMA table_info('{table}')").fetchall()}
            result.checked += len(columns)
            for column in columns.keys() - present.keys():
                result.violate(f"{table}.{column} is missing")
            # A column of a store of another origin may have no default, and then may hold nulls.
            must = [c for c, kind in columns.items() if "NOT NULL" in kind and present.get(c) is not None]
            if not must:
                continue
            row = connection.execute(
                f"SELECT {', '.join(f'count(*) FILTER ({c} IS NULL)' for c in must)} FROM {table}"
            ).fetchone()
            for column, nulls in zip(must, row or (), strict=True):
                if nulls:
                    result.violate(f"{table}.{column} is null in {nulls} rows")
    return result.conclude(
        f"All {result.checked} columns of {len(TABLES)} tables are there, and no row lacks a value it must have.",
        "columns are missing or hold no value. Run refresh, which adds columns; restore a copy if rows hold nulls.",
    )
