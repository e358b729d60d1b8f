"""The asset `relation_graph`: who is named where, and what belongs to what."""

from dagster import AssetExecutionContext, DataVersion, MaterializeResult, asset

from ragspine_assets.defs.boundary import step_boundary
from ragspine_assets.defs.plots import network
from ragspine_assets.defs.resources import ProfileResource, RelationExtractorResource, StoreResource
from ragspine_assets.defs.tables import column_schema, table
from ragspine_assets.graph import graph_overview, update_graph

from .chunk_store import chunk_store
from .facts import facts


@asset(
    deps=[chunk_store, facts],
    group_name="knowledge",
    kinds={"duckdb"},
    owners=["team:data-engineering"],
    code_version="1",
    description=(
        "Entities, metrics and documents, and how they hang together, each edge with all its evidence. Made from the "
        "domain profile, facts and names found in the text; no model, no guess. RESTRICTED documents leave no trace."
    ),
)
@step_boundary("relation_graph")
def relation_graph(
    context: AssetExecutionContext,
    store: StoreResource,
    profile: ProfileResource,
    relation_extractor: RelationExtractorResource,
) -> MaterializeResult:
    """Bring the graph up to date with chunks, facts and profile (SPEC 5)."""
    with store.open() as opened:
        domain = profile.load()
        report = update_graph(opened, domain, relation_extractor.make(domain))
        overview = graph_overview(opened)
    context.log.info("searched %d documents for names", report.documents_scanned)
    return MaterializeResult(
        data_version=DataVersion(report.digest),
        metadata={
            "dagster/row_count": sum(report.edges.values()),
            "dagster/column_schema": column_schema("graph_node", "graph_edge", "graph_evidence"),
            "relation extractor": relation_extractor.spec,
            "nodes": sum(report.nodes.values()),
            "evidence": sum(report.evidence.values()),
            "written": report.written,
            "documents searched": report.documents_scanned,
            "nodes by type": table(
                [{"type": t, "nodes": n, "added": report.nodes_added.get(t, 0), "removed": report.nodes_removed.get(t, 0)}
                 for t, n in sorted(report.nodes.items())],
                ("type", "nodes", "added", "removed"),
            ),
            "edges by type": table(
                [{"type": t, "edges": n, "evidence": report.evidence.get(t, 0), "added": report.edges_added.get(t, 0),
                  "removed": report.edges_removed.get(t, 0)}
                 for t, n in sorted(report.edges.items())],
                ("type", "edges", "evidence", "added", "removed"),
            ),
            "graph": network(overview.nodes, overview.edges, overview.words),
        },
    )  # fmt: skip
