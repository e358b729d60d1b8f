"""Proofs over `chunks`: they quote and cover the text, stay inside their windows and carry their label (SPEC 2.4, 2.6)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate

import duckdb
import pyarrow as pa

from ragspine_assets.store.chunk_store import ChunkStore
from ragspine_assets.store.labels import rank_of
from ragspine_assets.store.references import references
from ragspine_assets.store.schema import CHUNK_COLUMNS, TABLES
from ragspine_assets.store.text_batches import WITHIN, in_groups, read_group, text_sizes

from .result import AuditResult

_TEXTS = f"""
    SELECT doc_id, text FROM document_text SEMI JOIN _group USING (doc_id) WHERE doc_id {WITHIN} ORDER BY doc_id
"""
_NEWLINE = re.compile("\n")
# What a document gives to all its chunks; its label is another check's.
_META = tuple(name for name in CHUNK_COLUMNS if name in TABLES["document"] and name not in {"doc_id", "sensitivity"})
# Documents and chunks that lack each other, and chunks that say of themselves what their document does not.
_MISSTATED = f"""
    SELECT doc_id, 'no text' FROM document ANTI JOIN document_text USING (doc_id) WHERE status = 'ingested'
    UNION ALL SELECT doc_id, 'more than one text' FROM document_text GROUP BY doc_id HAVING count(*) > 1
    UNION ALL SELECT doc_id, 'no document' FROM staged_chunk ANTI JOIN document USING (doc_id) GROUP BY doc_id
    UNION ALL SELECT s.doc_id, 'locator' FROM staged_chunk s WHERE source_locator != s.doc_id || '#para' || para_start
        || CASE para_end WHEN para_start THEN '' ELSE '-' || para_end END GROUP BY s.doc_id
    UNION ALL SELECT s.doc_id, 'metadata' FROM staged_chunk s JOIN document d USING (doc_id)
    WHERE {" OR ".join(f"s.{name} IS DISTINCT FROM d.{name}" for name in _META)} GROUP BY s.doc_id
    ORDER BY ALL
"""
# Row by row: to gather a document's chunks in lists takes twice the time.
_CHUNKS = f"""
    SELECT doc_id, seq, char_start, char_end, para_start, para_end, text FROM staged_chunk SEMI JOIN _group USING (doc_id)
    WHERE doc_id {WITHIN} ORDER BY doc_id, seq
"""


def audit_chunk_text(store: ChunkStore) -> AuditResult:
    """Staged chunks quote the canonical text at their offsets, and together cover all of it (SPEC 2.4)."""
    result = AuditResult()
    with store.connect() as connection:
        name = references(connection)
        for documents in in_groups(connection, text_sizes(connection), _TEXTS):
            result.checked += documents.num_rows
            for doc_id, why in _misquoted_of(connection, documents):
                result.violate(f"{name(doc_id)} ({why})")
        for doc_id, why in connection.execute(_MISSTATED).fetchall():
            result.violate(f"{name(doc_id)} ({why})")
    return result.conclude(
        f"The chunks of all {result.checked} documents quote their text exactly and cover all of it.",
        "documents have chunks that do not quote or cover their text. Run refresh; if it stays, report the chunker.",
    )


def _misquoted_of(connection: duckdb.DuckDBPyConnection, documents: pa.Table) -> Iterator[tuple[str, str]]:
    """Give each document of a group whose chunks are wrong, and what is wrong with them."""
    doc_ids = documents.column("doc_id").to_pylist()
    chunks = read_group(connection, doc_ids, _CHUNKS)
    owners, seqs, starts, ends, firsts, lasts = (column.to_pylist() for column in chunks.columns[:-1])
    texts = chunks.column("text").combine_chunks()
    counts = Counter(owners)
    # Counted in the order of rows.
    behind = dict(zip(counts, accumulate(counts.values()), strict=True))
    for doc_id, text in zip(doc_ids, documents.column("text"), strict=True):
        last = behind.get(doc_id, 0)
        own = slice(last - counts[doc_id], last)
        # The texts of one document at a time: Python's strings take much more room than what they are made from.
        quotes = texts[own].to_pylist()
        canonical = canonical_again(text.as_py())
        why = _misquoted(canonical, seqs[own], starts[own], ends[own], quotes)
        why = why or _misnumbered(canonical, starts[own], ends[own], firsts[own], lasts[own])
        if why:
            yield doc_id, why


_BLANK = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "".join(
    map(chr, (0xAD, 0x34F, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x2060, 0x2065), 0xFEFF))
)


def canonical_again(text: str) -> str:
    """Derive the canonical text again, from the rule and not from the code that stored it (SPEC 1.5)."""
    return "\n".join([paragraph for line in text.split("\n") if (paragraph := line.strip(_BLANK))])


def _misquoted(canonical: str, seqs: list[int], starts: list[int], ends: list[int], texts: list[str]) -> str:
    """Name what is wrong with one document's chunks, or return ``''``."""
    if not seqs:
        return "no chunks" if canonical else ""
    if seqs != list(range(len(seqs))):
        return "gap in seq"
    if min(starts) < 0 or not all(texts):
        return "text differs"
    if [canonical[start:end] for start, end in zip(starts, ends, strict=True)] != texts:
        return "text differs"
    if [end - start for start, end in zip(starts, ends, strict=True)] != list(map(len, texts)):
        return "text differs"
    if starts != sorted(starts):
        return "goes back"
    # What lies between the farthest end so far and the next start.
    covered = accumulate(ends, max, initial=0)
    if any(
        start > end and canonical[end:start].strip()
        for end, start in zip(covered, [*starts, len(canonical)], strict=True)
    ):
        return "text left out"
    return ""


def _misnumbered(canonical: str, starts: list[int], ends: list[int], firsts: list[int], lasts: list[int]) -> str:
    """Tell whether the paragraphs that chunks name are those they lie in: a paragraph ends at each newline."""
    breaks = [place.start() for place in _NEWLINE.finditer(canonical)]
    for start, end, first, last in zip(starts, ends, firsts, lasts, strict=True):
        if bisect_left(breaks, start) + 1 != first or bisect_left(breaks, end) + 1 != last:
            return "paragraphs"
    return ""


# A window that does not hold its chunk, one of no known text, and a parent span that does not hold its chunk's span, or is no span: behind the
# prefix that both locators share stand two numbers of paragraphs, or one that is both.
_BREAKS = """
    SELECT doc_id, broken, count(*) FROM (
        SELECT doc_id, CASE
            WHEN window_text != '' AND NOT contains(window_text, text) THEN 'window'
            WHEN doc_id NOT IN (SELECT doc_id FROM document_text) THEN 'no text'
            WHEN parent_locator != '' AND NOT coalesce(
                suffix(source_locator, span) AND starts_with(parent_locator, prefix)
                AND TRY_CAST(split_part(numbers, '-', 1) AS BIGINT) <= para_start
                AND para_end <= TRY_CAST(split_part(numbers, '-', -1) AS BIGINT)
                AND length(string_split(numbers, '-')) <= 2, FALSE) THEN 'parent span'
            END AS broken
        FROM (
            SELECT doc_id, text, window_text, source_locator, parent_locator, para_start, para_end,
                CASE para_start WHEN para_end THEN '' ELSE para_start || '-' END || para_end AS span,
                left(source_locator, length(source_locator) - length(span)) AS prefix,
                substr(parent_locator, length(prefix) + 1) AS numbers
            FROM staged_chunk WHERE window_text != '' OR parent_locator != ''
        )
    ) WHERE broken IS NOT NULL GROUP BY ALL ORDER BY ALL
"""
_WINDOWS = f"""
    SELECT doc_id, window_text, min(char_start) AS char_start, count(*) AS times FROM staged_chunk
    SEMI JOIN _group USING (doc_id) WHERE window_text != '' AND doc_id {WITHIN} GROUP BY doc_id, window_text
"""


def audit_windows(store: ChunkStore) -> AuditResult:
    """Windows contain their child, parent spans contain its span, both from its own document (SPEC 2.6, 2.7)."""
    result = AuditResult()
    with store.connect() as connection:
        name = references(connection)
        row = connection.execute(
            "SELECT count(*), count(*) FILTER (window_text != '') FROM staged_chunk "
            "WHERE window_text != '' OR parent_locator != ''"
        ).fetchone()
        result.checked, windows = row or (0, 0)
        for doc_id, broken, times in connection.execute(_BREAKS).fetchall() if result.checked else ():
            result.violate(f"{name(doc_id)} ({broken})", times)
        for documents in in_groups(connection, text_sizes(connection), _TEXTS) if windows else ():
            for doc_id, times in _windows_from_elsewhere(connection, documents):
                result.violate(f"{name(doc_id)} (window)", times)
    return result.conclude(
        f"All {result.checked} windows hold their chunk and come from its own document."
        if result.checked
        else "The chunker in use gives no windows.",
        "windows do not hold their chunk, or come from elsewhere. Run refresh; if it stays, report the chunker.",
    )


def _windows_from_elsewhere(connection: duckdb.DuckDBPyConnection, documents: pa.Table) -> Iterator[tuple[str, int]]:
    """Give the windows that are no part of their document's text: the document, and how many chunks show it."""
    doc_ids = documents.column("doc_id").to_pylist()
    found = read_group(connection, doc_ids, _WINDOWS)
    windows: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for doc_id, *window in zip(*(column.to_pylist() for column in found.columns), strict=True):
        windows[doc_id].append(tuple(window))
    for doc_id, text in zip(doc_ids, documents.column("text"), strict=True):
        canonical = canonical_again(text.as_py()) if doc_id in windows else ""
        for window, place, times in windows.get(doc_id, ()):
            # Looked for around its chunk first: a long document may have thousands of windows.
            near = slice(max(place - len(window), 0), place + len(window))
            if window not in canonical[near] and window not in canonical and not _is_table(window, canonical):
                yield doc_id, times


def _is_table(window: str, canonical: str) -> bool:
    """Tell whether a window is the two lines that begin a table, and rows from further down (SPEC 2.10)."""
    header, _, rest = window.partition("\n")
    delimiter, _, rows = rest.partition("\n")
    if not rows or not {*delimiter} <= set("|:- \t") or "-" not in delimiter:
        return False
    begins = f"{header}\n{delimiter}"
    place = canonical.find(begins)
    return place >= 0 and canonical.find(rows, place + len(begins)) >= 0


def audit_chunk_labels(store: ChunkStore) -> AuditResult:
    """Staged chunks carry their document's label, and no version has a lower one (SPEC 2.4, 3.4).

    A version may have a higher one: where a human lowered the label, the new version is written after this is proved.
    """
    result = AuditResult()
    with store.connect() as connection:
        name = references(connection)
        row = connection.execute("SELECT count(*) FROM staged_chunk").fetchone()
        result.checked = row[0] if row else 0
        for doc_id, n in connection.execute(
            f"""
            SELECT doc_id, count(*) FROM (
                SELECT s.doc_id FROM staged_chunk s JOIN document d USING (doc_id)
                WHERE s.sensitivity IS DISTINCT FROM d.sensitivity
                UNION ALL
                SELECT c.doc_id FROM narrative_chunk c JOIN document d USING (doc_id)
                WHERE {rank_of("c.sensitivity")} < {rank_of("d.sensitivity")}
            ) GROUP BY doc_id ORDER BY doc_id
            """
        ).fetchall():
            result.violate(name(doc_id), n)
    return result.conclude(
        f"All {result.checked} chunks carry the label of their document.",
        "chunks carry another label than their document. Run refresh to write them again.",
    )
