"""The probe passes on the real retriever and fails on any that leaks (SPEC 6.3)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ragspine_assets.audit.isolation import Retriever, audit_isolation, whole_retriever
from ragspine_assets.chunking import DocumentMeta, chunk_document, make_chunker
from ragspine_assets.pipeline import stage_chunks
from ragspine_assets.pipeline.versions import activate_staged
from ragspine_assets.policy import SensitivityPolicy
from ragspine_assets.retrieval.rerank import ListwiseJudge
from ragspine_assets.store import ChunkStore, StoredChunk
from ragspine_assets_tests.conftest import Pipeline

Chunks = Iterable[StoredChunk]


@pytest.fixture
def stored(pipeline: Pipeline) -> Pipeline:
    pipeline.policy = SensitivityPolicy(restricted_filename_patterns=["secret"])
    pipeline.write(
        {
            "open.md": "# Open\n\nEverybody may read about turbines here.\n\n# More\n\nBlades and gears.",
            "secret.md": "# Plan\n\nNobody may read about turbines and prices.\n\n# Sums\n\nForty millions.",
        }
    )
    pipeline.intake()
    stage_chunks(pipeline.store, make_chunker("parent_child"))
    activate_staged(pipeline.store)
    return pipeline


def test_the_whole_retriever_brings_nothing_restricted_out(stored: Pipeline) -> None:
    result = audit_isolation(stored.store)
    assert result.passed
    assert result.checked == 2


def test_a_store_without_restricted_chunks_has_nothing_to_probe_with(pipeline: Pipeline) -> None:
    pipeline.write({"open.txt": "Text"})
    pipeline.run()
    result = audit_isolation(pipeline.store)
    assert result.passed
    assert result.checked == 0


class Answers:
    """A retriever that hands out what it is told to."""

    def __init__(self, snippets: Sequence[Mapping[str, object]]) -> None:
        self.snippets = snippets

    def retrieve(
        self, query: str, *, filters: Mapping[str, object] | None = None, top_k: int = 50
    ) -> Sequence[Mapping[str, object]]:
        return self.snippets


def leaks_the_chunk(chunks: Chunks, judge: ListwiseJudge) -> Retriever:
    return Answers([{"chunk_id": c.chunk_id, "doc_id": c.doc_id} for c in chunks])


def leaks_under_a_lower_label(chunks: Chunks, judge: ListwiseJudge) -> Retriever:
    return whole_retriever([replace(chunk, sensitivity="PUBLIC") for chunk in chunks], judge)


def leaks_the_window(chunks: Chunks, judge: ListwiseJudge) -> Retriever:
    window = next(c.window_text for c in chunks if c.doc_id == "secret.md")
    return Answers([{"chunk_id": "open.md#c0", "doc_id": "open.md", "prompt_text": window}])


def leaks_to_the_judge(chunks: Chunks, judge: ListwiseJudge) -> Retriever:
    texts = [c.text for c in chunks]

    class Asks(Answers):
        def retrieve(
            self, query: str, *, filters: Mapping[str, object] | None = None, top_k: int = 50
        ) -> Sequence[Mapping[str, object]]:
            judge.judge(query, texts)
            return []

    return Asks([])


@pytest.mark.parametrize(
    ("leak", "where"),
    [
        (leaks_the_chunk, "snippet"),
        (leaks_under_a_lower_label, "snippet"),
        (leaks_under_a_lower_label, "judge prompt"),
        (leaks_the_window, "prompt_text"),
        (leaks_to_the_judge, "judge prompt"),
    ],
)
def test_a_retriever_that_leaks_is_found_out(
    stored: Pipeline, leak: Callable[[Chunks, ListwiseJudge], Retriever], where: str
) -> None:
    result = audit_isolation(stored.store, leak)
    assert not result.passed
    assert any(example.startswith("doc:") and where in example for example in result.examples)
    assert "secret.md" not in result.message


@pytest.mark.parametrize(
    ("copy", "label", "warned"),
    [
        ("Forty millions are paid for the northern harbour.", "PUBLIC", True),
        ("  forty  MILLIONS are **paid** for\nthe northern harbour ", "CONFIDENTIAL", True),
        ("Forty millions are paid for the southern harbour.", "PUBLIC", False),
        ("「四千万元用于购买\u3000北部港口，尽快完成」", "INTERNAL", False),
        ("「四千万元用于购买北部港口，尽快完成」", "INTERNAL", True),
        ("Forty millions are paid for the northern harbour.", "RESTRICTED", False),
    ],
)
def test_a_text_that_is_open_and_restricted_is_a_warning_that_does_not_quote_it(
    tmp_path: Path, copy: str, label: str, warned: bool
) -> None:
    store = ChunkStore(tmp_path / "s.duckdb")
    texts = {
        "secret.txt": ("Forty millions are paid for the northern harbour.", "RESTRICTED"),
        "copy.txt": (copy, label),
    }
    if not copy.isascii():
        texts["secret.txt"] = ("四千万元用于购买北部港口，尽快完成。", "RESTRICTED")
    for doc_id, (text, said) in texts.items():
        store.replace_doc_chunks(doc_id, chunk_document(text, DocumentMeta(doc_id, sensitivity=said)))
        store.replace_doc_chunks(
            f"page-of-{doc_id}", chunk_document("Page 1.", DocumentMeta(f"page-of-{doc_id}", sensitivity=said))
        )
    result = audit_isolation(store)
    assert result.passed
    assert len(result.warnings) == warned == result.counts["texts that open and RESTRICTED documents share"]
    told = " ".join(result.warnings)
    assert ("copy.txt says in 1 chunks what doc:" in told) == warned
    assert not any(word in told for word in ("secret.txt", "illions", "harbour", "四千万"))
