"""The link: what a snippet is, and what becomes one (SPEC 4.6, 4.7)."""

from __future__ import annotations

import pytest

from ragspine_assets.retrieval import NarrativeIndex, NarrativeIndexRetriever, RetrievalResult
from ragspine_assets.retrieval.context import Snippet
from ragspine_assets_tests.retrieval.doubles import LeakingIndex, chunk

KEYS = [
    "text", "doc_id", "title", "source_locator", "chunk_id", "topic", "entity", "geography", "period", "language",
    "sensitivity", "scores",
]  # fmt: skip


def snippet_ids(snippets: list[Snippet]) -> list[object]:
    """Return the chunk ids of snippets, in order."""
    return [snippet["chunk_id"] for snippet in snippets]


def test_a_snippet_without_a_window_has_just_these_keys_in_this_order() -> None:
    (snippet,) = NarrativeIndexRetriever(NarrativeIndex([chunk("solar")])).retrieve("solar")
    assert list(snippet) == KEYS
    scores = snippet["scores"]
    assert isinstance(scores, dict)
    assert list(scores) == ["bm25", "vector", "fused"]


def test_a_window_is_added_and_the_evidence_stays_the_childs() -> None:
    wide = chunk("solar", window_text="solar and all about it", parent_locator="doc#para1-9")
    (snippet,) = NarrativeIndexRetriever(NarrativeIndex([wide])).retrieve("solar")
    assert list(snippet) == [*KEYS, "prompt_text", "parent_locator"]
    assert (snippet["text"], snippet["source_locator"], snippet["chunk_id"]) == ("solar", "doc#para1", "doc#c0")
    assert (snippet["prompt_text"], snippet["parent_locator"]) == ("solar and all about it", "doc#para1-9")


def test_a_parent_that_is_named_and_not_shown_gives_only_its_locator() -> None:
    (snippet,) = NarrativeIndexRetriever(NarrativeIndex([chunk("solar", parent_locator="doc#para1-9")])).retrieve(
        "solar"
    )
    assert list(snippet) == [*KEYS, "parent_locator"]


def test_unknown_filters_and_empty_values_are_ignored() -> None:
    index = NarrativeIndex([chunk("solar", "a", period="2024"), chunk("solar", "b", period="2025")])
    retriever = NarrativeIndexRetriever(index)
    assert snippet_ids(retriever.retrieve("solar", filters={"colour": "red", "topic": "", "entity": None})) == [
        "a#c0",
        "b#c0",
    ]
    assert snippet_ids(retriever.retrieve("solar", filters={"period": 2024, "colour": "red"})) == ["a#c0"]


def test_a_search_with_filters_is_not_repeated_without_being_asked() -> None:
    index = LeakingIndex([chunk("solar")])
    assert NarrativeIndexRetriever(index).retrieve("solar", filters={"topic": "other"}) == []
    assert len(index.asked) == 1


def test_a_repeated_search_says_that_its_filters_were_relaxed() -> None:
    retriever = NarrativeIndexRetriever(NarrativeIndex([chunk("solar")]), retry_without_filters=True)
    (snippet,) = retriever.retrieve("solar", filters={"topic": "other"})
    assert list(snippet) == [*KEYS, "filters_relaxed"]
    assert snippet["filters_relaxed"] is True
    assert list(retriever.retrieve("solar", filters={"topic": ""})[0]) == KEYS


def test_a_filter_that_only_a_secret_matches_looks_like_one_that_nothing_matches() -> None:
    index = LeakingIndex([chunk("solar", "a"), chunk("secret", "b", sensitivity="RESTRICTED", topic="merger")])
    retriever = NarrativeIndexRetriever(index, retry_without_filters=True)
    answers = [retriever.retrieve("solar", filters={"topic": topic}) for topic in ("merger", "nothing")]
    assert answers[0] == answers[1]


def test_removed_chunks_use_up_no_place() -> None:
    secrets = [chunk("secret", "s", seq, sensitivity="RESTRICTED") for seq in range(100)]
    index = LeakingIndex([*secrets, *(chunk("solar", "p", seq) for seq in range(5))])
    assert snippet_ids(NarrativeIndexRetriever(index).retrieve("solar", top_k=3)) == ["p#c0", "p#c1", "p#c2"]


def test_a_search_for_more_than_there_is_ends() -> None:
    index = LeakingIndex([chunk("secret", "s", seq, sensitivity="RESTRICTED") for seq in range(100)])
    assert NarrativeIndexRetriever(index).retrieve("solar", top_k=3) == []

    class Stubborn(LeakingIndex):
        def retrieve(self, query: str, *, top_k: int = 50, **filters: object) -> list[RetrievalResult]:
            return super().retrieve(query, top_k=max(top_k, 8), **filters)[:8]

    assert NarrativeIndexRetriever(Stubborn(index.chunks)).retrieve("solar", top_k=3) == []


@pytest.mark.parametrize(
    ("max_label", "left"),
    [("PUBLIC", ["a#c0"]), ("internal", ["a#c0", "b#c0"]), ("CONFIDENTIAL", ["a#c0", "b#c0", "c#c0"])],
)
@pytest.mark.parametrize("make", [NarrativeIndex, LeakingIndex])
def test_what_is_above_the_wanted_label_is_removed(
    make: type[NarrativeIndex | LeakingIndex], max_label: str, left: list[str]
) -> None:
    labels = {"a": "PUBLIC", "b": "INTERNAL", "c": "CONFIDENTIAL", "d": "RESTRICTED"}
    index = make([chunk("solar", doc_id, sensitivity=label) for doc_id, label in labels.items()])
    assert snippet_ids(NarrativeIndexRetriever(index, max_label=max_label).retrieve("solar")) == left


@pytest.mark.parametrize("label", ["RESTRICTED", "restricted ", "", "top secret"])
def test_a_retriever_for_restricted_text_is_refused(label: str) -> None:
    with pytest.raises(ValueError, match="max_label must be"):
        NarrativeIndexRetriever(NarrativeIndex(), max_label=label)


@pytest.mark.parametrize("top_k", [0, -3])
def test_no_places_give_no_snippets(top_k: int) -> None:
    assert NarrativeIndexRetriever(LeakingIndex([chunk("solar")])).retrieve("solar", top_k=top_k) == []


def test_postprocessors_run_in_turn_on_what_is_left() -> None:
    class Recording:
        def __init__(self) -> None:
            self.seen: list[object] = []

        def postprocess(self, query: str, snippets: list[Snippet]) -> list[Snippet]:
            self.seen = [query, *snippet_ids(snippets)]
            return snippets[1:]

    first, second = Recording(), Recording()
    index = LeakingIndex([chunk("secret", "s", sensitivity="RESTRICTED"), *(chunk("solar", "p", n) for n in range(3))])
    assert snippet_ids(NarrativeIndexRetriever(index, postprocessor=[first, second]).retrieve("q")) == ["p#c2"]
    assert first.seen == ["q", "p#c0", "p#c1", "p#c2"]
    assert second.seen == ["q", "p#c1", "p#c2"]
    assert snippet_ids(NarrativeIndexRetriever(index, postprocessor=first).retrieve("q")) == ["p#c1", "p#c2"]
