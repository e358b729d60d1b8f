"""Checks on `relation_graph`."""

from ragspine_assets.defs.assets import relation_graph
from ragspine_assets.graph.audit import audit_evidence, audit_graph_isolation

from .verdicts import store_check

GRAPH_CHECKS = (
    store_check(
        relation_graph,
        "graph_has_no_restricted_trace",
        audit_graph_isolation,
        "No node, edge, evidence or count comes from a RESTRICTED document.",
    ),
    store_check(
        relation_graph,
        "every_edge_has_evidence_that_resolves",
        audit_evidence,
        "Every edge has evidence, the evidence points at chunks, facts or profile entries that exist, and nothing dangles.",
    ),
)
