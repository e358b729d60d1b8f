"""Kept releases: what differs between them, and how an earlier one is made current again (SPEC 8.5)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragspine_assets.policy import Sensitivity
from ragspine_assets.retrieval.narrative_index import servable_label
from ragspine_assets.serving.chunk_table import PublishedChunks
from ragspine_assets.serving.publish import snapshots_with_raised_labels
from ragspine_assets.serving.signing import SIGNATURE, TrustedKeys
from ragspine_assets.serving.snapshot import Snapshot
from ragspine_assets.serving.snapshot_files import (
    Manifest,
    SnapshotError,
    current_name,
    held_back_names,
    make_current_by_hand,
    publishing,
    read_manifest,
    snapshot_folders,
    withdrawn_names,
)
from ragspine_assets.store import ChunkStore


@dataclass(frozen=True)
class Changes:
    """Which documents differ between two releases, by name.

    Attributes:
        new: in the later one only.
        changed: in another version.
        gone: in the earlier one only.
    """

    new: Sequence[str]
    changed: Sequence[str]
    gone: Sequence[str]


@dataclass(frozen=True)
class KeptRelease:
    """A release that is kept.

    Attributes:
        name: of its folder.
        manifest: what it holds; None where it cannot be read.
        current: whether it is served.
        held_back: whether it was rolled back from: publishing does not make it current again.
        signed: whether there is a signature; whose, only a reader with keys can tell.
        bytes: its size.
        changes: from it to the current one; None for the current one, and where one of them cannot be read.
    """

    name: str
    manifest: Manifest | None
    current: bool
    held_back: bool
    signed: bool
    bytes: int
    changes: Changes | None


def kept_releases(root: str | Path) -> list[KeptRelease]:
    """Return the releases that are kept, the last published first; nothing is changed.

    Raises:
        SnapshotError: which one is current cannot be read.
    """
    root = Path(root)
    name, held = current_name(root), held_back_names(root)
    served = _opened(root / name) if name else None
    found = []
    for folder in reversed(snapshot_folders(root)):
        kept = _opened(folder)
        manifest = kept.manifest if kept else None
        differs = changes(kept, served) if kept and served and folder.name != name else None
        size = sum(entry.bytes for entry in manifest.files.values()) if manifest else 0
        signed = (folder / SIGNATURE).is_file()
        found.append(
            KeptRelease(folder.name, manifest, folder.name == name, folder.name in held, signed, size, differs)
        )
    return found


def changes(before: Snapshot, after: Snapshot) -> Changes:
    """Return which documents differ between two releases, or between what one audience is served of them."""
    old, new = versions_of(before.chunks), versions_of(after.chunks)
    return Changes(
        new=[doc_id for doc_id in new if doc_id not in old],
        changed=[doc_id for doc_id in new if doc_id in old and new[doc_id] != old[doc_id]],
        gone=[doc_id for doc_id in old if doc_id not in new],
    )


def versions_of(chunks: PublishedChunks) -> dict[str, int]:
    """Return the version of each document."""
    codes, first = np.unique(chunks.codes["doc_id"], return_index=True)
    versions = chunks.numbers["version"][first].tolist()
    return {chunks.values["doc_id"][code]: number for code, number in zip(codes.tolist(), versions, strict=True)}


def roll_back(
    store: ChunkStore,
    root: str | Path,
    name: str = "",
    *,
    max_label: str = Sensitivity.CONFIDENTIAL,
    trusted_keys: TrustedKeys = (),
) -> Manifest:
    """Make a kept release current; what was current is held back, so that publishing the same again does not undo it.

    Other content is published as ever. To go forward again, name the release that was held back.

    Args:
        store: the chunk store, which knows the labels of now.
        root: folder of the snapshots.
        name: of the release, or how it begins; ``''`` for the one before the current one.
        max_label: highest label that is published now.
        trusted_keys: public keys one of which must have signed it; none for no signature.

    Raises:
        SnapshotError: there is no such release, it is damaged, or the label of a document in it was raised since.
    """
    root = Path(root)
    if not root.is_dir():
        raise SnapshotError(f"There is no folder {root}. Publish with `make run`.")
    with publishing(root):
        folder = _named(root, name)
        with store.connect() as connection:
            raised = snapshots_with_raised_labels(connection, root, servable_label(max_label))
        if folder in raised or folder.name in withdrawn_names(root):
            raise SnapshotError(
                f"{folder.name} is not made current: the label of a document in it was raised since, or a document in it was "
                "purged. Publish with `make run`."
            )
        manifest = Snapshot.open(folder, verify=True, trusted_keys=trusted_keys).manifest
        os.utime(folder)
        make_current_by_hand(root, folder.name)
    return manifest


def _named(root: Path, name: str) -> Path:
    current = current_name(root)
    folders = snapshot_folders(root)
    if name:
        found = [folder for folder in folders if folder.name.startswith(name)]
        if len(found) != 1:
            kept = ", ".join(folder.name for folder in folders) or "none"
            raise SnapshotError(f"{len(found)} kept releases are called {name!r}; there are: {kept}.")
        return found[0]
    held = held_back_names(root)
    earlier = [folder for folder in folders if folder.name != current and folder.name not in held]
    times = {folder: _published_at(folder) for folder in earlier}
    now = _published_at(root / current) if current else "~"
    before = [folder for folder in earlier if times[folder] < now]
    if not before:
        raise SnapshotError("No earlier release is kept. `ragspine snapshots` lists those that are.")
    return max(before, key=lambda folder: times[folder])


def _published_at(folder: Path) -> str:
    try:
        return read_manifest(folder).published_at
    except SnapshotError:
        return ""


def _opened(folder: Path) -> Snapshot | None:
    try:
        return Snapshot.open(folder, verify=False)
    except SnapshotError:
        return None
