"""The asset `chunk_store`: the versions of every document's chunks."""

from dagster import AssetExecutionContext, DataVersion, MaterializeResult

from ragspine_assets.defs.naming import stage
from ragspine_assets.defs.plots import LABEL_COLOURS, cached_plot, stacked_bars
from ragspine_assets.defs.resources import StoreResource
from ragspine_assets.defs.tables import column_schema, seconds, table
from ragspine_assets.pipeline import activate_staged
from ragspine_assets.pipeline.overview import store_overview

from .chunks import chunks


@stage(
    deps=[chunks],
    group="ingest",
    kinds={"duckdb"},
    code_version="1",
    description=(
        "Every version of every document's chunks. A document whose staged chunks differ from its active ones gets a new "
        "version; earlier versions stay citable as `{doc_id}@v{version}#c{seq}`."
    ),
)
def chunk_store(context: AssetExecutionContext, store: StoreResource) -> MaterializeResult:
    """Write new versions where staged and active chunks differ (SPEC 3)."""
    with store.open() as opened:
        report = activate_staged(opened)
        overview = store_overview(opened)
    return MaterializeResult(
        data_version=DataVersion(overview.digest),
        metadata={
            "dagster/row_count": overview.active_chunks,
            "dagster/column_schema": column_schema("narrative_chunk"),
            **{f"documents {outcome}": report.outcomes[outcome] for outcome in
               ("new", "changed", "unchanged", "removed")},
            "chunks written": report.chunks_written,
            "chunks of inactive versions": overview.inactive_chunks,
            "chunks by language and label": cached_plot(
                context, "chunks by language and label", stacked_bars,
                overview.by_language, LABEL_COLOURS, "Active chunks by language and label",
            ),
            "newest versions": table(overview.newest, ("document", "version", "chunks")),
            "seconds": seconds(report.seconds),
        },
    )  # fmt: skip
