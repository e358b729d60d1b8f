"""First stage: the source folder becomes the state of every document in the store (SPEC 1).

The stage compares the store's own table with the folder, never with what an earlier run did, so any run can finish
what another began. Raised labels come first and are committed on their own; a folder that vanished stops the run before
anything is deactivated; every batch of parsed files is one transaction.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from ragspine_assets.documents.asides import ASIDES_VERSION
from ragspine_assets.documents.extraction import ExtractionLimits, parser_for
from ragspine_assets.documents.frontmatter import stored_front_matter
from ragspine_assets.documents.metadata import ROW_REASON, MetadataTable, ResolvedMetadata, resolve_metadata
from ragspine_assets.documents.pool import ExtractionPool, batch_files, gather_rows
from ragspine_assets.documents.source import SourceFile, SourceListing, SourceReader, UnsafeFileError, scan_source
from ragspine_assets.documents.worker import DEFAULT_PARSER
from ragspine_assets.policy import (
    FileLabels,
    LabelVerdict,
    Sensitivity,
    SensitivityPolicy,
    document_reference,
    explain_sensitivity,
    most_restricted,
    read_label,
)
from ragspine_assets.store.chunk_store import ChunkStore
from ragspine_assets.store.database import StoreError, registered, transaction
from ragspine_assets.store.labels import Withdraw, raise_labels, record_label_changes
from ragspine_assets.store.references import reference_key, set_setting
from ragspine_assets.store.schema import TABLES
from ragspine_assets.store.text_batches import TEXTS, WITHIN, in_groups

_NORMALISER = "normaliser 1"
_NOT_YET_LABELLED = "not yet labelled: its content could not be read"
_METADATA = (
    "title",
    "topic",
    "entity",
    "geography",
    "period",
    "language",
    "valid_as_of",
    "sensitivity",
    "label_reason",
)
_MAX_CHANGES = 500
_BREAKER_SHARE = 0.5
_BREAKER_MINIMUM = 10


class MassRemovalError(StoreError):
    """So many documents are gone that the source is more likely unmounted than emptied (SPEC 1.6)."""


@dataclass(frozen=True)
class DocumentChange:
    """What became of one document in a run, in words that may leave the store.

    Attributes:
        reference: its ``doc_id``, or a keyed hash where it is RESTRICTED or not yet labelled.
        what: new, changed, unchanged, removed, failed or no_text.
        why: one line.
    """

    reference: str
    what: str
    why: str


@dataclass
class DocumentsReport:
    """What a run made of the source folder.

    Attributes:
        outcomes: documents by what happened to them now: new, changed, unchanged, removed, failed, no_text.
        reasons: the same in more words, for changed and failed documents.
        changes: up to 500 documents that were not simply unchanged.
        problems: sentences about labels, rows and files that somebody should look at.
        passed_over: files that are no documents, by reason.
        raised: how many documents got a higher label.
        lowered: how many got a lower one.
        unconfined: what the kernel does not keep parsers from (`documents.confinement`); empty where it keeps all it should.
        seconds: time by part of the work.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    changes: list[DocumentChange] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    passed_over: Mapping[str, int] = field(default_factory=dict)
    raised: int = 0
    lowered: int = 0
    unconfined: tuple[str, ...] = ()
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def note(self, reference: str, what: str, why: str) -> None:
        """Count one document's outcome and keep it for the table, up to a limit."""
        self.outcomes[what] += 1
        if what == "unchanged":
            return
        self.reasons[f"{what}: {why}"] += 1
        if len(self.changes) < _MAX_CHANGES:
            self.changes.append(DocumentChange(reference, what, why))


@dataclass(frozen=True, slots=True)
class _Known:
    status: str
    bytes: int
    content_hash: str
    extraction: str
    retry: bool
    has_text: bool
    sensitivity: str


def sync_documents(
    store: ChunkStore,
    root: str | Path,
    *,
    metadata: MetadataTable,
    policy: SensitivityPolicy,
    limits: ExtractionLimits | None = None,
    workers: int | None = None,
    parser: str = DEFAULT_PARSER,
    run_id: str = "",
    allow_mass_removal: bool = False,
    withdraw: Withdraw | None = None,
    after_raise: Callable[[duckdb.DuckDBPyConnection], object] | None = None,
    progress: Callable[[str], None] | None = None,
) -> DocumentsReport:
    """Bring the store's documents up to date with a source folder (SPEC 1).

    Args:
        store: the chunk store; it belongs to one source root.
        root: the source folder.
        metadata: the rows of ``metadata.csv``.
        policy: what decides a label where nobody wrote one.
        limits: size, time and memory that one file may take.
        workers: parser processes; by default one per processor, at most four.
        parser: the function that parses a file, as ``module:function``.
        run_id: kept with every change of a label.
        allow_mass_removal: go on although most documents are gone.
        withdraw: removes newly RESTRICTED documents from what was derived from them.
        after_raise: called whenever raised labels are in the store for good, before anything else can fail.
        progress: called with a line from time to time; the lines hold no names and no text.

    Returns:
        What was done, by document and in sum.

    Raises:
        SourceError: the folder is missing or cannot be read.
        MassRemovalError: more than half of the documents, and more than ten, would be deactivated.
        StoreError: the store belongs to another folder.
    """
    root = Path(root)
    limits = limits or ExtractionLimits()
    report = DocumentsReport()
    began = time.time()
    started = time.perf_counter()
    listing = scan_source(root)
    report.passed_over = listing.passed_over
    report.seconds["listing"] += time.perf_counter() - started
    with store.connect() as connection:
        _claim_source(connection, store, root)
        stage = _Intake(connection, root, listing, metadata, policy, limits, run_id, withdraw, after_raise, report)
        stage.raise_known_labels()
        stage.refuse_mass_removal(allow_mass_removal)
        stage.extract(store, workers, parser, progress)
        stage.apply_metadata()
        stage.remove_gone(allow_mass_removal)
        stage.report_rows()
        set_setting(connection, "last_intake_at", str(began))
    return report


def _claim_source(connection: duckdb.DuckDBPyConnection, store: ChunkStore, root: Path) -> None:
    """Bind the store to its source root, or refuse another one (SPEC 1.1)."""
    real = os.path.realpath(root)
    home = os.path.realpath(Path(str(store.path)).parent)
    # A project that is moved as a whole keeps its store: a root below the store's folder is remembered relative to it.
    claim = os.path.relpath(real, home) if os.path.commonpath([real, home]) == home else real
    row = connection.execute("SELECT value FROM store_setting WHERE name = 'source_root'").fetchone()
    if row is None:
        set_setting(connection, "source_root", claim)
    elif row[0] != claim:
        owner = os.path.normpath(os.path.join(home, row[0]))
        raise StoreError(
            f"The store {store.path} belongs to the source {owner}, not to {root}. A store holds one source: run with "
            f"STORE={suggested_store(root)} for this one, or with SOURCE={owner} for that store."
        )


def suggested_store(root: str | Path) -> str:
    """Return the store that a source folder gets when none was named: one of its own."""
    real = os.path.realpath(root)
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in os.path.basename(real)) or "source"
    return f"data/stores/{name}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:8]}.duckdb"


class _Intake:
    """One run over one source: what is known, what was listed, and what has been decided so far."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        root: Path,
        listing: SourceListing,
        metadata: MetadataTable,
        policy: SensitivityPolicy,
        limits: ExtractionLimits,
        run_id: str,
        withdraw: Withdraw | None,
        after_raise: Callable[[duckdb.DuckDBPyConnection], object] | None,
        report: DocumentsReport,
    ) -> None:
        self.connection = connection
        self.root = root
        self.listing = listing
        self.metadata = metadata
        self.policy = policy
        self.limits = limits
        self.run_id = run_id
        self.withdraw = withdraw
        self.after_raise = after_raise
        self.report = report
        self.policy_hash = policy.digest()
        self.key = reference_key(connection)
        self.known = {
            row[0]: _Known(*row[1:])
            for row in connection.execute(
                "SELECT d.doc_id, status, bytes, content_hash, extraction, retry, t.doc_id IS NOT NULL, sensitivity "
                "FROM document d LEFT JOIN document_text t USING (doc_id)"
            ).fetchall()
        }
        self.listed = {file.doc_id: file for file in listing.files}
        self.refused = dict(listing.refused)
        self.emptied: list[tuple[str, dict[str, object]]] = []
        self.extracted: set[str] = set()
        self.noted: set[str] = set()
        self.stale: set[str] = set()
        self._extraction = cache(self._extraction_of)

    def reference(self, doc_id: str, label: object) -> str:
        return document_reference(doc_id, self.key) if read_label(label) is Sensitivity.RESTRICTED else doc_id

    # -- labels ------------------------------------------------------------------------------------------------

    def _resolved(
        self, only: AbstractSet[str] | None = None
    ) -> Iterator[tuple[str, dict[str, object], LabelVerdict, ResolvedMetadata]]:
        """Resolve every known document again, or some of them, from what the store remembers of it."""
        reader = self.connection.cursor().sql(
            "SELECT doc_id, status, front_matter, front_matter_problem, file_title, policy_label, policy_reason, "
            f"policy_hash, policy_findings, {', '.join(_METADATA)}, problems, characters FROM document "
            "WHERE $only IS NULL OR doc_id IN (SELECT unnest($only::VARCHAR[])) ORDER BY doc_id",
            params={"only": None if only is None else sorted(only)},
        )
        for batch in reader.to_arrow_reader(4096):
            rows = batch.to_pylist()
            verdicts = self._verdicts([row for row in rows if row["policy_hash"] != self.policy_hash])
            for row in rows:
                verdict = verdicts.get(row["doc_id"]) or LabelVerdict.load(
                    row["policy_label"], row["policy_reason"], row["policy_findings"]
                )
                yield row["doc_id"], row, verdict, self._resolve(row["doc_id"], row, verdict)

    def _verdicts(self, rows: Sequence[Mapping[str, object]]) -> dict[str, LabelVerdict]:
        """Return what the policy says of some documents, whose texts, and what their files say beside them, are read."""
        sizes = [(str(row["doc_id"]), int(str(row["characters"]))) for row in rows]
        verdicts: dict[str, LabelVerdict] = {}
        query = (
            f"{TEXTS}, _reading AS MATERIALIZED (SELECT doc_id, file_labels FROM document_reading SEMI JOIN _group "
            f"USING (doc_id) WHERE doc_id {WITHIN}) SELECT g.doc_id, coalesce(t.text, '') AS text, "
            "coalesce(r.file_labels, '') AS file_labels FROM _group g LEFT JOIN _text t USING (doc_id) "
            "LEFT JOIN _reading r USING (doc_id)"
        )
        for group in in_groups(self.connection, sizes, query):
            for row in group.to_pylist():
                verdicts[row["doc_id"]] = self._verdict(row)
        return verdicts

    def _verdict(self, row: Mapping[str, object]) -> LabelVerdict:
        file = FileLabels.load(str(row["file_labels"]))
        return explain_sensitivity(str(row["doc_id"]), str(row["text"]), self.policy, file=file)

    def _resolve(self, doc_id: str, row: Mapping[str, object], verdict: LabelVerdict) -> ResolvedMetadata:
        return resolve_metadata(
            doc_id,
            table=self.metadata,
            front_matter=stored_front_matter(str(row["front_matter"]), str(row["front_matter_problem"])),
            file_title=str(row["file_title"]),
            verdict=verdict,
            policy=self.policy,
        )

    def raise_known_labels(self) -> None:
        """Apply raised labels before anything that can fail, in their own transaction (SPEC 1.6)."""
        started = time.perf_counter()
        raises: dict[str, tuple[Sensitivity, str]] = {}
        for doc_id, row, _, resolved in self._resolved():
            if not self._is_current(row, _state_of(row, resolved)):
                self.stale.add(doc_id)
            label = read_label(resolved.sensitivity)
            if label.rank > read_label(row["sensitivity"]).rank:
                raises[doc_id] = (label, resolved.label_reason)
        if raises:
            with transaction(self.connection):
                raised = raise_labels(self.connection, raises, run_id=self.run_id, withdraw=self.withdraw)
            self._raised(raises, raised)
        self.report.seconds["labels"] += time.perf_counter() - started

    def apply_metadata(self) -> None:
        """Store what changed about documents whose file did not change."""
        started = time.perf_counter()
        changed: list[dict[str, object]] = []
        relabelled: list[tuple[str, str, str, str]] = []
        for doc_id, row, verdict, resolved in self._resolved(self.stale - self.extracted):
            state = _state_of(row, resolved)
            if self._is_current(row, state):
                continue
            values = {name: state[name] for name in _METADATA}
            if any(row[name] != value for name, value in values.items()):
                if values["sensitivity"] != row["sensitivity"]:
                    relabelled.append(
                        (doc_id, str(row["sensitivity"]), str(values["sensitivity"]), str(values["label_reason"]))
                    )
                if row["status"] == "ingested":
                    parts = [name for name in _METADATA if row[name] != values[name] and name != "label_reason"]
                    label = most_restricted(row["sensitivity"], values["sensitivity"])
                    why = "metadata: " + (", ".join(parts) or "reason of the label")
                    self.report.note(self.reference(doc_id, label), "changed", why)
                    self.noted.add(doc_id)
            changed.append(
                {"doc_id": doc_id, **state, "policy_hash": self.policy_hash,
                 "policy_label": str(verdict.label), "policy_reason": verdict.reason,
                 "policy_findings": verdict.dump()}
            )  # fmt: skip
        if changed:
            with transaction(self.connection):
                record_label_changes(self.connection, relabelled, run_id=self.run_id)
                self._update("document", changed)
            self.report.lowered += len(relabelled)
        self.report.seconds["metadata"] += time.perf_counter() - started

    def _is_current(self, row: Mapping[str, object], state: Mapping[str, str]) -> bool:
        return row["policy_hash"] == self.policy_hash and all(row[name] == value for name, value in state.items())

    # -- the breaker -------------------------------------------------------------------------------------------

    def _gone(self) -> list[str]:
        """Known documents that the folder does not hold any more."""
        return sorted(
            doc_id
            for doc_id, known in self.known.items()
            if known.status != "removed"
            and doc_id not in self.listed
            and doc_id not in self.refused
            and not self.listing.is_unreadable(doc_id)
        )

    def refuse_mass_removal(self, allowed: bool) -> None:
        """Stop before anything is deactivated when most of the source is gone (SPEC 1.6)."""
        gone = [doc_id for doc_id in self._gone() if self.known[doc_id].has_text]
        empty = [
            file.doc_id
            for file in self.listing.files
            if file.size == 0 and file.doc_id in self.known and self.known[file.doc_id].has_text
        ]
        self._check_breaker(len(gone) + len(empty), allowed)

    def _check_breaker(self, lost: int, allowed: bool) -> None:
        active = sum(known.has_text for known in self.known.values())
        if not allowed and lost > _BREAKER_MINIMUM and lost > active * _BREAKER_SHARE:
            raise MassRemovalError(
                f"{lost} of {active} documents are gone from {self.root} or have become empty. If the folder was not "
                "mounted, mount it and run again; nothing was deactivated. If they were removed on purpose, run once "
                "with allow_mass_removal set (make run ALLOW_MASS_REMOVAL=1)."
            )

    # -- files -------------------------------------------------------------------------------------------------

    def extract(
        self, store: ChunkStore, workers: int | None, parser: str, progress: Callable[[str], None] | None
    ) -> None:
        """Parse every new or changed file, and store each batch in one transaction."""
        started = time.perf_counter()
        files = list(self._changed_files())
        self.report.seconds["hashing"] += time.perf_counter() - started
        if not files:
            return
        store.raise_memory_limit(self.connection, [file.size for file in files])
        done, last = 0, time.perf_counter()
        with ExtractionPool(self.root, self.limits, workers=workers, parser=parser) as pool:
            results = gather_rows(pool.run(batch_files(files)))
            while True:
                waiting = time.perf_counter()
                batch = next(results, None)
                now = time.perf_counter()
                self.report.seconds["extraction"] += now - waiting
                if batch is None:
                    break
                self._store_batch(batch)
                self.report.seconds["writing"] += time.perf_counter() - now
                done += batch.num_rows
                if progress and now - last > 2:
                    last = now
                    progress(f"parsed {done} of {len(files)} files; {self.report.outcomes['failed']} failed")
            self.report.unconfined = tuple(pool.unconfined())
        if progress:
            progress(f"parsed {done} of {len(files)} files; {self.report.outcomes['failed']} failed")

    def _changed_files(self) -> Iterator[SourceFile]:
        unsure: list[SourceFile] = []
        for file in self.listing.files:
            known = self.known.get(file.doc_id)
            if (
                known is None
                or known.retry
                or known.status == "removed"
                # Its text is gone from the store, by whatever hand.
                or (known.status == "ingested" and not known.has_text)
                or known.bytes != file.size
                or known.extraction not in (self._extraction(file.suffix), self._extraction(file.suffix, failed=True))
            ):
                yield file
            else:
                unsure.append(file)
        with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, 8)) as threads:
            # By the hundred: handing a thread one small file costs more than reading it.
            hundreds = [unsure[start : start + 100] for start in range(0, len(unsure), 100)]
            for files, digests in zip(hundreds, threads.map(self._hash_all, hundreds), strict=True):
                for file, digest in zip(files, digests, strict=True):
                    if digest != self.known[file.doc_id].content_hash:
                        yield file

    def _hash_all(self, files: Sequence[SourceFile]) -> list[str]:
        with SourceReader(self.root, max_bytes=self.limits.max_bytes) as reader:
            return [_hash(reader, file) for file in files]

    def _extraction_of(self, suffix: str, *, failed: bool = False) -> str:
        """What a stored parse depends on besides the bytes; a failure also depends on the limits."""
        return f"{parser_for(suffix)}, {_NORMALISER}, {ASIDES_VERSION}" + (f", {self.limits}" if failed else "")

    def _store_batch(self, batch: pa.RecordBatch) -> None:
        documents: list[dict[str, object]] = []
        texts: list[dict[str, object]] = []
        readings: list[dict[str, object]] = []
        failed: list[dict[str, object]] = []
        raises: dict[str, tuple[Sensitivity, str]] = {}
        lowered: list[tuple[str, str, str, str]] = []
        for row in batch.to_pylist():
            doc_id = row["doc_id"]
            self.extracted.add(doc_id)
            known = self.known.get(doc_id)
            if row["status"] == "failed":
                failed.append(row)
                continue
            document, resolved = self._document(row)
            if known is not None:
                old, new = read_label(known.sensitivity), read_label(resolved.sensitivity)
                if new.rank > old.rank:
                    raises[doc_id] = (new, resolved.label_reason)
                elif new.rank < old.rank:
                    lowered.append((doc_id, str(old), str(new), resolved.label_reason))
            if row["status"] == "no_text" and known is not None and known.has_text:
                self.emptied.append((doc_id, document))
                readings.append({"doc_id": doc_id, "file_labels": row["file_labels"]})
                continue
            self._note_extracted(row, known, resolved.sensitivity)
            documents.append(document)
            if row["status"] == "ingested":
                texts.append({"doc_id": doc_id, "text": row["text"], "page_starts": row["page_starts"]})
            readings.append({"doc_id": doc_id, "file_labels": row["file_labels"]})
        with transaction(self.connection):
            raised = raise_labels(self.connection, raises, run_id=self.run_id, withdraw=self.withdraw)
            record_label_changes(self.connection, lowered, run_id=self.run_id)
            self.report.lowered += len(lowered)
            self._replace("document", documents, _DOCUMENT_SCHEMA)
            self._replace("document_text", texts, _TEXT_SCHEMA)
            self._delete("document_reading", [str(reading["doc_id"]) for reading in readings])
            self._replace(
                "document_reading", [reading for reading in readings if reading["file_labels"]], _READING_SCHEMA
            )
            self._store_failed(failed)
        self._raised(raises, raised)

    def _raised(self, labels: Mapping[str, tuple[Sensitivity, str]], raised: Sequence[str]) -> None:
        """Act on raised labels that are in the store for good: what happens to a document later names it by its new one."""
        self.report.raised += len(raised)
        for doc_id, (label, _) in labels.items():
            if doc_id in self.known:
                self.known[doc_id] = replace(self.known[doc_id], sensitivity=str(label))
        if raised and self.after_raise is not None:
            self.after_raise(self.connection)

    def _document(self, row: Mapping[str, object]) -> tuple[dict[str, object], ResolvedMetadata]:
        """Build the state row of a parsed document, its metadata and label resolved."""
        doc_id = str(row["doc_id"])
        verdict = self._verdict(row)
        resolved = self._resolve(doc_id, {**row, "file_title": row["title"]}, verdict)
        document = {name: row[name] for name in _FROM_FILE} | {
            "extraction": self._extraction(str(row["suffix"])),
            "file_title": row["title"],
            **_metadata_columns(resolved),
            "problems": "\n".join(resolved.problems),
            "policy_label": str(verdict.label),
            "policy_reason": verdict.reason,
            "policy_hash": self.policy_hash,
            "policy_findings": verdict.dump(),
            "label_only": _label_only(str(row["file_labels"])),
            "run_id": self.run_id,
            "changed_at": _now(),
        }
        return document, resolved

    def _note_extracted(self, row: Mapping[str, object], known: _Known | None, label: str) -> None:
        reference = self.reference(str(row["doc_id"]), label)
        if row["status"] == "no_text":
            self.report.note(reference, "no_text", str(row["reason"]) or "the file holds no text")
        elif known is None or known.status == "removed":
            self.report.note(reference, "new", "not seen before" if known is None else "it is back")
        elif known.content_hash == row["content_hash"] and known.status == "ingested":
            self.report.note(reference, "changed", "its parser changed" if known.has_text else "its text was lost")
        else:
            self.report.note(reference, "changed", "its content changed")

    def _store_failed(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Keep a failed document's active version, and say why it failed (SPEC 1.6)."""
        fresh: list[dict[str, object]] = []
        known: list[dict[str, object]] = []
        for row in rows:
            doc_id, suffix = str(row["doc_id"]), str(row.get("suffix") or "")
            state = {
                "doc_id": doc_id,
                "status": "failed",
                "reason": row["reason"],
                "retry": bool(row.get("retry")),
                "content_hash": row.get("content_hash") or "",
                "bytes": row.get("bytes") or 0,
                "suffix": suffix,
                "extraction": self._extraction(suffix, failed=True) if suffix else "",
                "run_id": self.run_id,
                "changed_at": _now(),
            }
            if doc_id in self.known:
                label: object = self.known[doc_id].sensitivity
                known.append(state)
            else:
                document = self._unlabelled(doc_id) | state
                label = document["sensitivity"]
                fresh.append(document)
            self.report.note(self.reference(doc_id, label), "failed", str(row["reason"]))
        self._replace("document", fresh, _DOCUMENT_SCHEMA)
        self._update("document", known)

    def _unlabelled(self, doc_id: str) -> dict[str, object]:
        """State of a document that was never read: only an exact row can label it, else it counts as RESTRICTED."""
        verdict = LabelVerdict(Sensitivity.RESTRICTED.value, _NOT_YET_LABELLED)
        resolved = self._resolve(doc_id, {"front_matter": "", "front_matter_problem": "", "file_title": ""}, verdict)
        return {
            **dict.fromkeys(_DOCUMENT_SCHEMA.names, ""),
            "pages": 0,
            "characters": 0,
            "paragraphs": 0,
            **_metadata_columns(resolved),
            "problems": "\n".join(resolved.problems),
            "policy_label": str(verdict.label),
            "policy_reason": verdict.reason,
            "policy_hash": self.policy_hash,
            "policy_findings": verdict.dump(),
        }

    # -- what is gone ------------------------------------------------------------------------------------------

    def remove_gone(self, allowed: bool) -> None:
        """Mark documents whose file is gone or became empty; their chunks follow in the next stages."""
        started = time.perf_counter()
        gone = self._gone()
        lost = sum(self.known[doc_id].has_text for doc_id in gone) + len(self.emptied)
        self._check_breaker(lost, allowed)
        blocked = [doc_id for doc_id in self.known if self.listing.is_unreadable(doc_id)]
        # The loser of two names that are one id has no state of its own: the winner's stays.
        refused = [
            {"doc_id": doc_id, "reason": why, "retry": True}
            for doc_id, why in self.refused.items()
            if doc_id not in self.listed
        ]
        refused += [
            {"doc_id": doc_id, "reason": "its folder cannot be read: change the folder's permissions", "retry": True}
            for doc_id in blocked
            if doc_id not in self.refused
        ]
        with transaction(self.connection):
            self._store_failed(refused)
            self.extracted.update(str(row["doc_id"]) for row in refused)
            self._update(
                "document",
                [
                    {"doc_id": doc_id, "status": "removed", "reason": "", "content_hash": "", "extraction": "",
                     "text_hash": "", "retry": False, "run_id": self.run_id, "changed_at": _now()}
                    for doc_id in gone
                ],
            )  # fmt: skip
            self._replace("document", [document for _, document in self.emptied], _DOCUMENT_SCHEMA)
            self._delete("document_text", [*gone, *(doc_id for doc_id, _ in self.emptied)])
        for doc_id, why in self.listing.refused:
            if doc_id in self.listed:
                self.report.note(document_reference(doc_id, self.key), "failed", why)
                self.report.problems.append(f"{document_reference(doc_id, self.key)}: a second file of this id: {why}")
        for doc_id in gone:
            self.report.note(self.reference(doc_id, self.known[doc_id].sensitivity), "removed", "its file is gone")
        for doc_id, document in self.emptied:
            self.report.note(self.reference(doc_id, document["sensitivity"]), "no_text", "the file became empty")
        self.report.seconds["writing"] += time.perf_counter() - started

    def report_rows(self) -> None:
        """Count what stayed as it was, and collect what somebody should look at."""
        for doc_id, known in self.known.items():
            if doc_id in self.listed and doc_id not in self.extracted and doc_id not in self.noted:
                outcome = "unchanged" if known.status == "ingested" else known.status
                self.report.outcomes[outcome] += 1
        self.report.problems += unmatched_rows(self.metadata, self.listed.keys() | self.refused.keys())
        for doc_id, label, problems in self.connection.execute(
            "SELECT doc_id, sensitivity, problems FROM document WHERE problems != '' AND status != 'removed' "
            "ORDER BY doc_id LIMIT 100"
        ).fetchall():
            self.report.problems += [f"{self.reference(doc_id, label)}: {line}" for line in problems.split("\n")]

    # -- rows --------------------------------------------------------------------------------------------------

    def _replace(self, table: str, rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> None:
        if not rows:
            return
        names = ", ".join(schema.names)
        with registered(self.connection, _rows=pa.Table.from_pylist(list(rows), schema=schema)):
            self.connection.execute(f"DELETE FROM {table} WHERE doc_id IN (SELECT doc_id FROM _rows)")
            self.connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM _rows")

    def _update(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        if not rows:
            return
        incoming = pa.Table.from_pylist(list(rows))
        assignments = ", ".join(f"{name} = r.{name}" for name in incoming.column_names if name != "doc_id")
        with registered(self.connection, _rows=incoming):
            self.connection.execute(f"UPDATE {table} AS t SET {assignments} FROM _rows r WHERE t.doc_id = r.doc_id")

    def _delete(self, table: str, doc_ids: Sequence[str]) -> None:
        if not doc_ids:
            return
        with registered(self.connection, _rows=pa.table({"doc_id": pa.array(doc_ids, pa.string())})):
            self.connection.execute(f"DELETE FROM {table} WHERE doc_id IN (SELECT doc_id FROM _rows)")


_FROM_FILE = (
    "doc_id", "status", "reason", "retry", "content_hash", "bytes", "suffix", "markup", "parser", "encoding",
    "encoding_found_by", "pages", "characters", "paragraphs", "text_hash", "left_out", "front_matter",
    "front_matter_problem",
)  # fmt: skip

_INTEGERS = {"bytes": pa.int64(), "pages": pa.int32(), "characters": pa.int64(), "paragraphs": pa.int32()}
_OTHER = {"retry": pa.bool_(), "changed_at": pa.timestamp("us")}
_DOCUMENT_SCHEMA = pa.schema([(name, {**_INTEGERS, **_OTHER}.get(name, pa.string())) for name in TABLES["document"]])
_TEXT_SCHEMA = pa.schema([("doc_id", pa.string()), ("text", pa.string()), ("page_starts", pa.list_(pa.int32()))])


_READING_SCHEMA = pa.schema([("doc_id", pa.string()), ("file_labels", pa.large_string())])


def _label_only(file_labels: str) -> str:
    """Return how many things of each kind a file says beside its text, as JSON (SPEC 1.11)."""
    counts = FileLabels.load(file_labels).counts()
    return json.dumps(counts, sort_keys=True) if counts else ""


def _hash(reader: SourceReader, file: SourceFile) -> str:
    try:
        return hashlib.sha256(reader.read(file)).hexdigest()
    except (OSError, UnsafeFileError):
        return ""


def unmatched_rows(metadata: MetadataTable, doc_ids: AbstractSet[str]) -> list[str]:
    """Return a sentence for each row of ``metadata.csv`` that matches no file; a path may be a secret, a line is none."""
    return [
        f"metadata.csv, line {metadata.lines.get(row, 0)}: the row matches no file of the source"
        for row in metadata.unmatched(doc_ids)
    ]


def _metadata_columns(resolved: ResolvedMetadata) -> dict[str, object]:
    return {name: str(getattr(resolved, name)) for name in _METADATA}


def _state_of(row: Mapping[str, object], resolved: ResolvedMetadata) -> dict[str, str]:
    """Return the columns that a document's metadata decide."""
    values = {name: str(getattr(resolved, name)) for name in _METADATA} | {"problems": "\n".join(resolved.problems)}
    # The label of a file that was never read is not what its metadata say, unless somebody wrote a row for it.
    unread = row["status"] == "failed" and row["label_reason"] == _NOT_YET_LABELLED
    if unread and resolved.label_reason != ROW_REASON:
        values |= {"sensitivity": str(row["sensitivity"]), "label_reason": str(row["label_reason"])}
    return values


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
