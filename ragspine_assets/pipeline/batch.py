"""The batch writer of the library: files in, chunks in the store, without Dagster and without a source root (SPEC 4.1)."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragspine_assets.chunking.chunk import DEFAULT_MAX_CHARS, DEFAULT_OVERLAP_CHARS, DocumentMeta
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
    metadata_table_of,
    resolve_metadata,
)
from ragspine_assets.documents.pool import ExtractionPool, batch_files
from ragspine_assets.documents.source import SUPPORTED_SUFFIXES, SourceFile, document_id, scan_source, suffix_of
from ragspine_assets.policy import FileLabels, Sensitivity, SensitivityPolicy, explain_sensitivity, read_label
from ragspine_assets.store.chunk_store import ChunkStore


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
            A label given by ``doc_id`` is a human decision. Values that are no strings are taken as they print, None as ''.
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
    meta_by_doc = meta_by_doc or {}
    for doc_id, given in meta_by_doc.items():
        if unknown := sorted(set(given) - set(METADATA_KEYS)):
            raise ValueError(
                f"meta_by_doc[{doc_id!r}]: no such metadata: {', '.join(unknown)}. There are: {', '.join(METADATA_KEYS)}."
            )
    root, files, report = _inputs(inputs)
    folder = isinstance(inputs, (str, Path)) and Path(inputs).is_dir()
    table = _with_given(metadata_table_of(root) if folder else MetadataTable(), meta_by_doc)
    spelled = _spelled(table, [file.doc_id for file in files], report)
    cut = (chunker, max_chars, overlap_chars)
    with store, ExtractionPool(root, limits or ExtractionLimits()) as pool:
        for batch in pool.run(batch_files(files)):
            for row in batch.to_pylist():
                report.documents.append(
                    _ingest(
                        row, store, table, spelled, policy or SensitivityPolicy(), cut, report.problems, dry_run=dry_run
                    )
                )
    report.documents.sort(key=lambda document: document.doc_id)
    return report


def _with_given(table: MetadataTable, given: Mapping[str, Mapping[str, object]]) -> MetadataTable:
    """Return the rows of a table with those of the caller before them."""
    exact, globs = dict(table.exact), list(table.globs)
    for key, values in given.items():
        cells = {name: _cell(value) for name, value in values.items()}
        path = unicodedata.normalize("NFC", key).removeprefix("./")
        if is_glob(path):
            globs.append((path, cells))
        else:
            exact[path] = {**exact.get(path, {}), **cells}
    return MetadataTable(exact=exact, globs=tuple(globs), lines=table.lines)


def _cell(value: object) -> str:
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(map(_cell, value))
    return "" if value is None or value != value else str(value)


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


def _ingest(
    row: Mapping[str, object],
    store: ChunkStore,
    table: MetadataTable,
    spelled: Mapping[str, SpelledRow],
    policy: SensitivityPolicy,
    cut: tuple[Chunker | None, int, int],
    problems: list[str],
    *,
    dry_run: bool,
) -> NarrativeDocument:
    doc_id, text = str(row["doc_id"]), str(row["text"])
    if row["status"] == "failed":
        return NarrativeDocument(doc_id, "failed", str(row["reason"]))
    resolved = resolve_metadata(
        doc_id,
        table=table,
        verdict=explain_sensitivity(doc_id, text, policy, file=FileLabels.load(str(row["file_labels"]))),
        front_matter=stored_front_matter(str(row["front_matter"]), str(row["front_matter_problem"])),
        file_title=str(row["title"]),
        policy=policy,
        spelled=spelled.get(doc_id),
    )
    current = list(store.iter_chunks(doc_id=doc_id))
    held = [read_label(stored.sensitivity) for stored in current]
    label = read_label(resolved.sensitivity)
    name = "a document" if Sensitivity.RESTRICTED in (label, *held) else doc_id
    problems += [f"{name}: {problem}" for problem in resolved.problems]
    if held and max(held) > label and resolved.label_reason != ROW_REASON:
        label = max(held)
        problems.append(f"{name}: it keeps the label {label}, since no row of its own lowers it; give it one")
    meta = DocumentMeta(
        doc_id,
        markup=str(row["markup"]) or "plain",
        **{name: str(getattr(resolved, name)) for name in METADATA_KEYS if name != "sensitivity"},
        sensitivity=str(label),
    )
    page_starts = row["page_starts"]
    chunker, max_chars, overlap_chars = cut
    try:
        chunks = cut_document(
            text,
            meta,
            chunker,
            max_chars=max_chars,
            overlap_chars=overlap_chars,
            page_starts=page_starts if isinstance(page_starts, list) else (),
        )
    except ChunkerError as error:
        return NarrativeDocument(doc_id, "failed", str(error))
    version = current[0].version if current else 0
    if chunks == [stored.as_chunk() for stored in current]:
        return NarrativeDocument(doc_id, "unchanged" if chunks else "no_text", "", len(chunks), version)
    if not dry_run:
        version = store.replace_doc_chunks(doc_id, chunks)
    return NarrativeDocument(doc_id, "ingested" if chunks else "no_text", "", len(chunks), version if chunks else 0)
