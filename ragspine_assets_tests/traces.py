"""A search for words in everything that lies in a folder, however it is packed: for tests and attacks that look for leaks."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import sqlite3
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, suppress
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

_MOST = 64 * 1024 * 1024


def digests(data: bytes) -> list[str]:
    """Return what somebody who has a guess would look for: digests by which a short text can be tried out."""
    return [hashlib.new(name, data).hexdigest() for name in ("sha256", "sha1", "md5", "blake2b")]


def traces(folder: Path, words: Iterable[str], *, inside: Collection[Path] = ()) -> list[str]:
    """Return where words are found, in names and in bytes.

    Files are also looked through as what they are: values of SQLite databases, parts of archives, compressed values.

    Args:
        folder: everything below it is searched.
        words: what must not be there.
        inside: files and folders that may hold it; files beside one that begin with its name belong to it.
    """
    needles = {word: _spellings(word) for word in words}
    found = []
    for path in sorted(folder.rglob("*")):
        if any(path == kept or kept in path.parents or path.name.startswith(f"{kept.name}.") for kept in inside):
            continue
        pieces = [
            str(path.relative_to(folder)).encode("utf-8", "surrogateescape"),
            *(_pieces(path) if path.is_file() else ()),
        ]
        found += [
            f"{word!r} in {path.relative_to(folder)}"
            for word, spelled in needles.items()
            if any(needle in piece for piece in pieces for needle in spelled)
        ]
    return found


def size_of(folder: Path) -> int:
    """Return how many bytes the files below a folder have."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _spellings(word: str) -> set[bytes]:
    found = set()
    for text in {word, word.lower(), word.upper(), word.casefold()}:
        raw = text.encode()
        found |= {raw, text.encode("utf-16-le"), text.encode("utf-16-be"), json.dumps(text)[1:-1].encode()}
        found |= {quote(text).encode(), raw.hex().encode(), raw.hex().upper().encode()}
        # Of a text within a longer one, base64 has three readings; the letters at either end depend on what is beside it.
        for shift in range(3):
            found.add(base64.b64encode(bytes(shift) + raw)[4 if shift else 0 : -4])
    return {needle for needle in found if len(needle) >= min(len(word), 6)}


def _pieces(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    yield data
    yield from _unpacked(data)
    if data.startswith(b"SQLite format 3\x00"):
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database,
        ):
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                for row in database.execute(f'SELECT * FROM "{table}"'):
                    for value in row:
                        piece = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else b""
                        yield piece
                        yield from _unpacked(piece)


def _unpacked(data: bytes) -> Iterator[bytes]:
    if data[:1] == b"\x78":
        with suppress(zlib.error):
            yield zlib.decompressobj().decompress(data, _MOST)
    elif data[:2] == b"\x1f\x8b":
        with suppress(OSError, EOFError, zlib.error), gzip.open(BytesIO(data)) as file:
            yield file.read(_MOST)
    elif data[:4] == b"PK\x03\x04":
        with suppress(zipfile.BadZipFile, RuntimeError, NotImplementedError), zipfile.ZipFile(BytesIO(data)) as archive:
            for name in archive.namelist():
                with archive.open(name) as file:
                    yield file.read(_MOST)
