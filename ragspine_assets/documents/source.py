"""The source: which files there are, and reading one of them once (SPEC 1.1-1.3).

Nothing outside the root is listed or read, and nothing but a regular file is ever opened: a FIFO would hang, a device
would not end.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Self
from urllib.parse import quote_from_bytes

from ragspine_assets.errors import RagspineError
from ragspine_assets.policy.folding import fold_text

from .formats import BY_SUFFIX

SUPPORTED_SUFFIXES: frozenset[str] = frozenset(BY_SUFFIX)
"""File-name suffixes, in lower case, that are documents."""

METADATA_FILE = "metadata.csv"
"""Name of the metadata table at the root; it is no document (SPEC 1.7)."""

OTHER_TABLE = (
    "a table of metadata is read only from metadata.csv at the root of the source, as CSV: move it there, or give the file "
    "another name and other columns if it is a document"
)
"""Why a file that looks like a table of metadata is neither read as one nor taken for a document (SPEC 1.7)."""

_TABLE_NAME = re.compile(
    r"metadata(?:[ ._-]*(?:\(\d+\)|\d+|copy|kopie|copia|old|new|bak|backup|orig|draft|final|v\d+))*"
    r"\.(?:csv|tsv|tab|xlsx|xlsm|xlsb|xls|ods|json|parquet|numbers)(?:[.~_ -].*|~)?"
)

HIDDEN = "hidden"
OFFICE_LOCK = "office lock file"
UNSUPPORTED = "unsupported type"
SECOND_NAME = "symlink to what is listed"


class SourceError(RagspineError):
    """The source cannot be listed at all; the message says what to do."""


class UnsafeFileError(RagspineError):
    """A listed file is no longer what was listed, or may not be read; the message is a reason for `failed`."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One document's file.

    Attributes:
        doc_id: POSIX path relative to the root, NFC (SPEC 1.2).
        path: path relative to the root as the system spells it; join it to the root to open it.
        size: bytes, when listed.
        suffix: lower-case suffix with its dot.
        mtime_ns: time of the last change, nanoseconds, when listed.
    """

    doc_id: str
    path: str
    size: int
    suffix: str
    mtime_ns: int = 0


@dataclass(frozen=True, slots=True)
class SourceListing:
    """What a source folder holds.

    Attributes:
        root: the folder, absolute and without symlinks.
        files: the documents' files, sorted by ``doc_id``.
        refused: ``(doc_id, reason)`` of what looks like a document and is not read, sorted; those have failed.
        passed_over: reason to number of files and folders that are not documents.
        unreadable: ``doc_id`` prefixes (with ``/`` at the end) of folders that could not be listed: a document below
            one has failed and is not removed.
    """

    root: Path
    files: tuple[SourceFile, ...]
    refused: tuple[tuple[str, str], ...]
    passed_over: Mapping[str, int]
    unreadable: tuple[str, ...] = ()

    def is_unreadable(self, doc_id: str) -> bool:
        """Tell whether a document lies in a folder that could not be listed."""
        return doc_id.startswith(self.unreadable) if self.unreadable else False


def document_id(path: str) -> str:
    """Return the ``doc_id`` of a path relative to the root: POSIX and NFC; percent-escaped if it is not UTF-8."""
    posix = path if os.sep == "/" else path.replace(os.sep, "/")
    if posix.isascii():
        return posix
    if not _is_utf8(posix):
        return quote_from_bytes(os.fsencode(posix), safe="/ !#$&'()*+,-.:;=?@[]_{}~")
    return unicodedata.normalize("NFC", posix)


def _is_utf8(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def suffix_of(name: str) -> str:
    """Return a file name's suffix in lower case, with its dot; '' without one."""
    return os.path.splitext(name)[1].lower()


class _Walk:
    """One walk over a source folder; collects what `scan_source` then sorts."""

    def __init__(self, root: str, suffixes: Collection[str]) -> None:
        self.root = root
        self.suffixes = suffixes
        self.files: list[SourceFile] = []
        self.links: list[tuple[str, str]] = []
        self.refused: list[tuple[str, str]] = []
        self.passed_over: Counter[str] = Counter()
        self.unreadable: list[str] = []
        self.seen_folders: set[tuple[int, int]] = set()

    def run(self) -> None:
        pending = [""]
        while pending:
            prefix = pending.pop()
            full = os.path.join(self.root, prefix)
            try:
                info = os.stat(full, follow_symlinks=False)
                key = (info.st_dev, info.st_ino)
                if key in self.seen_folders:
                    # The same folder under a second name (a bind mount): it would never end.
                    self.refused.append((document_id(prefix.rstrip("/")), "the folder contains itself"))
                    continue
                self.seen_folders.add(key)
                with os.scandir(full) as entries:
                    pending.extend(folder for entry in entries if (folder := self.take(prefix, entry)))
            except OSError as error:
                if not prefix:
                    raise
                self.unreadable.append(document_id(prefix))
                reason = f"the folder cannot be listed ({_why(error)}); give read and execute permission"
                self.refused.append((document_id(prefix.rstrip("/")), reason))

    def take(self, prefix: str, entry: os.DirEntry[str]) -> str:
        """Note one entry; return the path of a folder that is to be walked, with a slash at its end."""
        name = entry.name
        if name.startswith("."):
            self.passed_over[HIDDEN] += 1
            return ""
        path = prefix + name
        if path != METADATA_FILE and _TABLE_NAME.fullmatch(name.lower() if name.isascii() else fold_text(name)):
            self.refused.append((document_id(path), OTHER_TABLE))
            return ""
        if entry.is_symlink():
            self.links.append((path, name))
            return ""
        if entry.is_dir(follow_symlinks=False):
            return path + "/"
        if self.is_document(path, name):
            self.add(path, name, entry)
        return ""

    def is_document(self, path: str, name: str) -> bool:
        if name.startswith("~$"):
            self.passed_over[OFFICE_LOCK] += 1
        elif path == METADATA_FILE:
            pass
        elif suffix_of(name) not in self.suffixes:
            self.passed_over[UNSUPPORTED] += 1
        else:
            return True
        return False

    def add(self, path: str, name: str, entry: os.DirEntry[str]) -> None:
        doc_id = document_id(path)
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError as error:
            self.refused.append((doc_id, f"the file cannot be examined ({_why(error)})"))
            return
        if not path.isascii() and not _is_utf8(path):
            self.refused.append((doc_id, "the file's path is not UTF-8; rename it"))
        elif not stat.S_ISREG(info.st_mode):
            self.refused.append((doc_id, f"is not a regular file but {_kind(info.st_mode)}"))
        else:
            self.files.append(SourceFile(doc_id, path, info.st_size, suffix_of(name), info.st_mtime_ns))


def _why(error: OSError) -> str:
    """Say why a call failed without the path that the error quotes."""
    return (error.strerror or type(error).__name__).lower()


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"), (stat.S_ISDIR, "a folder"))
    return next((name for test, name in kinds if test(mode)), "a device")


def scan_source(root: str | os.PathLike[str], *, suffixes: Collection[str] = SUPPORTED_SUFFIXES) -> SourceListing:
    """List the documents of a folder, recursively, in an order that no file system changes (SPEC 1.1, 1.2).

    Hidden files and folders, ``~$*`` and other types are counted. Refused with a reason are symlinks that leave the
    root, loop or lead nowhere, names that are not UTF-8, what is no regular file, folders that cannot be listed, and
    of two files with the same id the second in sorted order. A symlink to a document or folder that is listed anyway
    is counted: every real file is listed once, where it is.

    Args:
        root: the folder.
        suffixes: lower-case suffixes, with the dot, of what is a document.

    Raises:
        SourceError: if the root is missing, is no folder or cannot be listed.
    """
    given = os.fspath(root)
    try:
        real = os.path.realpath(given, strict=True)
        if not os.path.isdir(real):
            message = f"the source {given} is not a folder; name the folder that holds the documents"
            raise SourceError(message)
        walk = _Walk(real, frozenset(suffixes))
        walk.run()
    except FileNotFoundError:
        message = f"the source {given} does not exist; create it, mount it, or name another one with SOURCE="
        raise SourceError(message) from None
    except OSError as error:
        message = f"the source {given} cannot be listed ({_why(error)}); check its permissions and that it is mounted"
        raise SourceError(message) from None
    _resolve_links(walk)
    files: list[SourceFile] = []
    # By id, then by the bytes of the name: two spellings of one id come in the same order everywhere.
    for file in sorted(walk.files, key=lambda file: (file.doc_id, os.fsencode(file.path))):
        if files and files[-1].doc_id == file.doc_id:
            walk.refused.append((file.doc_id, "another file has the same id after NFC; rename one of them"))
        else:
            files.append(file)
    return SourceListing(
        root=Path(real),
        files=tuple(files),
        refused=tuple(sorted(set(walk.refused))),
        passed_over=MappingProxyType(dict(sorted(walk.passed_over.items()))),
        unreadable=tuple(sorted(walk.unreadable)),
    )


def _resolve_links(walk: _Walk) -> None:
    """Refuse or pass over the symlinks that a walk met; one to a listed document or folder adds nothing."""
    listed = {file.path for file in walk.files}
    base = walk.root.rstrip("/") + "/"
    for path, name in walk.links:
        doc_id = document_id(path)
        try:
            target = os.path.realpath(os.path.join(walk.root, path), strict=True)
            is_folder = os.path.isdir(target)
        except OSError as error:
            if error.errno == errno.ELOOP:
                walk.refused.append((doc_id, "a symlink that loops"))
            elif walk.is_document(path, name):
                walk.refused.append((doc_id, "a symlink that leads nowhere"))
            continue
        real = target[len(base) :]
        if is_folder:
            if (base + path).startswith(target.rstrip("/") + "/"):
                walk.refused.append((doc_id, "a symlink that loops"))
            elif not target.startswith(base):
                walk.refused.append((doc_id, "a symlink that leaves the source"))
            elif any(part.startswith(".") for part in real.split("/")):
                walk.refused.append((doc_id, "a symlink to a hidden folder"))
            else:
                walk.passed_over[SECOND_NAME] += 1
        elif walk.is_document(path, name):
            if not target.startswith(base):
                walk.refused.append((doc_id, "a symlink that leaves the source"))
            elif real in listed:
                walk.passed_over[SECOND_NAME] += 1
            else:
                walk.refused.append((doc_id, "a symlink to a file that is itself no document of the source"))


def open_inside(root: str | os.PathLike[str], file: SourceFile, *, max_bytes: int = 256 << 20) -> bytes:
    """Read a listed file once and return its bytes (SPEC 1.3); see `SourceReader.read`."""
    with SourceReader(root, max_bytes=max_bytes) as reader:
        return reader.read(file)


class SourceReader:
    """Reads listed files; while files of one folder follow each other, that folder stays open.

    Use it as a context manager, and one for each thread.

    Args:
        root: the folder that was listed.
        max_bytes: the largest file that is read, bytes.
    """

    def __init__(self, root: str | os.PathLike[str], *, max_bytes: int = 256 << 20) -> None:
        self._root = os.fspath(root)
        self._max_bytes = max_bytes
        self._opened: list[int] = []
        self._path: str | None = None

    def __enter__(self) -> Self:
        """Return the reader."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the folder that is open."""
        self._leave()

    def read(self, file: SourceFile) -> bytes:
        """Read a listed file once and return its bytes (SPEC 1.3); see `open`.

        Raises:
            UnsafeFileError: as `open`, or if the file is too large.
        """
        handle = self.open(file)
        try:
            return read_regular(handle, self._max_bytes)
        finally:
            os.close(handle)

    def open(self, file: SourceFile) -> int:
        """Open a listed file for `read_regular` and return its descriptor.

        Between listing and reading a file may have been replaced: no symlink is followed on the way down from the root,
        and only a regular file is read.

        Raises:
            UnsafeFileError: if the file is gone, unreadable, or behind a symlink. Its message is a reason without any path.
        """
        path, _, name = file.path.rpartition("/")
        try:
            if path != self._path:
                self._enter(path)
            # Without O_NONBLOCK a FIFO put in the file's place would hang the run.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            return os.open(name, flags, dir_fd=self._opened[-1])
        except FileNotFoundError:
            message = "the file vanished after it was listed"
            raise UnsafeFileError(message) from None
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                message = "the file was replaced by a symlink after it was listed"
            else:
                message = f"the file cannot be read ({_why(error)})"
            raise UnsafeFileError(message) from None

    def _enter(self, path: str) -> None:
        self._leave()
        self._opened.append(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        for part in path.split("/") if path else ():
            self._opened.append(os.open(part, flags, dir_fd=self._opened[-1]))
        self._path = path

    def _leave(self) -> None:
        self._path = None
        while self._opened:
            os.close(self._opened.pop())


def read_regular(handle: int, max_bytes: int) -> bytes:
    """Read an open file to its end and return its bytes (SPEC 1.3).

    Raises:
        UnsafeFileError: if it is no regular file, cannot be read, or is larger than ``max_bytes``; the message is a reason
            without any path.
    """
    try:
        return _read_regular(handle, max_bytes)
    except OSError as error:
        message = f"the file cannot be read ({_why(error)})"
        raise UnsafeFileError(message) from None


def _read_regular(handle: int, max_bytes: int) -> bytes:
    info = os.fstat(handle)
    if not stat.S_ISREG(info.st_mode):
        message = f"is not a regular file but {_kind(info.st_mode)}"
        raise UnsafeFileError(message)
    parts: list[bytes] = []
    left = max_bytes + 1
    # One byte more than it had: a file that did not grow ends in two calls.
    while left > 0 and (part := os.read(handle, min(left, max(info.st_size + 1, 1 << 16)))):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        message = f"the file is too large (more than {max_bytes} bytes)"
        raise UnsafeFileError(message)
    return b"".join(parts)
