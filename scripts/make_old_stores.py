"""Make the tiny stores of earlier DuckDB versions that the migration tests open.

Run once with each version installed: ``python scripts/make_old_stores.py FOLDER``. Each store has two documents, one of
them in two versions, in a table as it was before the columns for windows, pages and offsets were added.
"""

import lzma
import sys
from pathlib import Path

import duckdb

COLUMNS = (
    "chunk_id TEXT NOT NULL, doc_id TEXT NOT NULL, seq INTEGER NOT NULL, text TEXT NOT NULL, "
    "source_locator TEXT NOT NULL, para_start INTEGER NOT NULL, para_end INTEGER NOT NULL, title TEXT, topic TEXT, "
    "entity TEXT, geography TEXT, period TEXT, language TEXT, sensitivity TEXT NOT NULL, valid_as_of TEXT, "
    "ingested_at TIMESTAMP, version INTEGER NOT NULL, active BOOLEAN NOT NULL"
)
KINDS = {
    "plain": ("", ""),
    "primary_key": (", PRIMARY KEY (chunk_id, version)", ""),
    "unique": (", UNIQUE (doc_id, seq, version)", ""),
    "unique_index": ("", "CREATE UNIQUE INDEX chunk_once ON narrative_chunk (chunk_id, version)"),
}


def make(folder: Path) -> None:
    """Write one compressed store per kind of constraint."""
    for kind, (constraint, index) in KINDS.items():
        path = folder / f"duckdb-{duckdb.__version__}-{kind}.duckdb"
        path.unlink(missing_ok=True)
        connection = duckdb.connect(str(path))
        connection.execute(f"CREATE TABLE narrative_chunk ({COLUMNS}{constraint})")
        if index:
            connection.execute(index)
        for doc, version, active, n in (
            ("old/a.txt", 1, False, 2),
            ("old/a.txt", 2, True, 3),
            ("old/b.txt", 1, True, 1),
        ):
            for seq in range(n):
                connection.execute(
                    "INSERT INTO narrative_chunk VALUES (?, ?, ?, ?, ?, ?, ?, 't', '', 'E', '', 'FY2024', 'en', "
                    "'CONFIDENTIAL', '', TIMESTAMP '2026-01-02 03:04:05', ?, ?)",
                    [f"{doc}#c{seq}", doc, seq, f"Paragraph {seq} of version {version}.", f"{doc}#para{seq + 1}",
                     seq + 1, seq + 1, version, active],
                )  # fmt: skip
        connection.close()
        path.with_suffix(".duckdb.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))
        path.unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
