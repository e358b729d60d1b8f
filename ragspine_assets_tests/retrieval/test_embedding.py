"""Dense scores (SPEC 4.4)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ragspine_assets.retrieval import EmbeddingBackend, NarrativeIndex
from ragspine_assets.retrieval.embedding import BATCH, unit_vectors
from ragspine_assets_tests.retrieval.doubles import HashingBackend, chunk, ids


class Fixed:
    """Answers the same array, whatever it is asked."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def embed_texts(self, texts: list[str]) -> NDArray[np.float32]:
        """Return it."""
        del texts
        return self.answer  # pyright: ignore[reportReturnType]


def test_a_backend_is_recognised_by_its_method() -> None:
    assert isinstance(HashingBackend(), EmbeddingBackend)
    assert not isinstance(object(), EmbeddingBackend)


def test_vectors_have_length_one_and_zero_stays_zero() -> None:
    vectors = unit_vectors(Fixed(np.array([[3, 4], [0, 0]], dtype=np.float32)), ["a", "b"])
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]


@pytest.mark.parametrize(
    "answer", [np.zeros(2), np.zeros((1, 2)), np.zeros((3, 2)), [[np.nan, 1], [1, 1]], [[np.inf, 1], [1, 1]]]
)
def test_an_answer_of_another_shape_is_an_error_that_quotes_no_text(answer: object) -> None:
    with pytest.raises(ValueError, match="Fixed") as caught:
        unit_vectors(Fixed(answer), ["some text", "b"])
    assert "some text" not in str(caught.value)


def test_texts_are_embedded_in_bounded_requests() -> None:
    backend = HashingBackend()
    assert unit_vectors(backend, [f"text {n}" for n in range(BATCH + 1)]).shape == (BATCH + 1, backend.dimensions)
    assert [len(request) for request in backend.requests] == [BATCH, 1]


def test_the_query_is_embedded_once_and_a_text_once_as_long_as_it_stays() -> None:
    backend = HashingBackend()
    index = NarrativeIndex([chunk("solar panel", "a"), chunk("wind farm", "b")], embedding_backend=backend)
    index.retrieve("solar")
    index.retrieve("wind")
    assert backend.requests == [["solar panel", "wind farm"], ["solar"], ["wind"]]


def test_a_chunk_without_a_query_word_is_found_by_its_vector() -> None:
    class Meaning(HashingBackend):
        def embed_texts(self, texts: list[str]) -> NDArray[np.float32]:
            return np.array(
                [[1, 0] if "sun" in text or "solar" in text else [0, 1] for text in texts], dtype=np.float32
            )

    index = NarrativeIndex([chunk("solar panel", "a"), chunk("wind farm", "b")], embedding_backend=Meaning())
    first = index.retrieve("sun")[0]
    assert (first.chunk.doc_id, first.bm25_score, first.vector_score) == ("a", 0.0, 1.0)


def test_equal_texts_tie_by_id_whatever_their_place_in_memory() -> None:
    index = NarrativeIndex(
        [chunk("same words here", "d", seq) for seq in range(37)], embedding_backend=HashingBackend(7)
    )
    assert ids(index.retrieve("words here", top_k=37)) == [f"d#c{seq}" for seq in range(37)]
