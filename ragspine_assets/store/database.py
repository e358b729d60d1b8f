"""The one door to the store's file: its lock, its permissions, its spill files, its errors (SPEC 3.1, 3.6).

Whoever wants a DuckDB connection gets it here. The only mutex is DuckDB's lock on the file, which the kernel frees when
its holder dies. A second writer waits with back-off and then fails with a message that names the holder.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from ragspine_assets.errors import RagspineError

from .copies import copies_folder, copies_in

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY = ":memory:"
MEMORY_LIMIT = "192MB"
"""What DuckDB's buffers may take before it spills, where nobody says otherwise."""

_BUSY = re.compile(
    r"Could not set lock on file .*?(?:Conflicting lock is held in (?P<program>.*?) \(PID (?P<pid>\d+)\))", re.DOTALL
)
# What the engine says of a file it cannot trust stands at the start of a message: further on it may be a document's words.
_DAMAGED = re.compile(
    r"(?:\w+ Error: )*(?:Corrupt (?:database|WAL) file|Failure while replaying WAL|Could not read enough bytes"
    r"|Failed to deserialize|Failed to (?:load|read) metadata|Failed to decompress|Cannot open file .* is truncated)"
)
_OTHER_VERSION = "Trying to read a database file with version number"
_NOT_OURS = re.compile(f"not a valid DuckDB database file|{_OTHER_VERSION}")
_LOST = re.compile(r"(?:\w+ Error: )*Failed: database has been invalidated because of a previous fatal error")
_OTHER_CONFIGURATION = "different configuration"

_guard = threading.Lock()
_open_paths: dict[str, int] = {}
_private_blocks = 0
_public_mask = 0
_in_transaction: set[int] = set()


class StoreError(RagspineError, RuntimeError):
    """The store cannot do what was asked; the message says why and what to do. It never holds document text."""


class DamagedStoreError(StoreError):
    """What is in the store's file is not what DuckDB wrote there; the message names the file and the last good copy."""


class StoreBusyError(StoreError):
    """Another process holds the store's lock and did not release it in time."""


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, duckdb.Error) and (
        "Could not set lock" in str(error) or _OTHER_CONFIGURATION in str(error)
    )


def engine_error(error: duckdb.Error, path: str | Path = "", waited_s: float = 0.0) -> StoreError | None:
    """Return our error for one of DuckDB's that is about the file, the disk or the memory; None for any other.

    Errors of a query quote what they fail on, so of those nothing is translated.

    Args:
        error: what DuckDB raised.
        path: the store, to be named.
        waited_s: how long its lock was waited for, in seconds.
    """
    store = f"The store {path}" if path else "The store"
    if _is_busy(error):
        found = _BUSY.search(str(error))
        holder = f"process {found['pid']} ({Path(found['program']).name})" if found else "another connection"
        return StoreBusyError(
            f"{store} is in use by {holder}; waited {waited_s:.0f} s. Let it finish or end it, then run again. "
            "A process that dies frees the store by itself."
        )
    if "not a valid DuckDB database file" in str(error):
        return StoreError(
            f"{path or 'The file'} is not a store: it is no DuckDB file. Choose another STORE=, or move the file away."
        )
    if _OTHER_VERSION in str(error):
        return StoreError(
            f"{store} was written by another version of DuckDB than {duckdb.__version__}, which cannot read it. Use the "
            "release that wrote it, or choose another STORE=."
        )
    if _is_damaged(error):
        return DamagedStoreError(f"{store} is damaged: its bytes are not what was written. {_way_back(path)}")
    if isinstance(error, duckdb.OutOfMemoryException):
        return StoreError(
            f"{store} needs more memory than DuckDB may take ({type(error).__name__}). Nothing was changed. End other "
            "programs, or make room on the disk that holds the store, then run again."
        )
    if isinstance(
        error, (duckdb.IOException, duckdb.FatalException, duckdb.InternalException, duckdb.TransactionException)
    ):
        return StoreError(
            f"{store} cannot be read or written ({type(error).__name__}): the disk is full, its folder may not be written "
            "by this user, or the file is damaged. Make room, change the permissions or restore a copy of the store, then "
            "run again."
        )
    return None


def _is_damaged(error: duckdb.Error) -> bool:
    message = str(error)
    if _DAMAGED.match(message):
        return True
    # Once it has met the damage, the engine answers everything by quoting what it said then.
    return bool(_LOST.match(message)) and "Corrupt database file" in message


def _way_back(path: str | Path) -> str:
    copies = copies_in(copies_folder(path), path) if path else []
    if copies:
        return (
            f"The last good copy is {copies[0]}: `ragspine restore {copies[0]}` puts it back and keeps this file aside."
        )
    return (
        "No copy of it is beside it. Restore one from elsewhere with `ragspine restore FILE`; or move the file away and run "
        "again: all but old versions, the history of labels, answers of models and reviews is rebuilt from the source."
    )


@contextmanager
def engine_errors_translated(path: str | Path) -> Iterator[None]:
    """Turn what DuckDB says about the file, the disk or the memory into a `StoreError`; other errors pass."""
    try:
        yield
    except duckdb.Error as error:
        if (ours := engine_error(error, path)) is None:
            raise
        raise ours from None


@contextmanager
def private_files() -> Iterator[None]:
    """Let whatever this process creates be its user's alone: 0600, folders 0700.

    DuckDB creates its log and its spill files whenever it wants to, so the mask stays as long as any block of any thread
    runs; the last one to end gives the process its own mask back.
    """
    global _private_blocks, _public_mask
    with _guard:
        if not _private_blocks:
            _public_mask = os.umask(0o077)
        _private_blocks += 1
    try:
        yield
    finally:
        with _guard:
            _private_blocks -= 1
            if not _private_blocks:
                os.umask(_public_mask)


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


def memory_database(
    *, memory_limit: str = "", threads: int | None = None, spill: str | Path = ""
) -> duckdb.DuckDBPyConnection:
    """Return a connection to a database in memory, which is the caller's to close.

    Args:
        memory_limit: what DuckDB's buffers may take; what it chooses itself where empty.
        threads: how many threads a query may use; at most 4 when not given.
        spill: folder for what does not fit; nothing is written to disk where empty.
    """
    return _opened(MEMORY, memory_limit, threads, spill)


def _opened(
    path: str | Path, memory_limit: str, threads: int | None, spill: str | Path, *, read_only: bool = False
) -> duckdb.DuckDBPyConnection:
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "temp_directory": str(spill),
        "threads": str(threads or min(os.cpu_count() or 1, 4)),
    }
    if memory_limit:
        config["memory_limit"] = memory_limit
    connection = duckdb.connect(str(path), read_only=read_only, config=config)
    # A long query would draw itself into what a run prints.
    connection.execute("SET enable_progress_bar = false")
    return connection


@contextmanager
def open_database(
    path: str | Path,
    *,
    wait_s: float = 30.0,
    memory_limit: str = MEMORY_LIMIT,
    threads: int | None = None,
    read_only: bool = False,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the store file, and close it in every case.

    The file is created with mode 0600, in a folder created with mode 0700 (an existing folder keeps its mode). Spill
    files go beside the store; those that a killed process left are removed. Extensions are never installed.

    Args:
        path: the store file, or ``:memory:``, which takes the memory it needs and writes nothing to disk.
        wait_s: how many seconds to wait, with back-off, for another process to release the lock.
        memory_limit: what DuckDB's buffers may take before it spills.
        threads: how many threads a query may use; at most 4 when not given.
        read_only: change nothing, and let others read at the same time; the file must be there.

    Raises:
        StoreBusyError: the lock was not free in time.
        StoreError: the file is not a store, or cannot be read or written, now or later in the block.
    """
    if str(path) == MEMORY:
        connection = memory_database(threads=threads)
        try:
            yield connection
        finally:
            connection.close()
        return
    path = Path(os.path.abspath(path))
    if not read_only:
        try:
            _prepare_folder(path)
        except OSError as error:
            raise StoreError(
                f"The folder {path.parent} of the store cannot be created ({error.strerror}). Choose another STORE=."
            ) from None
    with private_files(), engine_errors_translated(path):
        try:
            connection = _when_free(
                lambda: _opened(path, memory_limit, threads, spill_folder(path), read_only=read_only), path, wait_s
            )
        except duckdb.Error as error:
            raise _unopened(path, error) from None
        key = str(path)
        with _guard:
            if not read_only and not _open_paths.get(key):
                _remove_stale_spill(path)
            _open_paths[key] = _open_paths.get(key, 0) + 1
        try:
            if not read_only and path.stat().st_mode & 0o077:
                path.chmod(0o600)
            yield connection
        finally:
            with _guard:
                _open_paths[key] -= 1
            connection.close()


def attach(
    connection: duckdb.DuckDBPyConnection, path: Path, name: str, *, wait_s: float = 0.0, read_only: bool = False
) -> None:
    """Let a connection reach a second database by a name; wait for its lock as `open_database` does.

    Raises:
        StoreBusyError: the lock was not free in time.
        duckdb.Error: the file cannot be opened.
    """
    quoted = str(path).replace("'", "''")
    statement = f"ATTACH '{quoted}' AS {name}{' (READ_ONLY)' if read_only else ''}"
    _when_free(lambda: connection.execute(statement), path, wait_s)


def _when_free(
    opening: Callable[[], duckdb.DuckDBPyConnection], path: Path, wait_s: float
) -> duckdb.DuckDBPyConnection:
    # The waiting is loaded by who must wait.
    from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

    try:
        return opening()
    except duckdb.Error as error:
        if not _is_busy(error):
            raise
    attempts = Retrying(
        retry=retry_if_exception(_is_busy),
        stop=stop_after_delay(wait_s),
        wait=wait_random_exponential(multiplier=0.05, max=1.0),
        reraise=True,
    )
    try:
        return attempts(opening)
    except duckdb.Error as error:
        if _is_busy(error) and (busy := engine_error(error, path, wait_s)):
            raise busy from None
        raise


def _unopened(path: Path, error: duckdb.Error) -> StoreError:
    known = engine_error(error, path)
    if isinstance(known, DamagedStoreError) or (known and _NOT_OURS.search(str(error))):
        return known
    if path.is_dir():
        return StoreError(
            f"The store {path} is a folder. Name a file, such as {path / 'ragspine.duckdb'}, with STORE=."
        )
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return StoreError(
            f"The store {path} cannot be written by this user. Change its permissions or choose another STORE=."
        )
    return StoreError(
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
