"""The asset `serving_snapshot`: what applications read."""

from dagster import AssetCheckKey, AssetExecutionContext, DagsterInstance, DataVersion, MaterializeResult

from ragspine_assets.defs.naming import Naming, stage
from ragspine_assets.defs.plots import LABEL_COLOURS, cached_plot, stacked_bars
from ragspine_assets.defs.resources import ProfileResource, QuestionsResource, SnapshotsResource, StoreResource
from ragspine_assets.defs.tables import arrow_schema, seconds, table
from ragspine_assets.evaluation.gate import QualityGate
from ragspine_assets.serving import PublishReport, publish_snapshot
from ragspine_assets.serving.chunk_table import SCHEMA

from .chunk_store import chunk_store
from .relation_graph import relation_graph

_FAILED = {"FAILED", "EXECUTION_FAILED"}


@stage(
    deps=[chunk_store, relation_graph],
    group="serving",
    kinds={"arrow"},
    code_version="1",
    description=(
        "An immutable folder that applications read: servable chunks, their lexical index and the graph view, "
        "memory-mapped. It holds nothing above its highest label, RESTRICTED never; readers wait for no writer."
    ),
)
def serving_snapshot(
    context: AssetExecutionContext,
    store: StoreResource,
    snapshots: SnapshotsResource,
    profile: ProfileResource,
    questions: QuestionsResource,
) -> MaterializeResult:
    """Publish what may be served now, where it differs from what is published (SPEC 6.6, 10.2)."""
    with store.open() as opened:
        report = publish_snapshot(
            opened,
            snapshots.path,
            max_label=snapshots.max_label,
            analyzer=snapshots.analyzer,
            keep=snapshots.keep,
            failed_checks=failed_upstream_checks(context.instance, Naming.around(context.asset_key)),
            profile=profile.load(),
            levels=snapshots.wanted_levels(),
            signing_key=snapshots.signing_key or None,
            gate=QualityGate(questions.read(), questions.floor),
        )
    if report.why_held_back:
        context.log.warning(
            "Snapshot %s is held back: %s. What was current stays so. `ragspine rollback %s` makes it current by hand.",
            report.held_back,
            report.why_held_back,
            report.held_back,
        )
    return _shown(context, report, snapshots.path)


def _shown(context: AssetExecutionContext, report: PublishReport, folder: str) -> MaterializeResult:
    manifest, counts = report.manifest, report.manifest.counts
    labels = {label: counts.get(f"chunks {label}", 0) for label in LABEL_COLOURS}
    sizes: dict[str, int] = {}
    for name, entry in manifest.files.items():
        part = name.partition("/")[0].removesuffix(".arrow")
        sizes[part] = sizes.get(part, 0) + entry.bytes
    return MaterializeResult(
        data_version=DataVersion(manifest.digest),
        metadata={
            "dagster/row_count": counts["chunks"],
            "dagster/column_schema": arrow_schema(SCHEMA),
            "published": report.published,
            **({"why it is held back": report.why_held_back} if report.why_held_back else {}),
            "snapshot": f"{folder}/{manifest.name}",
            "highest label": manifest.max_label,
            "held back": report.held_back or "nothing",
            "also indexed up to": ", ".join(manifest.levels) or "no other label",
            "analyzer": manifest.analyzer,
            **{f"documents {outcome}": report.documents.get(outcome, 0) for outcome in ("new", "changed", "unchanged", "gone")},
            **{part: counts[part] for part in ("documents", "nodes", "edges", "evidence")},
            "chunks whose terms were found": report.chunks_read,
            "chunks whose terms were known": report.chunks_reused,
            "snapshots deleted because a label was raised": len(report.withdrawn),
            "snapshots deleted because there are newer ones": len(report.pruned),
            "bytes": report.bytes,
            "parts": table([{"part": part, "bytes": size} for part, size in sorted(sizes.items())], ("part", "bytes")),
            "chunks by label": cached_plot(
                context, "chunks by label", stacked_bars, {"chunks": labels}, LABEL_COLOURS, "Published chunks by label"
            ),
            "seconds": seconds(report.seconds),
        },
    )  # fmt: skip


def failed_upstream_checks(instance: DagsterInstance, naming: Naming) -> list[str]:
    """Return the blocking checks of what a snapshot is made from that failed when they ran last, sorted (SPEC 6.6).

    Dagster stops what is downstream of a failed check only within its own run.
    """
    # The checks import the assets.
    from ragspine_assets.defs.checks import ALL_CHECKS

    keys = [
        AssetCheckKey(naming.asset_key(stage), check.name)
        for stage, checks in ALL_CHECKS.items()
        if stage not in (serving_snapshot.name, "retrieval_quality")
        for check in checks
    ]
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    return sorted(_name(key) for key, record in records.items() if record.status.value in _FAILED)


def _name(key: AssetCheckKey) -> str:
    return f"{key.asset_key.to_user_string()}: {key.name}"
