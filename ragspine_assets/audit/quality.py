"""Proof about `retrieval_quality`: no release was made current that answers worse than it should (SPEC 10.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragspine_assets.audit.result import MAX_EXAMPLES, AuditResult
from ragspine_assets.evaluation.comparison import compare, power_line
from ragspine_assets.evaluation.gate import below_floor, worse
from ragspine_assets.evaluation.measures import MAIN, evaluate
from ragspine_assets.evaluation.questions import GoldenQuestion
from ragspine_assets.serving.publish import current_name_or_none
from ragspine_assets.serving.snapshot import Snapshot
from ragspine_assets.serving.snapshot_files import SnapshotError, worse_name


def audit_release_quality(root: str | Path, questions: Sequence[GoldenQuestion], floor: float = 0.0) -> AuditResult:
    """Ask the current release, and the one that was held back if there is one, every golden question again.

    Args:
        root: folder of the snapshots.
        questions: the golden set.
        floor: lowest mean nDCG@10 of the current release; 0 for none.
    """
    result = AuditResult(checked=len(questions))
    if not questions:
        result.message = (
            "There are no golden questions: set RAGSPINE_QUESTIONS to a file, `ragspine questions` drafts one."
        )
        return result
    root = Path(root)
    try:
        current = Snapshot.open(root)
    except SnapshotError:
        current = None
    held_back = _held_back(root)
    if current is None and held_back is None:
        result.message = "Nothing is published yet, so there is nothing to judge."
        return result
    served = evaluate(current, questions) if current is not None else None
    if served is not None:
        for one in served.stale()[:MAX_EXAMPLES]:
            result.warnings.append(
                f"line {one.question.number} of the questions: what it expects is not in the snapshot, gone or changed"
            )
        result.counts["stale"] = len(served.stale())
        if why := below_floor(served, floor):
            result.violate(served.snapshot)
            result.message = f"The current snapshot {served.snapshot} should not be served: {why}."
    if held_back is not None:
        candidate = evaluate(held_back, questions)
        why = below_floor(candidate, floor) or (worse(compare(served, candidate)) if served is not None else "")
        if why:
            result.violate(candidate.snapshot)
            kept = f"{served.snapshot} stays current" if served is not None else "nothing is current"
            result.message = (
                f"Snapshot {candidate.snapshot} is held back and {kept}: {why}. Repair what made it worse and run again, or "
                f"make it current by hand: `ragspine rollback {candidate.snapshot}`."
            )
        else:
            result.warnings.append(f"snapshot {candidate.snapshot} was held back and need not be: run again")
    if result.passed and served is not None:
        judged = len(served.judged) - len(served.stale())
        result.message = f"{MAIN} is {served.mean():.3f}. {power_line(judged)}"
    return result


def _held_back(root: Path) -> Snapshot | None:
    name = worse_name(root)
    # Somebody may have made it current by hand since.
    if name is None or name == current_name_or_none(root):
        return None
    try:
        return Snapshot.open(root / name)
    except SnapshotError:
        return None
