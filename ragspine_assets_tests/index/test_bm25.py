"""BM25 by definition, and the index that must agree with it (SPEC 4.3)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from ragspine_assets.index.lexical import LexicalIndex, best
from ragspine_assets.natural_order import natural_key
from ragspine_assets.retrieval import bm25_scores

TOKEN = st.sampled_from(["solar", "wind", "panel", "farm", "grid", "a", "b"])
DOCUMENTS = st.lists(st.lists(TOKEN, max_size=12), max_size=12)
QUERY = st.lists(st.one_of(TOKEN, st.just("unheard")), max_size=6)


class Reference(BM25Okapi):
    """rank-bm25 with the idf of SPEC 4.3."""

    def _calc_idf(self, nd: dict[str, int]) -> None:
        for word, df in nd.items():
            self.idf[word] = math.log(1 + (self.corpus_size - df + 0.5) / (df + 0.5))


def reference(query: list[str], documents: list[list[str]]) -> list[float]:
    """Return rank-bm25's scores; it cannot do with a corpus without tokens."""
    if not any(documents):
        return [0.0] * len(documents)
    return Reference(documents, k1=1.5, b=0.75).get_scores(query).tolist()


@given(QUERY, DOCUMENTS)
def test_scores_are_those_of_rank_bm25(query: list[str], documents: list[list[str]]) -> None:
    assert bm25_scores(query, documents) == pytest.approx(reference(query, documents), rel=1e-9)


@given(QUERY, DOCUMENTS)
def test_the_index_agrees_with_rank_bm25(query: list[str], documents: list[list[str]]) -> None:
    scores = LexicalIndex(documents).scores(query)
    assert scores.tolist() == pytest.approx(reference(query, documents), rel=1e-9)


def test_an_index_in_single_precision_would_not_agree() -> None:
    documents = [["solar"] * n + ["wind"] * (n % 3) for n in range(1, 40)]
    scores = LexicalIndex(documents).scores(["solar", "wind"]).astype(np.float32)
    assert scores.tolist() != pytest.approx(reference(["solar", "wind"], documents), rel=1e-9)


@given(QUERY, DOCUMENTS)
def test_a_saved_index_scores_as_before(
    tmp_path_factory: pytest.TempPathFactory, query: list[str], documents: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("index")
    index = LexicalIndex(documents)
    index.save(folder)
    loaded = LexicalIndex.open(folder)
    assert len(loaded) == len(documents)
    assert loaded.scores(query).tolist() == index.scores(query).tolist()


def test_a_loaded_index_is_memory_mapped(tmp_path: Path) -> None:
    LexicalIndex([["solar"]]).save(tmp_path)
    loaded = LexicalIndex.open(tmp_path)
    assert loaded._bm25 is not None
    arrays = [loaded._bm25.scores[name] for name in ("data", "indices", "indptr")]
    assert not any(array.flags.owndata or array.flags.writeable for array in arrays)


@pytest.mark.parametrize("damage", ["lexical.json", "params.index.json", "data.csc.index.npy"])
def test_an_incomplete_index_is_refused_with_a_cure(tmp_path: Path, damage: str) -> None:
    LexicalIndex([["solar"]]).save(tmp_path)
    (tmp_path / damage).unlink()
    with pytest.raises(ValueError, match="build it again"):
        LexicalIndex.open(tmp_path)


def test_an_index_of_another_format_is_refused_with_a_cure(tmp_path: Path) -> None:
    LexicalIndex([["solar"]]).save(tmp_path)
    (tmp_path / "lexical.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="format 99"):
        LexicalIndex.open(tmp_path)


def test_the_only_document_has_a_positive_score() -> None:
    assert bm25_scores(["solar"], [["solar", "panel"]])[0] > 0


def test_no_documents_and_no_query_give_no_scores() -> None:
    assert bm25_scores(["solar"], []) == []
    assert bm25_scores([], [["solar"]]) == [0.0]
    assert bm25_scores(["solar"], [[]]) == [0.0]


def test_a_repeated_query_term_counts_again() -> None:
    once, twice = (bm25_scores(["solar"] * n, [["solar"], ["wind"]])[0] for n in (1, 2))
    assert twice == pytest.approx(2 * once)


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 2.5]), max_size=400), st.integers(0, 420), st.integers(0, 3))
def test_the_best_are_a_prefix_of_the_full_order(scores: list[float], top_k: int, stride: int) -> None:
    allowed = np.array([stride == 0 or position % stride == 0 for position in range(len(scores))], dtype=bool)
    order = sorted(
        (p for p, score in enumerate(scores) if score > 0 and allowed[p]),
        key=lambda position: (-scores[position], position),
    )
    assert best(np.array(scores), top_k, allowed).tolist() == order[:top_k]
    assert best(np.array(scores), None, allowed).tolist() == order


def test_ids_are_in_natural_order() -> None:
    names = ["a#c2", "a#c10", "a#c1", "a10#c0", "a2#c0", "a#c02", "a"]
    assert sorted(names, key=natural_key) == ["a", "a2#c0", "a10#c0", "a#c1", "a#c02", "a#c2", "a#c10"]


@given(st.lists(st.text("ab0129#c", max_size=6), unique=True))
def test_natural_order_is_total(names: list[str]) -> None:
    assert len({natural_key(name) for name in names}) == len(names)


def test_very_long_numbers_in_an_id_are_no_obstacle() -> None:
    assert natural_key("c" + "9" * 5000) < natural_key("c1" + "0" * 5000)
