"""Opening the store: privacy, locks, spill files (SPEC 3.1, 3.6)."""

import os
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from ragspine_assets.store import ChunkStore, StoreBusyError, StoreError
from ragspine_assets.store.database import (
    VALUES_TOGETHER,
    buffers_released,
    longest_together,
    open_database,
    raise_memory_limit,
    table_of,
    transaction,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def holder(path: Path, seconds: float) -> subprocess.Popen[str]:
    """Start a process that holds the store's lock; returns when it does."""
    code = textwrap.dedent(f"""
        import duckdb, sys, time
        connection = duckdb.connect({str(path)!r})
        print("held", flush=True)
        time.sleep({seconds})
    """)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    return process


def test_store_file_and_its_new_folder_are_private(tmp_path: Path) -> None:
    path = tmp_path / "private" / "store.duckdb"
    ChunkStore(path).init_schema()
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700


def test_log_beside_an_open_store_is_private_too(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    with open_database(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1")
        log = path.with_name(path.name + ".wal")
        assert log.exists()
        assert mode(log) == 0o600


def test_a_loose_store_file_is_tightened_when_opened(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    ChunkStore(path).init_schema()
    path.chmod(0o644)
    ChunkStore(path).count()
    assert mode(path) == 0o600


def test_an_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    ChunkStore(tmp_path / "store.duckdb").init_schema()
    assert mode(tmp_path) == 0o755


def test_the_process_umask_is_restored(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        ChunkStore(tmp_path / "store.duckdb").init_schema()
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_opening_removes_spill_files_of_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    spill = tmp_path / "store.duckdb.tmp"
    spill.mkdir()
    (spill / "duckdb_temp_storage_S32K-0.tmp").write_text("plain text of a document")
    ChunkStore(path).init_schema()
    assert not list(spill.glob("*")) if spill.exists() else True


def test_extensions_are_never_installed(tmp_path: Path) -> None:
    with open_database(tmp_path / "store.duckdb") as connection:
        settings = dict(
            connection.execute("SELECT name, value FROM duckdb_settings() WHERE name LIKE 'auto%extensions'").fetchall()
        )
    assert settings == {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


def test_a_writer_waits_for_a_short_holder(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    ChunkStore(path).init_schema()
    process = holder(path, 1.0)
    try:
        assert ChunkStore(path, wait_s=20).count() == 0
    finally:
        process.wait(10)


def test_a_writer_that_waited_in_vain_names_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    ChunkStore(path).init_schema()
    process = holder(path, 30)
    try:
        started = time.monotonic()
        with pytest.raises(StoreBusyError, match=rf"process {process.pid} .*run again"):
            ChunkStore(path, wait_s=0.5).count()
        assert time.monotonic() - started < 10
    finally:
        process.kill()
        process.wait(10)


def test_a_killed_holder_frees_the_store(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    ChunkStore(path).init_schema()
    process = holder(path, 30)
    process.kill()
    process.wait(10)
    assert ChunkStore(path, wait_s=5).count() == 0


def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look at " * 200)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is not a store"):
        ChunkStore(path).count()
    assert path.read_bytes() == before


def test_a_failed_transaction_leaves_nothing(tmp_path: Path) -> None:
    with open_database(tmp_path / "store.duckdb") as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
        with pytest.raises(duckdb.Error), transaction(connection):
            connection.execute("INSERT INTO t VALUES (1)")
            connection.execute("SELECT * FROM missing")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_an_inner_transaction_belongs_to_the_outer_one(tmp_path: Path) -> None:
    with open_database(tmp_path / "store.duckdb") as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
        with pytest.raises(RuntimeError), transaction(connection):
            with transaction(connection):
                connection.execute("INSERT INTO t VALUES (1)")
            raise RuntimeError
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_values_become_a_table_as_arrow_itself_would_make_it() -> None:
    schema = pa.schema([("text", pa.string()), ("count", pa.int32()), ("value", pa.float64())])
    columns = {"text": ["", "é本", None, "x"], "count": [1, None, -3, 4], "value": [0.5, 2, None, -1e300]}
    for values in (columns, {name: [] for name in columns}, {name: [None] * 9 for name in columns}):
        table = table_of(values, schema)
        table.validate(full=True)
        assert table == pa.table(values, schema=schema)


def test_a_table_is_made_without_loading_pandas() -> None:
    program = (
        "import sys, pyarrow as pa; from ragspine_assets.store.database import table_of; "
        "table_of({'a': ['x']}, pa.schema([('a', pa.string())])); assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_texts_that_lie_together_are_what_needs_room() -> None:
    assert longest_together([]) == 0
    assert longest_together([3, 4]) == 7
    together = longest_together([*[1] * 5000, 500, 400, *[1] * 5000, 700])
    assert together == 500 + 400 + (VALUES_TOGETHER - 2)


def test_buffers_are_given_back_while_others_need_memory(tmp_path: Path) -> None:
    def held() -> int:
        return connection.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()").fetchall()[0][0]

    with open_database(tmp_path / "s.duckdb") as connection:
        connection.execute("CREATE TABLE t AS SELECT md5(i::VARCHAR) AS x FROM range(4_000_000) r(i)")
        connection.execute("CHECKPOINT")
        connection.execute("SELECT sum(hash(x)) FROM t").fetchall()
        full, limit = held(), connection.execute("SELECT current_setting('memory_limit')").fetchall()
        with buffers_released(connection):
            assert full > 60_000_000
            assert held() < 48_000_000
        again = connection.execute("SELECT current_setting('memory_limit')").fetchall()
        assert float(again[0][0].split()[0]) == pytest.approx(float(limit[0][0].split()[0]), rel=0.01)
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(4_000_000,)]


def test_no_query_draws_how_far_it_is(tmp_path: Path) -> None:
    # DuckDB takes a process without a main file for a terminal with somebody before it.
    asked = textwrap.dedent(f"""
        from ragspine_assets.store import ChunkStore
        with ChunkStore({str(tmp_path / "s.duckdb")!r}).connect() as connection:
            for asked in (connection, connection.cursor()):
                print(asked.execute("SELECT current_setting('enable_progress_bar')").fetchall())
    """)
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[(False,)]", "[(False,)]"]


def test_room_is_made_for_a_power_of_two_of_what_is_read_together() -> None:
    with ChunkStore(":memory:").connect() as connection:
        for longest, limit in ((10_000_000, "183.1 MiB"), (159_000_000, "398.6 MiB"), (300_000_000, "654.2 MiB")):
            connection.execute("SET memory_limit = '192MB'")
            raise_memory_limit(connection, longest, "192MB")
            assert connection.execute("SELECT current_setting('memory_limit')").fetchall() == [(limit,)]
