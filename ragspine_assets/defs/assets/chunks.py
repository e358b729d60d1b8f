"""The asset `chunks`: the text of every document, cut into citable pieces."""

from dagster import AssetExecutionContext, DataVersion, MaterializeResult

from ragspine_assets.config import environment_name
from ragspine_assets.defs.naming import stage
from ragspine_assets.defs.plots import cached_plot, histogram, to_the_pixel
from ragspine_assets.defs.resources import ChunkerResource, StoreResource
from ragspine_assets.defs.tables import column_schema, lines, seconds, table
from ragspine_assets.errors import RagspineError
from ragspine_assets.pipeline import stage_chunks
from ragspine_assets.pipeline.overview import staged_overview

from .raw_documents import raw_documents


class ChunkerRuleError(RagspineError):
    """A chunker broke the rules for chunks on some documents."""


@stage(
    deps=[raw_documents],
    group="ingest",
    kinds={"python", "duckdb"},
    code_version="1",
    description=(
        "The text of every document, cut into chunks that quote it exactly and say which paragraphs and pages they come "
        "from. Staged beside the store's versions; only documents whose text, metadata, label or chunker changed are "
        "cut again."
    ),
)
def chunks(context: AssetExecutionContext, store: StoreResource, chunker: ChunkerResource) -> MaterializeResult:
    """Cut every document whose chunks are out of date (SPEC 2)."""
    with store.open() as chunk_store:
        report = stage_chunks(
            chunk_store,
            chunker.make(),
            max_chars=chunker.max_chars,
            overlap_chars=chunker.overlap_chars,
            progress=context.log.info,
        )
        overview = staged_overview(chunk_store, report.failed)
    if overview.failed:
        for line in overview.failed:
            context.log.error("%s", line)
        raise ChunkerRuleError(
            f"The chunker {report.chunker} broke the rules for chunks (SPEC 2.4) on {len(overview.failed)} documents. "
            f"{overview.failed[0].rstrip('.')}. All others are cut, and these keep the chunks they had. Repair the chunker, or "
            f"choose another with {environment_name('chunker')}; then run again."
        )
    return MaterializeResult(
        data_version=DataVersion(overview.digest),
        metadata={
            "dagster/row_count": overview.chunks,
            "dagster/column_schema": column_schema("staged_chunk"),
            "chunker": report.chunker,
            **{f"documents {outcome}": report.outcomes[outcome] for outcome in
               ("new", "changed", "unchanged", "removed", "failed")},
            "chunk lengths": cached_plot(
                context, "chunk lengths", histogram,
                overview.length_edges, to_the_pixel(overview.length_counts), "Chunks by length", "code points",
            ),
            "largest documents": table(overview.largest, ("document", "chunks", "characters", "pages")),
            "could not be cut": lines(overview.failed, "document"),
            "seconds": seconds(report.seconds),
        },
    )  # fmt: skip
