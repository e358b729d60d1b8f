"""Copies of the store: consistent, proved, private; put back without losing or opening anything (SPEC 3.6)."""

import os
import random
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from ragspine_assets.graph import withdraw_documents
from ragspine_assets.pipeline import backup
from ragspine_assets.pipeline.backup import back_up, content_of, restore
from ragspine_assets.pipeline.purge import purge_document
from ragspine_assets.store import ChunkStore, StoreBusyError, StoreError
from ragspine_assets.store.copies import copies_folder, copies_in
from ragspine_assets.store.database import DamagedStoreError
from ragspine_assets_tests.conftest import Pipeline

SECRET = "Zanzibarquux"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backup")
    (folder / "source").mkdir()
    pipeline = Pipeline(folder / "source", ChunkStore(folder / "store.duckdb"))
    rng = random.Random(1)
    words = ["valve", "river", "ledger", "turbine", "archive"]
    pipeline.write({f"d{n}.txt": "\n".join(" ".join(rng.choices(words, k=30)) for _ in range(20)) for n in range(8)})
    pipeline.write({"secret.txt": f"{SECRET} is in it.\n"})
    pipeline.run()
    return folder


@pytest.fixture
def filled(built: Path, tmp_path: Path) -> Pipeline:
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    return Pipeline(tmp_path / "source", ChunkStore(tmp_path / "store.duckdb"))


def path_of(pipeline: Pipeline) -> Path:
    return Path(str(pipeline.store.path))


def test_a_copy_holds_every_row_and_is_its_users_alone(filled: Pipeline, tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        made = back_up(path_of(filled))
    finally:
        os.umask(mask)
    assert made.documents == 9
    assert content_of(made.path, tmp_path) == content_of(path_of(filled), tmp_path)
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700
    assert [path.name for path in copies_folder(path_of(filled)).iterdir()] == [made.path.name]


def test_what_is_only_in_the_log_beside_the_store_is_in_the_copy(filled: Pipeline) -> None:
    code = (
        f"import duckdb, os; c = duckdb.connect({str(path_of(filled))!r}); "
        "c.execute(\"INSERT INTO store_setting (name, value) VALUES ('late', 'yes')\"); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    assert path_of(filled).with_name("store.duckdb.wal").exists()
    made = back_up(path_of(filled))
    with duckdb.connect(str(made.path), read_only=True) as connection:
        assert connection.execute("SELECT value FROM store_setting WHERE name = 'late'").fetchall() == [("yes",)]


def test_no_more_copies_are_kept_than_asked_for_and_no_other_file_goes(filled: Pipeline, tmp_path: Path) -> None:
    other = tmp_path / "copies" / "another-20260101T000000Z.duckdb"
    other.parent.mkdir()
    other.write_bytes(b"kept")
    made = [back_up(path_of(filled), other.parent, keep=2) for _ in range(3)]
    assert copies_in(other.parent, path_of(filled)) == [made[2].path, made[1].path]
    assert made[2].removed == (made[0].path,)
    assert other.exists()


def test_what_a_killed_backup_left_goes_with_the_next(filled: Pipeline) -> None:
    stale = copies_folder(path_of(filled)) / ".building-store-1-abcd"
    stale.mkdir(parents=True)
    (stale / "copy.duckdb").write_text(SECRET)
    back_up(path_of(filled))
    assert not stale.exists()


def test_a_copy_that_does_not_read_back_gets_no_name(filled: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "content_of", lambda path, spill: {"document": (1, 1)})
    with pytest.raises(StoreError, match="does not read back"):
        back_up(path_of(filled))
    assert list(copies_folder(path_of(filled)).iterdir()) == []


def test_a_held_store_is_neither_copied_nor_replaced(filled: Pipeline) -> None:
    made = back_up(path_of(filled))
    before = path_of(filled).read_bytes()
    code = (
        f"import duckdb, sys; c = duckdb.connect({str(path_of(filled))!r}); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout
        holder.stdout.readline()
        with pytest.raises(StoreBusyError, match=f"process {holder.pid}"):
            back_up(path_of(filled), wait_s=0.1)
        with pytest.raises(StoreBusyError, match="in use"):
            restore(made.path, path_of(filled), wait_s=0.1)
    finally:
        holder.kill()
        holder.communicate()
    assert path_of(filled).read_bytes() == before


def test_a_restored_copy_is_the_store_and_what_it_replaced_is_beside_it(filled: Pipeline, tmp_path: Path) -> None:
    made = back_up(path_of(filled))
    copied = content_of(made.path, tmp_path)
    filled.write({"later.txt": "Later.\n"})
    filled.run()
    later = path_of(filled).read_bytes()
    done = restore(made.path, path_of(filled), withdraw=withdraw_documents)
    assert content_of(path_of(filled), tmp_path) == copied
    assert stat.S_IMODE(path_of(filled).stat().st_mode) == 0o600
    assert done.replaced is not None
    assert done.replaced.read_bytes() == later
    assert made.path.exists()
    filled.run()
    assert ("later.txt",) in filled.rows("SELECT doc_id FROM document")


def test_a_label_raised_and_a_document_purged_since_the_copy_stay_so(filled: Pipeline) -> None:
    made = back_up(path_of(filled))
    filled.write({"metadata.csv": "doc_id,sensitivity\nd1.txt,RESTRICTED\n"})
    filled.run()
    purge_document(filled.store, "secret.txt", withdraw=withdraw_documents)
    done = restore(made.path, path_of(filled), withdraw=withdraw_documents)
    assert (done.raised, done.purged, done.compared) == (1, 1, True)
    assert filled.rows("SELECT DISTINCT sensitivity FROM narrative_chunk WHERE doc_id = 'd1.txt'") == [("RESTRICTED",)]
    assert SECRET.encode() not in path_of(filled).read_bytes()
    assert filled.rows("SELECT count(*) FROM document WHERE doc_id = 'secret.txt'") == [(0,)]


def test_the_copy_alone_would_bring_both_back(filled: Pipeline) -> None:
    made = back_up(path_of(filled))
    filled.write({"metadata.csv": "doc_id,sensitivity\nd1.txt,RESTRICTED\n"})
    filled.run()
    shutil.copyfile(made.path, path_of(filled))
    assert filled.rows("SELECT DISTINCT sensitivity FROM narrative_chunk WHERE doc_id = 'd1.txt'") != [("RESTRICTED",)]


def test_a_damaged_store_is_replaced_too_and_that_nothing_is_known_of_it_is_told(filled: Pipeline) -> None:
    made = back_up(path_of(filled))
    path_of(filled).write_bytes(path_of(filled).read_bytes()[:20_000])
    done = restore(made.path, path_of(filled))
    assert not done.compared
    assert filled.rows("SELECT count(*) FROM document") == [(9,)]


def test_a_missing_store_is_put_back(filled: Pipeline) -> None:
    made = back_up(path_of(filled))
    path_of(filled).unlink()
    assert restore(made.path, path_of(filled)).replaced is None
    assert filled.rows("SELECT count(*) FROM document") == [(9,)]


@pytest.mark.parametrize("what", ["damaged", "no store", "not there", "another source"])
def test_what_is_no_good_copy_is_refused_and_the_store_stays(filled: Pipeline, tmp_path: Path, what: str) -> None:
    copy = back_up(path_of(filled)).path
    if what == "damaged":
        content = bytearray(copy.read_bytes())
        content[len(content) // 2] ^= 0xFF
        copy.write_bytes(bytes(content))
    elif what == "no store":
        copy.unlink()
        duckdb.connect(str(copy)).close()
    elif what == "not there":
        copy.unlink()
    else:
        with duckdb.connect(str(copy)) as connection:
            connection.execute("UPDATE store_setting SET value = 'elsewhere' WHERE name = 'source_root'")
    before = path_of(filled).read_bytes()
    said = {"damaged": "damaged", "no store": "no table", "not there": "no copy", "another source": "belongs to"}
    with pytest.raises(StoreError, match=said[what]):
        restore(copy, path_of(filled))
    assert path_of(filled).read_bytes() == before
    assert not list(tmp_path.glob("*.replaced-*"))


# -- damage is named -----------------------------------------------------------------------------------------------------


def damaged_at(pipeline: Pipeline, position: int) -> Path:
    content = bytearray(path_of(pipeline).read_bytes())
    content[position] ^= 0xFF
    path_of(pipeline).write_bytes(bytes(content))
    return path_of(pipeline)


def read_everything(pipeline: Pipeline) -> None:
    with pipeline.store.connect() as connection:
        tables = [row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        for table in tables:
            connection.execute(f'SELECT sum(hash(t)::HUGEINT) FROM "{table}" t').fetchall()


# Of the file: the first header, the two others, the list of tables, blocks of rows.
@pytest.mark.parametrize("share", [0.0, 0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95])
def test_a_flipped_byte_is_told_as_damage_with_the_path_the_last_copy_and_what_to_do(
    filled: Pipeline, share: float
) -> None:
    copy = back_up(path_of(filled)).path
    size = path_of(filled).stat().st_size
    path = damaged_at(filled, 12_288 + int((size - 12_300) * share))
    with pytest.raises(DamagedStoreError) as told:
        read_everything(filled)
        back_up(path)
        pytest.skip("the byte is in no block that anything uses")
    message = str(told.value)
    assert f"{path} is damaged" in message
    assert f"ragspine restore {copy}" in message
    restore(copy, path)
    read_everything(filled)


@pytest.mark.parametrize("left", [100, 5_000, 12_288, 100_000])
def test_a_truncated_store_is_damaged(filled: Pipeline, left: int) -> None:
    os.truncate(path_of(filled), left)
    with pytest.raises(DamagedStoreError, match="is damaged"):
        read_everything(filled)


def test_a_damaged_log_is_damage_and_without_a_copy_it_is_said_what_to_do(filled: Pipeline) -> None:
    code = (
        f"import duckdb, os; c = duckdb.connect({str(path_of(filled))!r}); "
        "c.execute(\"INSERT INTO store_setting SELECT 'n' || i, md5(i::text) FROM range(500) t(i)\"); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    log = path_of(filled).with_name("store.duckdb.wal")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0xFF
    log.write_bytes(bytes(content))
    with pytest.raises(DamagedStoreError, match="No copy of it is beside it"):
        read_everything(filled)


def test_another_file_and_another_version_are_told_as_what_they_are(filled: Pipeline) -> None:
    content = bytearray(path_of(filled).read_bytes())
    path_of(filled).write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match="is not a store"):
        read_everything(filled)
    content[12] = 1
    path_of(filled).write_bytes(bytes(content))
    with pytest.raises(StoreError):
        read_everything(filled)


def test_words_of_a_document_are_not_taken_for_the_engines(filled: Pipeline) -> None:
    with pytest.raises(duckdb.Error) as told, filled.store.connect() as connection:
        connection.execute("SELECT CAST('Corrupt database file: a title' AS INTEGER)")
    assert not isinstance(told.value, StoreError)


# -- copies and purge ----------------------------------------------------------------------------------------------------


def test_a_purge_reaches_the_copies_and_names_those_it_cannot_reach(filled: Pipeline) -> None:
    good, bad = back_up(path_of(filled)).path, back_up(path_of(filled)).path
    os.truncate(bad, 30_000)
    report = purge_document(filled.store, "secret.txt", withdraw=withdraw_documents, copies=[good, bad])
    assert report.copies == [good]
    assert list(report.unreached) == [str(bad)]
    assert SECRET.encode() not in good.read_bytes()
    assert SECRET.encode() not in path_of(filled).read_bytes()
