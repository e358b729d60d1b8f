"""Publishing: a snapshot is built beside the others, proved, and made current by replacing one file (SPEC 6.6)."""

from __future__ import annotations

import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
from numpy.typing import NDArray

from ragspine_assets.errors import SettingError
from ragspine_assets.index.analysis import Analyzer, AnalyzerName, make_analyzer
from ragspine_assets.index.languages import ReadDocument
from ragspine_assets.index.lexical import Texts
from ragspine_assets.index.snapshot_index import ReleaseRows
from ragspine_assets.policy import DomainProfile, Sensitivity
from ragspine_assets.retrieval.narrative_index import servable_label
from ragspine_assets.serving.chunk_table import INDEX_LANGUAGE, ChosenTexts, PublishedChunks, write_table
from ragspine_assets.serving.chunk_table_writer import ChunkTableWriter
from ragspine_assets.serving.indexes import INDEXES
from ragspine_assets.serving.leaks import isolation_traces
from ragspine_assets.serving.servable_view import LABELS_NOW, chunk_rows, graph_table, servable, survey, survey_levels
from ragspine_assets.serving.signing import private_key, sign
from ragspine_assets.serving.snapshot_files import (
    CHUNKS,
    GRAPH_TABLES,
    LEVELS,
    MANIFEST,
    Level,
    Manifest,
    SnapshotError,
    building_folder,
    current_name,
    give_name,
    held_back_names,
    make_current,
    mark_withdrawn,
    mark_worse,
    publishing,
    read_manifest,
    remove_folder,
    seal,
    snapshot_folders,
    withdraw_current,
)
from ragspine_assets.store import ChunkStore
from ragspine_assets.store.database import buffers_released

from .snapshot import Snapshot

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

DEFAULT_KEEP = 3
"""How many snapshots are kept, the current one among them."""


Gate = Callable[[Snapshot, Snapshot | None], str]
"""Judges a new release beside the one that is served, if there is one; returns why it must not be current, or ``''``."""


class PublishingRefused(SnapshotError):
    """Nothing was published, and what was current stays so unless it holds a document whose label was raised."""


@dataclass
class PublishReport:
    """What publishing did.

    Attributes:
        manifest: of the current snapshot; of the one that was held back where nothing is current.
        published: whether another snapshot is current than before.
        documents: what changed since the last one: ``new``, ``changed``, ``unchanged``, ``gone``.
        chunks_read: chunks whose terms were found anew.
        chunks_reused: chunks whose terms were known from the last snapshot.
        withdrawn: kept snapshots that were deleted because a label was raised.
        pruned: kept snapshots that were deleted because there are newer ones.
        held_back: what would be current, had nobody rolled back from it and did it not answer worse; ``''`` otherwise.
        why_held_back: how it answers worse, a part of a sentence; ``''`` otherwise.
        bytes: size of the current snapshot.
        seconds: time by part of the work.
    """

    manifest: Manifest
    published: bool = False
    documents: dict[str, int] = field(default_factory=dict)
    chunks_read: int = 0
    chunks_reused: int = 0
    withdrawn: list[str] = field(default_factory=list)
    pruned: list[str] = field(default_factory=list)
    held_back: str = ""
    why_held_back: str = ""
    bytes: int = 0
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


def publish_snapshot(
    store: ChunkStore,
    root: str | Path,
    *,
    max_label: str = Sensitivity.CONFIDENTIAL,
    analyzer: AnalyzerName = "default",
    keep: int = DEFAULT_KEEP,
    failed_checks: Sequence[str] = (),
    profile: DomainProfile | None = None,
    levels: Sequence[str] = (),
    signing_key: str | Path | None = None,
    gate: Gate | None = None,
) -> PublishReport:
    """Publish what the store may serve now; where nothing changed, nothing is published again.

    Kept snapshots that hold a document whose label is above their ``max_label`` or this one are deleted in every case,
    also when publishing is refused.

    Args:
        store: the chunk store.
        root: folder of the snapshots; made if it is missing.
        max_label: highest label that is published.
        analyzer: how texts become terms.
        keep: how many snapshots are kept, the current one among them; at least 1.
        failed_checks: blocking checks of upstream assets that failed last. Any of them forbids publishing.
        profile: the domain profile; what it names is no secret. Without it, what the graph has of it counts.
        levels: labels below ``max_label`` up to which somebody is served too (SPEC 8.3): each gets indexes and a graph view
            of its own, over the same texts. What is not below is left out: it needs none.
        signing_key: file of the private Ed25519 key that signs the manifest, PEM; None for no signature (SPEC 8.5).
        gate: what it holds back is built, proved and kept under its name, and the former snapshot stays current, unless
            a label in that one was raised.

    Raises:
        PublishingRefused: a check failed, or the built snapshot holds something of a document it must not hold.
        ValueError: ``max_label`` or a level is RESTRICTED or no label, there is no such analyzer, or ``keep`` is below 1.
    """
    label = servable_label(max_label)
    below = sorted({one for one in map(servable_label, levels) if one < label}, key=lambda one: one.rank)
    terms = make_analyzer(analyzer)
    key = private_key(signing_key) if signing_key else None
    if keep < 1:
        raise SettingError(f"keep must be at least 1, the current snapshot; it is {keep}")
    root = Path(root)
    with publishing(root), store.connect() as connection:
        raised = snapshots_with_raised_labels(connection, root, label)
        try:
            if failed_checks:
                raise PublishingRefused(
                    f"Not published: {', '.join(failed_checks)} failed last. Repair it and run `make run`; until then "
                    "the former snapshot is served."
                )
            started, now = time.perf_counter(), _now()
            known = _levels_of(root, current_name_or_none(root))
            with ThreadPoolExecutor(1) as thread:
                # To hash what is current takes about as long as to hash what the store says.
                current = thread.submit(_sound, root, current_name_or_none(root))
                served = survey_levels(connection, below, analyzer=analyzer, published_at=now, former=known)
                with servable(connection, label):
                    manifest = survey(connection, max_label=label, analyzer=analyzer, published_at=now, levels=served)
                former = current.result()
            compared = time.perf_counter()
            beside = None if former is None or former.path in raised else former
            if manifest.name in held_back_names(root):
                report = _held_back(manifest, former, raised)
            else:
                judge = _Judge(gate, beside) if gate else None
                report = _bring_up_to_date(connection, root, manifest, terms, former, profile, key, judge)
            report.seconds["comparing"] = compared - started
            mark_worse(root, report.held_back if report.why_held_back else None)
        except BaseException:
            # What must not be served any more is not served, whatever else went wrong.
            _withdraw(root, raised)
            raise
        ours = {manifest.name, report.manifest.name}
        report.withdrawn = _withdraw(root, [folder for folder in raised if folder.name != manifest.name])
        kept = [folder for folder in snapshot_folders(root) if folder.name not in ours]
        surplus = kept[: max(len(kept) - (keep - len(ours)), 0)]
        report.pruned = _delete(root, surplus)
    report.bytes = sum(entry.bytes for entry in report.manifest.files.values())
    return report


@dataclass(frozen=True)
class _Judge:
    """The gate, and the release that is served while it decides."""

    gate: Gate
    served: Snapshot | None

    def holds_back(self, candidate: Snapshot, report: PublishReport) -> bool:
        started = time.perf_counter()
        report.why_held_back = self.gate(candidate, self.served)
        report.seconds["judging quality"] = time.perf_counter() - started
        if not report.why_held_back:
            return False
        report.held_back, report.published = candidate.manifest.name, False
        report.manifest = self.served.manifest if self.served else candidate.manifest
        return True


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _bring_up_to_date(
    connection: duckdb.DuckDBPyConnection,
    root: Path,
    manifest: Manifest,
    analyzer: Analyzer,
    former: Snapshot | None,
    profile: DomainProfile | None,
    key: Ed25519PrivateKey | None,
    judge: _Judge | None,
) -> PublishReport:
    if former is not None and former.path.name == manifest.name:
        _sign(former.path, key)
        return PublishReport(former.manifest, documents=_changes(former.chunks, former.chunks))
    again = _sound(root, manifest.name)
    if again is not None:
        # The content of a kept snapshot is back, as after a file was changed and changed back.
        report = PublishReport(
            again.manifest, True, documents=_changes(former.chunks if former else None, again.chunks)
        )
        os.utime(again.path)
        _sign(again.path, key)
        if judge is None or not judge.holds_back(again, report):
            make_current(root, manifest.name)
        return report
    remove_folder(root / manifest.name)
    report = PublishReport(manifest, True)
    building = building_folder(root)
    try:
        report.manifest = _build(connection, building, manifest, analyzer, former, report)
        # Sealing read every byte back to hash it; to hash it again would compare it with itself.
        built = Snapshot.open(building, verify=False)
        proving = time.perf_counter()
        traces = isolation_traces(connection, built, profile)
        if traces:
            raise PublishingRefused(
                f"Not published: the new snapshot holds something of {', '.join(traces[:10])}, which may not be in it. "
                "Run `make check`; until then the former snapshot is served."
            )
        report.seconds["proving isolation"] = time.perf_counter() - proving
        report.documents = _changes(former.chunks if former else None, built.chunks)
        _sign(building, key)
        held_back = judge is not None and judge.holds_back(built, report)
        give_name(building, manifest.name)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    if not held_back:
        make_current(root, manifest.name)
    return report


def _held_back(manifest: Manifest, former: Snapshot | None, raised: Sequence[Path]) -> PublishReport:
    """Leave current what is, because somebody rolled back from what would be published now."""
    if former is None or former.path in raised:
        raise PublishingRefused(
            f"Not published: {manifest.name} was rolled back from, and nothing else may be served. Change what is wrong with it, "
            f"or publish it all the same: `ragspine rollback {manifest.name}`."
        )
    changes = _changes(former.chunks, former.chunks)
    return PublishReport(former.manifest, documents=changes, held_back=manifest.name)


def _sign(folder: Path, key: Ed25519PrivateKey | None) -> None:
    if key is not None:
        sign(folder, (folder / MANIFEST).read_bytes(), key)


def current_name_or_none(root: Path) -> str | None:
    """Return the name of the current snapshot; None also where ``CURRENT`` cannot be read, which publishing repairs."""
    try:
        return current_name(root)
    except SnapshotError:
        return None


def _sound(root: Path, name: str | None) -> Snapshot | None:
    """Open a snapshot if it is there and every byte of it is as it was published."""
    if name is None or not (root / name).is_dir():
        return None
    try:
        return Snapshot.open(root / name, verify=True)
    except SnapshotError:
        return None


def _build(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    manifest: Manifest,
    analyzer: Analyzer,
    former: Snapshot | None,
    report: PublishReport,
) -> Manifest:
    started = time.perf_counter()
    if former is not None and (former.manifest.analyzer, former.manifest.analyzer_version) != (
        manifest.analyzer,
        manifest.analyzer_version,
    ):
        former = None
    with ChunkTableWriter(folder) as table:
        with servable(connection, servable_label(manifest.max_label)):
            _write_graph(connection, folder)
            for batch in chunk_rows(connection):
                table.add(batch)
        read = time.perf_counter()
        report.seconds["reading the store"] = read - started
        texts = table.texts()
        documents = _documents(table)
        languages, codes = _languages(documents, texts, table.rows, analyzer)
        written = time.perf_counter()
        table.write(folder / CHUNKS, languages, codes)
        report.seconds["writing"] = time.perf_counter() - written
        indexing = time.perf_counter()
        places = _places(former.chunks, documents, texts) if former else None
        rows = ReleaseRows(texts, languages, codes, analyzer, places)
        with buffers_released(connection):
            for index in INDEXES:
                earlier = former.indexes.get(index.name) if former and places is not None else None
                index.build(folder / index.name, rows, earlier)
            ranks = table.ranks()
            for level in manifest.levels:
                _build_level(folder, rows, servable_label(level), ranks)
    for level in manifest.levels:
        with servable(connection, servable_label(level)):
            _write_graph(connection, folder / LEVELS / level)
    report.chunks_read = len(rows.fresh())
    report.chunks_reused = len(rows) - report.chunks_read
    report.seconds["indexing"] = time.perf_counter() - indexing
    sealing = time.perf_counter()
    sealed = seal(folder, manifest)
    report.seconds["writing"] += time.perf_counter() - sealing
    return sealed


def _write_graph(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    for name in GRAPH_TABLES:
        write_table(graph_table(connection, name), folder / f"{name}.arrow")


def _build_level(folder: Path, rows: ReleaseRows, level: Sensitivity, ranks: NDArray[np.int8]) -> None:
    """Write the indexes of the rows up to a label, from those of all rows: no text is read again."""
    kept = np.flatnonzero(ranks <= level.rank)
    places = np.full(len(rows), -1, np.int32)
    places[kept] = np.arange(len(kept), dtype=np.int32)
    part = ReleaseRows(ChosenTexts(rows.texts, kept), rows.languages, rows.language_codes[kept], rows.analyzer, places)
    for index in INDEXES:
        index.build(folder / LEVELS / level / index.name, part, index.open(folder / index.name))


def _levels_of(root: Path, name: str | None) -> Mapping[str, Level]:
    """Return the levels of a snapshot, none where its manifest cannot be read."""
    try:
        return read_manifest(root / name).levels if name else {}
    except SnapshotError:
        return {}


@dataclass
class _Document:
    """A document that is being published.

    Attributes:
        doc_id: the document.
        version: its version.
        stated: its language by its metadata.
        positions: of its chunks, ascending.
        rank: of its label in the lattice.
        read_by: by which language's rules it is read.
    """

    doc_id: str
    version: int
    stated: str
    positions: NDArray[np.intp]
    rank: int
    read_by: str = ""


def _documents(table: ChunkTableWriter) -> list[_Document]:
    names, codes = table.repeated("doc_id")
    languages, language_codes = table.repeated("language")
    versions, ranks = table.numbers("version"), table.ranks()
    order = np.argsort(codes, kind="stable")
    behind = np.cumsum(np.bincount(codes, minlength=len(names))) if names else []
    found = []
    for name, positions in zip(names, np.split(order, behind[:-1]) if names else [], strict=True):
        first = int(positions[0])
        stated = languages[language_codes.item(first)]
        found.append(_Document(name, int(versions[first]), stated, positions, ranks.item(first)))
    return found


def _languages(
    documents: Sequence[_Document], texts: Texts, rows: int, analyzer: Analyzer
) -> tuple[list[str], NDArray[np.int32]]:
    """Find by which language's rules each document is read; return these languages, and of each chunk its number."""
    numbers: dict[str, int] = {}
    codes = np.zeros(rows, np.int32)
    read = (
        ReadDocument(
            document.doc_id.rpartition("/")[0],
            document.stated,
            map(texts.__getitem__, document.positions.tolist()),
            document.rank,
        )
        for document in documents
    )
    for document, read_by in zip(documents, analyzer.languages(read), strict=True):
        document.read_by = read_by
        codes[document.positions] = numbers.setdefault(read_by, len(numbers))
    return list(numbers) or [""], codes


def _places(before: PublishedChunks, documents: Sequence[_Document], texts: Texts) -> NDArray[np.int32] | None:
    """Return for each chunk of an earlier snapshot the position of the same text now, -1 where there is none.

    Documents are compared as a whole, and by their bytes: a version number tells nothing once a store was made anew.
    """
    places = np.full(len(before), -1, np.int32)
    earlier, now = before.texts(), np.diff(texts.offsets)
    assert isinstance(earlier, Texts)
    lengths = np.diff(earlier.offsets)
    read_by, codes = before.values[INDEX_LANGUAGE], before.codes[INDEX_LANGUAGE]
    for document in documents:
        old, new = before.of_document(document.doc_id), document.positions
        if len(old) != len(new) or not (_neighbours(old) and _neighbours(new)):
            continue
        if read_by[codes.item(old.item(0))] != document.read_by or not np.array_equal(lengths[old], now[new]):
            continue
        begin, start = int(old[0]), int(new[0])
        if earlier.span(begin, begin + len(old)) == texts.span(start, start + len(new)):
            places[old] = new
    staying = places[places >= 0]
    # Both are in natural order of their ids, so those that stay keep theirs; an index can be made from no other.
    return places if (np.diff(staying) > 0).all() else None


def _neighbours(positions: NDArray[np.intp]) -> bool:
    return int(positions[-1]) - int(positions[0]) + 1 == len(positions)


def _changes(before: PublishedChunks | None, after: PublishedChunks) -> dict[str, int]:
    old = _versions(before) if before is not None else {}
    new = _versions(after)
    return {
        "new": sum(doc_id not in old for doc_id in new),
        "changed": sum(doc_id in old and old[doc_id] != version for doc_id, version in new.items()),
        "unchanged": sum(old.get(doc_id) == version for doc_id, version in new.items()),
        "gone": sum(doc_id not in new for doc_id in old),
    }


def _versions(chunks: PublishedChunks) -> dict[str, int]:
    codes, first = np.unique(chunks.codes["doc_id"], return_index=True)
    versions = chunks.numbers["version"][first].tolist()
    return {chunks.values["doc_id"][code]: number for code, number in zip(codes.tolist(), versions, strict=True)}


def snapshots_with_raised_labels(connection: duckdb.DuckDBPyConnection, root: Path, limit: Sensitivity) -> list[Path]:
    """Return the published folders that hold a document whose label is now above what they may hold, oldest first.

    That is their own ``max_label``, or a lower one that is published from now on. A folder that cannot be read is among
    them: nobody can tell what it holds.
    """
    folders = snapshot_folders(root)
    if not folders:
        return []
    ranks = dict(connection.execute(f"SELECT doc_id, rank FROM ({LABELS_NOW})").fetchall())
    raised = []
    for folder in folders:
        try:
            highest = min(servable_label(read_manifest(folder).max_label).rank, limit.rank)
            documents = Snapshot.open(folder, verify=False).chunks.values["doc_id"]
            if any(ranks.get(doc_id, 0) > highest for doc_id in documents):
                raised.append(folder)
        except (SnapshotError, ValueError):
            raised.append(folder)
    return raised


def withdraw_raised_snapshots(connection: duckdb.DuckDBPyConnection, root: str | Path) -> list[str]:
    """Delete every kept snapshot that holds a document whose label is above its ``max_label`` now; return their names.

    To be called once raised labels are committed, by whoever raised them: no later step need succeed. A document that is
    only gone, from the source or the store, withdraws nothing.

    Args:
        connection: the open store, outside of a transaction.
        root: folder of the snapshots.

    Raises:
        OSError: the folder cannot be written.
    """
    root = Path(root)
    if not root.is_dir():
        return []
    with publishing(root):
        return _withdraw(root, snapshots_with_raised_labels(connection, root, Sensitivity.CONFIDENTIAL))


def withdraw_documents_from_snapshots(root: str | Path, doc_ids: Sequence[str]) -> list[str]:
    """Delete every kept snapshot that holds one of some documents, the current one too; return their names.

    What a killed publication left goes as well, also where it was the first and nothing else is there.
    """
    root = Path(root)
    if not root.is_dir():
        return []
    wanted = set(doc_ids)
    with publishing(root):
        holding = []
        for folder in snapshot_folders(root):
            try:
                if not wanted.isdisjoint(Snapshot.open(folder, verify=False).chunks.values["doc_id"]):
                    holding.append(folder)
            except SnapshotError:
                holding.append(folder)
        return _withdraw(root, holding)


def _withdraw(root: Path, folders: Sequence[Path]) -> list[str]:
    mark_withdrawn(root, [folder.name for folder in folders])
    return _delete(root, folders)


def _delete(root: Path, folders: Sequence[Path]) -> list[str]:
    current = current_name_or_none(root)
    for folder in folders:
        if folder.name == current:
            withdraw_current(root)
        remove_folder(folder)
    return [folder.name for folder in folders]
