"""What the store holds, in figures that may leave it: counts, codes, references and digests, never text (SPEC 6.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import new as keyed

import duckdb

from ragspine_assets.store.chunk_store import ChunkStore
from ragspine_assets.store.references import OPEN_DOCUMENTS, reference_key, references

Rows = list[dict[str, str | int | float]]
_LENGTH_STEP = 40
_MOST_LANGUAGES = 20
OTHER = "other"
"""As what the own values of RESTRICTED documents are counted."""


@dataclass(frozen=True)
class DocumentOverview:
    """The documents of a store in figures.

    Attributes:
        documents: how many the source holds now.
        by_status: status to label to count.
        encodings: how often each encoding was found, and how; of RESTRICTED documents together, as ``other``.
        digest: of every document's content, metadata and label, see `content_digest`.
    """

    documents: int
    by_status: dict[str, dict[str, int]]
    encodings: Rows
    digest: str


def document_overview(store: ChunkStore) -> DocumentOverview:
    """Count the documents of a store."""
    with store.connect() as connection:
        by_status: dict[str, dict[str, int]] = {}
        for status, label, n in connection.execute(
            "SELECT status, sensitivity, count(*) FROM document GROUP BY ALL ORDER BY 1, 2"
        ).fetchall():
            by_status.setdefault(status, {})[label] = n
        encodings = _rows(
            connection,
            f'SELECT {_shown("encoding")} AS encoding, {_shown("encoding_found_by")} AS "found by", count(*) AS documents '
            f"FROM document {_WHETHER_OPEN} WHERE encoding != '' AND status != 'removed' GROUP BY ALL ORDER BY 3 DESC, 1, 2",
        )
        digest = content_digest(
            connection,
            "SELECT doc_id, status, content_hash, text_hash, title, topic, entity, geography, period, language, "
            "valid_as_of, sensitivity FROM document WHERE status != 'removed'",
        )
    documents = sum(sum(labels.values()) for status, labels in by_status.items() if status != "removed")
    return DocumentOverview(documents, by_status, encodings, digest)


@dataclass(frozen=True)
class StagedOverview:
    """The staged chunks of a store in figures.

    Attributes:
        chunks: how many there are.
        length_edges, length_counts: histogram of their lengths in code points.
        largest: documents with the most chunks.
        failed: documents that could not be cut, one sentence each.
        digest: of all rows, see `content_digest`.
    """

    chunks: int
    length_edges: list[int]
    length_counts: list[int]
    largest: Rows
    failed: list[str]
    digest: str


def staged_overview(store: ChunkStore, failed: Sequence[tuple[str, str]] = ()) -> StagedOverview:
    """Count the staged chunks of a store."""
    with store.connect() as connection:
        name = references(connection)
        counts = {
            int(step): n
            for step, n in connection.execute(
                f"SELECT (char_end - char_start) // {_LENGTH_STEP}, count(*) FROM staged_chunk GROUP BY 1"
            ).fetchall()
        }
        # Chunks of more than a hundred steps share the last bar.
        last = min(max(counts, default=0), 100)
        bars = [counts.get(step, 0) for step in range(last)] + [sum(n for s, n in counts.items() if s >= last)]
        largest = connection.execute(
            "SELECT doc_id, count(*), max(char_end), max(page_end) FROM staged_chunk GROUP BY doc_id "
            "ORDER BY 2 DESC, 1 LIMIT 10"
        ).fetchall()
        return StagedOverview(
            sum(counts.values()),
            [step * _LENGTH_STEP for step in range(len(bars) + 1)],
            bars,
            [{"document": name(d), "chunks": n, "characters": c, "pages": p} for d, n, c, p in largest],
            [f"{name(doc_id)}: {reason}" for doc_id, reason in failed],
            content_digest(connection, "SELECT doc_id, rows_digest FROM staged_document"),
        )


@dataclass(frozen=True)
class StoreOverview:
    """The versions of a store in figures.

    Attributes:
        active_chunks: chunks of active versions.
        inactive_chunks: chunks of earlier versions.
        by_language: language to label to count of active chunks; the twenty with most chunks, all others together and
            those of RESTRICTED documents are ``other``.
        newest: the highest versions.
        digest: of the active rows, see `content_digest`.
    """

    active_chunks: int
    inactive_chunks: int
    by_language: dict[str, dict[str, int]]
    newest: Rows
    digest: str


def store_overview(store: ChunkStore) -> StoreOverview:
    """Count the versions of a store."""
    with store.connect() as connection:
        name = references(connection)
        by_language = _languages(
            connection.execute(
                f"SELECT {_shown(_LANGUAGE)}, sensitivity, count(*) FROM narrative_chunk {_WHETHER_OPEN} WHERE active "
                "GROUP BY ALL ORDER BY 1, 2"
            ).fetchall()
        )
        inactive = connection.execute("SELECT count(*) FROM narrative_chunk WHERE NOT active").fetchone()
        newest = connection.execute(
            "SELECT doc_id, version, count(*) FROM narrative_chunk WHERE active GROUP BY ALL "
            "ORDER BY version DESC, doc_id LIMIT 10"
        ).fetchall()
        digest = content_digest(
            connection,
            "SELECT DISTINCT c.doc_id, coalesce(s.rows_digest, c.version::VARCHAR) FROM narrative_chunk c "
            "LEFT JOIN staged_document s USING (doc_id) WHERE c.active",
        )
        return StoreOverview(
            sum(n for labels in by_language.values() for n in labels.values()),
            inactive[0] if inactive else 0,
            by_language,
            [{"document": name(d), "version": v, "chunks": n} for d, v, n in newest],
            digest,
        )


def _languages(rows: Sequence[tuple[str, str, int]]) -> dict[str, dict[str, int]]:
    chunks: Counter[str] = Counter()
    for language, _, n in rows:
        chunks[language] += n
    kept = {language for language, _ in chunks.most_common(_MOST_LANGUAGES)}
    found: dict[str, dict[str, int]] = {}
    for language, label, n in rows:
        labels = found.setdefault(language if language in kept else OTHER, {})
        labels[label] = labels.get(label, 0) + n
    return found


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> Rows:
    reader = connection.execute(query)
    names = [column[0] for column in reader.description or ()]
    return [dict(zip(names, row, strict=True)) for row in reader.fetchall()]


# A document's own values are shown of those alone that may be named.
_WHETHER_OPEN = f"LEFT JOIN (SELECT doc_id, TRUE AS is_open FROM ({OPEN_DOCUMENTS})) USING (doc_id)"
_LANGUAGE = "CASE language WHEN '' THEN 'not stated' ELSE language END"


def _shown(value: str) -> str:
    """Return SQL for a value that a document states, in figures: what a RESTRICTED one states is told of none."""
    return f"CASE WHEN is_open THEN {value} ELSE '{OTHER}' END"


def content_digest(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """Return a digest of a query's rows, one of which is ``doc_id``: the data version of an asset, read in pieces.

    Equal rows give an equal digest on any machine. Rows of documents that may not be named outside go into it as an
    HMAC-SHA-256 with the store's own key: nobody who has only the version can try out which content gives it.
    """
    open_rows, closed_rows = sha256(), keyed(reference_key(connection), digestmod=sha256)
    closed = 0
    for join, digest in (("SEMI", open_rows), ("ANTI", closed_rows)):
        reader = connection.execute(
            f"SELECT q.* FROM ({query}) q {join} JOIN ({OPEN_DOCUMENTS}) USING (doc_id) ORDER BY ALL"
        )
        while rows := reader.fetchmany(4096):
            digest.update(repr(rows).encode())
            closed += join == "ANTI"
    if not closed:
        return open_rows.hexdigest()
    return sha256((open_rows.hexdigest() + closed_rows.hexdigest()).encode()).hexdigest()
