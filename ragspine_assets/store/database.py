"""Opening the store: its lock, its permissions, its spill files (SPEC 3.1, 3.6).

The only mutex is DuckDB's lock on the file, which the kernel frees when its holder dies. A second writer waits with
back-off and then fails with a message that names the holder.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import accumulate
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

MEMORY = ":memory:"
MEMORY_LIMIT = "192MB"
"""What DuckDB's buffers may take before it spills, where nobody says otherwise."""

_BUSY = re.compile(
    r"Could not set lock on file .*?(?:Conflicting lock is held in (?P<program>.*?) \(PID (?P<pid>\d+)\))", re.DOTALL
)
_OTHER_CONFIGURATION = "different configuration"

_open_paths: dict[str, int] = {}
_open_paths_guard = threading.Lock()
_in_transaction: set[int] = set()


class StoreError(RuntimeError):
    """The store cannot do what was asked; the message says why and what to do. It never holds document text."""


class StoreBusyError(StoreError):
    """Another process holds the store's lock and did not release it in time."""


def is_busy(error: BaseException) -> bool:
    """Tell whether DuckDB refused because another process, or another way of opening, holds the store."""
    return isinstance(error, duckdb.Error) and (
        "Could not set lock" in str(error) or _OTHER_CONFIGURATION in str(error)
    )


def busy_error(path: Path, error: BaseException, waited_s: float) -> StoreBusyError:
    """Return the error for a store that stayed busy; it names the holder."""
    found = _BUSY.search(str(error))
    holder = f"process {found['pid']} ({Path(found['program']).name})" if found else "another connection"
    return StoreBusyError(
        f"The store {path} is in use by {holder}; waited {waited_s:.0f} s. Let it finish or end it, then run again. "
        "A process that dies frees the store by itself."
    )


def _prepare_folder(path: Path) -> None:
    folder = path.parent
    if not folder.exists():
        folder.mkdir(parents=True, mode=0o700)
        folder.chmod(0o700)


def _remove_stale_spill(path: Path) -> None:
    """Delete what a killed process left in the spill folder: it is plain text of documents."""
    with suppress(FileNotFoundError):
        for spilled in os.scandir(spill_folder(path)):
            if spilled.is_dir(follow_symlinks=False):
                shutil.rmtree(spilled.path, ignore_errors=True)
                continue
            with suppress(FileNotFoundError):
                os.unlink(spilled.path)


def spill_folder(path: Path) -> Path:
    """Return where DuckDB spills and where copies of the store are made; what is in it is removed at the next opening."""
    return path.with_name(path.name + ".tmp")


@contextmanager
def open_database(
    path: str | Path, *, wait_s: float = 30.0, memory_limit: str = MEMORY_LIMIT, threads: int | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the store file for reading and writing, and close it in every case.

    The file is created with mode 0600, in a folder created with mode 0700 (an existing folder keeps its mode). Spill
    files go beside the store; those that a killed process left are removed. Extensions are never installed.

    Args:
        path: the store file, or ``:memory:``.
        wait_s: how many seconds to wait, with back-off, for another process to release the lock.
        memory_limit: what DuckDB's buffers may take before it spills.
        threads: how many threads a query may use; at most 4 when not given.

    Raises:
        StoreBusyError: the lock was not free in time.
        StoreError: the file is not a store, or cannot be read or written.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "memory_limit": memory_limit,
        "threads": str(threads or min(os.cpu_count() or 1, 4)),
    }
    if str(path) == MEMORY:
        connection = duckdb.connect(MEMORY, config=config)
        try:
            yield connection
        finally:
            connection.close()
        return
    path = Path(os.path.abspath(path))
    config["temp_directory"] = str(spill_folder(path))
    try:
        _prepare_folder(path)
    except OSError as error:
        raise StoreError(
            f"The folder {path.parent} of the store cannot be created ({error.strerror}). Choose another STORE=."
        ) from None
    # The log beside the store is created by DuckDB at its first write: everything it creates must be private.
    mask = os.umask(0o077)
    try:
        connection = _connect(path, config, wait_s)
        key = str(path)
        with _open_paths_guard:
            if not _open_paths.get(key):
                _remove_stale_spill(path)
            _open_paths[key] = _open_paths.get(key, 0) + 1
        try:
            yield connection
        finally:
            with _open_paths_guard:
                _open_paths[key] -= 1
            connection.close()
    finally:
        os.umask(mask)


def _connect(
    path: Path, config: dict[str, str | bool | int | float | list[str]], wait_s: float
) -> duckdb.DuckDBPyConnection:
    attempts = Retrying(
        retry=retry_if_exception(is_busy),
        stop=stop_after_delay(wait_s),
        wait=wait_random_exponential(multiplier=0.05, max=1.0),
        reraise=True,
    )
    try:
        connection = attempts(duckdb.connect, str(path), config=config)
    except duckdb.Error as error:
        if is_busy(error):
            raise busy_error(path, error, wait_s) from None
        raise StoreError(_unopened(path, error)) from None
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    # A long query would draw itself into what a run prints.
    connection.execute("SET enable_progress_bar = false")
    return connection


def _unopened(path: Path, error: duckdb.Error) -> str:
    if "not a valid DuckDB database file" in str(error):
        return f"{path} is not a store: it is no DuckDB file. Choose another STORE=, or move the file away."
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return f"The store {path} cannot be written by this user. Change its permissions or choose another STORE=."
    return (
        f"The store {path} cannot be opened ({type(error).__name__}). Restore it from a copy, or choose another STORE=."
    )


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Run the block in one transaction, or in the caller's when there is one: all of it is stored, or nothing."""
    # DuckDB aborts a transaction in which another BEGIN is tried, so who is in one is remembered here.
    if id(connection) in _in_transaction:
        yield connection
        return
    connection.execute("BEGIN TRANSACTION")
    _in_transaction.add(id(connection))
    try:
        yield connection
    except BaseException:
        # The engine ends a transaction by itself when the database is lost: then there is nothing to roll back.
        with suppress(duckdb.Error):
            connection.execute("ROLLBACK")
        raise
    else:
        connection.execute("COMMIT")
    finally:
        _in_transaction.discard(id(connection))


VALUES_TOGETHER = 2048
"""DuckDB reads and compresses so many values of a column at once: all of them must fit in its memory."""


def longest_together(sizes: Iterable[int]) -> int:
    """Return the largest sum of `VALUES_TOGETHER` sizes that follow each other, in their unit."""
    sums = list(accumulate(sizes, initial=0))
    return max((behind - first for first, behind in zip(sums, sums[VALUES_TOGETHER:], strict=False)), default=sums[-1])


_ROOM = 150
_LITTLE = "48MB"


def raise_memory_limit(connection: duckdb.DuckDBPyConnection, longest: int, memory_limit: str) -> None:
    """Let DuckDB have more memory where documents are so long that it could not store or read them with less.

    Args:
        connection: the open store.
        longest: bytes of the longest `VALUES_TOGETHER` texts that follow each other, about.
        memory_limit: what is enough otherwise, such as ``192MB``.
    """
    # For what it decompresses together DuckDB asks for a power of two.
    needed = _ROOM + int((1 << longest.bit_length()) / 1e6)
    # More than DuckDB would take by itself is never asked for.
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 0.8 / 1e6
    if needed > int(re.sub(r"\D", "", memory_limit)):
        connection.execute(f"SET memory_limit = '{min(needed, int(installed))}MB'")


@contextmanager
def buffers_released(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Give DuckDB's buffers back for the time of a block that needs memory itself and hardly touches the store."""
    ((limit,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    # What is in use stays: then the limit is refused, and nothing was lost.
    with suppress(duckdb.Error):
        connection.execute(f"SET memory_limit = '{_LITTLE}'")
    try:
        yield
    finally:
        connection.execute(f"SET memory_limit = '{limit}'")


def table_of(columns: Mapping[str, Sequence[str | float | None]], schema: pa.Schema) -> pa.Table:
    """Return columns of texts and numbers as an Arrow table, made buffer by buffer.

    Arrow's own conversion of Python lists loads pandas first, which takes a fifth of a second and 40 MB.

    Args:
        columns: name to values; None is a null.
        schema: the columns' types, in their order: texts, integers, floating-point numbers.
    """
    return pa.Table.from_arrays([_array_of(columns[field.name], field.type) for field in schema], schema=schema)


def _array_of(values: Sequence[str | float | None], kind: pa.DataType) -> pa.Array:
    known = np.array([value is not None for value in values], bool)
    held = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    if kind != pa.string():
        numbers = np.array([value or 0 for value in values], kind.to_pandas_dtype())
        return pa.Array.from_buffers(kind, len(values), [held, pa.py_buffer(numbers)])
    texts = [str(value or "").encode() for value in values]
    ends = np.fromiter(accumulate(map(len, texts), initial=0), np.int32, len(texts) + 1)
    return pa.Array.from_buffers(kind, len(values), [held, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))])


@contextmanager
def registered(connection: duckdb.DuckDBPyConnection, **tables: pa.Table | pa.RecordBatch) -> Iterator[None]:
    """Let statements name Arrow tables, for as long as the block runs."""
    with ExitStack() as stack:
        for name, table in tables.items():
            connection.register(name, table)
            stack.callback(_unregister, connection, name)
        yield


def _unregister(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    with suppress(duckdb.Error):
        connection.unregister(name)
