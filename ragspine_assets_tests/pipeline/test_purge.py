"""Forgetting a document: rows, bytes, snapshots, and what still names it (SPEC 3.3, 6.7)."""

import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from ragspine_assets.graph import Fact, fact_table, withdraw_documents
from ragspine_assets.pipeline.purge import files_that_name, leave_out_purged, purge_document, purged_among, rewrite
from ragspine_assets.store import ChunkStore, StoreBusyError, StoreError
from ragspine_assets_tests.conftest import Pipeline

ROOT = Path(__file__).resolve().parents[2]


def incompressible(words: int) -> str:
    return "\n".join(secrets.token_hex(60) for _ in range(words))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source and its store, whose document to be purged has two versions."""
    folder = tmp_path_factory.mktemp("purge")
    (folder / "source").mkdir()
    pipeline = Pipeline(folder / "source", ChunkStore(folder / "store.duckdb"))
    kept = "What stays.\n" + incompressible(40)
    for version in ("first", "second"):
        pipeline.write({"keep.txt": kept, "gone.txt": f"CANARYgone {version}\n" + incompressible(40)})
        pipeline.run()
    return folder


@pytest.fixture
def filled(built: Path, tmp_path: Path) -> Pipeline:
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    return Pipeline(tmp_path / "source", ChunkStore(tmp_path / "store.duckdb"))


def on_disk(pipeline: Pipeline) -> bytes:
    folder = Path(str(pipeline.store.path)).parent
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("store.duckdb*")) if path.is_file())


def test_no_row_and_no_byte_of_a_purged_document_is_left(filled: Pipeline) -> None:
    versions = filled.rows("SELECT DISTINCT text FROM narrative_chunk WHERE doc_id = 'gone.txt'")
    words = [str(text).encode()[:80] for (text,) in versions]
    assert sum(word in on_disk(filled) for word in words) > 3
    report = purge_document(filled.store, "gone.txt", withdraw=withdraw_documents)
    assert report.found
    assert report.rows["narrative_chunk"] == len(versions)
    assert report.left == []
    left = on_disk(filled)
    assert not any(word in left for word in words)
    assert b"CANARYgone" not in left
    assert b"gone.txt" not in left
    assert filled.rows("SELECT DISTINCT doc_id FROM narrative_chunk") == [("keep.txt",)]


def test_deleting_rows_alone_leaves_the_bytes_behind(filled: Pipeline) -> None:
    texts = [
        str(text).encode()[:80] for (text,) in filled.rows("SELECT text FROM narrative_chunk WHERE doc_id = 'gone.txt'")
    ]
    with filled.store.connect() as connection:
        for table in ("narrative_chunk", "staged_chunk", "document_text"):
            connection.execute(f"DELETE FROM {table} WHERE doc_id = 'gone.txt'")
        connection.execute("CHECKPOINT")
        connection.execute("VACUUM")
    assert any(text in on_disk(filled) for text in texts)


def test_everything_else_is_as_it_was(filled: Pipeline) -> None:
    kept = "SELECT * FROM narrative_chunk WHERE doc_id != 'gone.txt' ORDER BY ALL"
    before = filled.rows(kept)
    tables = "SELECT table_name, column_name, data_type, is_nullable, column_default FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
    columns = filled.rows(tables)
    purge_document(filled.store, "gone.txt", withdraw=withdraw_documents)
    assert filled.rows(kept) == before
    assert filled.rows(tables) == columns
    path = Path(str(filled.store.path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(each.name for each in path.parent.glob("store.duckdb*") if each.is_file()) == [path.name]


def test_the_next_run_over_a_folder_without_it_changes_nothing(filled: Pipeline) -> None:
    (filled.root / "gone.txt").unlink()
    report = purge_document(filled.store, "gone.txt", withdraw=withdraw_documents)
    assert not report.file_is_there
    documents, _, versions, graph = filled.run()
    assert documents.outcomes == {"unchanged": 1}
    assert versions.chunks_written == 0
    assert not graph.nodes_removed
    assert filled.rows("SELECT count(*) FROM document WHERE doc_id = 'gone.txt'") == [(0,)]


def test_a_file_that_is_still_in_the_source_is_reported(filled: Pipeline) -> None:
    assert purge_document(filled.store, "gone.txt").file_is_there


def test_its_citations_resolve_no_more(filled: Pipeline) -> None:
    assert filled.store.resolve("gone.txt@v1#c0") is not None
    purge_document(filled.store, "gone.txt")
    assert filled.store.resolve("gone.txt@v1#c0") is None


def test_snapshots_are_withdrawn_and_what_names_it_in_the_history_is_listed(filled: Pipeline, tmp_path: Path) -> None:
    asked: list[Sequence[str]] = []

    def snapshots(doc_ids: Sequence[str]) -> list[str]:
        asked.append(doc_ids)
        return ["0123456789abcdef"]

    history = tmp_path / "history"
    (history / "runs").mkdir(parents=True)
    (history / "runs" / "one.db").write_bytes(b'\0{"document": "gone.txt"}\0')
    (history / "runs" / "two.db").write_bytes(b"nothing")
    report = purge_document(filled.store, "gone.txt", snapshots=snapshots, history=history)
    assert asked == [["gone.txt"]]
    assert report.snapshots == ["0123456789abcdef"]
    assert report.named_in == [history / "runs" / "one.db"]
    assert (history / "runs" / "one.db").read_bytes() == b'\0{"document": "gone.txt"}\0'


def test_a_name_that_json_escapes_is_found_too(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"document": "\\u5e74\\u5831.txt"}')
    (tmp_path / "other").write_text("年報.txt")
    assert files_that_name(tmp_path, ["年報.txt"]) == [tmp_path / "log", tmp_path / "other"]


def test_purging_twice_and_purging_what_was_never_there_do_no_harm(filled: Pipeline) -> None:
    purge_document(filled.store, "gone.txt")
    again = purge_document(filled.store, "gone.txt")
    assert not again.found
    assert not purge_document(filled.store, "never.txt").found
    assert filled.rows("SELECT count(*) > 0 FROM narrative_chunk") == [(True,)]


def test_facts_of_a_purged_document_stay_out_until_it_comes_back(filled: Pipeline) -> None:
    purge_document(filled.store, "gone.txt")
    with filled.store.connect() as connection:
        assert purged_among(connection, ["gone.txt", "keep.txt", "other.txt"]) == {"gone.txt"}
        assert b"gone" not in repr(connection.execute("SELECT * FROM purged_document").fetchall()).encode()
    filled.run()
    with filled.store.connect() as connection:
        assert purged_among(connection, ["gone.txt"]) == set()


def test_facts_that_cite_it_are_left_out(filled: Pipeline) -> None:
    purge_document(filled.store, "gone.txt")
    facts = fact_table(
        [Fact("REV", "HOM", "FY", "2024", 1.0, "EUR", name, f"{name}#para1") for name in ("gone.txt", "x")]
    )
    with filled.store.connect() as connection:
        assert leave_out_purged(connection, facts)["source_doc_id"].to_pylist() == ["x"]


def test_a_table_that_this_release_does_not_know_is_purged_too(filled: Pipeline) -> None:
    with filled.store.connect() as connection:
        connection.execute("CREATE TABLE from_later (doc_id TEXT, note TEXT)")
        connection.execute("CREATE TABLE from_elsewhere (about TEXT)")
        connection.execute("INSERT INTO from_later VALUES ('gone.txt', 'CANARYgone'), ('keep.txt', '')")
        connection.execute("INSERT INTO from_elsewhere VALUES ('gone.txt#para1')")
    report = purge_document(filled.store, "gone.txt", withdraw=withdraw_documents)
    assert report.rows["from_later"] == 1
    assert report.left == ["from_elsewhere.about: 1"]
    assert filled.rows("SELECT doc_id FROM from_later") == [("keep.txt",)]


def test_a_store_that_somebody_holds_is_not_switched(filled: Pipeline) -> None:
    path = Path(str(filled.store.path))
    code = f"import duckdb, time; c = duckdb.connect({str(path)!r}); print('held', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert holder.stdout
        holder.stdout.readline()
        before = path.stat().st_ino
        with pytest.raises(StoreBusyError, match=f"process {holder.pid}"):
            rewrite(path, wait_s=0.3)
        assert path.stat().st_ino == before
    finally:
        holder.kill()
        holder.wait()


def test_a_store_that_the_caller_holds_open_is_refused(filled: Pipeline) -> None:
    with filled.store, pytest.raises(StoreError, match="held open"):
        purge_document(filled.store, "gone.txt")


def test_nobody_can_write_between_the_copy_and_the_switch(filled: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(str(filled.store.path))
    code = f"import duckdb; duckdb.connect({str(path)!r})"
    seen: list[int] = []
    replace = os.replace

    def slowly(source: Path, target: Path) -> None:
        seen.append(subprocess.run([sys.executable, "-c", code], capture_output=True).returncode)
        replace(source, target)

    monkeypatch.setattr("ragspine_assets.pipeline.purge.os.replace", slowly)
    rewrite(path)
    assert seen == [1]


def test_a_log_that_a_dead_process_left_is_taken_in_before_the_copy(filled: Pipeline) -> None:
    path = Path(str(filled.store.path))
    code = (
        f"import duckdb, os, signal; c = duckdb.connect({str(path)!r}); c.execute('CREATE TABLE late (a INT)'); "
        "c.execute('INSERT INTO late VALUES (7)'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code])
    assert path.with_name(path.name + ".wal").exists()
    rewrite(path)
    assert not path.with_name(path.name + ".wal").exists()
    assert filled.rows("SELECT a FROM late") == [(7,)]


def test_a_purge_killed_at_any_moment_leaves_a_store_and_the_next_one_finishes(filled: Pipeline) -> None:
    path = Path(str(filled.store.path))
    code = (
        "import sys; from ragspine_assets.store import ChunkStore; from ragspine_assets.pipeline.purge import purge_document; "
        f"print('ready', flush=True); [purge_document(ChunkStore({str(path)!r}), 'gone.txt') for _ in range(50)]"
    )
    for pause in (0.02, 0.05, 0.09, 0.15):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
        assert process.stdout
        process.stdout.readline()
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert filled.rows("SELECT count(DISTINCT doc_id) FROM narrative_chunk WHERE doc_id = 'keep.txt'") == [(1,)]
    purge_document(filled.store, "gone.txt", withdraw=withdraw_documents)
    assert b"CANARYgone" not in on_disk(filled)
    spill = path.with_name(path.name + ".tmp")
    assert not spill.exists() or not list(spill.iterdir())


def test_a_full_disk_is_told_and_the_store_stays(filled: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("ragspine_assets.pipeline.purge.os.replace", full)
        with pytest.raises(StoreError, match=r"bytes of what was deleted are still in it\. Make room"):
            purge_document(filled.store, "gone.txt")
    assert filled.rows("SELECT DISTINCT doc_id FROM narrative_chunk") == [("keep.txt",)]
    purge_document(filled.store, "gone.txt")
    assert b"CANARYgone" not in on_disk(filled)


def test_a_store_in_memory_forgets_its_rows() -> None:
    store = ChunkStore(":memory:")
    with store.connect() as connection:
        connection.execute("INSERT INTO document (doc_id) VALUES ('gone.txt')")
    assert purge_document(store, "gone.txt").rows == {"document": 1}
    assert isinstance(duckdb.__version__, str)
