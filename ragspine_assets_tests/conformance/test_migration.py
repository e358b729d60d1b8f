"""Promise: an old store opens, gains what it lacks and keeps every row (SPEC 3.2)."""

import itertools
import lzma
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pytest

from ragspine_assets.audit.chunk_store import audit_schema
from ragspine_assets.store import ChunkStore
from ragspine_assets.store.schema import CHUNK_COLUMNS, TABLES, migrate, pending_changes

OLD_STORES = sorted((Path(__file__).parent.parent / "store" / "old_stores").glob("*.duckdb.xz"))
ADDED = ("parent_id", "heading", "window_text", "parent_locator", "page_start", "page_end", "char_start", "char_end")
CONSTRAINTS = ("", ", PRIMARY KEY (chunk_id, version)", ", UNIQUE (doc_id, seq, version)")


def unpacked(packed: Path, folder: Path) -> Path:
    path = folder / packed.stem
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    return path


def columns_of(path: Path) -> set[str]:
    with duckdb.connect(str(path)) as connection:
        return {row[1] for row in connection.execute("PRAGMA table_info('narrative_chunk')").fetchall()}


@pytest.mark.parametrize("packed", OLD_STORES, ids=lambda path: path.stem)
def test_stores_of_earlier_duckdb_versions_keep_every_row(packed: Path, tmp_path: Path) -> None:
    store = ChunkStore(unpacked(packed, tmp_path))
    rows = list(store.iter_chunks(include_inactive=True))
    assert [(row.doc_id, row.version, row.seq, row.active) for row in rows] == [
        ("old/a.txt", 1, 0, False), ("old/a.txt", 2, 0, True), ("old/a.txt", 1, 1, False), ("old/a.txt", 2, 1, True),
        ("old/a.txt", 2, 2, True), ("old/b.txt", 1, 0, True),
    ]  # fmt: skip
    assert {row.text for row in rows if row.version == 2} == {f"Paragraph {n} of version 2." for n in range(3)}
    assert {(r.parent_id, r.heading, r.window_text, r.parent_locator, r.page_start, r.char_end) for r in rows} == {
        ("", "", "", "", 0, 0)
    }
    assert {row.sensitivity for row in rows} == {"CONFIDENTIAL"}
    assert audit_schema(store).passed


@pytest.mark.parametrize("packed", OLD_STORES, ids=lambda path: path.stem)
def test_stores_of_earlier_duckdb_versions_can_be_written_to(packed: Path, tmp_path: Path) -> None:
    store = ChunkStore(unpacked(packed, tmp_path))
    chunks = list(store.iter_chunks(doc_id="old/a.txt"))
    assert store.replace_doc_chunks("old/a.txt", chunks[:1]) == 3
    assert [(c.version, c.seq) for c in store.iter_chunks(doc_id="old/a.txt")] == [(3, 0)]
    assert store.resolve("old/a.txt@v1#c1") is not None


def test_a_unique_index_is_still_there_after_the_migration(tmp_path: Path) -> None:
    packed = next(path for path in OLD_STORES if "unique_index" in path.name)
    path = unpacked(packed, tmp_path)
    ChunkStore(path).init_schema()
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("SELECT index_name, is_unique FROM duckdb_indexes()").fetchall() == [
            ("chunk_once", True)
        ]


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("lacking", [c for n in (1, 2, 8) for c in itertools.combinations(ADDED, n)][::4], ids="-".join)
def test_any_subset_of_the_added_columns_may_be_lacking(
    lacking: tuple[str, ...], constraint: str, tmp_path: Path
) -> None:
    path = tmp_path / "store.duckdb"
    columns = {name: kind for name, kind in TABLES["narrative_chunk"].items() if name not in lacking}
    with duckdb.connect(str(path)) as connection:
        definition = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        connection.execute(f"CREATE TABLE narrative_chunk ({definition}{constraint})")
        connection.execute("INSERT INTO narrative_chunk (chunk_id, doc_id, seq, text) VALUES ('d#c0', 'd', 0, 'kept')")
    store = ChunkStore(path)
    (row,) = store.iter_chunks()
    assert row.text == "kept"
    assert all(getattr(row, name) in ("", 0) for name in lacking)
    assert columns_of(path) >= set(TABLES["narrative_chunk"])


def test_a_current_schema_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    ChunkStore(path).init_schema()
    before = path.read_bytes()
    with duckdb.connect(str(path)) as connection:
        assert migrate(connection) == []
    assert path.read_bytes() == before


def test_pending_changes_are_told_without_being_made(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE narrative_chunk (chunk_id TEXT NOT NULL, doc_id TEXT NOT NULL)")
    assert any("ADD COLUMN window_text" in statement for statement in ChunkStore(path).pending_migrations())
    assert columns_of(path) == {"chunk_id", "doc_id"}


def test_columns_and_tables_this_code_does_not_know_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    with duckdb.connect(str(path)) as connection:
        migrate(connection)
        connection.execute("ALTER TABLE narrative_chunk ADD COLUMN of_the_future TEXT DEFAULT 'x'")
        connection.execute("CREATE TABLE of_somebody_else (a INTEGER)")
        connection.execute("INSERT INTO narrative_chunk (chunk_id, doc_id, seq, text) VALUES ('d#c0', 'd', 0, 'kept')")
        assert pending_changes(connection) == []
    store = ChunkStore(path)
    chunks = list(store.iter_chunks())
    store.replace_doc_chunks("d", chunks)
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("SELECT DISTINCT of_the_future FROM narrative_chunk").fetchall() == [("x",)]


def test_a_migration_that_fails_half_way_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE narrative_chunk (chunk_id TEXT NOT NULL, doc_id TEXT NOT NULL)")
        with pytest.raises(duckdb.Error):
            broken = {**TABLES, "zz": {"a": "NO_SUCH_TYPE"}}
            monkeypatch.setattr("ragspine_assets.store.schema.TABLES", broken)
            migrate(connection)
    assert columns_of(path) == {"chunk_id", "doc_id"}


def test_two_processes_that_migrate_at_once_both_succeed(tmp_path: Path) -> None:
    code = textwrap.dedent("""
        import sys
        from ragspine_assets.store import ChunkStore
        for path in sys.argv[1:]:
            ChunkStore(path).init_schema()
    """)
    packed = [path for path in OLD_STORES if "1.0.0" in path.name]
    paths = []
    for n in range(20):
        folder = tmp_path / str(n)
        folder.mkdir()
        paths.append(str(unpacked(packed[n % len(packed)], folder)))
    both = [subprocess.Popen([sys.executable, "-c", code, *paths], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert all(columns_of(Path(path)) >= set(CHUNK_COLUMNS) for path in paths)
