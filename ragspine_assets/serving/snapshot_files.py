"""How snapshots lie on disk: one folder each, a manifest in it, and a file that names the current one (SPEC 6.6).

A folder is complete before it gets its name, and never changes afterwards. What is current changes by replacing one
small file, so that a reader sees the old snapshot or the new one and nothing between.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ragspine_assets.errors import RagspineError
from ragspine_assets.serving.signing import TrustedKeys, is_signed

FORMAT = 3
"""Version of the layout of a snapshot that serves one audience."""

LEVELLED_FORMAT = 4
"""Version of the layout of a snapshot with further levels. A reader refuses any other than these two."""

PRODUCT = "ragspine_assets"
CURRENT = "CURRENT"
WITHDRAWN = "WITHDRAWN"
ROLLBACK = "ROLLBACK"
WORSE = "WORSE"
MANIFEST = "manifest.json"
CHUNKS = "chunks.arrow"
LEXICAL = "lexical"
LEVELS = "levels"
GRAPH_TABLES = ("graph_node", "graph_edge", "graph_evidence")

_NAME = re.compile("[0-9a-f]{16}")
_LOCK = ".lock"
_MOST_WITHDRAWN = 1_000
_BUILDING = ".building-"
_REMOVED = ".removed-"
_TOGETHER = 4
"""Files that are hashed, or brought to disk, at the same time."""


class SnapshotError(RagspineError, RuntimeError):
    """A snapshot cannot be opened or published; the message says why and what to do. It holds no document text."""


@dataclass(frozen=True)
class FileEntry:
    """What a published file must be: its size in bytes and the sha256 of its content."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Level:
    """What an audience below a snapshot's ``max_label`` is served from it (SPEC 8.3).

    All of it is what the manifest of a snapshot up to that label would say: nothing above has a part in it.

    Attributes:
        digest: sha256 of all that decides the content of such a snapshot.
        published_at: when that content became current, UTC, ISO 8601.
        chunkers: how the documents were cut.
        sources: data versions of ``chunks`` and ``graph``.
        counts: documents, chunks, nodes, edges, evidence, and ``chunks LABEL`` for each label.
    """

    digest: str
    published_at: str
    chunkers: tuple[str, ...]
    sources: Mapping[str, str]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Manifest:
    """What a snapshot holds and from what it was made; nothing in it depends on what was not published.

    Attributes:
        digest: sha256 of all that decides the content; the same content has the same digest.
        release: release of this package that wrote it.
        published_at: when, UTC, ISO 8601. Not part of the digest.
        max_label: highest label that may be in it.
        labels: every label that may be in it, ascending.
        analyzer: name of the analyzer its index was made with.
        analyzer_version: what the terms depend on besides the texts.
        chunkers: how the documents were cut.
        sources: data versions of what is in it: ``chunks`` and ``graph``.
        counts: documents, chunks, nodes, edges, evidence, and ``chunks LABEL`` for each label.
        files: path relative to the folder to what the file must be.
        levels: by label, what audiences below ``max_label`` are served.
    """

    digest: str
    release: str
    published_at: str
    max_label: str
    labels: tuple[str, ...]
    analyzer: str
    analyzer_version: str
    chunkers: tuple[str, ...]
    sources: Mapping[str, str]
    counts: Mapping[str, int]
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    levels: Mapping[str, Level] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the snapshot's folder; of a level, what the folder of a snapshot up to that label would be called."""
        return self.digest[:16]

    def at(self, label: str) -> Manifest:
        """Return the manifest of a level: that of a snapshot up to that label, with the files of the level.

        Raises:
            KeyError: there is no such level.
        """
        level = self.levels[label]
        below = f"{LEVELS}/{label}/"
        return replace(
            self,
            digest=level.digest,
            published_at=level.published_at,
            max_label=label,
            labels=self.labels[: self.labels.index(label) + 1],
            chunkers=level.chunkers,
            sources=level.sources,
            counts=level.counts,
            files={name: entry for name, entry in self.files.items() if name.startswith(below)},
            levels={name: self.levels[name] for name in self.labels[: self.labels.index(label)] if name in self.levels},
        )

    def to_json(self) -> str:
        """Return the manifest as it is stored, with a checksum of itself."""
        body = {"product": PRODUCT, "format": LEVELLED_FORMAT if self.levels else FORMAT, **asdict(self)}
        if not self.levels:
            del body["levels"]
        return json.dumps({**body, "checksum": _checksum(body)}, indent=1, sort_keys=True) + "\n"


def _checksum(body: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path, trusted_keys: TrustedKeys = ()) -> Manifest:
    """Read the manifest of a snapshot.

    Args:
        folder: the snapshot.
        trusted_keys: public keys one of which must have signed it; none for no signature.

    Raises:
        SnapshotError: there is none, it is damaged, another product's or another format's, or no trusted key signed it.
    """
    try:
        written = (folder / MANIFEST).read_bytes()
        if trusted_keys and not is_signed(folder, written, trusted_keys):
            raise SnapshotError(
                f"{folder} is refused: its {MANIFEST} is not signed by a trusted key, or it was changed since. Publish with "
                "RAGSPINE_SIGNING_KEY, or trust the key that signed it."
            )
        body = json.loads(written)
        product, version = body.pop("product"), body.pop("format")
    except FileNotFoundError:
        raise SnapshotError(
            f"{folder} is no snapshot: it has no {MANIFEST}. It may have been copied in part; copy the whole folder again."
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise SnapshotError(
            f"{folder} is no snapshot that can be read: its {MANIFEST} is damaged. Copy or publish it again."
        ) from None
    if product != PRODUCT:
        raise SnapshotError(
            f"{folder} was not written by {PRODUCT}. Give the folder that `serving_snapshot` publishes."
        )
    if version not in {FORMAT, LEVELLED_FORMAT}:
        cure = "Update ragspine_assets" if isinstance(version, int) and version > FORMAT else "Publish it again"
        known = f"formats {FORMAT} and {LEVELLED_FORMAT}"
        raise SnapshotError(f"{folder} has snapshot format {version}; this release reads {known}. {cure}.")
    checksum = body.pop("checksum", "")
    if checksum != _checksum({"product": product, "format": version, **body}):
        raise SnapshotError(
            f"{folder} is damaged: its {MANIFEST} is not as it was published. Copy or publish it again."
        )
    try:
        files = {name: FileEntry(**entry) for name, entry in body.pop("files").items()}
        levels = {
            name: Level(**{**level, "chunkers": tuple(level["chunkers"])})
            for name, level in body.pop("levels", {}).items()
        }
        lists = {name: tuple(body[name]) for name in ("chunkers", "labels")}
        manifest = Manifest(**{**body, **lists}, files=files, levels=levels)
    except (KeyError, TypeError, AttributeError):
        raise SnapshotError(f"{folder} is damaged: its {MANIFEST} is incomplete. Copy or publish it again.") from None
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in files):
        raise SnapshotError(f"{folder} is no snapshot of ours: its {MANIFEST} names files outside of it.")
    return manifest


def check_sizes(folder: Path, manifest: Manifest) -> None:
    """Compare the files of a snapshot with its manifest by size, which a copy that broke off does not survive.

    Raises:
        SnapshotError: a file is missing or has another size.
    """
    for name, entry in manifest.files.items():
        try:
            size = (folder / name).stat().st_size
        except OSError:
            raise SnapshotError(f"{folder} is incomplete: {name} is missing. Copy the whole folder again.") from None
        if size != entry.bytes:
            raise SnapshotError(
                f"{folder} is incomplete or damaged: {name} has {size} bytes, not {entry.bytes}. Copy it again."
            )


def damaged_files(folder: Path, manifest: Manifest) -> list[str]:
    """Return the files of a snapshot that are missing or not as they were published, by sha256."""

    def is_fine(name: str) -> bool:
        try:
            return file_entry(folder / name) == manifest.files[name]
        except OSError:
            return False

    names = sorted(manifest.files)
    with ThreadPoolExecutor(_TOGETHER) as threads:
        return [name for name, fine in zip(names, threads.map(is_fine, names), strict=True) if not fine]


def file_entry(path: Path) -> FileEntry:
    """Return the size and the sha256 of a file."""
    with path.open("rb", buffering=0) as file:
        digest = hashlib.file_digest(file, "sha256")
        return FileEntry(file.tell(), digest.hexdigest())


def seal(folder: Path, manifest: Manifest) -> Manifest:
    """Write the manifest of a finished folder, and make sure that all of it is on disk."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    with ThreadPoolExecutor(_TOGETHER) as threads:
        # Both wait for no other file: one for the processor, one for the disk.
        entries = threads.map(file_entry, paths)
        on_disk = threads.map(_to_disk, paths)
        sealed = replace(
            manifest,
            files={path.relative_to(folder).as_posix(): entry for path, entry in zip(paths, entries, strict=True)},
        )
        list(on_disk)
    (folder / MANIFEST).write_text(sealed.to_json(), encoding="utf-8")
    for path in [folder / MANIFEST, *(path for path in folder.rglob("*") if path.is_dir()), folder]:
        _to_disk(path)
    return sealed


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def current_name(root: Path) -> str | None:
    """Return the name of the current snapshot, None where nothing is published.

    Raises:
        SnapshotError: the file ``CURRENT`` names no snapshot.
    """
    try:
        name = (root / CURRENT).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        name = ""
    if not _NAME.fullmatch(name):
        raise SnapshotError(f"{root / CURRENT} does not name a snapshot. Publish again: `make run`.")
    return name


def make_current(root: Path, name: str) -> None:
    """Make a snapshot the current one, at once and for good (it survives a loss of power)."""
    withdrawn = withdrawn_names(root)
    if name in withdrawn:
        # What was raised has been lowered again: the same content may be served.
        _replace(root, WITHDRAWN, [one for one in withdrawn if one != name])
    _replace(root, CURRENT, [name])


def make_current_by_hand(root: Path, name: str) -> None:
    """Make a snapshot the current one because somebody says so; the one that was is held back."""
    current, held = current_name(root), held_back_names(root)
    kept = [one for one in [*held, *([current] if current else [])] if one != name]
    _replace(root, ROLLBACK, [name, *dict.fromkeys(kept[-_MOST_WITHDRAWN:])])
    make_current(root, name)


def chosen_by_hand(root: Path) -> str | None:
    """Return the snapshot that somebody made current last by hand; another may be current since."""
    return next(iter(_rollback(root)), None)


def held_back_names(root: Path) -> list[str]:
    """Return the snapshots that somebody rolled back from: publishing does not make them current again."""
    return _rollback(root)[1:]


def _rollback(root: Path) -> list[str]:
    try:
        return (root / ROLLBACK).read_text(encoding="ascii", errors="replace").split()
    except OSError:
        return []


def _replace(root: Path, file: str, names: Sequence[str]) -> None:
    temporary = root / f"{_BUILDING}{file}"
    temporary.write_text("".join(f"{name}\n" for name in names), encoding="ascii")
    _to_disk(temporary)
    os.replace(temporary, root / file)
    _to_disk(root)


def withdrawn_names(root: Path) -> list[str]:
    """Return the names of snapshots that nobody may open any more, the last withdrawn at the end."""
    try:
        return (root / WITHDRAWN).read_text(encoding="ascii", errors="replace").split()
    except OSError:
        return []


def mark_withdrawn(root: Path, names: Sequence[str]) -> None:
    """Remember that snapshots were withdrawn: they are refused from now on, also if deleting them breaks off."""
    if names:
        kept = [name for name in withdrawn_names(root) if name not in names]
        _replace(root, WITHDRAWN, [*kept, *names][-_MOST_WITHDRAWN:])


def worse_name(root: Path) -> str | None:
    """Return the snapshot that publishing built last and held back, since it answers worse; None where there is none."""
    try:
        names = (root / WORSE).read_text(encoding="ascii", errors="replace").split()
    except OSError:
        return None
    return names[0] if len(names) == 1 and _NAME.fullmatch(names[0]) else None


def mark_worse(root: Path, name: str | None) -> None:
    """Remember which snapshot was held back last because it answers worse, or that none was."""
    if name:
        _replace(root, WORSE, [name])
    else:
        with suppress(FileNotFoundError):
            (root / WORSE).unlink()


def deleted_folders(root: Path) -> list[Path]:
    """Return the folders of snapshots whose deletion broke off, by name."""
    try:
        return sorted(Path(entry.path) for entry in os.scandir(root) if entry.name.startswith(_REMOVED))
    except FileNotFoundError:
        return []


def withdraw_current(root: Path) -> None:
    """Let nothing be current any more. Who has a snapshot open learns it from `Snapshot.is_current`."""
    with suppress(FileNotFoundError):
        (root / CURRENT).unlink()
        _to_disk(root)


def snapshot_folders(root: Path) -> list[Path]:
    """Return the folders of published snapshots, oldest first."""
    try:
        found = [Path(entry.path) for entry in os.scandir(root) if _NAME.fullmatch(entry.name) and entry.is_dir()]
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda folder: (folder.stat().st_mtime_ns, folder.name))


def building_folder(root: Path) -> Path:
    """Make a folder to build the next snapshot in."""
    folder = root / f"{_BUILDING}{os.getpid()}"
    folder.mkdir()
    return folder


def give_name(building: Path, name: str) -> Path:
    """Give a finished folder its name."""
    folder = building.with_name(name)
    os.rename(building, folder)
    _to_disk(folder.parent)
    return folder


def remove_folder(folder: Path) -> None:
    """Delete a snapshot: its name first, at once, then what is in it. Who has it open goes on reading."""
    removed = folder.with_name(f"{_REMOVED}{folder.name}-{os.getpid()}")
    try:
        os.rename(folder, removed)
    except FileNotFoundError:
        return
    shutil.rmtree(removed, ignore_errors=True)


@contextmanager
def publishing(root: Path) -> Iterator[None]:
    """Hold the right to change what is published; another publisher waits. The kernel frees it when its holder dies.

    What a killed publisher left is removed first.
    """
    root.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for entry in os.scandir(root):
            if entry.name.startswith((_BUILDING, _REMOVED)):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)
        yield
    finally:
        os.close(descriptor)
