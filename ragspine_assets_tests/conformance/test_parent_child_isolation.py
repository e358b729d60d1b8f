"""Promise: a RESTRICTED child is refused whole, and its parent's text with it (SPEC 2.6, 4.7)."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from ragspine_assets.chunking import Chunker, DocumentMeta, make_chunker
from ragspine_assets.retrieval import (
    NarrativeIndex,
    NarrativeIndexRetriever,
    build_context,
    listwise_rerank,
    narrative_link,
)
from ragspine_assets.retrieval.context import SentenceCompressor
from ragspine_assets.store import ChunkStore
from ragspine_assets_tests.retrieval.doubles import HashingBackend, LeakingIndex, RecordingJudge, chunk, hit

CHUNKERS = [
    "none", "default", "layout", "laws", "qa", "book", "parent_child", "parent-child", "small_to_big", "small-to-big",
    "sentence_window", "sentence-window",
]  # fmt: skip
SHARED_LINES = "1. Outlook\nSolar output grows in the north. Prices follow.\n"
OPEN_TEXT = SHARED_LINES + "Wind output is flat.\n2. Staff\nNothing new in the south."
SECRET_TEXT = SHARED_LINES + "Zanzibar is to be bought.\n2. Zanzibar\nThe price of zanzibar is settled."
QUERIES = ["solar output", "zanzibar", "price settled bought", "outlook prices follow"]
DISGUISES = ["RESTRICTED", " restricted\n", "ＲＥＳＴＲＩＣＴＥＤ", "Restric\u200bted", "", "secret"]


def assert_nothing_of_it_leaves(outside: object) -> None:
    """The promise: of the secret document nothing is in what left."""
    assert "zanzibar" not in repr(outside).lower()
    assert "secret.md" not in repr(outside)


def _probe(index: NarrativeIndex | LeakingIndex, *seen: RecordingJudge | HashingBackend) -> None:
    retriever = NarrativeIndexRetriever(index, postprocessor=SentenceCompressor())
    plain = NarrativeIndexRetriever(index)
    for query in QUERIES:
        snippets = [*retriever.retrieve(query, top_k=5), *plain.retrieve(query, top_k=5)]
        assert_nothing_of_it_leaves((snippets, build_context(snippets), build_context(snippets, budget_chars=300)))
    assert plain.retrieve("solar output")
    for witness in seen:
        shown = witness.seen.splitlines() if isinstance(witness, HashingBackend) else witness.seen
        assert_nothing_of_it_leaves([text for text in shown if text not in QUERIES])


@pytest.mark.parametrize("label", DISGUISES)
@pytest.mark.parametrize("spec", CHUNKERS)
def test_a_restricted_document_takes_its_windows_down_with_it(
    spec: str, label: str, caplog: pytest.LogCaptureFixture
) -> None:
    judge, backend = RecordingJudge(), HashingBackend()
    index = NarrativeIndex(
        chunker=make_chunker(spec), judge=judge, embedding_backend=backend, max_chars=60, overlap_chars=0
    )
    with caplog.at_level(logging.DEBUG):
        index.ingest(OPEN_TEXT, DocumentMeta("open.md"))
        index.ingest(SECRET_TEXT, DocumentMeta("secret.md", sensitivity=label))
        _probe(index, judge, backend)
    assert judge.calls
    assert_nothing_of_it_leaves(caplog.text)


@pytest.mark.parametrize("spec", ["parent_child", "sentence_window"])
def test_so_it_is_through_a_store(spec: str, tmp_path: Path) -> None:
    index = NarrativeIndex(ChunkStore(tmp_path / "s.duckdb"), chunker=make_chunker(spec), max_chars=60, overlap_chars=0)
    index.ingest(OPEN_TEXT, DocumentMeta("open.md"))
    index.ingest(SECRET_TEXT, DocumentMeta("secret.md", sensitivity="RESTRICTED"))
    _probe(index)


def _children(spec: str, doc_id: str, text: str, sensitivity: str) -> list[narrative_link.RetrievalResult]:
    chunker = make_chunker(spec)
    assert isinstance(chunker, Chunker)
    meta = DocumentMeta(doc_id, sensitivity=sensitivity)
    made = chunker.chunk(text, meta, max_chars=60, overlap_chars=0)
    assert all(child.window_text for child in made)
    return [
        hit(replace(chunk(child.text, doc_id, child.seq, sensitivity=sensitivity, window_text=child.window_text)))
        for child in made
    ]


def _leaking(spec: str) -> LeakingIndex:
    hits = [
        *_children(spec, "secret.md", SECRET_TEXT, "RESTRICTED"),
        *_children(spec, "open.md", OPEN_TEXT, "INTERNAL"),
    ]
    return LeakingIndex([result.chunk for result in hits])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("spec", ["parent_child", "sentence_window"])
def test_an_index_that_leaks_restricted_children_gets_nothing_out(spec: str) -> None:
    _probe(_leaking(spec))


@pytest.mark.parametrize("spec", ["parent_child", "sentence_window"])
def test_without_the_exit_the_window_would_leave(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrative_link, "_exit", lambda hits, max_label: list(hits))
    with pytest.raises(AssertionError):
        _probe(_leaking(spec))


def test_taking_only_the_window_away_would_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        narrative_link,
        "_exit",
        lambda hits, max_label: [replace(h, chunk=replace(h.chunk, window_text="")) for h in hits],
    )
    with pytest.raises(AssertionError):
        _probe(_leaking("parent_child"))


def test_a_judge_is_shown_neither_a_restricted_child_nor_any_window() -> None:
    judge = RecordingJudge()
    hits = [
        *_children("parent_child", "secret.md", SECRET_TEXT, "RESTRICTED"),
        *_children("parent_child", "open.md", OPEN_TEXT, "INTERNAL"),
    ]
    listwise_rerank("q", hits, judge)
    assert_nothing_of_it_leaves(judge.seen)
    assert not any(
        result.chunk.window_text in judge.seen for result in hits if result.chunk.window_text != result.chunk.text
    )


def test_a_shared_section_is_shown_from_the_open_document_only() -> None:
    snippets = NarrativeIndexRetriever(_leaking("parent_child")).retrieve("solar", top_k=9)
    assert {snippet["doc_id"] for snippet in snippets} == {"open.md"}
    assert all(str(snippet["prompt_text"]) in OPEN_TEXT for snippet in snippets)


def test_a_document_shorter_than_a_chunk_is_its_own_parent() -> None:
    index = NarrativeIndex(chunker=make_chunker("parent_child"))
    index.ingest("Tiny.", DocumentMeta("t"))
    (snippet,) = NarrativeIndexRetriever(index).retrieve("tiny")
    assert (snippet["text"], snippet["prompt_text"], snippet["parent_locator"]) == ("Tiny.", "Tiny.", "t#para1")
