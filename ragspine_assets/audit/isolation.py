"""A probe through the whole retriever: nothing RESTRICTED leaves, whatever is asked (SPEC 4.5-4.7, 6.3).

RESTRICTED chunks are looked for with their own words, which is the best chance they get. What comes out of the link and
what a judge was shown are compared with what the store says is RESTRICTED, not with the labels on the snippets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import duckdb

from ragspine_assets.audit.result import AuditResult
from ragspine_assets.index.tokens import tokenize
from ragspine_assets.policy import document_reference, is_restricted
from ragspine_assets.retrieval.narrative_index import NarrativeIndex
from ragspine_assets.retrieval.narrative_link import NarrativeIndexRetriever
from ragspine_assets.retrieval.rerank import ListwiseJudge
from ragspine_assets.store.chunk_store import ChunkStore, StoredChunk
from ragspine_assets.store.references import reference_key, references

PROBES = 40
HAYSTACK = 3000
_QUERY_TOKENS = 12
_SEED = 20260714


class Retriever(Protocol):
    """What is probed."""

    def retrieve(
        self, query: str, *, filters: Mapping[str, object] | None = None, top_k: int = 50
    ) -> Sequence[Mapping[str, object]]:
        """Return snippets."""
        ...


class RecordingJudge:
    """A judge that keeps all it is shown and leaves the order as it is."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def judge(self, query: str, candidates: list[str]) -> list[int]:  # noqa: ARG002
        """Keep the candidates and return them in the order given."""
        self.seen += candidates
        return list(range(len(candidates)))


def whole_retriever(chunks: Iterable[StoredChunk], judge: ListwiseJudge) -> Retriever:
    """Return the retriever as applications use it: index, judge, both exits."""
    return NarrativeIndexRetriever(NarrativeIndex(chunks, judge=judge))


def audit_isolation(
    store: ChunkStore,
    make_retriever: Callable[[Iterable[StoredChunk], ListwiseJudge], Retriever] = whole_retriever,
) -> AuditResult:
    """No RESTRICTED id in any snippet, ``prompt_text`` source or judge prompt, probed with its own words.

    A chunk of an open document that says the same as one of a RESTRICTED document is a warning: one of the two labels may
    be wrong, and the text is served from the open one.

    Args:
        store: the chunk store.
        make_retriever: builds what is probed, from chunks of all labels and a judge.
    """
    result = AuditResult()
    with store.connect() as connection:
        key = reference_key(connection)
        _warn_of_shared_texts(connection, result)
        haystack, probes = _sample(store)
    if not probes:
        result.message = "The store holds no RESTRICTED chunk, so there is nothing to probe with."
        return result
    secret_ids = {chunk.chunk_id for chunk in haystack if is_restricted(chunk.sensitivity)}
    secret_documents = {chunk.doc_id for chunk in haystack if is_restricted(chunk.sensitivity)}
    open_texts = {text for chunk in haystack if not is_restricted(chunk.sensitivity) for text in _texts(chunk)}
    secret_texts = {
        text: chunk.doc_id for chunk in haystack if is_restricted(chunk.sensitivity) for text in _texts(chunk)
    }
    judge = RecordingJudge()
    retriever = make_retriever(haystack, judge)
    for probe in probes:
        result.checked += 1
        query = " ".join(dict.fromkeys(tokenize(probe.text)[: 4 * _QUERY_TOKENS]))
        for snippet in retriever.retrieve(query, top_k=20):
            if snippet.get("chunk_id") in secret_ids or snippet.get("doc_id") in secret_documents:
                result.violate(f"{document_reference(str(snippet.get('doc_id')), key)} (snippet)")
            shown = str(snippet.get("prompt_text", ""))
            if shown in secret_texts and shown not in open_texts:
                result.violate(f"{document_reference(secret_texts[shown], key)} (prompt_text)")
        for text in judge.seen:
            if text in secret_texts and text not in open_texts:
                result.violate(f"{document_reference(secret_texts[text], key)} (judge prompt)")
        judge.seen.clear()
    return result.conclude(
        f"{result.checked} probes with RESTRICTED chunks' own words brought none of them out.",
        "probes brought RESTRICTED text out of the retriever. Serve nothing until this is mended.",
    )


# What two texts have in common that differ in letter case, punctuation, marks of Markdown, white space or invisible
# characters. A few letters alone, a page's number or a heading, are no text.
_SAME = "lower(trim(regexp_replace(nfc_normalize(text), '[^\\p{L}\\p{M}\\p{N}]+', ' ', 'g')))"
_SHORT = 12
# The first letters and digits of ASCII cost a fifth of that. Where a text begins with enough of them, and no RESTRICTED text
# with the same, the rest need not be looked at.
_ENOUGH = 16
_LETTERS = "regexp_replace(lower(nfc_normalize({0})), '[^a-z0-9]+', '', 'g')[:{1}]"
_BEGINS = _LETTERS.format("left(text, 120)", _ENOUGH)
_SHARED = f"""
    WITH closed AS (
        SELECT doc_id FROM (SELECT doc_id, sensitivity FROM document UNION ALL SELECT doc_id, sensitivity FROM narrative_chunk)
        GROUP BY doc_id HAVING NOT bool_and(coalesce(sensitivity IN ('PUBLIC', 'INTERNAL', 'CONFIDENTIAL'), FALSE))
    ), closed_text AS MATERIALIZED (
        SELECT md5_number(same) AS text, any_value(begins) AS begins, min(doc_id) AS doc_id FROM (
            SELECT doc_id, {_SAME} AS same, {_LETTERS.format("text", _ENOUGH)} AS begins
            FROM narrative_chunk SEMI JOIN closed USING (doc_id)
        ) WHERE length(same) >= {_SHORT} GROUP BY 1
    ), open_begins AS MATERIALIZED (
        SELECT rowid AS place, {_BEGINS} AS begins FROM narrative_chunk ANTI JOIN closed USING (doc_id)
        WHERE active AND EXISTS (FROM closed_text)
    ), open_text AS (
        SELECT DISTINCT doc_id, md5_number({_SAME}) AS text FROM narrative_chunk WHERE rowid IN (
            SELECT place FROM open_begins WHERE length(begins) < {_ENOUGH} OR begins IN (SELECT begins FROM closed_text)
        )
    )
    SELECT o.doc_id, min(c.doc_id), count(*) FROM open_text o JOIN closed_text c USING (text) GROUP BY 1 ORDER BY 3 DESC, 1
"""


def _warn_of_shared_texts(connection: duckdb.DuckDBPyConnection, result: AuditResult) -> None:
    name = references(connection)
    rows = connection.execute(_SHARED).fetchall()
    result.counts["texts that open and RESTRICTED documents share"] = sum(shared for _, _, shared in rows)
    result.warnings += [
        f"{name(open_id)} says in {shared} chunks what {name(closed_id)} says, which is RESTRICTED, and is served: raise its "
        "label, or lower the other's by a row of metadata.csv."
        for open_id, closed_id, shared in rows
    ]


def _texts(chunk: StoredChunk) -> list[str]:
    return [text for text in (chunk.text, chunk.window_text) if text]


def _sample(store: ChunkStore) -> tuple[list[StoredChunk], list[StoredChunk]]:
    """Draw the chunks to search and those to probe with, the same ones each time.

    A RESTRICTED document is probed with a few of its chunks; the chunks that hold one of their documents' labels are
    read again by id, so that the sample costs no more than it holds.
    """
    with store.connect() as connection:
        secret = connection.execute(
            "SELECT doc_id, seq FROM narrative_chunk WHERE active AND sensitivity NOT IN "
            "('PUBLIC', 'INTERNAL', 'CONFIDENTIAL') ORDER BY md5(? || chunk_id) LIMIT ?",
            [str(_SEED), PROBES],
        ).fetchall()
        hay = connection.execute(
            "SELECT doc_id, seq FROM narrative_chunk WHERE active AND sensitivity IN "
            "('PUBLIC', 'INTERNAL', 'CONFIDENTIAL') ORDER BY md5(? || chunk_id) LIMIT ?",
            [str(_SEED), HAYSTACK if secret else 0],
        ).fetchall()
        chunks = store.read_chunks([*secret, *hay])
    return chunks, [chunk for chunk in chunks if is_restricted(chunk.sensitivity)]
