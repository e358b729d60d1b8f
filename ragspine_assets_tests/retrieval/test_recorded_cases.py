"""What the public library answers, recorded (tokens, BM25, fusion, answers of a judge, snippets)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragspine_assets.retrieval import RetrievalResult, bm25_scores, parse_listwise_response, rrf_fuse, tokenize
from ragspine_assets.retrieval.narrative_link import _to_snippet
from ragspine_assets.store import StoredChunk

Read = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def recorded(shared: Path) -> Read:
    """Return the recorded cases of a kind."""

    def read(kind: str) -> list[dict[str, Any]]:
        lines = (shared / "cases" / "oracle" / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()
        assert lines
        return [json.loads(line) for line in lines]

    return read


def test_tokens_are_equal(recorded: Read) -> None:
    for case in recorded("tokenize"):
        assert tokenize(case["text"]) == case["tokens"], case["id"]


def test_bm25_scores_are_equal(recorded: Read) -> None:
    for case in recorded("bm25"):
        scores = bm25_scores(tokenize(case["query"]), list(map(tokenize, case["docs"])), case["k1"], case["b"])
        assert scores == pytest.approx(case["scores"], rel=1e-9), case["id"]


def test_fused_scores_are_equal(recorded: Read) -> None:
    for case in recorded("rrf"):
        assert rrf_fuse(case["rankings"], case["k"]) == case["fused"], case["id"]


def test_orders_of_a_judge_are_equal(recorded: Read) -> None:
    for case in recorded("listwise"):
        assert parse_listwise_response(case["text"], case["n"]) == case["order"], case["id"]


def test_snippets_are_equal_key_by_key(recorded: Read) -> None:
    for case in recorded("snippets"):
        snippet = _to_snippet(RetrievalResult(StoredChunk(**case["chunk"]), *case["scores"]))
        assert snippet == case["snippet"], case["id"]
        assert list(snippet) == case["key_order"], case["id"]
