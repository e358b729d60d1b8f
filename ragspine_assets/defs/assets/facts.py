"""The asset `facts`: figures with a source, from CSV or Parquet."""

from collections import Counter
from pathlib import Path

from dagster import DataVersion, MaterializeResult

from ragspine_assets.defs.naming import stage
from ragspine_assets.defs.resources import FactsResource, StoreResource
from ragspine_assets.defs.tables import column_schema, table
from ragspine_assets.graph import fact_table, read_facts, write_facts
from ragspine_assets.pipeline.purge import leave_out_purged

from .chunk_store import chunk_store


@stage(
    # After the versions: a document's facts count by the label of its active chunks, which a lowered label reaches there.
    deps=[chunk_store],
    group="knowledge",
    kinds={"pandas", "duckdb"},
    code_version="1",
    description=(
        "Figures that somebody vouches for: metric, entity, period, value, unit, and the document and place they stand "
        "in. Facts of RESTRICTED documents are left out."
    ),
)
def facts(store: StoreResource, facts_source: FactsResource) -> MaterializeResult:
    """Read the facts and keep those whose document may be named (SPEC 6.1)."""
    with store.open() as chunk_store, chunk_store.connect() as connection:
        rows = read_facts(Path(facts_source.path)) if facts_source.path else fact_table(())
        rows = leave_out_purged(connection, rows)
        report = write_facts(connection, rows)
        by_metric = Counter(
            dict(connection.execute("SELECT metric_code, count(*) FROM fact GROUP BY 1 ORDER BY 1").fetchall())
        )
    return MaterializeResult(
        data_version=DataVersion(report.digest),
        metadata={
            "dagster/row_count": report.rows,
            "dagster/column_schema": column_schema("fact"),
            "facts read": rows.num_rows,
            "facts added": report.added,
            "facts removed": report.removed,
            "left out as RESTRICTED": rows.num_rows - report.rows,
            "facts by metric": table([{"metric": m, "facts": n} for m, n in by_metric.items()], ("metric", "facts")),
        },
    )
