"""Second stage: the text of every document becomes staged chunks (SPEC 2, 1.9).

A document is cut again when the fingerprint of what its chunks depend on differs from the one its staged chunks carry:
text, pages, metadata, label, chunker and its parameters.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from ragspine_assets.chunking.chunk import DocumentMeta, require_sizes
from ragspine_assets.chunking.enforcement import ChunkBatch, DocumentInput, chunk_batches, chunker_identity
from ragspine_assets.chunking.protocol import Chunker
from ragspine_assets.store.chunk_store import ChunkStore
from ragspine_assets.store.database import registered, transaction
from ragspine_assets.store.schema import CHUNK_COLUMNS
from ragspine_assets.store.text_batches import TEXTS, WITHIN, in_groups

_META = ("title", "topic", "entity", "geography", "period", "language", "sensitivity", "valid_as_of")

# What a document's chunks depend on. The separator cannot occur in normalised text.
_FINGERPRINT = (
    "sha256(concat_ws(chr(31), ?, d.text_hash, d.markup, coalesce(t.page_starts::VARCHAR, ''), "
    + ", ".join(f"d.{name}" for name in _META)
    + "))"
)
_DUE = f"""
    SELECT d.doc_id, d.characters AS size, {_FINGERPRINT} AS wanted, s.doc_id IS NOT NULL AS is_staged
    FROM document d JOIN document_text t USING (doc_id) LEFT JOIN staged_document s USING (doc_id)
    WHERE s.fingerprint IS DISTINCT FROM wanted
    ORDER BY d.doc_id
"""
_TEXTS = f"""
    {TEXTS} SELECT d.doc_id, d.markup, {", ".join("d." + name for name in _META)}, t.text, t.page_starts
    FROM document d JOIN _text t USING (doc_id) WHERE d.doc_id {WITHIN}
"""


@dataclass
class StagingReport:
    """What a run cut.

    Attributes:
        chunker: the chunker and its parameters, as they count in the fingerprint.
        outcomes: documents by what happened: new, changed, unchanged, removed, failed.
        failed: documents that could not be cut, with the reason; in ids, so not for the outside.
        seconds: time by part of the work.
    """

    chunker: str = ""
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[str, str]] = field(default_factory=list)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


def stage_chunks(
    store: ChunkStore,
    chunker: Chunker | None = None,
    *,
    max_chars: int = 480,
    overlap_chars: int = 80,
    progress: Callable[[str], None] | None = None,
) -> StagingReport:
    """Cut every document whose staged chunks are not those of its current text, metadata and chunker.

    Args:
        store: the chunk store, after `sync_documents`.
        chunker: how to cut; None means `chunk_document`.
        max_chars: longest chunk, in code points.
        overlap_chars: how much of a chunk may be carried into the next, in code points.
        progress: called with a line from time to time; the lines hold no names and no text.

    Raises:
        ValueError: the sizes are not legal (SPEC 2.2).
    """
    require_sizes(max_chars, overlap_chars)
    report = StagingReport(chunker=chunker_identity(chunker, max_chars, overlap_chars))
    with store.connect() as connection:
        _drop_gone(connection, report)
        rows = connection.execute(_DUE, [report.chunker]).fetchall()
        due = {doc_id: (fingerprint, is_staged) for doc_id, _, fingerprint, is_staged in rows}
        texts = in_groups(connection, ((row[0], row[1]) for row in rows), _TEXTS)
        parts = chunk_batches(_inputs(texts), chunker, max_chars=max_chars, overlap_chars=overlap_chars)
        last = time.perf_counter()
        while True:
            started = time.perf_counter()
            part = next(parts, None)
            cut = time.perf_counter()
            report.seconds["chunking"] += cut - started
            if part is None:
                break
            _store_part(connection, part, due, report)
            report.seconds["writing"] += time.perf_counter() - cut
            if progress and cut - last > 2:
                last = cut
                progress(f"cut {report.outcomes['new'] + report.outcomes['changed']} documents")
        row = connection.execute("SELECT count(*) FROM staged_document").fetchone()
        total = row[0] if row else 0
        report.outcomes["unchanged"] = total - report.outcomes["new"] - report.outcomes["changed"]
    return report


def _inputs(groups: Iterable[pa.Table]) -> Iterator[DocumentInput]:
    for group in groups:
        # Sorted here: to sort long texts costs DuckDB as much as to read them.
        columns = group.sort_by("doc_id").columns
        for doc_id, markup, *known, text, page_starts in zip(*(c.to_pylist() for c in columns), strict=True):
            meta = DocumentMeta(doc_id, **dict(zip(_META, known, strict=True)), markup=markup or "plain")
            yield DocumentInput(text, meta, page_starts or ())


def _drop_gone(connection: duckdb.DuckDBPyConnection, report: StagingReport) -> None:
    gone = "SELECT doc_id FROM staged_document ANTI JOIN document_text USING (doc_id)"
    row = connection.execute(f"SELECT count(*) FROM ({gone})").fetchone()
    report.outcomes["removed"] = row[0] if row else 0
    if report.outcomes["removed"]:
        with transaction(connection):
            connection.execute(f"DELETE FROM staged_chunk WHERE doc_id IN ({gone})")
            connection.execute(f"DELETE FROM staged_document WHERE doc_id IN ({gone})")


def _store_part(
    connection: duckdb.DuckDBPyConnection, part: ChunkBatch, due: dict[str, tuple[str, bool]], report: StagingReport
) -> None:
    documents = [(done.doc_id, done.rows_digest, *due.pop(done.doc_id)) for done in part.documents]
    replaced = [doc_id for doc_id, _, _, is_staged in documents if is_staged]
    for doc_id, reason in part.failed:
        report.failed.append((doc_id, reason))
        report.outcomes["failed"] += 1
    report.outcomes["changed"] += len(replaced)
    report.outcomes["new"] += len(documents) - len(replaced)
    names = ", ".join(CHUNK_COLUMNS)
    with (
        transaction(connection),
        registered(
            connection,
            _replaced=pa.table({"doc_id": pa.array(replaced, pa.string())}),
            _chunks=pa.Table.from_batches([part.rows]),
            _staged=pa.table(
                {
                    "doc_id": [doc_id for doc_id, _, _, _ in documents],
                    "rows_digest": [digest for _, digest, _, _ in documents],
                    "fingerprint": [fingerprint for _, _, fingerprint, _ in documents],
                }
            ),
        ),
    ):
        if replaced:
            connection.execute("DELETE FROM staged_chunk WHERE doc_id IN (SELECT doc_id FROM _replaced)")
            connection.execute("DELETE FROM staged_document WHERE doc_id IN (SELECT doc_id FROM _replaced)")
        connection.execute(f"INSERT INTO staged_chunk ({names}) SELECT {names} FROM _chunks")
        if documents:
            connection.execute(
                "INSERT INTO staged_document (doc_id, fingerprint, rows_digest, chunker) "
                "SELECT doc_id, fingerprint, rows_digest, ? FROM _staged",
                [report.chunker],
            )
