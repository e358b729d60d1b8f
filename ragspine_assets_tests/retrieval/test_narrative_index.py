"""The index inside the trust boundary (SPEC 4.1, 4.3, 4.4)."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.chunking.chunk import DocumentMeta
from ragspine_assets.index.analysis import AnalyzerName, make_analyzer
from ragspine_assets.retrieval import NarrativeIndex, bm25_scores, rrf_fuse, tokenize
from ragspine_assets.retrieval.corpus import build_corpus
from ragspine_assets.store import ChunkStore, StoredChunk
from ragspine_assets_tests.retrieval.doubles import HashingBackend, RecordingJudge, chunk, hit, ids

ENERGY = [
    chunk("solar panel on a roof", "a", entity="e1", period="FY2024"),
    chunk("wind farm and solar farm", "b", entity="e2", period="FY2024"),
    chunk("solar solar solar", "c", entity="e1", period="FY2025"),
]
WORD = st.sampled_from(["solar", "wind", "panel", "farm", "grid", "太阳能", "réseau", "grids"])
TEXTS = st.lists(st.lists(WORD, min_size=1, max_size=6).map(" ".join), max_size=6)


class Variants:
    """A rewriter with fixed answers."""

    def __init__(self, *variants: str) -> None:
        self.variants = list(variants)

    def rewrite(self, query: str) -> list[str]:
        """Return them."""
        del query
        return self.variants


def test_scores_are_bm25_over_all_chunks() -> None:
    found = {result.chunk.doc_id: result.bm25_score for result in NarrativeIndex(ENERGY).retrieve("solar farm")}
    expected = bm25_scores(tokenize("solar farm"), [tokenize(c.text) for c in ENERGY])
    assert found == {c.doc_id: pytest.approx(score, rel=1e-9) for c, score in zip(ENERGY, expected, strict=True)}


def test_filters_restrict_the_candidates_and_not_the_statistics() -> None:
    index = NarrativeIndex(ENERGY)
    unfiltered = {result.chunk.chunk_id: result.bm25_score for result in index.retrieve("solar")}
    filtered = index.retrieve("solar", entity="e1", period="FY2024")
    assert ids(filtered) == ["a#c0"]
    assert filtered[0].bm25_score == unfiltered["a#c0"]


def test_a_filter_compares_exactly_and_an_empty_one_is_none() -> None:
    index = NarrativeIndex(ENERGY)
    assert index.retrieve("solar", entity="E1") == []
    assert len(index.retrieve("solar", entity="", topic=None)) == 3


@pytest.mark.parametrize("query", ["", "   ", "lunar", "?!"])
def test_a_query_without_known_words_finds_nothing(query: str) -> None:
    assert NarrativeIndex(ENERGY).retrieve(query) == []


WORLD = ["カタカナ", "한국어", "ภาษาไทย", "Привет", "مرحبا", "résumé", "ＡＢＣ１２３", "𠮷野家"]


@pytest.mark.parametrize("text", WORLD)
def test_a_text_of_any_script_is_found_by_itself_and_by_its_compatibility_form(text: str) -> None:
    index = NarrativeIndex([chunk(other, "d", number) for number, other in enumerate(WORLD)])
    for query in (text, unicodedata.normalize("NFKC", text), unicodedata.normalize("NFKD", text)):
        assert index.retrieve(query)[0].chunk.text == text


def test_an_empty_index_finds_nothing_and_asks_no_judge() -> None:
    judge = RecordingJudge()
    assert NarrativeIndex(judge=judge, embedding_backend=HashingBackend()).retrieve("solar") == []
    assert judge.calls == 0


@pytest.mark.parametrize("top_k", [-1, 0, 1, 2, 3, 10])
def test_fewer_hits_are_a_prefix_of_more(top_k: int) -> None:
    for index in (NarrativeIndex(ENERGY), NarrativeIndex(ENERGY, embedding_backend=HashingBackend())):
        assert index.retrieve("solar wind", top_k=top_k) == index.retrieve("solar wind")[: max(top_k, 0)]


def test_equal_scores_are_in_natural_order_of_the_ids() -> None:
    chunks = [chunk("solar", "d", seq) for seq in range(12)]
    random.Random(1).shuffle(chunks)
    assert ids(NarrativeIndex(chunks).retrieve("solar")) == [f"d#c{seq}" for seq in range(12)]


@given(TEXTS, st.randoms(use_true_random=False), st.lists(WORD, max_size=3).map(" ".join))
def test_scores_do_not_depend_on_the_order_of_ingestion(texts: list[str], shuffler: random.Random, query: str) -> None:
    documents = [(f"d{number}", text) for number, text in enumerate(texts)]
    one, other = NarrativeIndex(), NarrativeIndex()
    for doc_id, text in documents:
        one.ingest(text, DocumentMeta(doc_id))
    shuffler.shuffle(documents)
    for doc_id, text in documents:
        other.ingest(text, DocumentMeta(doc_id))
    assert one.retrieve(query) == other.retrieve(query)


@pytest.mark.parametrize("in_store", [False, True])
def test_ingesting_a_document_again_replaces_it(tmp_path: Path, *, in_store: bool) -> None:
    index = NarrativeIndex(ChunkStore(tmp_path / "s.duckdb") if in_store else None)
    assert index.ingest("solar one\n\nsolar two", DocumentMeta("d")) == 1
    assert [result.version for result in index.retrieve("solar")] == [1]
    index.ingest("solar three", DocumentMeta("d"))
    assert [(result.chunk.text, result.version) for result in index.retrieve("solar")] == [("solar three", 2)]
    assert index.ingest("", DocumentMeta("d")) == 0
    assert index.retrieve("solar") == []


def test_a_change_of_the_store_by_somebody_else_is_seen(tmp_path: Path) -> None:
    store = ChunkStore(tmp_path / "s.duckdb")
    index = NarrativeIndex(store)
    assert index.retrieve("solar") == []
    ChunkStore(tmp_path / "s.duckdb").replace_doc_chunks("d", [chunk("solar", "d")])
    assert ids(index.retrieve("solar")) == ["d#c0"]
    ChunkStore(tmp_path / "s.duckdb").replace_doc_chunks("d", [chunk("solar", "d", sensitivity="RESTRICTED")])
    assert index.retrieve("solar") == []


def test_a_store_in_memory_is_served_too() -> None:
    index = NarrativeIndex(ChunkStore(":memory:"))
    index.ingest("solar", DocumentMeta("d"))
    assert ids(index.retrieve("solar")) == ["d#c0"]


def test_an_unchanged_store_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ChunkStore(tmp_path / "s.duckdb")
    index = NarrativeIndex(store)
    index.ingest("solar", DocumentMeta("d"))
    first = index.retrieve("solar")
    monkeypatch.setattr(store, "iter_chunks", lambda **_: pytest.fail("read again"))
    assert index.retrieve("solar") == first


def test_neighbours_share_one_copy_of_a_window(tmp_path: Path) -> None:
    store = ChunkStore(tmp_path / "s.duckdb")
    store.replace_doc_chunks("d", [chunk("solar", "d", seq, window_text="the whole section") for seq in range(3)])
    windows = {id(result.chunk.window_text) for result in NarrativeIndex(store).retrieve("solar")}
    assert len(windows) == 1


def test_a_prepared_corpus_is_served_and_takes_nothing_in() -> None:
    index = NarrativeIndex(build_corpus(ENERGY, make_analyzer("default")))
    assert index.retrieve("solar") == NarrativeIndex(ENERGY).retrieve("solar")
    with pytest.raises(TypeError, match="ingest into the store"):
        index.ingest("solar", DocumentMeta("d"))


def test_inactive_versions_are_not_found() -> None:
    old = StoredChunk("d#c0", "d", 0, "solar", "d#para1", 1, 1, version=1, active=False)
    new = StoredChunk("d#c0", "d", 0, "wind", "d#para1", 1, 1, version=2)
    index = NarrativeIndex([new, old])
    assert index.retrieve("solar") == []
    assert [result.version for result in index.retrieve("wind")] == [2]


def test_windows_headings_and_parents_are_not_searched() -> None:
    fields = {"window_text": "wind", "heading": "wind", "parent_id": "wind", "parent_locator": "wind", "title": "wind"}
    backend = HashingBackend()
    assert NarrativeIndex([chunk("solar", "d", **fields)]).retrieve("wind") == []
    NarrativeIndex([chunk("solar", "d", **fields)], embedding_backend=backend).retrieve("solar")
    assert backend.seen == "solar\nsolar"


def test_windows_change_no_hit_no_rank_and_no_score() -> None:
    bare = [chunk(f"solar {n}", "d", n) for n in range(5)]
    wide = [
        chunk(f"solar {n}", "d", n, window_text="solar all", parent_id="d#s0", parent_locator="d#para1-5")
        for n in range(5)
    ]
    key = [(r.chunk.chunk_id, r.bm25_score, r.fused_score) for r in NarrativeIndex(bare).retrieve("solar 3")]
    assert [(r.chunk.chunk_id, r.bm25_score, r.fused_score) for r in NarrativeIndex(wide).retrieve("solar 3")] == key


def test_children_of_one_parent_can_be_collapsed_before_the_cut() -> None:
    children = [chunk("solar power", "a", seq, parent_id="a#s0") for seq in range(10)]
    others = [chunk("solar power plant", doc_id, parent_id="a#s0") for doc_id in ("b", "c")]
    lone = [chunk("solar power plant here", "d", seq) for seq in range(2)]
    index = NarrativeIndex([*children, *others, *lone], collapse_parents=True)
    assert ids(index.retrieve("solar power", top_k=4)) == ["a#c0", "b#c0", "c#c0", "d#c0"]
    assert ids(NarrativeIndex([*children, *others]).retrieve("solar power", top_k=3)) == ["a#c0", "a#c1", "a#c2"]


def test_one_ranking_is_fused_with_itself() -> None:
    assert [result.fused_score for result in NarrativeIndex(ENERGY).retrieve("solar")] == [1 / 61, 1 / 62, 1 / 63]


def test_variants_of_a_query_and_vectors_are_fused_by_rank() -> None:
    backend = HashingBackend()
    index = NarrativeIndex(ENERGY, query_rewriter=Variants("wind farm"), embedding_backend=backend)
    parts = [
        ids(NarrativeIndex(ENERGY).retrieve("solar")),
        ids(NarrativeIndex(ENERGY).retrieve("wind farm")),
    ]
    results = index.retrieve("solar")
    by_vector = sorted(results, key=lambda result: (-result.vector_score, result.chunk.chunk_id))
    fused = rrf_fuse([*parts, ids(by_vector)])
    assert {result.chunk.chunk_id: result.fused_score for result in results} == pytest.approx(fused)
    assert ids(results) == sorted(fused, key=lambda chunk_id: (-fused[chunk_id], chunk_id))
    assert backend.requests[1:] == [["solar"]]


def test_a_variant_equal_to_the_query_counts_once() -> None:
    index = NarrativeIndex(ENERGY, query_rewriter=Variants("solar", "solar"))
    assert index.retrieve("solar") == NarrativeIndex(ENERGY).retrieve("solar")


def test_a_judge_sees_top_k_and_leaves_top_n() -> None:
    judge = RecordingJudge([1, 0])
    index = NarrativeIndex([chunk("solar", "d", seq) for seq in range(20)], judge=judge)
    assert ids(index.retrieve("solar", top_k=15))[:2] == ["d#c1", "d#c0"]
    assert len(judge.seen) == 1 + 15
    assert len(index.retrieve("solar", top_k=15)) == 10
    assert len(NarrativeIndex([chunk("solar", "d", seq) for seq in range(20)]).retrieve("solar", top_k=15)) == 15


def test_labels_above_the_wanted_one_are_no_candidates() -> None:
    index = NarrativeIndex([chunk("solar", "a", sensitivity="CONFIDENTIAL"), chunk("solar", "b", sensitivity="PUBLIC")])
    assert ids(index.retrieve("solar", top_k=1, max_label="INTERNAL")) == ["b#c0"]


@pytest.mark.parametrize("label", ["RESTRICTED", "", "secret"])
def test_a_search_up_to_restricted_is_refused(label: str) -> None:
    with pytest.raises(ValueError, match="max_label"):
        NarrativeIndex(ENERGY).retrieve("solar", max_label=label)


def test_an_unknown_analyzer_is_an_error_that_lists_them() -> None:
    with pytest.raises(ValueError, match="default, stemmed"):
        NarrativeIndex(analyzer="other")  # pyright: ignore[reportArgumentType]


@settings(max_examples=40)
@given(TEXTS, TEXTS, st.lists(WORD, min_size=1, max_size=3).map(" ".join), st.sampled_from(["default", "stemmed"]))
def test_restricted_documents_change_no_score_no_rank_and_no_count(
    texts: list[str], secrets: list[str], query: str, analyzer: AnalyzerName
) -> None:
    public = [chunk(text, f"p{n}") for n, text in enumerate(texts)]
    # Among and between the others in the order of ids.
    hidden = [chunk(text, f"p{n}+", 1, sensitivity="RESTRICTED") for n, text in enumerate(secrets)]
    options = {"analyzer": analyzer, "embedding_backend": HashingBackend(), "query_rewriter": Variants("grid")}
    alone = NarrativeIndex(public, **options).retrieve(query)
    assert NarrativeIndex([*hidden, *public], **options).retrieve(query) == alone


def test_counting_restricted_documents_would_show() -> None:
    public, secret = [chunk("solar", "a"), chunk("wind", "b")], chunk("solar secret", "c")
    assert NarrativeIndex([*public, secret]).retrieve("solar") != NarrativeIndex(public).retrieve("solar")


def test_a_hit_shows_no_text_in_a_log() -> None:
    assert "solar" not in repr(hit(chunk("solar", title="solar", heading="solar", window_text="solar")))


def test_one_closed_chunk_closes_its_document_and_the_windows_of_its_other_chunks() -> None:
    chunks = [
        chunk("open words", "d", 0, sensitivity="INTERNAL", window_text="open words zanzibar secret"),
        chunk("zanzibar secret", "d", 1, sensitivity="RESTRICTED"),
        chunk("open words", "e", 0, sensitivity="INTERNAL"),
        chunk("open words too", "e", 1, sensitivity="CONFIDENTIAL"),
    ]
    index = NarrativeIndex(chunks)
    hits = index.retrieve("open words")
    assert {hit.chunk.doc_id for hit in hits} == {"e"}
    assert {hit.chunk.sensitivity for hit in hits} == {"CONFIDENTIAL"}
