"""Which release is asked: the current one, a newer one as soon as it is there, a withdrawn one never again (SPEC 8.1)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from ragspine_assets.errors import RagspineError
from ragspine_assets.service.clients import Client
from ragspine_assets.service.refusal import Refusal
from ragspine_assets.service.view import View
from ragspine_assets.serving.signing import TrustedKeys
from ragspine_assets.serving.snapshot import Snapshot
from ragspine_assets.serving.snapshot_files import CURRENT, WITHDRAWN, SnapshotError, current_name, withdrawn_names

T = TypeVar("T")

_AGAIN_S = 1.0
_ATTEMPTS = 5


class Release:
    """One open release, and what each audience sees of it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.name = snapshot.path.name
        self._views: dict[tuple[str, tuple[tuple[str, str], ...]], View] = {}

    def view(self, client: Client) -> View:
        """Return what a client sees of it.

        Raises:
            Refusal: it was published without what this client's label needs.
        """
        key = str(client.max_label), tuple(sorted(client.filters.items()))
        if key not in self._views:
            try:
                self._views[key] = View(self.snapshot.up_to(client.max_label), client.filters)
            except SnapshotError:
                raise Refusal(
                    503,
                    f"The current release was published without an index for {client.max_label}. The operator sets "
                    "RAGSPINE_CLIENTS or RAGSPINE_SNAPSHOT_LEVELS and publishes again.",
                ) from None
        return self._views[key]


class Releases:
    """The current release of a folder of snapshots.

    What is current is asked at each request, by two small files. A newer release is opened beside the one that answers,
    and takes its place when it is ready; one that was withdrawn answers nothing any more.

    Args:
        root: folder of the snapshots.
        trusted_keys: public keys one of which must have signed a release; none for no signature.
    """

    def __init__(self, root: str | Path, *, trusted_keys: TrustedKeys = ()) -> None:
        self.root = Path(root)
        self._keys = trusted_keys
        self._release: Release | None = None
        self._opening: dict[str, asyncio.Task[Release]] = {}
        self._failed: tuple[str, float, str] | None = None
        self._current = Watched(self.root / CURRENT, lambda: current_name(self.root))
        self._withdrawn = Watched(self.root / WITHDRAWN, lambda: frozenset(withdrawn_names(self.root)))

    @property
    def problem(self) -> str:
        """Why a newer release than the one that answers is not served; '' where there is nothing."""
        return self._failed[2] if self._failed else ""

    async def current(self) -> Release:
        """Return the release to answer from.

        Raises:
            Refusal: nothing is published, what was is withdrawn, or it cannot be opened.
        """
        for _ in range(_ATTEMPTS):
            name = self._current_name()
            withdrawn = self._withdrawn.read()
            release = self._release
            if name is None or name in withdrawn:
                self._release = None
                raise Refusal(
                    503,
                    "Nothing is served: the release was withdrawn, because the label of a document in it was raised or a "
                    "document was purged, or none was published yet. The operator publishes with `make run`.",
                )
            if release is not None and release.name == name:
                return release
            usable = release is not None and release.name not in withdrawn
            if self._failed is not None and self._failed[0] == name and time.monotonic() < self._failed[1]:
                if usable and release is not None:
                    return release
                raise Refusal(503, f"Nothing is served: {self._failed[2]}")
            opening = self._opening.get(name)
            if opening is None:
                opening = self._opening[name] = asyncio.create_task(self._open(name))
                opening.add_done_callback(lambda task, name=name: self._opened(name, task))
            if usable and release is not None:
                return release
            # The one who waits may give up; the others still want it.
            await asyncio.wait([opening])
        raise Refusal(503, "Nothing is served: releases replace each other faster than they can be opened. Ask again.")

    async def _open(self, name: str) -> Release:
        return await asyncio.to_thread(self._open_now, name)

    def _open_now(self, name: str) -> Release:
        return Release(Snapshot.open(self.root / name, trusted_keys=self._keys))

    def _opened(self, name: str, task: asyncio.Task[Release]) -> None:
        self._opening.pop(name, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._release, self._failed = task.result(), None
            return
        # A message of ours may be shown, but it names folders of this machine.
        kind = (
            "it is damaged, incomplete, or signed by nobody who is trusted"
            if isinstance(error, RagspineError)
            else type(error).__name__
        )
        self._failed = name, time.monotonic() + _AGAIN_S, f"the current release cannot be opened ({kind})."

    def _current_name(self) -> str | None:
        try:
            return self._current.read()
        except SnapshotError:
            raise Refusal(
                503,
                "Nothing is served: which release is current cannot be read. The operator publishes with `make run`.",
            ) from None


class Watched(Generic[T]):
    """What a file says, read again when it was replaced.

    Args:
        path: the file, which is replaced and never written: another content has another inode or time.
        read: reads it, also where it is missing.
    """

    def __init__(self, path: Path, read: Callable[[], T]) -> None:
        self._path = path
        self._read = read
        self._known: tuple[tuple[int, ...], T] | None = None

    def read(self) -> T:
        """Return what the file says now."""
        try:
            found = os.stat(self._path)
        except OSError:
            self._known = None
            return self._read()
        state = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        if self._known is None or self._known[0] != state:
            self._known = state, self._read()
        return self._known[1]
