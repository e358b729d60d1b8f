"""Checks on `relation_graph`."""

from collections.abc import Callable

from dagster import AssetCheckResult, AssetChecksDefinition, asset_check

from ragspine_assets.defs.assets import relation_graph
from ragspine_assets.defs.boundary import step_boundary
from ragspine_assets.defs.resources import ProfileResource, StoreResource
from ragspine_assets.graph.audit import audit_evidence, audit_graph_isolation
from ragspine_assets.graph.model_audit import audit_external_model_edges, audit_model_edges
from ragspine_assets.policy import DomainProfile
from ragspine_assets.store import ChunkStore
from ragspine_assets.store.audit import AuditResult

from .verdicts import store_check, verdict


def _profile_check(
    name: str, audit: Callable[[ChunkStore, DomainProfile], AuditResult], description: str
) -> AssetChecksDefinition:
    """Make a blocking check out of an audit that reads store and profile."""

    @asset_check(asset=relation_graph, name=name, blocking=True, description=description)
    @step_boundary(name)
    def check(store: StoreResource, profile: ProfileResource) -> AssetCheckResult:
        with store.open() as chunk_store:
            return verdict(audit(chunk_store, profile.load()))

    return check


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
    _profile_check(
        "model_edges_are_marked_recorded_and_apart",
        audit_model_edges,
        "Every model edge carries both markers, agrees with the extractor's own record, and none is in the controlled "
        "tables.",
    ),
    _profile_check(
        "model_edges_name_nobody_external",
        audit_external_model_edges,
        "No end and no type of a model edge names an external entity, in any disguise.",
    ),
)
