"""Reciprocal rank fusion (SPEC 4.4)."""

from __future__ import annotations

import pytest

from ragspine_assets.retrieval import rrf_fuse


def test_a_score_sums_one_share_per_ranking() -> None:
    fused = rrf_fuse([["a", "b"], ["a", "c", "b"]])
    assert fused == {"a": 2 / 61, "b": 1 / 62 + 1 / 63, "c": 1 / 62}


def test_no_rankings_fuse_to_nothing() -> None:
    assert rrf_fuse([]) == {}
    assert rrf_fuse([[], []]) == {}


def test_damping_can_be_chosen() -> None:
    assert rrf_fuse([["a"]], k=1) == {"a": pytest.approx(0.5)}
