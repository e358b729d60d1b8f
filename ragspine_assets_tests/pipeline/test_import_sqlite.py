"""Stores of the rag-spine library can be imported (SPEC 3.5)."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragspine_assets.pipeline.import_sqlite import ImportReport, import_sqlite
from ragspine_assets.store import ChunkStore, StoreError

COLUMNS = (
    "chunk_id TEXT NOT NULL, doc_id TEXT NOT NULL, seq INTEGER NOT NULL, text TEXT NOT NULL, source_locator TEXT NOT NULL, "
    "para_start INTEGER NOT NULL, para_end INTEGER NOT NULL, title TEXT NOT NULL DEFAULT '', topic TEXT NOT NULL DEFAULT '', "
    "entity TEXT NOT NULL DEFAULT '', geography TEXT NOT NULL DEFAULT '', period TEXT NOT NULL DEFAULT '', "
    "language TEXT NOT NULL DEFAULT '', sensitivity TEXT NOT NULL DEFAULT 'INTERNAL', "
    "valid_as_of TEXT NOT NULL DEFAULT '', ingested_at TEXT NOT NULL, version INTEGER NOT NULL, active INTEGER NOT NULL"
)
WINDOW = "parent_id TEXT NOT NULL DEFAULT '', heading TEXT DEFAULT '', window_text TEXT DEFAULT '', parent_locator TEXT DEFAULT ''"
Row = tuple[str, int, int, bool, str, str]


def make(path: Path, rows: Sequence[Row], *, window: bool = True) -> Path:
    """Write rows ``(doc_id, version, seq, active, label, text)``."""
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE narrative_chunk ({COLUMNS}{', ' + WINDOW if window else ''})")
        for doc_id, version, seq, active, label, text in rows:
            connection.execute(
                "INSERT INTO narrative_chunk (chunk_id, doc_id, seq, text, source_locator, para_start, para_end, sensitivity, "
                "ingested_at, version, active, title) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    f"{doc_id}#c{seq}", doc_id, seq, text, f"archive/{doc_id}#para{seq + 1}", seq + 1, seq + 1, label,
                    "2025-03-01T10:00:00+02:00", version, int(active), "T",
                ),
            )  # fmt: skip
    connection.close()
    return path


@pytest.fixture
def store(tmp_path: Path) -> ChunkStore:
    return ChunkStore(tmp_path / "state" / "store.duckdb")


def test_versions_labels_and_locators_are_kept(store: ChunkStore, tmp_path: Path) -> None:
    rows: list[Row] = [
        ("a", 1, 0, False, "PUBLIC", "old"),
        ("a", 2, 0, True, "PUBLIC", "new"),
        ("a", 2, 1, True, "PUBLIC", "more"),
        ("b", 1, 0, True, "CONFIDENTIAL", "other"),
    ]
    assert import_sqlite(store, make(tmp_path / "s.db", rows)) == ImportReport(2, 3, 4, 0, 0)
    active = [(c.citation, c.text, c.sensitivity, c.source_locator) for c in store.iter_chunks()]
    assert active == [
        ("a@v2#c0", "new", "PUBLIC", "archive/a#para1"),
        ("a@v2#c1", "more", "PUBLIC", "archive/a#para2"),
        ("b@v1#c0", "other", "CONFIDENTIAL", "archive/b#para1"),
    ]
    old = store.resolve("a@v1#c0")
    assert old
    assert (old.text, old.active, old.ingested_at) == ("old", False, "2025-03-01T08:00:00.000000Z")


def test_a_label_outside_the_lattice_is_restricted(store: ChunkStore, tmp_path: Path) -> None:
    rows: list[Row] = [
        ("a", 1, 0, True, "geheim", "x"),
        ("b", 1, 0, True, "", "y"),
        ("c", 1, 0, True, " internal ", "z"),
    ]
    assert import_sqlite(store, make(tmp_path / "s.db", rows)).unknown_labels == 2
    assert [c.sensitivity for c in store.iter_chunks()] == ["RESTRICTED", "RESTRICTED", "INTERNAL"]


def test_an_older_version_is_not_less_protected_than_a_newer_one(store: ChunkStore, tmp_path: Path) -> None:
    rows: list[Row] = [
        ("a", 1, 0, False, "RESTRICTED", "1"),
        ("a", 2, 0, False, "PUBLIC", "2"),
        ("a", 3, 0, True, "CONFIDENTIAL", "3"),
        ("a", 3, 1, True, "INTERNAL", "4"),
    ]
    import_sqlite(store, make(tmp_path / "s.db", rows))
    labels = [(c.version, c.sensitivity) for c in store.iter_chunks(include_inactive=True)]
    assert sorted(labels) == [(1, "RESTRICTED"), (2, "CONFIDENTIAL"), (3, "CONFIDENTIAL"), (3, "CONFIDENTIAL")]


def test_only_the_newest_of_several_active_versions_stays_active(store: ChunkStore, tmp_path: Path) -> None:
    import_sqlite(store, make(tmp_path / "s.db", [("a", 1, 0, True, "PUBLIC", "1"), ("a", 2, 0, True, "PUBLIC", "2")]))
    assert [c.version for c in store.iter_chunks()] == [2]


def test_a_store_from_before_windows_reads_back_with_defaults(store: ChunkStore, tmp_path: Path) -> None:
    import_sqlite(store, make(tmp_path / "s.db", [("a", 1, 0, True, "PUBLIC", "1")], window=False))
    (chunk,) = store.iter_chunks()
    assert (chunk.window_text, chunk.parent_locator, chunk.page_start) == ("", "", 0)


def test_importing_again_changes_nothing(store: ChunkStore, tmp_path: Path) -> None:
    path = make(tmp_path / "s.db", [("a", 1, 0, True, "PUBLIC", "1")])
    import_sqlite(store, path)
    assert import_sqlite(store, path) == ImportReport(already_there=1)
    assert store.count(include_inactive=True) == 1


def test_many_documents_are_imported_in_pieces(store: ChunkStore, tmp_path: Path) -> None:
    rows: list[Row] = [(f"d{n}", 1, seq, True, "PUBLIC", "t") for n in range(900) for seq in range(10)]
    assert import_sqlite(store, make(tmp_path / "s.db", rows)).chunks == 9_000
    assert store.count() == 9_000


@pytest.mark.parametrize("kind", ["missing", "text", "no table", "other columns"])
def test_a_file_that_is_no_such_store_is_refused_with_a_reason(store: ChunkStore, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s.db"
    if kind == "text":
        path.write_text("hello, this is a text file and nothing else")
    elif kind != "missing":
        with sqlite3.connect(path) as connection:
            table = "narrative_chunk (doc_id TEXT)" if kind == "other columns" else "other (a TEXT)"
            connection.execute(f"CREATE TABLE {table}")
        connection.close()
    with pytest.raises(StoreError, match=r"s\.db"):
        import_sqlite(store, path)


def test_a_row_of_a_wrong_type_leaves_the_store_as_it_was_and_its_value_unsaid(
    store: ChunkStore, tmp_path: Path
) -> None:
    path = make(tmp_path / "s.db", [(f"a{n}", 1, 0, True, "PUBLIC", "1") for n in range(5_000)])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE narrative_chunk SET text = x'5a616e7a' WHERE doc_id = 'a999'")
    connection.close()
    with pytest.raises(StoreError, match="row 5000") as raised:
        import_sqlite(store, path)
    assert "Zanz" not in str(raised.value)
    assert store.count(include_inactive=True) == 0


def test_the_imported_file_is_only_read(store: ChunkStore, tmp_path: Path) -> None:
    path = make(tmp_path / "s.db", [("a", 1, 0, True, "PUBLIC", "1")])
    before = path.read_bytes()
    path.chmod(0o400)
    import_sqlite(store, path)
    assert path.read_bytes() == before
