"""The proof that no document is below what its file says of itself, from the bytes (SPEC 1.8, 1.10, 1.11, 6.3)."""

from __future__ import annotations

import hashlib
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from ragspine_assets.documents.extraction import ExtractionError, ExtractionLimits
from ragspine_assets.documents.metadata import metadata_table_of
from ragspine_assets.documents.pool import ExtractionPool, batch_files
from ragspine_assets.documents.source import SourceFile, SourceReader, UnsafeFileError, scan_source
from ragspine_assets.policy import Sensitivity, SensitivityPolicy, document_reference, read_label
from ragspine_assets.store.arrow_tables import table_of
from ragspine_assets.store.chunk_store import ChunkStore
from ragspine_assets.store.database import registered, transaction
from ragspine_assets.store.labels import rank_of
from ragspine_assets.store.references import reference_key, references, set_setting
from ragspine_assets.store.schema import TABLES

from .result import AuditResult
from .stated_labels import Phrases
from .whole_file import READER, TEXT_SUFFIXES, Statement, statements_of, unpack

_PROOF = tuple(TABLES["label_proof"])
_DRAWN = 12
_DRAWS_PER_START = 4
_DRAWN_BYTES = 2 * 2**20
_PLAIN_BYTES = 8 * 2**20


@dataclass(frozen=True)
class _Proof:
    """What was read in one file: a row of the table ``label_proof``."""

    doc_id: str
    rules: str
    stamp: str
    content_hash: str
    label: str = ""
    reason: str = ""
    problem: str = ""


def audit_file_labels(
    store: ChunkStore,
    root: str | Path,
    policy: SensitivityPolicy,
    *,
    limits: ExtractionLimits | None = None,
    workers: int | None = None,
) -> AuditResult:
    """No document is below what its file says of itself (SPEC 1.8, 1.10, 1.11, 6.3).

    The label is derived again from the bytes of the file, by `audit.whole_file` and `audit.stated_labels`, which share
    nothing with the stage that labels. Read is every file that changed since it was last read, every one when the phrases
    of the profile changed, and a draw of the others. What each file says is kept in the store, and compared each time
    with the labels that the store has at that time: there is no flag that says that it held. An exact row of
    ``metadata.csv`` with a label is a human decision, which stands above what the file says.

    Args:
        store: the chunk store.
        root: the source folder.
        policy: whose keywords, markings and carried labels are looked for.
        limits: what reading one file may cost.
        workers: processes that read, at most; 0 is none, which bounds no parser.
    """
    result = AuditResult()
    root = Path(root)
    phrases = Phrases.of(policy)
    rules = phrases.digest()
    with store.connect() as connection:
        held = dict(
            connection.execute(
                f"SELECT doc_id, min(rank) FROM (SELECT doc_id, {rank_of('sensitivity')} AS rank FROM document UNION ALL "
                f"SELECT doc_id, {rank_of('sensitivity')} FROM narrative_chunk SEMI JOIN document USING (doc_id)) GROUP BY doc_id"
            ).fetchall()
        )
        before = {
            row[0]: _Proof(*row)
            for row in connection.execute(
                f"SELECT {', '.join(_PROOF)} FROM label_proof WHERE rules = ?", [rules]
            ).fetchall()
        }
        files = {file.doc_id: file for file in scan_source(root).files if file.doc_id in held}
        stamps = {doc_id: _stamp(root, file) for doc_id, file in files.items()}
        known = {doc_id for doc_id, proof in before.items() if proof.stamp and proof.stamp == stamps.get(doc_id)}
        due = [file for doc_id, file in files.items() if doc_id not in known]
        starts = any(file.suffix not in TEXT_SUFFIXES for file in due)
        drawn = _draw(connection, [file for doc_id, file in files.items() if doc_id in known], starts)
        proofs = {doc_id: proof for doc_id, proof in before.items() if doc_id in files}
        for proof in _read_again(root, [*due, *drawn], stamps, phrases, limits or ExtractionLimits(), workers):
            proofs[proof.doc_id] = proof
        if proofs != before or due:
            _keep(connection, proofs.values())
        failed = {
            row[0] for row in connection.execute("SELECT doc_id FROM document WHERE status = 'failed'").fetchall()
        }
        name = references(connection)
        exact = _decided_by_row(root)
        kinds: Counter[str] = Counter()
        decided = 0
        for doc_id, proof in sorted(proofs.items()):
            result.checked += 1
            if proof.problem and doc_id not in failed:
                result.warnings.append(f"{name(doc_id)} could not be read again for the proof: {proof.problem}")
            if not proof.label:
                continue
            wanted = read_label(proof.label)
            if doc_id in exact:
                decided += 1
            elif held[doc_id] < wanted.rank:
                result.violate(
                    name(doc_id)
                    if wanted is not Sensitivity.RESTRICTED
                    else document_reference(doc_id, reference_key(connection))
                )
                kinds[f"below: {proof.reason}"] += 1
        result.counts = {
            "files read again because they or the profile changed": len(due),
            "files drawn and read again": len(drawn),
            "documents whose file says a label": sum(bool(proof.label) for proof in proofs.values()),
            "of these decided by an exact row": decided,
            **dict(sorted(kinds.items())),
        }
    return result.conclude(
        f"None of {result.checked} documents is below what its file says of itself.",
        "documents have a lower label in the store than their file says (the kinds are counted below). Run refresh, which "
        "labels them again; where a person knows better, give the document a row with its exact path in metadata.csv.",
    )


def _decided_by_row(root: Path) -> set[str]:
    """Return the paths that have a row of their own with a label; one that reads like a glob is a path as well."""
    table = metadata_table_of(root)
    return {doc_id for doc_id, cells in table.exact.items() if "sensitivity" in cells} | {
        glob for glob, cells in table.globs if "sensitivity" in cells
    }


def _stamp(root: Path, file: SourceFile) -> str:
    """Return what the system changes when a file changes, the time of the change of its inode among it."""
    try:
        state = os.stat(root / file.path, follow_symlinks=False)
    except OSError:
        return ""
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}"


def _draw(connection: duckdb.DuckDBPyConnection, files: list[SourceFile], starts: bool) -> list[SourceFile]:
    """Draw some of the files that need no reading, others each time; the seed is the number of the draw.

    To start a process costs more than what it then reads: where none is started anyway (``starts``), formats that need one
    take part in each fourth draw.
    """
    if not files:
        return []
    row = connection.execute("SELECT value FROM store_setting WHERE name = 'label_proof_draw'").fetchone()
    number = int(row[0]) + 1 if row else 1
    set_setting(connection, "label_proof_draw", str(number))
    if not starts and number % _DRAWS_PER_START:
        files = [file for file in files if file.suffix in TEXT_SUFFIXES]
    drawn: list[SourceFile] = []
    room = _DRAWN_BYTES
    for file in random.Random(number).sample(files, min(len(files), 4 * _DRAWN)):  # noqa: S311 - a draw, not a secret
        if file.size <= room and len(drawn) < _DRAWN:
            drawn.append(file)
            room -= file.size
    return drawn


def _read_again(
    root: Path,
    files: list[SourceFile],
    stamps: Mapping[str, str],
    phrases: Phrases,
    limits: ExtractionLimits,
    workers: int | None,
) -> Iterator[_Proof]:
    """Read files and give what each says: text here, whatever needs a parser in processes that can be killed."""
    rules = phrases.digest()

    def proof(doc_id: str, content_hash: str, statements: Iterable[Statement], problem: str) -> _Proof:
        stated = phrases.stated_by(statements)
        label, reason = (stated[0].level.value, stated[0].reason) if stated else ("", "")
        return _Proof(doc_id, rules, stamps[doc_id], content_hash, label, reason, problem)

    def is_plain(file: SourceFile) -> bool:
        return file.suffix in TEXT_SUFFIXES and file.size <= _PLAIN_BYTES

    with SourceReader(root, max_bytes=_PLAIN_BYTES) as reader:
        for file in filter(is_plain, files):
            data, statements, problem = b"", [], ""
            try:
                data = reader.read(file)
                statements = statements_of(data, file.suffix, limits)
            except (UnsafeFileError, ExtractionError) as failure:
                problem = str(failure)
            yield proof(file.doc_id, hashlib.sha256(data).hexdigest(), statements, problem)
    parsed = [file for file in files if not is_plain(file)]
    if not parsed:
        return
    with ExtractionPool(root, limits, workers=workers, parser=READER) as pool:
        for rows in pool.run(batch_files(parsed)):
            for row in rows.select(["doc_id", "content_hash", "status", "reason", "text"]).to_pylist():
                problem = row["reason"] if row["status"] == "failed" else ""
                yield proof(row["doc_id"], row["content_hash"], unpack(row["text"]), problem)


def _keep(connection: duckdb.DuckDBPyConnection, proofs: Iterable[_Proof]) -> None:
    """Keep what files say, in place of what was kept: a changed profile needs all of them read again."""
    rows = [asdict(proof) for proof in proofs]
    columns = {column: [row[column] for row in rows] for column in _PROOF}
    table = table_of(columns, pa.schema([(column, pa.string()) for column in _PROOF]))
    with transaction(connection), registered(connection, _proofs=table):
        connection.execute("DELETE FROM label_proof")
        connection.execute(f"INSERT INTO label_proof ({', '.join(_PROOF)}) SELECT {', '.join(_PROOF)} FROM _proofs")
