"""The batch writer of the library: files in, chunks in the store, without Dagster and without a source root (SPEC 4.1)."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragspine_assets.chunking.chunk import DEFAULT_MAX_CHARS, DEFAULT_OVERLAP_CHARS, Chunk, DocumentMeta
from ragspine_assets.chunking.enforcement import cut_document
from ragspine_assets.chunking.protocol import Chunker
from ragspine_assets.chunking.third_party import ChunkerError
from ragspine_assets.documents.extraction import ExtractionLimits
from ragspine_assets.documents.frontmatter import METADATA_KEYS, stored_front_matter
from ragspine_assets.documents.metadata import (
    ROW_REASON,
    MetadataTable,
    SpelledRow,
    is_glob,
    is_table_of_metadata,
    metadata_table_of,
    resolve_metadata,
)
from ragspine_assets.documents.normalise import normalise_text
from ragspine_assets.documents.pool import ExtractionPool, batch_files, gather_rows
from ragspine_assets.documents.source import (
    OTHER_TABLE,
    SUPPORTED_SUFFIXES,
    SourceFile,
    document_id,
    scan_source,
    suffix_of,
)
from ragspine_assets.policy import (
    FileLabels,
    Sensitivity,
    SensitivityPolicy,
    document_reference,
    explain_sensitivity,
    read_label,
)
from ragspine_assets.policy.globs import glob_regex
from ragspine_assets.store.chunk_store import ChunkStore, StoredChunk
from ragspine_assets.store.database import transaction
from ragspine_assets.store.labels import raise_labels
from ragspine_assets.store.references import reference_key


@dataclass(frozen=True)
class NarrativeDocument:
    """What became of one input.

    Attributes:
        doc_id: the document.
        status: ingested, unchanged, no_text or failed.
        reason: why it failed, in one line.
        chunks: how many chunks its active version has.
        version: its active version; 0 where there is none.
    """

    doc_id: str
    status: str
    reason: str = ""
    chunks: int = 0
    version: int = 0


@dataclass
class NarrativeReport:
    """What a batch did, one entry per input, sorted by document.

    Attributes:
        documents: what became of each input.
        problems: sentences about labels and rows that somebody should look at, each with what to do.
    """

    documents: list[NarrativeDocument] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def count(self, status: str) -> int:
        """Return how many documents ended in one status."""
        return sum(document.status == status for document in self.documents)


def ingest_narrative(
    inputs: str | Path | Sequence[str | Path],
    store: ChunkStore,
    *,
    chunker: Chunker | None = None,
    meta_by_doc: Mapping[str, Mapping[str, object]] | None = None,
    policy: SensitivityPolicy | None = None,
    limits: ExtractionLimits | None = None,
    max_chars: int = DEFAULT_MAX_CHARS,
    overlap_chars: int = DEFAULT_OVERLAP_CHARS,
    dry_run: bool = False,
) -> NarrativeReport:
    """Parse files, cut them and write each as the active version of its document.

    A file that fails or holds no text never stops the others. A document whose rows would not change is left alone, and one
    whose active version has a higher label keeps it unless a row of its own says otherwise (SPEC 1.8). The
    ``metadata.csv`` of a folder is read (SPEC 1.7).

    Args:
        inputs: a folder, walked recursively, or files; a document is named by its path relative to the folder, a file
            handed in by itself by its name.
        store: where chunks go.
        chunker: how to cut; None means `chunk_document`.
        meta_by_doc: metadata by ``doc_id`` or glob, with the names of SPEC 1.7; they come before those of ``metadata.csv``.
            A label given by ``doc_id`` is a human decision. Where a value is no string, the documents it is for fail.
        policy: what decides a label where none is given.
        limits: size, time and memory that one file may take.
        max_chars: longest chunk, in code points.
        overlap_chars: how much of a chunk may be carried into the next, in code points.
        dry_run: do everything but write.

    Raises:
        ValueError: metadata names something that is no metadata, or the sizes are not legal.
        MetadataError: the folder's ``metadata.csv`` cannot be used.
        SourceError: the folder cannot be read.
    """
    given = _Given.of(meta_by_doc or {})
    root, files, report = _inputs(inputs)
    folder = isinstance(inputs, (str, Path)) and Path(inputs).is_dir()
    table = given.before(metadata_table_of(root) if folder else MetadataTable())
    spelled = _spelled(table, [file.doc_id for file in files], report)
    policy = policy or SensitivityPolicy()
    cut = (chunker, max_chars, overlap_chars)
    with store, ExtractionPool(root, limits or ExtractionLimits()) as pool:
        with store.connect() as connection:
            key = reference_key(connection)
        for batch in gather_rows(pool.run(batch_files(files))):
            rows = batch.to_pylist()
            stored = store.latest_chunks([row["doc_id"] for row in rows])
            done: list[NarrativeDocument] = []
            due: dict[str, list[Chunk]] = {}
            raised: dict[str, tuple[Sensitivity, str]] = {}
            for row in rows:
                doc_id = row["doc_id"]
                document = _read(row, stored.get(doc_id, []), given, table, spelled, policy)
                report.problems += [f"{document.name(key)}: {problem}" for problem in document.problems]
                outcome, chunks = document.cut(cut)
                done.append(outcome)
                if outcome.status == "failed":
                    raised[doc_id] = (document.label, document.reason)
                elif outcome.status == "ingested" or (outcome.status == "no_text" and outcome.version):
                    due[doc_id] = chunks
            written: dict[str, int] = {}
            if not dry_run:
                with store.connect() as connection, transaction(connection):
                    raise_labels(connection, {doc_id: raised[doc_id] for doc_id in raised.keys() & stored.keys()})
                written = store.replace_chunks(due)
            report.documents += [
                replace(one, version=written[one.doc_id] if due[one.doc_id] else 0) if one.doc_id in written else one
                for one in done
            ]
    report.documents.sort(key=lambda document: document.doc_id)
    return report


@dataclass(frozen=True)
class _Given:
    """What the caller says about documents, by path and by glob, and what of it is no text."""

    exact: Mapping[str, Mapping[str, str]]
    globs: tuple[tuple[str, Mapping[str, str]], ...]
    faults: Mapping[str, str]

    @classmethod
    def of(cls, meta_by_doc: Mapping[str, Mapping[str, object]]) -> _Given:
        """Sort what is given.

        Raises:
            ValueError: something is no name of metadata.
        """
        exact: dict[str, Mapping[str, str]] = {}
        globs: dict[str, Mapping[str, str]] = {}
        faults: dict[str, str] = {}
        for key, values in meta_by_doc.items():
            path = unicodedata.normalize("NFC", str(key)).removeprefix("./")
            if not isinstance(values, Mapping):
                faults[path] = (
                    f"its metadata in meta_by_doc are a {type(values).__name__}, not a mapping of names to texts"
                )
                continue
            if unknown := sorted(str(name) for name in values if name not in METADATA_KEYS):
                raise ValueError(
                    f"meta_by_doc[{key!r}]: no such metadata: {', '.join(unknown)}. There are: {', '.join(METADATA_KEYS)}."
                )
            wrong = [
                f"{name} is a {type(value).__name__}" for name, value in values.items() if not isinstance(value, str)
            ]
            if wrong:
                faults[path] = f"its metadata in meta_by_doc must be texts: {', '.join(wrong)}"
            cells = {name: normalise_text(value) for name, value in values.items() if isinstance(value, str)}
            if "sensitivity" in values:
                cells.setdefault("sensitivity", Sensitivity.RESTRICTED.value)
            (globs if is_glob(path) else exact)[path] = cells
        return cls(exact, tuple(globs.items()), faults)

    def before(self, table: MetadataTable) -> MetadataTable:
        """Return the rows of a table with what is given before them."""
        exact = {**table.exact, **{path: {**table.exact.get(path, {}), **cells} for path, cells in self.exact.items()}}
        given = dict(self.globs)
        globs = (*((glob, cells) for glob, cells in table.globs if glob not in given), *self.globs)
        return MetadataTable(exact=exact, globs=globs, lines=table.lines)

    def fault(self, doc_id: str) -> str:
        """Return why nothing can be said about a document, '' if nothing is wrong."""
        found = (
            why
            for path, why in self.faults.items()
            if path == doc_id or (is_glob(path) and re.fullmatch(glob_regex(path), doc_id))
        )
        return next(found, "")


def _spelled(table: MetadataTable, doc_ids: Sequence[str], report: NarrativeReport) -> dict[str, SpelledRow]:
    """Return the highest row that spells a document's path in another way, and report all that match nothing."""
    spelled: dict[str, SpelledRow] = {}
    known = frozenset(doc_ids)
    for row in table.spelled_differently(known):
        for doc_id in row.named:
            if doc_id not in spelled or row.label > spelled[doc_id].label:
                spelled[doc_id] = row
    rows = {row.path: row for row in table.spelled_differently(known)}
    for key in table.unmatched(known):
        where = f"metadata.csv, line {table.lines[key]}" if key in table.lines else "meta_by_doc"
        named = rows[key].named if key in rows else ()
        what = (
            f"a row spells a path in another way; the {len(named)} documents it may name have at least its label: correct it"
            if named
            else "a row matches no document: correct its path or take it out"
        )
        report.problems.append(f"{where}: {what}")
    return spelled


def _inputs(inputs: str | Path | Sequence[str | Path]) -> tuple[str, list[SourceFile], NarrativeReport]:
    report = NarrativeReport()
    if isinstance(inputs, (str, Path)) and Path(inputs).is_dir():
        listing = scan_source(inputs)
        report.documents += [NarrativeDocument(doc_id, "failed", reason) for doc_id, reason in listing.refused]
        return str(listing.root), list(listing.files), report
    paths = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    absolute = [os.path.realpath(path) for path in paths]
    root = os.path.commonpath([os.path.dirname(path) for path in absolute]) if absolute else os.getcwd()
    files: dict[str, SourceFile] = {}
    for path in absolute:
        # One file by itself is named by its name; files of several folders need the part that tells them apart.
        doc_id = document_id(os.path.relpath(path, root))
        suffix = suffix_of(path)
        if suffix not in SUPPORTED_SUFFIXES:
            report.documents.append(
                NarrativeDocument(doc_id, "failed", f"files of type {suffix or 'none'} are not read")
            )
        elif doc_id not in files:
            size = os.path.getsize(path) if os.path.isfile(path) else 0
            files[doc_id] = SourceFile(doc_id, os.path.relpath(path, root), size, suffix)
    return root, sorted(files.values(), key=lambda file: file.doc_id), report


@dataclass(frozen=True)
class _Input:
    """One file as it was read: its label, its metadata, and what the store has of it.

    Attributes:
        row: what extraction says about it.
        fault: why it fails, '' if it does not.
        stored: the chunks of its last version.
        meta: its metadata; the label among them is the one it has from now on.
        label, reason: the same label, and who decided it.
        problems: what somebody should look at.
    """

    row: Mapping[str, object]
    fault: str
    stored: Sequence[StoredChunk]
    meta: DocumentMeta
    label: Sensitivity
    reason: str
    problems: Sequence[str]

    def name(self, key: bytes) -> str:
        """Return what it is called outside of the store."""
        return document_reference(self.meta.doc_id, key) if self.label is Sensitivity.RESTRICTED else self.meta.doc_id

    def cut(self, how: tuple[Chunker | None, int, int]) -> tuple[NarrativeDocument, list[Chunk]]:
        """Say what becomes of it, and which chunks it has now."""
        doc_id, chunker, max_chars, overlap_chars = self.meta.doc_id, *how
        if self.fault:
            return NarrativeDocument(doc_id, "failed", self.fault), []
        starts = self.row["page_starts"]
        try:
            chunks = cut_document(
                str(self.row["text"]),
                self.meta,
                chunker,
                max_chars=max_chars,
                overlap_chars=overlap_chars,
                page_starts=starts if isinstance(starts, list) else (),
            )
        except ChunkerError as error:
            return NarrativeDocument(doc_id, "failed", str(error)), []
        active = [chunk for chunk in self.stored if chunk.active]
        is_same = chunks == [chunk.as_chunk() for chunk in active]
        status = "no_text" if not chunks else "unchanged" if is_same else "ingested"
        return NarrativeDocument(doc_id, status, "", len(chunks), active[0].version if active else 0), chunks


def _read(
    row: Mapping[str, object],
    stored: Sequence[StoredChunk],
    given: _Given,
    table: MetadataTable,
    spelled: Mapping[str, SpelledRow],
    policy: SensitivityPolicy,
) -> _Input:
    """Resolve metadata and label of one file; one that fails gets the label that its path and its rows give it."""
    doc_id, text = str(row["doc_id"]), str(row["text"])
    fault = str(row["reason"]) if row["status"] == "failed" else given.fault(doc_id)
    if not fault and is_table_of_metadata(str(row["suffix"]), text):
        fault = OTHER_TABLE
    resolved = resolve_metadata(
        doc_id,
        table=table,
        verdict=explain_sensitivity(doc_id, text, policy, file=FileLabels.load(str(row["file_labels"]))),
        front_matter=stored_front_matter(str(row["front_matter"]), str(row["front_matter_problem"])),
        file_title=str(row["title"]),
        policy=policy,
        spelled=spelled.get(doc_id),
    )
    label, problems = read_label(resolved.sensitivity), list(resolved.problems)
    held = max((read_label(chunk.sensitivity) for chunk in stored), default=label)
    if held > label and resolved.label_reason != ROW_REASON:
        label = held
        problems.append(f"it keeps the label {label}, since no row of its own lowers it; give it one")
    meta = DocumentMeta(
        doc_id,
        markup=str(row["markup"]) or "plain",
        **{name: str(getattr(resolved, name)) for name in METADATA_KEYS if name != "sensitivity"},
        sensitivity=label.value,
    )
    return _Input(row, fault, stored, meta, label, resolved.label_reason, problems)
