"""Opening the store: privacy, locks, spill files (SPEC 3.1, 3.6)."""

import os
import stat
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from ragspine_assets.graph import DuckDBGraphStore
from ragspine_assets.store import ChunkStore, StoreBusyError, StoreError, database
from ragspine_assets.store.arrow_tables import table_of
from ragspine_assets.store.database import (
    VALUES_TOGETHER,
    buffers_released,
    engine_error,
    longest_together,
    memory_database,
    open_database,
    raise_memory_limit,
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


@pytest.mark.parametrize("in_threads", [False, True])
def test_a_store_stays_private_when_another_one_is_closed(tmp_path: Path, in_threads: bool) -> None:
    def write_and_look() -> tuple[int, int]:
        with ExitStack() as second:
            with open_database(tmp_path / "a.duckdb") as first:
                connection = second.enter_context(open_database(tmp_path / "b.duckdb"))
                first.execute("CREATE TABLE t AS SELECT 1")
            connection.execute("CREATE TABLE t AS SELECT 1")
            return mode(tmp_path / "b.duckdb.wal"), mode(tmp_path / "b.duckdb")

    before = os.umask(0o022)
    try:
        if in_threads:
            with ThreadPoolExecutor(1) as other:
                assert other.submit(write_and_look).result() == (0o600, 0o600)
        else:
            assert write_and_look() == (0o600, 0o600)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_threads_that_open_and_close_at_once_leave_files_private_and_the_mask_as_it_was(tmp_path: Path) -> None:
    def work(name: str) -> set[int]:
        seen = set()
        for round_ in range(5):
            with open_database(tmp_path / f"{name}.duckdb") as connection:
                connection.execute(f"CREATE TABLE t{round_} AS SELECT 1")
                seen.add(mode(tmp_path / f"{name}.duckdb.wal"))
        return seen

    before = os.umask(0o022)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert set.union(*pool.map(work, "abcd")) == {0o600}
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_a_graph_store_by_path_opens_its_file_as_the_store_does(tmp_path: Path) -> None:
    path = tmp_path / "new" / "graph.duckdb"
    with DuckDBGraphStore(path).connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT 1")
        assert mode(path.with_name("graph.duckdb.wal")) == 0o600
        assert connection.execute("SELECT current_setting('autoinstall_known_extensions')").fetchone() == (False,)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)


def test_a_graph_store_by_path_waits_for_a_holder(tmp_path: Path) -> None:
    path = tmp_path / "graph.duckdb"
    ChunkStore(path).init_schema()
    process = holder(path, 1.0)
    try:
        assert DuckDBGraphStore(path).count_nodes() == 0
    finally:
        process.wait(10)


def test_only_one_module_opens_duckdb() -> None:
    package = Path(database.__file__).parents[1]
    opening = {path for path in package.rglob("*.py") if "duckdb.connect(" in path.read_text("utf-8")}
    assert opening == {Path(database.__file__)}


def test_a_database_in_memory_writes_nothing_to_disk() -> None:
    with closing(memory_database(memory_limit="20MB", threads=1)) as connection:
        with pytest.raises(duckdb.OutOfMemoryException) as caught:
            connection.execute("SELECT list(i ORDER BY hash(i)) FROM range(20_000_000) t(i)").fetchall()
        assert "needs more memory" in str(engine_error(caught.value))


def test_an_error_of_a_query_is_not_translated_since_it_quotes_data() -> None:
    with closing(memory_database()) as connection, pytest.raises(duckdb.Error) as caught:
        connection.execute("SELECT 'secret'::INTEGER")
    assert engine_error(caught.value) is None


def test_a_store_that_is_read_only_is_never_created_and_never_changed(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    with pytest.raises(StoreError), open_database(path, read_only=True):
        pass
    assert not path.exists()
    ChunkStore(path).init_schema()
    with open_database(path, read_only=True) as one, open_database(path, read_only=True) as other:
        assert one.execute("SELECT count(*) FROM document").fetchone() == (0,)
        with pytest.raises(duckdb.Error):
            other.execute("CREATE TABLE t (a INTEGER)")


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
    process = holder(path, 120)
    try:
        started = time.monotonic()
        with pytest.raises(StoreBusyError, match=rf"process {process.pid} .*run again"):
            ChunkStore(path, wait_s=0.5).count()
        assert time.monotonic() - started < 60
    finally:
        process.kill()
        process.wait(10)


def test_a_killed_holder_frees_the_store(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    ChunkStore(path).init_schema()
    process = holder(path, 120)
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
        "import sys, pyarrow as pa; from ragspine_assets.store.arrow_tables import table_of; "
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
