"""Checks on `relation_graph`."""

from ragspine_assets.audit.asserted import audit_external_model_edges, audit_model_edges
from ragspine_assets.audit.relations import audit_evidence, audit_graph_isolation

from .verdicts import profile_check, store_check

GRAPH_CHECKS = (
    store_check(
        "graph_has_no_restricted_trace",
        audit_graph_isolation,
        "No node, edge, evidence or count comes from a RESTRICTED document.",
    ),
    store_check(
        "every_edge_has_evidence_that_resolves",
        audit_evidence,
        "Every edge has evidence, the evidence points at chunks, facts or profile entries that exist, and nothing dangles.",
    ),
    profile_check(
        "model_edges_are_marked_recorded_and_apart",
        audit_model_edges,
        "Every model edge carries both markers, agrees with the extractor's own record, and none is in the controlled "
        "tables.",
    ),
    profile_check(
        "model_edges_name_nobody_external",
        audit_external_model_edges,
        "No end and no type of a model edge names an external entity, in any disguise.",
    ),
)
