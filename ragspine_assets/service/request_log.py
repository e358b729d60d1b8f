"""The log of what was asked and served: one JSON line per request, without a word of any text (SPEC 8.4).

A line has ``time`` (UTC, ISO 8601), ``client``, ``route``, ``status``, ``ms``, ``hits``, ``release``, ``citations`` and
``query``: a keyed hash, by which equal questions are seen to be equal and nothing is read. Where a window was shown,
``windows`` has the paragraphs of it, as ``{doc_id}@v{version}#para{a}-{b}``.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_KEY = "key"
_DIGITS = 16


@dataclass(frozen=True)
class Entry:
    """One request.

    Attributes:
        client: who asked; ``''`` for somebody unknown.
        route: what was asked for, such as ``/search``; never a path that somebody wrote.
        status: of the answer, as HTTP numbers it.
        ms: milliseconds from the request to the answer.
        hits: how many passages or edges the answer holds.
        release: the release that answered, as the client knows it.
        citations: the passages that were served.
        windows: paragraphs that were served around them.
        query: what was asked; only its keyed hash is written.
    """

    client: str
    route: str
    status: int
    ms: float
    hits: int = 0
    release: str = ""
    citations: Sequence[str] = ()
    windows: Sequence[str] = ()
    query: str = ""


class RequestLog:
    """A folder with one file per day, which nobody but its owner may read.

    Args:
        folder: made if it is missing; the key of the hashes lies in it.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._key = _key(self._folder)
        self._day = ""
        self._file = -1

    def write(self, entry: Entry) -> None:
        """Write a line. What is served is written first: without its line nothing leaves.

        Raises:
            OSError: it cannot be written.
        """
        now = datetime.now(UTC)
        line = {
            "time": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "client": entry.client,
            "route": entry.route,
            "status": entry.status,
            "ms": round(entry.ms, 2),
            "hits": entry.hits,
            "release": entry.release,
            "citations": list(entry.citations),
            "query": hashed(entry.query, self._key) if entry.query else "",
        }
        if entry.windows:
            line["windows"] = list(entry.windows)
        data = json.dumps(line, ensure_ascii=True).encode() + b"\n"
        day = line["time"][:10]
        if day != self._day:
            self.close()
            self._file = os.open(self._folder / f"{day}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._day = day
        if os.write(self._file, data) != len(data):
            raise OSError("the disk is full")

    def close(self) -> None:
        """Close the file of the day."""
        if self._file >= 0:
            os.close(self._file)
            self._file, self._day = -1, ""


def hashed(query: str, key: bytes) -> str:
    """Return the keyed hash by which a query is known in the log."""
    return hmac.new(key, query.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:_DIGITS]


def _key(folder: Path) -> bytes:
    path = folder / _KEY
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_bytes()
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(32))
    return path.read_bytes()


def logged(folder: str | Path) -> Iterator[dict[str, object]]:
    """Yield the lines of a log, oldest first; a line that was not written to its end is passed over."""
    for path in sorted(Path(folder).glob("????-??-??.jsonl")):
        with path.open(encoding="ascii", errors="replace") as file:
            for line in file:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if isinstance(entry, dict):
                    yield entry


@dataclass(frozen=True)
class Serving:
    """A client that was served something, and when.

    Attributes:
        client: its name.
        times: how many requests.
        first: time of the first of them, UTC, ISO 8601.
        last: time of the last.
        routes: how it asked.
        citations: which passages it was served, of those that were looked for.
    """

    client: str
    times: int
    first: str
    last: str
    routes: tuple[str, ...]
    citations: tuple[str, ...]


def served_to(folder: str | Path, name: str) -> list[Serving]:
    """Return who was served a passage, or anything of a document, by client; the log alone is asked.

    Where a window was shown, the paragraphs around a passage were served too: for a document they count, for one passage
    only its own citation does.

    Args:
        folder: of the request log.
        name: a citation ``{doc_id}@v{version}#c{seq}``, a ``chunk_id`` for any version, or a ``doc_id`` for all of it.
    """
    found: dict[str, list[tuple[str, str, list[str]]]] = {}
    for line in logged(folder):
        served = [str(one) for key in ("citations", "windows") for one in _list(line.get(key))]
        hits = [one for one in served if _is_of(one, name)]
        if hits:
            row = str(line.get("time", "")), str(line.get("route", "")), hits
            found.setdefault(str(line.get("client", "")), []).append(row)
    return [
        Serving(
            client=client,
            times=len(rows),
            first=min(row[0] for row in rows),
            last=max(row[0] for row in rows),
            routes=tuple(sorted({row[1] for row in rows})),
            citations=tuple(dict.fromkeys(one for row in rows for one in row[2])),
        )
        for client, rows in sorted(found.items())
    ]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _is_of(served: str, name: str) -> bool:
    """Tell whether what was served is a passage, that passage in some version, or of a document."""
    if served == name:
        return True
    head, _, place = served.rpartition("#")
    doc_id = head.rpartition("@v")[0]
    return name in {doc_id, f"{doc_id}#{place}"}
