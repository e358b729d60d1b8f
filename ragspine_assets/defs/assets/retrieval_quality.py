"""The asset `retrieval_quality`: how well what is published answers the golden questions."""

from dagster import AssetExecutionContext, AssetKey, MaterializeResult

from ragspine_assets.defs.naming import stage
from ragspine_assets.defs.plots import cached_plot, course
from ragspine_assets.defs.resources import QuestionsResource, SnapshotsResource
from ragspine_assets.defs.tables import lines, table
from ragspine_assets.evaluation.comparison import compare, power_line
from ragspine_assets.evaluation.measures import MAIN, Evaluation, evaluate_once, measure_names
from ragspine_assets.serving import Snapshot, SnapshotError

from .serving_snapshot import serving_snapshot

_RUNS = 50
_HISTORY = "values so far"


@stage(
    deps=[serving_snapshot],
    group="serving",
    kinds={"python"},
    code_version="1",
    description=(
        "The golden questions, asked of the current snapshot: nDCG@10, recall, MRR and the share of the expected passage that "
        "arrives in a context, by language, label and topic. Questions whose passage is gone or changed are stale and do not "
        "count. A new snapshot that answers significantly worse is held back."
    ),
)
def retrieval_quality(
    context: AssetExecutionContext, snapshots: SnapshotsResource, questions: QuestionsResource
) -> MaterializeResult:
    """Judge what is published (SPEC 10.1)."""
    golden = questions.read()
    if not golden:
        return MaterializeResult(metadata={"to do": "Set RAGSPINE_QUESTIONS; `ragspine questions` drafts a set."})
    try:
        snapshot = Snapshot.open(snapshots.path)
    except SnapshotError:
        return MaterializeResult(metadata={"questions": len(golden), "to look at": "Nothing is published."})
    now = evaluate_once(snapshot, golden)
    before = _former(snapshots.path, now)
    values = [*_values_so_far(context, context.asset_key)[-(_RUNS - 1) :], round(now.mean(), 4)]
    compared = compare(before, now) if before is not None else None
    rows = now.table()
    return MaterializeResult(
        metadata={
            MAIN: round(now.mean(), 4),
            **{name: round(now.mean(name), 4) for name in measure_names()[1:]},
            "by language, label and topic": table(rows, ("by", "value", "questions", *measure_names())),
            f"{MAIN} so far": cached_plot(context, f"{MAIN} so far", course, tuple(values), f"{MAIN} of the last runs"),
            "questions that got worse": table(
                [
                    {"line": question.number, "question": question.text, "before": round(old, 3), "now": round(new, 3)}
                    for question, old, new in (compared.worse if compared else ())
                ],
                ("line", "question", "before", "now"),
            ),
            "stale questions": lines([f"line {one.question.number}" for one in now.stale()], "where"),
            "what this set can show": power_line(len(now.judged) - len(now.stale())),
            "questions": len(golden),
            "snapshot": now.snapshot,
            _HISTORY: " ".join(map(str, values)),
        }
    )


def _former(root: str, now: Evaluation) -> Evaluation | None:
    """Evaluate the newest kept snapshot but the current one."""
    from pathlib import Path

    from ragspine_assets.serving.snapshot_files import snapshot_folders, worse_name

    held_back = worse_name(Path(root))
    for folder in reversed(snapshot_folders(Path(root))):
        if folder.name in (now.snapshot, held_back):
            continue
        try:
            return evaluate_once(Snapshot.open(folder), [one.question for one in now.judged])
        except SnapshotError:
            continue
    return None


def _values_so_far(context: AssetExecutionContext, key: AssetKey) -> list[float]:
    last = context.instance.get_latest_materialization_event(key)
    event = last.asset_materialization if last is not None else None
    value = event.metadata.get(_HISTORY) if event is not None else None
    return [float(part) for part in str(value.value).split()] if value is not None else []
