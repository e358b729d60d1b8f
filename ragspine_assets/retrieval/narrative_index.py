"""Hybrid search over chunks, inside the trust boundary; what leaves goes through the exits (SPEC 4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragspine_assets.chunking.chunk import DEFAULT_MAX_CHARS, DEFAULT_OVERLAP_CHARS, Chunk, DocumentMeta
from ragspine_assets.chunking.enforcement import cut_document
from ragspine_assets.chunking.protocol import Chunker
from ragspine_assets.errors import SettingError
from ragspine_assets.index.analysis import AnalyzerName, make_analyzer
from ragspine_assets.index.lexical import best
from ragspine_assets.policy.lattice import Sensitivity, is_known_label, is_restricted, read_label
from ragspine_assets.retrieval.corpus import FILTER_KEYS, Corpus, build_corpus, version_of
from ragspine_assets.retrieval.embedding import EmbeddingBackend, unit_vectors
from ragspine_assets.retrieval.fusion import RRF_K
from ragspine_assets.retrieval.question import Filters, read_filters, require_question
from ragspine_assets.retrieval.rerank import TOP_N, ListwiseJudge, listwise_rerank
from ragspine_assets.retrieval.rewriting import QueryRewriter, rewritten
from ragspine_assets.store.chunk_store import ChunkStore, StoredChunk

TOP_K = 50
"""How many hits a query gives at most, unless told otherwise."""

# Vectors are compared to this many decimals. How a product is summed up depends on the machine and on where a row lies
# in memory; without rounding, equal texts might differ in the last digit and ties would be broken by it.
_DECIMALS = 6

_Prepared = tuple[Corpus, NDArray[np.float32] | None, NDArray[np.int64] | None]
_FileState = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """A hit.

    Attributes:
        chunk: what was found.
        bm25_score: lexical score (SPEC 4.3), the highest over the variants of the query; 0 if only its vector matched.
        vector_score: cosine similarity, 0 without an embedding backend.
        fused_score: reciprocal rank fusion over all rankings (SPEC 4.4).
        corrected: words of the query that nothing was found by, and the words that were looked for in their place.
    """

    chunk: Chunk
    bm25_score: float = 0.0
    vector_score: float = 0.0
    fused_score: float = 0.0
    corrected: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The version of the document that was found; 1 for a document that is in no store."""
        return version_of(self.chunk)


def servable_label(max_label: str) -> Sensitivity:
    """Return the highest label that may be served.

    Raises:
        SettingError: it is RESTRICTED or no label at all; RESTRICTED text is served to nobody.
    """
    label = read_label(max_label)
    if not is_known_label(max_label) or label is Sensitivity.RESTRICTED:
        message = f"max_label must be PUBLIC, INTERNAL or CONFIDENTIAL, not {max_label!r}"
        raise SettingError(message)
    return label


class NarrativeIndex:
    """Lexical and, with an embedding backend, dense search over the chunks of a store or of memory (SPEC 4).

    A store is read again after it changed, whoever changed it; a prepared `Corpus` is served as it is. RESTRICTED
    chunks never get into the index: their text is in no ranking, no count and no embedding request.

    Args:
        source: a store; or chunks, which are copied; or a prepared corpus; or None for an empty index in memory.
        chunker: cuts what is ingested; None is the default chunker.
        embedding_backend: adds dense scores; each text is embedded once as long as it stays in the index.
        query_rewriter: gives further variants of a query.
        judge: reorders the hits and cuts them to ``top_n`` (SPEC 4.5).
        analyzer: how texts become terms, see `AnalyzerName`; ``plain`` is SPEC 4.2 to the letter.
        max_chars: longest chunk of what is ingested, in code points.
        overlap_chars: most text that neighbouring chunks of what is ingested share, in code points.
        top_n: how many hits are left after a judge.
        collapse_parents: whether only the best child of each section counts. The others take no place of ``top_k``.

    Raises:
        ValueError: there is no such analyzer.
    """

    def __init__(
        self,
        source: ChunkStore | Corpus | Iterable[Chunk] | None = None,
        *,
        chunker: Chunker | None = None,
        embedding_backend: EmbeddingBackend | None = None,
        query_rewriter: QueryRewriter | None = None,
        judge: ListwiseJudge | None = None,
        analyzer: AnalyzerName = "default",
        max_chars: int = DEFAULT_MAX_CHARS,
        overlap_chars: int = DEFAULT_OVERLAP_CHARS,
        top_n: int = TOP_N,
        collapse_parents: bool = False,
    ) -> None:
        self._chunker = chunker
        self._backend = embedding_backend
        self._rewriter = query_rewriter
        self._judge = judge
        self._analyzer = make_analyzer(analyzer)
        self._max_chars = max_chars
        self._overlap_chars = overlap_chars
        self._top_n = top_n
        self._collapse_parents = collapse_parents
        self._store = source if isinstance(source, ChunkStore) else None
        self._corpus = source if isinstance(source, Corpus) else None
        self._documents: dict[str, list[Chunk]] = {}
        self._versions: dict[str, int] = {}
        self._store_state: _FileState | None = None
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._prepared: _Prepared | None = None
        if source is None or isinstance(source, ChunkStore | Corpus):
            return
        for chunk in source:
            self._versions[chunk.doc_id] = max(self._versions.get(chunk.doc_id, 0), version_of(chunk))
            self._documents.setdefault(chunk.doc_id, []).append(chunk)

    def ingest(self, text: str, meta: DocumentMeta, valid_as_of: str = "") -> int:
        """Cut a document and put it in the place of what was known of it, in the store if there is one (SPEC 4.1).

        Args:
            text: the whole document; without any text the document is withdrawn.
            meta: what is known about it.
            valid_as_of: date from which the content holds; ``meta.valid_as_of`` if empty.

        Returns:
            How many chunks it has.

        Raises:
            TypeError: the index serves a prepared corpus, which does not change.
        """
        if self._corpus is not None:
            message = "this index serves a prepared corpus; ingest into the store it was made from"
            raise TypeError(message)
        if valid_as_of:
            meta = replace(meta, valid_as_of=valid_as_of)
        chunks = cut_document(text, meta, self._chunker, max_chars=self._max_chars, overlap_chars=self._overlap_chars)
        if self._store is not None:
            self._store.replace_doc_chunks(meta.doc_id, chunks, valid_as_of=meta.valid_as_of)
            return len(chunks)
        version = self._versions.get(meta.doc_id, 0) + bool(chunks)
        self._versions[meta.doc_id] = version
        # What may not be served is not kept either: nothing here has a use for it.
        closed = any(is_restricted(chunk.sensitivity) for chunk in chunks)
        self._documents[meta.doc_id] = [] if closed else [_stored(chunk, version) for chunk in chunks]
        self._prepared = None
        return len(chunks)

    def retrieve(
        self,
        query: str,
        *,
        top_k: int = TOP_K,
        topic: str | Sequence[str] | None = None,
        entity: str | Sequence[str] | None = None,
        geography: str | Sequence[str] | None = None,
        period: str | Sequence[str] | None = None,
        language: str | Sequence[str] | None = None,
        max_label: str = Sensitivity.CONFIDENTIAL,
    ) -> list[RetrievalResult]:
        """Return the best chunks for a query, best first (SPEC 4.3 to 4.5).

        The filters and ``max_label`` restrict the candidates, not the statistics; an empty filter is none. Equal scores
        are ordered by ``chunk_id``, so that fewer hits are always a prefix of more.

        Args:
            query: the question.
            top_k: how many hits at most. With a judge these are what it may see, and ``top_n`` of them are returned.
            topic: only chunks with this topic, or one of these.
            entity: only chunks with this entity, or one of these.
            geography: only chunks with this geography, or one of these.
            period: only chunks with this period, or one of these.
            language: only chunks with this language, or one of these.
            max_label: highest label a hit may have.

        Raises:
            ValueError: ``max_label`` is RESTRICTED or no label; the embedding backend gave no usable vectors.
            QuestionError: ``query`` is no string, ``top_k`` no whole number, or a filter neither a value nor a list.
        """
        top_k = require_question(query, top_k)
        label = servable_label(max_label)
        given = dict(zip(FILTER_KEYS, (topic, entity, geography, period, language), strict=True))
        filters = read_filters(None, given)
        prepared = self._ready()
        corpus = prepared[0]
        if not len(corpus) or top_k <= 0:
            return []
        results = self._ranked(prepared, query, top_k, filters, label)
        if self._judge is None:
            return results
        return listwise_rerank(query, results, self._judge, top_n=self._top_n)

    def _ranked(
        self, prepared: _Prepared, query: str, top_k: int, filters: Filters, label: Sensitivity
    ) -> list[RetrievalResult]:
        """Return the best hits before a judge sees them."""
        corpus, vectors, parents = prepared
        variants = list(dict.fromkeys([query, *rewritten(self._rewriter, query)]))
        if len(variants) == 1 and vectors is None and parents is None:
            # One ranking is its own order.
            asked, corrected = corpus.read(query, self._analyzer, filters, label)
            order, scores = corpus.search(asked, top_k, filters, label)
            return [
                RetrievalResult(corpus.chunks[position], score, 0.0, 1.0 / (RRF_K + rank), corrected)
                for rank, (position, score) in enumerate(zip(order.tolist(), scores.tolist(), strict=True), start=1)
            ]
        # A ranking that is fused, or loses children of one parent, has to be known beyond its first places.
        allowed = corpus.allowed(filters, label)
        bm25 = np.zeros(len(corpus))
        rankings = []
        meant: dict[str, Sequence[str]] = {}
        for variant in variants:
            asked, others = corpus.read(variant, self._analyzer, filters, label)
            meant |= others
            scores = corpus.lexical.scores(asked)
            rankings.append(best(scores, None, allowed))
            np.maximum(bm25, scores, out=bm25)
        cosine = np.zeros(len(corpus))
        if vectors is not None and self._backend is not None:
            cosine = np.round((vectors @ unit_vectors(self._backend, [query])[0]).astype(np.float64), _DECIMALS)
            # Shifted, since a vector that points away is still a hit: 0 would be none.
            rankings.append(best(cosine + 2.0, None, allowed))
        fused = np.zeros(len(corpus))
        for ranking in rankings:
            fused[ranking] += 1.0 / (RRF_K + np.arange(1, len(ranking) + 1))
        order = rankings[0] if len(rankings) == 1 else best(fused, top_k if parents is None else None)
        if parents is not None:
            _, first = np.unique(parents[order], return_index=True)
            order = order[np.sort(first)][:top_k]
        return [
            RetrievalResult(
                corpus.chunks[position], bm25.item(position), cosine.item(position), fused.item(position), meant
            )
            for position in order.tolist()
        ]

    def _ready(self) -> _Prepared:
        state = self._state_of_store()
        if self._prepared is None or state != self._store_state or (self._store is not None and state is None):
            corpus = self._corpus or build_corpus(self._all_chunks(), self._analyzer)
            vectors = self._embed(corpus.chunks) if self._backend is not None and len(corpus) else None
            self._prepared = corpus, vectors, corpus.parents() if self._collapse_parents else None
            # The state from before the chunks were read: a change in between is seen next time.
            self._store_state = state
        return self._prepared

    def _state_of_store(self) -> _FileState | None:
        if self._store is None or not isinstance(self._store.path, Path):
            return None
        if self._store_state is None:
            # A migration would look like somebody's change.
            self._store.init_schema()
        path = self._store.path
        return tuple(_state_of_file(file) for file in (path, path.with_name(path.name + ".wal")))

    def _all_chunks(self) -> Iterable[Chunk]:
        if self._store is None:
            return (chunk for chunks in self._documents.values() for chunk in chunks)
        return _sharing_windows(self._store.iter_chunks())

    def _embed(self, chunks: Sequence[Chunk]) -> NDArray[np.float32]:
        if self._backend is None:
            return np.zeros((len(chunks), 0), dtype=np.float32)
        known = self._vectors
        new = [text for text in dict.fromkeys(chunk.text for chunk in chunks) if text not in known]
        if new:
            known = known | dict(zip(new, unit_vectors(self._backend, new), strict=True))
        matrix = np.stack([known[chunk.text] for chunk in chunks])
        # Vectors of texts that are gone, perhaps because their label was raised, go with them.
        self._vectors = {chunk.text: row for chunk, row in zip(chunks, matrix, strict=True)}
        return matrix


def _sharing_windows(chunks: Iterable[StoredChunk]) -> Iterable[StoredChunk]:
    """Let neighbours with the same window hold one copy of it; each row of a store comes with its own."""
    window = ""
    for chunk in chunks:
        if chunk.window_text and chunk.window_text == window:
            yield replace(chunk, window_text=window)
        else:
            window = chunk.window_text
            yield chunk


def _stored(chunk: Chunk, version: int) -> StoredChunk:
    return StoredChunk(**{one.name: getattr(chunk, one.name) for one in fields(Chunk)}, version=version)


def _state_of_file(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
