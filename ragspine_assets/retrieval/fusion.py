"""Reciprocal rank fusion: one order out of several rankings (SPEC 4.4; Cormack, Clarke and Buettcher 2009)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

RRF_K = 60
"""Damping of the first ranks."""


def rrf_fuse(rankings: Iterable[Sequence[Key]], k: float = RRF_K) -> dict[Key, float]:
    """Return the fused score of everything ranked: the sum of ``1 / (k + rank)`` over the rankings, rank from 1.

    Args:
        rankings: each from best to worst.
        k: damping; the larger, the less the first ranks stand out. Must be above -1.
    """
    fused: dict[Key, float] = {}
    for ranking in rankings:
        for rank, key in enumerate(ranking, start=1):
            fused[key] = fused.get(key, 0.0) + 1.0 / (k + rank)
    return fused
