"""The asset `raw_documents`: every file of the source folder, its text, its metadata and its label."""

from dagster import AssetExecutionContext, DataVersion, MaterializeResult

from ragspine_assets.defs.naming import stage
from ragspine_assets.defs.plots import LABEL_COLOURS, cached_plot, stacked_bars
from ragspine_assets.defs.resources import ProfileResource, SnapshotsResource, SourceResource, StoreResource
from ragspine_assets.defs.tables import column_schema, lines, seconds, table
from ragspine_assets.graph import withdraw_documents
from ragspine_assets.pipeline import sync_documents
from ragspine_assets.pipeline.overview import document_overview
from ragspine_assets.serving.publish import withdraw_raised_snapshots

_CHANGES = ("document", "what", "why")


@stage(
    group="ingest",
    kinds={"python", "duckdb"},
    code_version="1",
    description=(
        "Every file of the source folder with its text, metadata and sensitivity label. Files are decoded or parsed in "
        "processes of their own; a file that cannot be read is `failed` with a reason and keeps its last good version. "
        "Only new and changed files are parsed."
    ),
)
def raw_documents(
    context: AssetExecutionContext,
    source: SourceResource,
    store: StoreResource,
    profile: ProfileResource,
    snapshots: SnapshotsResource,
) -> MaterializeResult:
    """Bring the documents of the store up to date with the source folder (SPEC 1)."""
    chunk_store = store.open()
    with chunk_store:
        try:
            report = sync_documents(
                chunk_store,
                source.path,
                metadata=source.metadata_table(),
                policy=profile.load().sensitivity,
                limits=source.limits(),
                workers=source.processes(),
                run_id=context.run_id,
                allow_mass_removal=source.allow_mass_removal,
                allow_lower_labels=source.allow_lower_labels,
                withdraw=withdraw_documents,
                after_raise=lambda connection: withdraw_raised_snapshots(connection, snapshots.path),
                progress=context.log.info,
            )
        finally:
            # A run that was killed between raising a label and deleting what holds the text left it to this one.
            with chunk_store.connect() as connection:
                withdraw_raised_snapshots(connection, snapshots.path)
        overview = document_overview(chunk_store)
    if report.unconfined:
        context.log.warning(
            "This kernel does not keep parsers from %s: a file that takes its parser over could reach them. Linux 5.13 or newer "
            "with Landlock does.",
            " and ".join(f"other {part}" if part == "files" else part for part in report.unconfined),
        )
    # What failed comes first: the table is cut, and nothing else in it needs somebody to act.
    first = sorted(report.changes, key=lambda change: (change.what != "failed", change.what != "no_text"))
    changes = [{"document": c.reference, "what": c.what, "why": c.why} for c in first]
    return MaterializeResult(
        data_version=DataVersion(overview.digest),
        metadata={
            "dagster/row_count": overview.documents,
            "dagster/column_schema": column_schema("document"),
            **{f"documents {outcome}": report.outcomes[outcome] for outcome in
               ("new", "changed", "unchanged", "removed", "failed", "no_text")},
            "labels raised": report.raised,
            "labels lowered": report.lowered,
            "changed documents": table(changes, _CHANGES),
            "documents by status and label": cached_plot(
                context, "documents by status and label", stacked_bars,
                overview.by_status, LABEL_COLOURS, "Documents by status and label",
            ),
            "to look at": lines(report.problems, "what"),
            "passed over": table([{"why": w, "files": n} for w, n in sorted(report.passed_over.items())], ("why", "files")),
            "encodings": table(overview.encodings, ("encoding", "found by", "documents")),
            **({"parsers are not kept from": ", ".join(report.unconfined)} if report.unconfined else {}),
            "seconds": seconds(report.seconds),
        },
    )  # fmt: skip
