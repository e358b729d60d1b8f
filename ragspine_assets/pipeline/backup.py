"""Copies of the store: made consistent, proved by reading every row, put back without losing what is replaced (SPEC 3.6).

A copy holds what the store holds: the text of every document, RESTRICTED ones too, all versions, and the key of document
references. It is as secret as the store, and lies in a folder of mode 0700 as a file of mode 0600.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from ragspine_assets.policy import document_reference, read_label
from ragspine_assets.store.chunk_store import ChunkStore, longest_text
from ragspine_assets.store.copies import copies_folder, copies_in
from ragspine_assets.store.database import (
    StoreBusyError,
    StoreError,
    attach,
    engine_error,
    memory_database,
    private_files,
    raise_memory_limit,
    spill_folder,
    transaction,
)
from ragspine_assets.store.labels import Withdraw, raise_labels

from .purge import delete_document, rewrite, to_disk

_BUILDING = ".building-"
_MEMORY_LIMIT = "320MB"
_LEAST_TABLES = frozenset({"document", "narrative_chunk", "store_setting"})


@dataclass(frozen=True)
class Copied:
    """A copy that was made.

    Attributes:
        path: the file.
        bytes: its size.
        rows: rows of every table together.
        documents: documents it knows.
        removed: older copies that were deleted to keep no more than asked for.
    """

    path: Path
    bytes: int
    rows: int
    documents: int
    removed: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Restored:
    """A copy that was put back.

    Attributes:
        copy: the copy, which stays where it is.
        replaced: the file that was the store before; None where there was none.
        rows: rows of every table together.
        raised: documents whose label was higher in the store that was replaced, and is so again.
        purged: documents that were purged since the copy was made, and are gone again.
        compared: whether the replaced store could be read: only then are raised labels and purges known.
    """

    copy: Path
    replaced: Path | None
    rows: int
    raised: int = 0
    purged: int = 0
    compared: bool = False


Content = dict[str, tuple[int, int]]
"""Of each table, how many rows it has and a hash of them, in whatever order they lie."""


def back_up(store: str | Path, folder: str | Path = "", *, keep: int = 7, wait_s: float = 30.0) -> Copied:
    """Write a copy of the store, under its lock, and prove that every row of it reads back as it is in the store.

    The copy gets its name only when it is proved and on disk; killed at any instant, there is a whole copy or none.

    Args:
        store: the store's file.
        folder: where copies lie; beside the store where empty. It is created with mode 0700.
        keep: how many copies of this store stay in the folder, the new one among them.
        wait_s: seconds to wait while another process holds the store.

    Raises:
        StoreBusyError: another process held the store for too long.
        StoreError: there is no store, it is damaged, or the copy cannot be written.
    """
    path = Path(os.path.abspath(store))
    if not path.is_file():
        raise StoreError(f"There is no store {path} to copy; name it with --store.")
    target = Path(os.path.abspath(folder or copies_folder(path)))
    building = target / f"{_BUILDING}{path.stem}-{os.getpid()}-{secrets.token_hex(4)}"
    with _private_folder(target), private_files(), _translated(path, target):
        building.mkdir()
        try:
            with _reading(building) as connection:
                attach(connection, path, "store", wait_s=wait_s)
                # Under the store's lock: what another made is of a process that is gone, and holds text.
                for stale in target.glob(f"{_BUILDING}{path.stem}-*"):
                    if stale != building:
                        shutil.rmtree(stale, ignore_errors=True)
                connection.execute("CHECKPOINT store")
                fresh = building / "copy.duckdb"
                attach(connection, fresh, "fresh")
                _make_room(connection)
                connection.execute("COPY FROM DATABASE store TO fresh")
                connection.execute("CHECKPOINT fresh")
                connection.execute("DETACH fresh")
                expected = _content(connection)
                if content_of(fresh, building) != expected:
                    raise StoreError(
                        f"The copy of {path} does not read back as it was written: {target} may be failing."
                    )
                (documents,) = connection.execute("SELECT count(*) FROM store.document").fetchall()[0]
            to_disk(fresh)
            final = target / f"{path.stem}-{_stamp()}.duckdb"
            os.replace(fresh, final)
            to_disk(target)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    removed = tuple(copies_in(target, path)[max(keep, 1) :])
    for old in removed:
        old.unlink(missing_ok=True)
    return Copied(final, final.stat().st_size, _rows(expected), documents, removed)


def restore(copy: str | Path, store: str | Path, *, withdraw: Withdraw | None = None, wait_s: float = 30.0) -> Restored:
    """Put a copy in the place of the store; what was there is kept beside it.

    The copy is read through first. What must not come back does not: labels that were raised since the copy was made are
    raised in it, and documents that were purged since are purged from it, as far as the store that is replaced can be
    read. Killed at any instant, the store is the old file or the new one.

    Args:
        copy: the file; it stays as it is.
        store: the store's file; it may be missing or damaged.
        withdraw: removes documents from what was derived from them, as `sync_documents` takes it.
        wait_s: seconds to wait while another process holds the store.

    Raises:
        StoreBusyError: another process held the store for too long.
        StoreError: the copy is no store, is damaged, or belongs to another source; or there is no room.
    """
    source, path = Path(os.path.abspath(copy)), Path(os.path.abspath(store))
    if not source.is_file():
        raise StoreError(f"There is no copy {source}. `ragspine backup` makes copies in {copies_folder(path)}.")
    if path.exists() and os.path.samefile(source, path):
        raise StoreError(f"{source} is the store itself.")
    with (
        _private_folder(path.parent, only_new=True),
        private_files(),
        _held(path, wait_s) as now,
        _translated(source, path),
    ):
        folder = spill_folder(path) / f"restore-{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir(parents=True)
        try:
            fresh = folder / "fresh.duckdb"
            shutil.copyfile(source, fresh)
            content = content_of(fresh, folder)
            if missing := _LEAST_TABLES - content.keys():
                raise StoreError(f"{source} is no copy of a store: it has no table {', '.join(sorted(missing))}.")
            known = _known(now, path, folder)
            raised, purged = _kept_closed(fresh, known, source, path, withdraw)
            if purged:
                rewrite(fresh)
            to_disk(fresh)
            replaced = _set_aside(path) if path.exists() else None
            os.replace(fresh, path)
            to_disk(path.parent)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return Restored(source, replaced, _rows(content), len(raised), len(purged), known is not None)


def content_of(path: Path, spill: Path) -> Content:
    """Read every row of a store.

    Args:
        path: the file.
        spill: folder for what does not fit in memory; it gets plain text of documents.

    Raises:
        StoreError: the file is no store or is damaged.
    """
    try:
        with _reading(spill) as connection:
            attach(connection, path, "store", read_only=True)
            _make_room(connection)
            return _content(connection)
    except duckdb.Error as error:
        raise (engine_error(error, path) or StoreError(f"{path} cannot be read ({type(error).__name__}).")) from None


def _content(connection: duckdb.DuckDBPyConnection) -> Content:
    tables = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'store' AND schema_name = 'main' ORDER BY ALL"
    ).fetchall()
    found: Content = {}
    for (table,) in tables:
        count, digest = connection.execute(
            f'SELECT count(*), coalesce(sum(hash(t)::HUGEINT % 1000000007), 0) FROM store."{table}" t'
        ).fetchall()[0]
        found[table] = (int(count), int(digest))
    return found


def _rows(content: Content) -> int:
    return sum(count for count, _ in content.values())


@contextmanager
def _reading(spill: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(memory_database(memory_limit=_MEMORY_LIMIT, threads=1, spill=spill)) as connection:
        yield connection


def _make_room(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("USE store")
    with suppress(duckdb.CatalogException):
        raise_memory_limit(connection, 2 * longest_text(connection), _MEMORY_LIMIT)
    connection.execute("USE memory")


@contextmanager
def _private_folder(folder: Path, *, only_new: bool = False) -> Iterator[None]:
    try:
        if not folder.exists():
            folder.mkdir(parents=True, mode=0o700)
            folder.chmod(0o700)
        elif not only_new and folder.stat().st_uid == os.getuid() and not any(folder.iterdir()):
            folder.chmod(0o700)
    except OSError as error:
        raise StoreError(f"The folder {folder} cannot be written ({error.strerror}). Name another with --to.") from None
    yield


@contextmanager
def _translated(path: Path, target: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise (engine_error(error, path) or StoreError(f"{path} cannot be read ({type(error).__name__}).")) from None
    except OSError as error:
        raise StoreError(
            f"{target} cannot be written ({error.strerror}). Make room for {_size(path)} or change its permissions."
        ) from None


def _size(path: Path) -> str:
    with suppress(OSError):
        return f"{path.stat().st_size / 1e6:.0f} MB"
    return "the copy"


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")


# -- putting back --------------------------------------------------------------------------------------------------------


@contextmanager
def _held(path: Path, wait_s: float) -> Iterator[int | None]:
    """Hold the store's lock without the engine, which cannot open a damaged file; None where there is no file.

    The lock goes when this process closes the file by whatever descriptor: until then it is read by this one.
    """
    if not path.exists():
        yield None
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    until = time.monotonic() + wait_s
    try:
        while True:
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= until:
                    raise StoreBusyError(
                        f"The store {path} is in use by another process; waited {wait_s:.0f} s. Let it finish or end it, "
                        "then restore again. Nothing was changed."
                    ) from None
                time.sleep(0.2)
        yield descriptor
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class _Known:
    source_root: str
    labels: dict[str, str]
    purged: frozenset[str]


def _known(now: int | None, path: Path, folder: Path) -> _Known | None:
    """Read from the store that is replaced what must not be undone; None where it cannot be read."""
    if now is None:
        return None
    looked_at = folder / "replaced.duckdb"
    with looked_at.open("wb") as file:
        place = 0
        while block := os.pread(now, 1 << 20, place):
            place += file.write(block)
    log = path.with_name(path.name + ".wal")
    if log.exists():
        shutil.copyfile(log, looked_at.with_name(looked_at.name + ".wal"))
    try:
        with _reading(folder) as connection:
            attach(connection, looked_at, "store")
            root = connection.execute("SELECT value FROM store.store_setting WHERE name = 'source_root'").fetchall()
            labels = connection.execute("SELECT doc_id, sensitivity FROM store.document").fetchall()
            purged = connection.execute("SELECT reference FROM store.purged_document").fetchall()
    except duckdb.Error:
        return None
    finally:
        looked_at.unlink(missing_ok=True)
    return _Known(root[0][0] if root else "", dict(labels), frozenset(row[0] for row in purged))


def _kept_closed(
    fresh: Path, known: _Known | None, copy: Path, store: Path, withdraw: Withdraw | None
) -> tuple[Sequence[str], Sequence[str]]:
    if known is None:
        return [], []
    with ChunkStore(fresh).connect() as connection:
        settings = dict(connection.execute("SELECT name, value FROM store_setting").fetchall())
        root = settings.get("source_root", "")
        if known.source_root and root and known.source_root != root:
            raise StoreError(
                f"{copy} belongs to the source {root}, and the store {store} to {known.source_root}. Restore it to another "
                "file with --store."
            )
        key = bytes.fromhex(settings.get("reference_key", ""))
        there = dict(connection.execute("SELECT doc_id, sensitivity FROM document").fetchall())
        purged = [doc_id for doc_id in there if document_reference(doc_id, key) in known.purged] if key else []
        with transaction(connection):
            for doc_id in purged:
                delete_document(connection, doc_id, withdraw)
            then = {doc_id: read_label(known.labels.get(doc_id, label)) for doc_id, label in there.items()}
            higher = {
                doc_id: (label, "raised before a copy was restored")
                for doc_id, label in then.items()
                if doc_id not in purged and label.rank > read_label(there[doc_id]).rank
            }
            raised = raise_labels(connection, higher, withdraw=withdraw)
    return raised, purged


def _set_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.stem}.replaced-{_stamp()}.duckdb")
    log = path.with_name(path.name + ".wal")
    os.link(path, aside)
    if log.exists():
        # Beside the copy it would be taken for its own.
        os.replace(log, aside.with_name(aside.name + ".wal"))
    return aside
