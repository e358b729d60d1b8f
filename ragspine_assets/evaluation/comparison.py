"""Whether a release answers worse than another: a paired bootstrap over the questions both can answer (SPEC 10.1, 10.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ragspine_assets.evaluation.measures import MAIN, Evaluation
from ragspine_assets.evaluation.questions import GoldenQuestion

RESAMPLES = 10_000
LEVEL = 0.05
"""How often a release that is as good may be taken for a worse one."""

SMALLEST_LOSS = 0.005
"""A smaller loss of the mean is nobody's concern, however sure it is."""

_SEED = 20


@dataclass(frozen=True)
class Comparison:
    """How a release does beside another.

    Attributes:
        measure: what is compared.
        questions: how many questions count: those that are stale in neither.
        before, after: the means of the two releases over them.
        p_worse: share of resamples in which the new release does not do worse: small where it surely does.
        stale: questions that only the new release cannot answer because their passage is gone or changed.
        worse: the questions that lost, the greatest loss first, each with its values before and after.
    """

    measure: str
    questions: int
    before: float
    after: float
    p_worse: float
    stale: tuple[GoldenQuestion, ...]
    worse: tuple[tuple[GoldenQuestion, float, float], ...]

    @property
    def significant(self) -> bool:
        """Whether the new release is significantly worse."""
        return self.p_worse < LEVEL and self.before - self.after >= SMALLEST_LOSS


def compare(before: Evaluation, after: Evaluation, measure: str = MAIN) -> Comparison:
    """Compare two evaluations of the same golden set, question by question."""
    pairs = [(old, new) for old, new in zip(before.judged, after.judged, strict=True) if not (old.stale or new.stale)]
    olds = np.array([old.values[measure] for old, _ in pairs])
    news = np.array([new.values[measure] for _, new in pairs])
    gains = news - olds
    p_worse = 1.0
    if len(gains) and (gains < 0).any():
        chosen = np.random.default_rng(_SEED).integers(0, len(gains), (RESAMPLES, len(gains)))
        p_worse = float((gains[chosen].mean(axis=1) >= 0).mean())
    lost = [(new.question, old.values[measure], new.values[measure]) for old, new in pairs]
    worse = sorted((row for row in lost if row[2] < row[1]), key=lambda row: (row[2] - row[1], row[0].number))
    stale = [new.question for old, new in zip(before.judged, after.judged, strict=True) if new.stale and not old.stale]
    return Comparison(
        measure,
        len(pairs),
        float(olds.mean()) if len(pairs) else 0.0,
        float(news.mean()) if len(pairs) else 0.0,
        p_worse,
        tuple(stale),
        tuple(worse),
    )


def smallest_visible_loss(questions: int) -> float:
    """Return the smallest loss of a mean that a set of so many questions can show at all; 1 where it shows none.

    That is the loss when just so many questions go from first to not found that a resample holds none of them in less
    than `LEVEL` of all cases.
    """
    for lost in range(1, questions + 1):
        if (1 - lost / questions) ** questions < LEVEL:
            return lost / questions
    return 1.0


def power_line(questions: int) -> str:
    """Say in a sentence what a set of so many questions can show."""
    if not questions:
        return "No question can be judged: the set shows nothing."
    loss = smallest_visible_loss(questions)
    needed = math.ceil(loss * questions)
    return (
        f"{questions} questions show a loss of {loss:.3f} in {MAIN} or more ({needed} of them lost outright); "
        "a smaller one cannot be told from chance. More questions show more."
    )
