"""Whether a new release may become the current one (SPEC 10.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragspine_assets.evaluation.comparison import Comparison, compare
from ragspine_assets.evaluation.measures import MAIN, Evaluation, evaluate_once
from ragspine_assets.evaluation.questions import GoldenQuestion
from ragspine_assets.serving.snapshot import Snapshot

MANY_STALE, MANY_STALE_SHARE = 10, 0.4
"""So many questions that lose their passage in one release, and such a share of all, are no editing of texts."""


@dataclass(frozen=True)
class QualityGate:
    """Holds back a release that answers a golden set worse than the current one, or below a floor.

    Attributes:
        questions: the golden set; without any, nothing is held back.
        floor: lowest mean nDCG@10 of a release; 0 for none.
    """

    questions: Sequence[GoldenQuestion]
    floor: float = 0.0

    def __call__(self, candidate: Snapshot, current: Snapshot | None) -> str:
        """Return why a release is not to be current, ``''`` if it may be.

        Args:
            candidate: the new release, built and proved.
            current: what is served; None where nothing is, or where it is withdrawn.
        """
        if not self.questions:
            return ""
        after = evaluate_once(candidate, self.questions)
        if why := below_floor(after, self.floor):
            return why
        if current is None:
            return ""
        return worse(compare(evaluate_once(current, self.questions), after))


def below_floor(evaluation: Evaluation, floor: float) -> str:
    """Return in a sentence that an evaluation is below a floor, ``''`` if it is not."""
    mean = evaluation.mean()
    if not floor or len(evaluation.stale()) == len(evaluation.judged) or mean >= floor:
        return ""
    return f"its {MAIN} on the golden set is {mean:.3f}, below the floor of {floor:.3f}"


def worse(comparison: Comparison) -> str:
    """Return in a sentence that a release is significantly worse, ``''`` if it is not.

    Stale questions are no loss. But where texts were mixed up, the set loses its ground all at once, and nobody could tell.
    """
    gone, all_of_them = len(comparison.stale), comparison.questions + len(comparison.stale)
    if gone >= MANY_STALE and gone >= MANY_STALE_SHARE * all_of_them:
        return (
            f"{gone} of {all_of_them} golden questions find nothing any more of the passage they expect: texts are mixed up, "
            "or were all rewritten and the questions have to follow"
        )
    if not comparison.significant:
        return ""
    numbers = ", ".join(str(question.number) for question, _, _ in comparison.worse[:10])
    return (
        f"its {comparison.measure} on the golden set is {comparison.after:.3f}, significantly below "
        f"{comparison.before:.3f} of the current one (p = {comparison.p_worse:.3f}, {comparison.questions} questions; "
        f"worse are those of lines {numbers})"
    )
