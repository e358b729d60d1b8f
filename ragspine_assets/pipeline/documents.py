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
from ragspine_assets.documents.metadata import (
    GLOB_REASON,
    ROW_REASON,
    SPELLED_REASON,
    MetadataTable,
    ResolvedMetadata,
    SpelledRow,
    is_table_of_metadata,
    resolve_metadata,
)
from ragspine_assets.documents.pool import ExtractionPool, batch_files, gather_rows
from ragspine_assets.documents.source import (
    OTHER_TABLE,
    SourceFile,
    SourceListing,
    SourceReader,
    UnsafeFileError,
    scan_source,
)
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
from ragspine_assets.store.labels import Withdraw, raise_labels, rank_of, record_label_changes
from ragspine_assets.store.references import reference_key, set_setting, setting
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
COPY_REASON = "its bytes are those of a document with this label"
"""Reason of the label of a renamed or copied file."""

KEPT = "kept: "
"""How the reason of a label begins that its file does not give any more and no row took back."""

_OTHER_TABLE_REASON = "a table of metadata under another name"
# Reasons that lie outside of the file: a change of its bytes says nothing about them.
_OUTSIDE_THE_FILE = (
    ROW_REASON, GLOB_REASON, SPELLED_REASON, COPY_REASON, _OTHER_TABLE_REASON, "file name pattern", "default level",
    "the policy restricts",
)  # fmt: skip
_COPIES = """
    WITH content AS (
        SELECT doc_id, content_hash, {rank} AS rank FROM document
        WHERE content_hash != '' AND characters > 0 AND status = 'ingested'
        UNION ALL
        SELECT e.doc_id, e.content_hash, greatest(e.rank, coalesce(d.rank, 0))
        FROM (SELECT doc_id, content_hash, {rank} AS rank FROM earlier_content) e
        LEFT JOIN (SELECT doc_id, {rank} AS rank FROM document) d USING (doc_id)
    )
    SELECT d.doc_id, max(c.rank) FROM (SELECT doc_id, content_hash, label_reason, {rank} AS rank FROM document
        WHERE content_hash != '' AND characters > 0 AND status = 'ingested') d
    JOIN content c ON c.content_hash = d.content_hash AND c.doc_id != d.doc_id AND c.rank > d.rank
    WHERE d.label_reason != '{row}' GROUP BY ALL ORDER BY ALL
"""
_MAX_CHANGES = 500
_BREAKER_SHARE = 0.5
_BREAKER_MINIMUM = 10


class MassRemovalError(StoreError):
    """So many documents are gone that the source is more likely unmounted than emptied (SPEC 1.6)."""


class LostLabelsError(StoreError):
    """Labels would change because what set them is missing, and nobody said that they may (SPEC 1.8)."""


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
    label_reason: str


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
    allow_lower_labels: bool = False,
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
        workers: parser processes; by default one per processor, at most four; 0 is none, which bounds no parser.
        parser: the function that parses a file, as ``module:function``.
        run_id: kept with every change of a label.
        allow_mass_removal: go on although most documents are gone.
        allow_lower_labels: go on although labels go down, or the table of metadata or the policy is gone.
        withdraw: removes newly RESTRICTED documents from what was derived from them.
        after_raise: called whenever raised labels are in the store for good, before anything else can fail.
        progress: called with a line from time to time; the lines hold no names and no text.

    Returns:
        What was done, by document and in sum.

    Raises:
        SourceError: the folder is missing or cannot be read.
        MassRemovalError: more than half of the documents, and more than ten, would be deactivated.
        LostLabelsError: labels would go down, or move at all because the table or the policy is missing.
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
        movement = stage.compare_labels()
        stage.raise_labels(movement.raised_by_presence)
        stage.refuse_mass_removal(allow_mass_removal)
        if not allow_lower_labels:
            movement.refuse(stage.table_before)
        stage.raise_labels(movement.raised_by_absence)
        stage.extract(store, workers, parser, progress, allow_lower_labels=allow_lower_labels)
        stage.apply_metadata()
        stage.raise_copies()
        stage.remove_gone(allow_mass_removal)
        stage.report_rows()
        stage.remember(allow_mass_removal)
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


Raises = dict[str, tuple[Sensitivity, str]]
"""Document to its higher label and the reason for it."""


@dataclass
class LabelMovement:
    """How labels of known documents would move in a run, before anything of it is written (SPEC 1.6, 1.8).

    Attributes:
        raised_by_presence: labels that a table, file or policy raises which is there: applied whatever else fails.
        raised_by_absence: labels that go up because a row or a policy which lowered them is missing.
        lowered: documents that would get a lower label without a row that says so, by reference, with the old reason.
        rows_lost: documents whose label came from a row of their own that is no longer there.
        rows_held: documents whose label came from a row of their own.
        sections_gone: sections of the profile about labels that are empty and were not.
        table: the table of metadata.
    """

    table: MetadataTable
    raised_by_presence: Raises = field(default_factory=dict)
    raised_by_absence: Raises = field(default_factory=dict)
    lowered: list[tuple[str, str]] = field(default_factory=list)
    rows_lost: int = 0
    rows_held: int = 0
    sections_gone: tuple[str, ...] = ()

    def refuse(self, table_before: int) -> None:
        """Stop the run where a label would fall, or move at all for something that is missing.

        Args:
            table_before: rows of the table when a run last ended well.

        Raises:
            LostLabelsError: says what is missing, how many labels would move, and how to go on.
        """
        why: list[str] = []
        if self.table.refused:
            why.append(f"metadata.csv {self.table.missing}")
        elif not len(self.table) and table_before:
            why.append(f"metadata.csv {self.table.missing or 'has no rows'}; it had {table_before} rows")
        elif self.rows_lost > _BREAKER_MINIMUM and self.rows_lost > self.rows_held * _BREAKER_SHARE:
            why.append(f"metadata.csv has lost the rows of {self.rows_lost} of {self.rows_held} documents")
        if self.sections_gone:
            gone = ", ".join(f"[{name}]" for name in self.sections_gone)
            why.append(f"the profile, or what stands in its {gone}, is missing: run with PROFILE= as before")
        if not why and not self.lowered:
            return
        count = len(self.lowered)
        if count:
            reasons = Counter(reason for _, reason in self.lowered).most_common(5)
            said = ", ".join(f"{n} by: {reason}" for reason, n in reasons)
            names = ", ".join(reference for reference, _ in self.lowered[:10]) + (", ..." if count > 10 else "")
            why.append(
                f"{count} documents would get a lower label though no row of theirs says so ({names}). Their labels were set {said}"
            )
        raise LostLabelsError(
            "Labels would change because what set them is missing or says less: "
            + "; ".join(why)
            + ". Nothing of this "
            "was written. Put back what is missing and run again, or write an exact row for each document into "
            "metadata.csv. If it is meant, run once with allow_lower_labels set (make run ALLOW_LOWER_LABELS=1)."
        )


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
                "SELECT d.doc_id, status, bytes, content_hash, extraction, retry, t.doc_id IS NOT NULL, sensitivity, label_reason "
                "FROM document d LEFT JOIN document_text t USING (doc_id)"
            ).fetchall()
        }
        self.listed = {file.doc_id: file for file in listing.files}
        self.refused = dict(listing.refused)
        self.emptied: list[tuple[str, dict[str, object]]] = []
        self.extracted: set[str] = set()
        self.noted: set[str] = set()
        self.stale: set[str] = set()
        self.spelled: dict[str, SpelledRow] = {}
        for row in metadata.spelled_differently(self.listed.keys() | self.refused.keys(), self.known.keys()):
            for doc_id in row.named:
                if doc_id not in self.spelled or row.label > self.spelled[doc_id].label:
                    self.spelled[doc_id] = row
        self.table_before = int(setting(connection, "metadata_rows") or 0)
        self.sections_before = frozenset((setting(connection, "policy_sections") or "").split(", ")) - {""}
        self.most_documents = int(setting(connection, "most_documents") or 0)
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
            spelled=self.spelled.get(doc_id),
        )

    def compare_labels(self) -> LabelMovement:
        """Compare the labels that known documents have with those they would get; nothing is written."""
        started = time.perf_counter()
        movement = LabelMovement(self.metadata)
        sections_gone = tuple(sorted(self.sections_before - policy_sections(self.policy)))
        movement.sections_gone = sections_gone
        gone = frozenset(self._gone())
        for doc_id, row, verdict, resolved in self._resolved():
            state = _state_of(row, resolved)
            if not self._is_current(row, state):
                self.stale.add(doc_id)
            held, label = read_label(row["sensitivity"]), read_label(state["sensitivity"])
            had_row = row["label_reason"] == ROW_REASON
            lost_row = had_row and "sensitivity" not in (self.metadata.row_for(doc_id) or ())
            movement.rows_held += had_row
            movement.rows_lost += lost_row
            if doc_id in gone and label < held:
                # Its row may well have gone with it; what it was stays as secret as it was.
                self.stale.discard(doc_id)
            elif label < held and state["label_reason"] != ROW_REASON:
                movement.lowered.append((self.reference(doc_id, held), str(row["label_reason"])))
            elif label > held:
                absent = lost_row or (bool(sections_gone) and state["label_reason"] == verdict.reason)
                raises = movement.raised_by_absence if absent else movement.raised_by_presence
                raises[doc_id] = (label, state["label_reason"])
        for doc_id, why in self.refused.items():
            if why == OTHER_TABLE and doc_id in self.known:
                movement.raised_by_presence[doc_id] = (Sensitivity.RESTRICTED, _OTHER_TABLE_REASON)
        self.report.seconds["labels"] += time.perf_counter() - started
        return movement

    def raise_labels(self, raises: Raises) -> None:
        """Raise labels before anything that can fail, in their own transaction (SPEC 1.6)."""
        if not raises:
            return
        with transaction(self.connection):
            raised = raise_labels(self.connection, raises, run_id=self.run_id, withdraw=self.withdraw)
        self._raised(raises, raised)

    def raise_copies(self) -> None:
        """Give each document at least the label of any other with the same bytes, also of earlier ones (SPEC 1.8)."""
        rows = self.connection.execute(_COPIES.format(rank=rank_of("sensitivity"), row=ROW_REASON)).fetchall()
        by_rank = {label.rank: label for label in Sensitivity}
        raises = {doc_id: (by_rank[rank], COPY_REASON) for doc_id, rank in rows}
        self.raise_labels(raises)
        for doc_id in raises:
            self.report.problems.append(
                f"{document_reference(doc_id, self.key)}: its bytes are those of a document with a higher label, so it has "
                "that label too; an exact row of metadata.csv may say otherwise"
            )

    def remember(self, reset: bool) -> None:
        """Keep what this run knew, for the next one to judge its source by."""
        set_setting(self.connection, "metadata_rows", str(len(self.metadata)))
        set_setting(self.connection, "policy_sections", ", ".join(sorted(policy_sections(self.policy))))
        ((now,),) = self.connection.execute("SELECT count(*) FROM document_text").fetchall()
        set_setting(self.connection, "most_documents", str(now if reset else max(now, self.most_documents)))

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
        # Half, and then half of the rest: what counts is what a good run knew, not what the last one left.
        most = max(active, self.most_documents)
        gone = lost + most - active
        if not allowed and lost and gone > _BREAKER_MINIMUM and gone > most * _BREAKER_SHARE:
            raise MassRemovalError(
                f"{gone} of {most} documents are gone from {self.root} or have become empty. If the folder was not "
                "mounted, mount it and run again; nothing was deactivated. If they were removed on purpose, run once "
                "with allow_mass_removal set (make run ALLOW_MASS_REMOVAL=1)."
            )

    # -- files -------------------------------------------------------------------------------------------------

    def extract(
        self,
        store: ChunkStore,
        workers: int | None,
        parser: str,
        progress: Callable[[str], None] | None,
        *,
        allow_lower_labels: bool = False,
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
                self._store_batch(batch, allow_lower_labels)
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

    def _store_batch(self, batch: pa.RecordBatch, allow_lower_labels: bool) -> None:
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
            if is_table_of_metadata(row["suffix"], row["text"]):
                failed.append({**row, "status": "failed", "reason": OTHER_TABLE, "retry": False})
                if known is not None:
                    raises[doc_id] = (Sensitivity.RESTRICTED, _OTHER_TABLE_REASON)
                continue
            document, resolved = self._document(row)
            if known is not None:
                old, new = read_label(known.sensitivity), read_label(resolved.sensitivity)
                if new < old and not allow_lower_labels and self._keeps_label(known, row, resolved):
                    new = old
                    reason = known.label_reason
                    reason = reason if reason.startswith((KEPT, COPY_REASON)) else f"{KEPT}{reason}"
                    document |= {"sensitivity": old.value, "label_reason": reason}
                if new.rank > old.rank:
                    raises[doc_id] = (new, resolved.label_reason)
                elif new.rank < old.rank:
                    lowered.append((doc_id, str(old), str(new), resolved.label_reason))
            if row["status"] == "no_text" and known is not None and known.has_text:
                self.emptied.append((doc_id, document))
                readings.append({"doc_id": doc_id, "file_labels": row["file_labels"]})
                continue
            self._note_extracted(row, known, str(document["sensitivity"]))
            documents.append(document)
            if row["status"] == "ingested":
                texts.append({"doc_id": doc_id, "text": row["text"], "page_starts": row["page_starts"]})
            readings.append({"doc_id": doc_id, "file_labels": row["file_labels"]})
        with transaction(self.connection):
            self._remember_content([str(row["doc_id"]) for row in [*documents, *failed]])
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
        for doc_id, (label, reason) in labels.items():
            if doc_id in self.known:
                self.known[doc_id] = replace(self.known[doc_id], sensitivity=str(label), label_reason=reason)
        if raised and self.after_raise is not None:
            self.after_raise(self.connection)

    @staticmethod
    def _keeps_label(known: _Known, row: Mapping[str, object], resolved: ResolvedMetadata) -> bool:
        """Tell whether a document keeps a higher label than its file, read anew, would give it (SPEC 1.8).

        A label goes down by an exact row, and one that the file itself carried by a change of the file's bytes.
        """
        if resolved.label_reason == ROW_REASON or known.label_reason == _NOT_YET_LABELLED:
            return False
        if row["status"] == "no_text" or row["content_hash"] == known.content_hash or known.status == "removed":
            return True
        return known.label_reason.removeprefix(KEPT).startswith(_OUTSIDE_THE_FILE)

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
            self._remember_content(
                [*gone, *(str(row["doc_id"]) for row in refused), *(doc_id for doc_id, _ in self.emptied)]
            )
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
        self.report.problems += unmatched_rows(
            self.metadata, self.listed.keys() | self.refused.keys(), self.known.keys()
        )
        self.report.problems += [
            f"{document_reference(doc_id, self.key)}: {why}"
            for doc_id, why in self.refused.items()
            if why == OTHER_TABLE
        ]
        for doc_id, label, problems in self.connection.execute(
            "SELECT doc_id, sensitivity, problems FROM document WHERE problems != '' AND status != 'removed' "
            "ORDER BY doc_id LIMIT 100"
        ).fetchall():
            self.report.problems += [f"{self.reference(doc_id, label)}: {line}" for line in problems.split("\n")]

    # -- rows --------------------------------------------------------------------------------------------------

    def _remember_content(self, doc_ids: Sequence[str]) -> None:
        """Keep the hashes of what documents hold now, with their labels, before others take their place."""
        if not doc_ids:
            return
        with registered(self.connection, _ids=pa.table({"doc_id": pa.array(doc_ids, pa.string())})):
            self.connection.execute(
                "INSERT INTO earlier_content (doc_id, content_hash, sensitivity) "
                "SELECT doc_id, content_hash, sensitivity FROM document SEMI JOIN _ids USING (doc_id) "
                "WHERE content_hash != '' AND characters > 0 AND status = 'ingested' "
                "EXCEPT SELECT doc_id, content_hash, sensitivity FROM earlier_content"
            )

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


def unmatched_rows(
    metadata: MetadataTable, doc_ids: AbstractSet[str], gone: AbstractSet[str] = frozenset()
) -> list[str]:
    """Return a sentence for each row of ``metadata.csv`` that matches no file; a path may be a secret, a line is none.

    Args:
        metadata: the table.
        doc_ids: the documents there are.
        gone: documents that there were.
    """
    spelled = {row.line: row for row in metadata.spelled_differently(doc_ids, gone)}
    sentences = []
    for key in metadata.unmatched(doc_ids):
        line = metadata.lines.get(key, 0)
        row = spelled.get(line)
        if row is not None and row.named:
            what = (
                f"the row spells the path in another way than the source; what it may name, {len(row.named)} files, has at "
                "least its label: write the path as it is below the source"
            )
        else:
            what = "the row matches no file of the source"
        sentences.append(f"metadata.csv, line {line}: {what}")
    return sentences


def lost_labels(metadata: MetadataTable, doc_ids: AbstractSet[str], default: Sensitivity) -> list[str]:
    """Return a sentence for each row with a label above the default that names no file, however it is read (SPEC 1.8).

    Args:
        metadata: the table.
        doc_ids: every document there is or was: the row of a file that was removed is no error.
        default: the label of a document about which nothing else says anything.
    """
    return [
        f"metadata.csv, line {row.line}: a label above the default, and no file it is about; correct the path"
        for row in metadata.spelled_differently(doc_ids)
        if not row.named and row.label > default
    ]


def policy_sections(policy: SensitivityPolicy) -> frozenset[str]:
    """Return the sections of a profile that this policy came from, as far as they say anything."""
    plain = SensitivityPolicy(markings=policy.markings, labels=policy.labels) == policy
    sections = {"sensitivity": not plain, "sensitivity.markings": bool(policy.markings), "labels": bool(policy.labels)}
    return frozenset(name for name, is_set in sections.items() if is_set)


def _metadata_columns(resolved: ResolvedMetadata) -> dict[str, object]:
    return {name: str(getattr(resolved, name)) for name in _METADATA}


def _state_of(row: Mapping[str, object], resolved: ResolvedMetadata) -> dict[str, str]:
    """Return the columns that a document's metadata decide."""
    values = {name: str(getattr(resolved, name)) for name in _METADATA} | {"problems": "\n".join(resolved.problems)}
    reason = str(row["label_reason"])
    # The label of a file that was never read is not what its metadata say, unless somebody wrote a row for it; a copy, and
    # what has no text any more, keeps what it had until a row says otherwise.
    unread = row["status"] == "failed" and reason == _NOT_YET_LABELLED
    held = reason.startswith((COPY_REASON, KEPT)) or row["status"] in {"removed", "no_text"}
    falls = read_label(resolved.sensitivity) < read_label(row["sensitivity"])
    if resolved.label_reason != ROW_REASON and (unread or (held and falls)):
        values |= {"sensitivity": str(row["sensitivity"]), "label_reason": reason}
    return values


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
