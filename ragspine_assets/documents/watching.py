"""Telling cheaply whether anything that a run reads has changed (SPEC 6.4).

Only what a listing says is looked at, never a file's content: path, size and time of the last change. A change that
leaves all three as they were is found by the next run, which reads and hashes every file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256

from .source import METADATA_FILE, SourceListing, scan_source

_FACTS = frozenset({".csv", ".parquet"})


def watch_digest(
    source: str | os.PathLike[str], *, profile: str | os.PathLike[str] = "", facts: str | os.PathLike[str] = ""
) -> str:
    """Return one digest of (path, size, time of change) over the source, ``metadata.csv``, the profile and the facts.

    Equal digests mean that nothing was added, removed, renamed, touched or changed. The cost is that of listing the
    folders.

    Args:
        source: the folder of documents.
        profile: the domain profile; ``''`` for none.
        facts: file or folder of facts; ``''`` for none.

    Raises:
        SourceError: the source cannot be listed at all; the message says what to do.
    """
    digest = sha256()
    _add_listing(digest.update, scan_source(source))
    digest.update(_state(os.path.join(source, METADATA_FILE)))
    digest.update(b"\0profile" + _state(profile))
    digest.update(b"\0facts" + _state(facts))
    if facts and os.path.isdir(facts):
        _add_listing(digest.update, scan_source(facts, suffixes=_FACTS))
        digest.update(_state(os.path.join(facts, METADATA_FILE)))
    return digest.hexdigest()


def _add_listing(update: Callable[[bytes], None], listing: SourceListing) -> None:
    for file in listing.files:
        update(f"{file.path}\0{file.size}\0{file.mtime_ns}\n".encode("utf-8", "surrogateescape"))
    for doc_id, reason in listing.refused:
        update(f"{doc_id}\0{reason}\n".encode("utf-8", "surrogateescape"))


def _state(path: str | os.PathLike[str]) -> bytes:
    """Return size and time of a file; of a folder only that it is there; ``-`` where there is nothing."""
    try:
        info = os.stat(path) if os.fspath(path) else None
    except OSError:
        info = None
    if info is None:
        return b"-"
    return b"folder" if os.path.isdir(path) else f"{info.st_size}\0{info.st_mtime_ns}".encode()
