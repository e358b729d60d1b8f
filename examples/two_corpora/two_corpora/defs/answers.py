"""An asset of the project's own, made from what is published of a corpus."""

from pathlib import Path

from dagster import AssetKey, MaterializeResult, asset

from ragspine_assets.serving import Snapshot

SNAPSHOTS = Path(__file__).parents[2] / "data" / "ragspine" / "handbook.snapshots"


@asset(deps=[AssetKey(["handbook", "serving_snapshot"])], description="Where the handbook says how leave is asked for.")
def leave_answer() -> MaterializeResult:
    """Ask the published handbook one question, and keep the citation."""
    hits = Snapshot.open(SNAPSHOTS).retriever().retrieve("How do I ask for leave?", top_k=1)
    return MaterializeResult(metadata={"citations": len(hits), "first": hits[0]["source_locator"] if hits else "none"})
