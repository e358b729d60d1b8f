"""The seam that calls a chunker and answers for what comes out (SPEC 2.4).

A chunker decides text, spans, headings and windows. Here ids, metadata, label and pages are stamped, windows are taken
only from the document's own text, and chunks that break the rule are refused, whoever made them: `cut_document` gives
objects, `chunk_batches` Arrow columns of many documents, both from the same cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

import pyarrow as pa

from ragspine_assets.chunking.chunk import (
    DEFAULT_MAX_CHARS,
    DEFAULT_OVERLAP_CHARS,
    Chunk,
    DocumentMeta,
    require_sizes,
)
from ragspine_assets.chunking.columns import CHUNK_SCHEMA, RowsBuilder, rows_digest
from ragspine_assets.chunking.default import DefaultChunker
from ragspine_assets.chunking.identity import chunker_identity
from ragspine_assets.chunking.protocol import Chunker
from ragspine_assets.chunking.spans import (
    CutChunker,
    Cuts,
    SourceText,
    chunks_from_cuts,
    columns_from_cuts,
    source_text,
)
from ragspine_assets.chunking.third_party import ChunkerError, foreign_cuts
from ragspine_assets.documents.normalise import BLANK, CanonicalText, normalise_text
from ragspine_assets.policy.lattice import read_label

__all__ = [
    "CHUNK_SCHEMA",
    "ChunkBatch",
    "ChunkerError",
    "DocumentInput",
    "DocumentRows",
    "chunk_batches",
    "chunker_identity",
    "cut_document",
    "rows_digest",
]

DEFAULT_ROWS_PER_BATCH = 16_384
_CHARACTERS_PER_BATCH = 16_000_000
_WINDOW_CHARACTERS_PER_BATCH = 24_000_000


@dataclass(frozen=True, slots=True)
class DocumentInput:
    """A document to be cut.

    Attributes:
        text: its text.
        meta: what is known about it.
        page_starts: for each page the number (from 1) of the first paragraph on or after its start; empty if unknown.
    """

    text: str = field(repr=False)
    meta: DocumentMeta
    page_starts: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class DocumentRows:
    """What became of one document.

    Attributes:
        doc_id: the document.
        rows_digest: SHA-256 of all columns of its rows, in order; equal digests mean equal rows (SPEC 1.9).
        chunks: number of its rows.
    """

    doc_id: str
    rows_digest: str
    chunks: int


@dataclass(frozen=True, slots=True)
class ChunkBatch:
    """Chunks of some documents, as columns.

    Attributes:
        rows: the chunks, in the order of documents and ``seq``; may be empty.
        documents: the documents whose rows these are, and those that have none.
        failed: documents that could not be cut, with the reason; they have no rows anywhere.
    """

    rows: pa.RecordBatch
    documents: list[DocumentRows]
    failed: list[tuple[str, str]]


def cut_document(
    text: str,
    meta: DocumentMeta,
    chunker: Chunker | None = None,
    *,
    max_chars: int = DEFAULT_MAX_CHARS,
    overlap_chars: int = DEFAULT_OVERLAP_CHARS,
    page_starts: Sequence[int] = (),
) -> list[Chunk]:
    """Return the chunks of a document, made by any chunker and held to SPEC 2.4.

    Args:
        text: the document's text.
        meta: what is known about it; a label outside the lattice is stamped as RESTRICTED (SPEC 1.8).
        chunker: who cuts; ``None`` means `chunk_document`.
        max_chars: longest chunk, in code points.
        overlap_chars: most text that neighbours share, in code points; less than ``max_chars``.
        page_starts: see `DocumentInput`.

    Raises:
        ValueError: if the sizes are not legal, also for an empty text.
        TypeError: if ``chunker`` is no `Chunker`.
        ChunkerError: if a chunker fails or its chunks break the rule.
    """
    require_sizes(max_chars, overlap_chars)
    chunker = _chunker(chunker)
    source = source_text(text)
    cuts = _checked_cuts(source, meta, chunker, max_chars, overlap_chars)
    return chunks_from_cuts(source.canonical, _stamped(meta), cuts, page_starts)


def chunk_batches(
    documents: Iterable[DocumentInput],
    chunker: Chunker | None = None,
    *,
    max_chars: int = DEFAULT_MAX_CHARS,
    overlap_chars: int = DEFAULT_OVERLAP_CHARS,
    rows_per_batch: int = DEFAULT_ROWS_PER_BATCH,
) -> Iterator[ChunkBatch]:
    """Yield the chunks of many documents as Arrow batches, holding only one batch and one document at a time.

    The rows equal what `cut_document` gives. A document is never split: one that is larger than a batch makes a larger
    batch, alone. A document whose chunker fails is reported and does not stop the others.

    Args:
        documents: what to cut, read one by one.
        chunker: who cuts; ``None`` means `chunk_document`.
        max_chars: longest chunk, in code points.
        overlap_chars: most text that neighbours share, in code points.
        rows_per_batch: about how many rows a batch has; fewer when they are long.

    Raises:
        ValueError: if the sizes are not legal.
        TypeError: if ``chunker`` is no `Chunker`.
    """
    require_sizes(max_chars, overlap_chars)
    if rows_per_batch <= 0:
        message = f"rows_per_batch must be positive, not {rows_per_batch}"
        raise ValueError(message)
    return _batches(documents, _chunker(chunker), max_chars, overlap_chars, rows_per_batch)


def _batches(
    documents: Iterable[DocumentInput], chunker: Chunker, max_chars: int, overlap_chars: int, rows_per_batch: int
) -> Iterator[ChunkBatch]:
    pending = RowsBuilder()
    finished: list[tuple[str, int]] = []
    failed: list[tuple[str, str]] = []

    def batch() -> ChunkBatch:
        nonlocal pending, finished, failed
        rows, digests = pending.finish()
        documents = [DocumentRows(doc_id, digest, n) for (doc_id, n), digest in zip(finished, digests, strict=True)]
        made = ChunkBatch(rows, documents, failed)
        pending, finished, failed = RowsBuilder(), [], []
        return made

    for document in documents:
        meta = _stamped(document.meta)
        source = source_text(document.text)
        try:
            _require_storable(meta)
            cuts = _checked_cuts(source, meta, chunker, max_chars, overlap_chars)
        except ChunkerError as error:
            failed.append((meta.doc_id, error.rule))
            continue
        if pending.rows and (
            pending.rows + len(cuts) > rows_per_batch
            or pending.characters > _CHARACTERS_PER_BATCH
            or pending.window_characters > _WINDOW_CHARACTERS_PER_BATCH
        ):
            yield batch()
        pending.add(columns_from_cuts(source.canonical, meta, cuts, document.page_starts))
        finished.append((meta.doc_id, len(cuts)))
        if len(finished) + len(failed) >= rows_per_batch:
            yield batch()
    if pending.rows or finished or failed:
        yield batch()


def _chunker(chunker: Chunker | None) -> Chunker:
    if chunker is None:
        return DefaultChunker()
    if not isinstance(chunker, Chunker):
        message = f"{type(chunker).__name__} is no chunker: it has no method chunk"
        raise TypeError(message)
    return chunker


def _stamped(meta: DocumentMeta) -> DocumentMeta:
    """Return metadata as they are stored: the label read, and values that UTF-8 cannot hold repaired as text is (SPEC 1.5).

    An id is left as it is: repaired, it would name another document.
    """
    label = read_label(meta.sensitivity).value
    values = {
        item.name: getattr(meta, item.name) for item in fields(meta) if item.name not in {"doc_id", "sensitivity"}
    }
    repaired = {name: normalise_text(value) for name, value in values.items() if not _is_storable(value)}
    if label == meta.sensitivity and not repaired:
        return meta
    return replace(meta, sensitivity=label, **repaired)


def _is_storable(value: object) -> bool:
    # What is no string is left for `_require_storable`, which fails its document and no other.
    if not isinstance(value, str) or value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _require_storable(meta: DocumentMeta) -> None:
    # What cannot be stored must fail its document and not a whole batch.
    for item in fields(meta):
        if not isinstance(getattr(meta, item.name), str):
            raise ChunkerError(meta, f"its {item.name} is no string")
    if not _is_storable(meta.doc_id):
        raise ChunkerError(meta, "its id holds characters that UTF-8 cannot store")


def _checked_cuts(source: SourceText, meta: DocumentMeta, chunker: Chunker, max_chars: int, overlap_chars: int) -> Cuts:
    # Only a class that leaves `chunk` as it is can be asked for its cuts: whoever overrides it wants it called.
    if isinstance(chunker, CutChunker) and type(chunker).chunk is CutChunker.chunk:
        cuts = chunker.cuts(source, meta, max_chars, overlap_chars)
    else:
        cuts = foreign_cuts(chunker, source, meta, max_chars, overlap_chars)
    broken = _broken_rule(source.canonical, cuts, max_chars)
    if broken:
        raise ChunkerError(meta, broken)
    return cuts


def _broken_rule(document: CanonicalText, cuts: Cuts, max_chars: int) -> str:
    """Return which part of SPEC 2.4 the cuts break, ``''`` if none."""
    text = document.text
    covered = previous = 0
    for position, (start, end) in enumerate(zip(cuts.starts, cuts.ends, strict=True)):
        if not 0 <= start < end <= len(text):
            return f"chunk {position} of the chunker is empty or outside the document"
        if end - start > max_chars:
            return f"chunk {position} of the chunker is longer than max_chars ({max_chars})"
        if start < previous:
            return f"chunk {position} of the chunker starts before the one before it"
        if start > covered and text[covered:start].strip(BLANK):
            return f"the chunker left out text before chunk {position}"
        previous = start
        covered = max(covered, end)
    if text[covered:].strip(BLANK):
        return "the chunker left out text at the end"
    return ""
