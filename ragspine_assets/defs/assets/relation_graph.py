"""The asset `relation_graph`: who is named where, and what belongs to what."""

from dagster import AssetExecutionContext, DataVersion, MaterializeResult

from ragspine_assets.defs.model_metadata import model_metadata, shown_types
from ragspine_assets.defs.naming import stage
from ragspine_assets.defs.plots import cached_plot, network
from ragspine_assets.defs.resources import (
    LLMProviderResource,
    ProfileResource,
    RelationExtractorResource,
    ReviewResource,
    StoreResource,
)
from ragspine_assets.defs.tables import column_schema, table
from ragspine_assets.graph import asks_a_model, graph_overview, update_graph

from .chunk_store import chunk_store
from .facts import facts


@stage(
    deps=[chunk_store, facts],
    group="knowledge",
    kinds={"duckdb"},
    code_version="2",
    description=(
        "Entities, metrics and documents, and how they hang together, each edge with all its evidence. Made from the "
        "domain profile, facts and names found in the text; no model, no guess. What a model asserts, if one is asked, is "
        "marked on every edge and kept apart. RESTRICTED documents leave no trace."
    ),
)
def relation_graph(
    context: AssetExecutionContext,
    store: StoreResource,
    profile: ProfileResource,
    relation_extractor: RelationExtractorResource,
    llm_provider: LLMProviderResource,
    review: ReviewResource,
) -> MaterializeResult:
    """Bring the graph up to date with chunks, facts and profile (SPEC 5)."""
    # Not held open: nobody may wait for the store while a model answers.
    opened = store.open_briefly() if relation_extractor.spec != "none" else store.open()
    domain = profile.load()
    provider, why_none = llm_provider.make() if asks_a_model(relation_extractor.spec) else (None, "")
    extractor = relation_extractor.make(domain, provider, opened)
    report = update_graph(opened, domain, extractor, decisions=review.read())
    overview = graph_overview(opened)
    edges, evidence, added, removed = map(
        shown_types, (report.edges, report.evidence, report.edges_added, report.edges_removed)
    )
    context.log.info("searched %d documents for names", report.documents_scanned)
    return MaterializeResult(
        data_version=DataVersion(report.content_digest),
        metadata={
            "dagster/row_count": sum(report.edges.values()),
            "dagster/column_schema": column_schema("graph_node", "graph_edge", "graph_evidence", "model_edge", "model_evidence"),
            **model_metadata(relation_extractor.spec, why_none, extractor, report),
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
                [{"type": t, "edges": n, "evidence": evidence.get(t, 0), "added": added.get(t, 0),
                  "removed": removed.get(t, 0)}
                 for t, n in sorted(edges.items())],
                ("type", "edges", "evidence", "added", "removed"),
            ),
            "graph": cached_plot(context, "graph", network, overview.nodes, overview.edges, overview.words),
        },
    )  # fmt: skip
