"""The check on `retrieval_quality`."""

from ragspine_assets.audit.quality import audit_release_quality
from ragspine_assets.audit.result import AuditResult
from ragspine_assets.defs.resources import QuestionsResource, SnapshotsResource

from .verdicts import Check


def _no_worse(snapshots: SnapshotsResource, questions: QuestionsResource) -> AuditResult:
    """Ask all questions again (SPEC 10.2)."""
    return audit_release_quality(snapshots.path, questions.read(), questions.floor)


QUALITY_CHECKS = (
    Check(
        "release_answers_no_worse",
        "No snapshot is held back because it answers the golden questions significantly worse than the current one (paired "
        "bootstrap, 5 percent) or below the floor, and the current one is above it.",
        _no_worse,
    ),
)
