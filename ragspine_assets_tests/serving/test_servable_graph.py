"""The graph as far as a highest label allows: no read and no export shows what rests on more (SPEC 5.8, 6.6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragspine_assets.graph import DuckDBGraphStore, ReviewDecision
from ragspine_assets.graph.exports import export_graphml, export_jsonld
from ragspine_assets.policy import Sensitivity
from ragspine_assets.serving import Snapshot, publish_snapshot
from ragspine_assets.serving.servable_graph import servable_graph
from ragspine_assets_tests.conftest import Pipeline
from ragspine_assets_tests.graph.extraction_world import Model, World, leads

LABELS = ("PUBLIC", "INTERNAL", "CONFIDENTIAL")


@pytest.fixture
def world(pipeline: Pipeline) -> World:
    """Each label has a document of its own, in which a model finds names of its own; one name stands in all of them."""
    answers = {f"Only{label}": leads(("Everywhere", f"Only{label}"), ("Nordwerk", "Everywhere")) for label in LABELS}
    made = World(pipeline, Model(answers))
    for label in LABELS:
        made.put(f"{label.lower()}.txt", f"Everywhere leads Only{label}. Nordwerk leads Everywhere.", label)
    made.graph(
        [ReviewDecision("Everywhere", "leads", f"Only{label}", "accept", f"who{label}", "now") for label in LABELS]
    )
    return made


def all_of(graph: DuckDBGraphStore) -> str:
    """Everything that reads and exports show."""
    edges = graph.edges(include_model_derived=True)
    shown: list[object] = [
        graph.nodes(include_model_derived=True), edges, graph.evidence_of(edges), graph.accepted_decisions(),
        graph.subgraph(["Everywhere"], include_model_derived=True), graph.traverse("Everywhere", include_model_derived=True),
        graph.neighbors("Everywhere", direction="both", include_model_derived=True),
        export_graphml(graph, include_model_derived=True), export_jsonld(graph, include_model_derived=True),
    ]  # fmt: skip
    return repr(shown)


def servable_graph_of(world: World, label: str) -> DuckDBGraphStore:
    with world.pipeline.store.connect() as connection:
        return servable_graph(connection, Sensitivity(label))


def test_nothing_rests_on_a_document_above_the_label_and_all_the_rest_is_there(world: World) -> None:
    for count, label in enumerate(LABELS, start=1):
        graph = servable_graph_of(world, label)
        shown = all_of(graph)
        for other in LABELS:
            seen = [name in shown for name in (f"Only{other}", f"{other.lower()}.txt", f"who{other}")]
            assert seen == [Sensitivity(other) <= Sensitivity(label)] * 3, (label, other)
        # How many documents name something is counted over those that are shown.
        everywhere = graph.get_node("Everywhere", "model_entity", include_model_derived=True)
        assert everywhere is None or everywhere.metadata.get("documents", str(count)) == str(count)
    # The store itself has all of it: the view is what hides it. A label that was raised a moment ago counts.
    assert "OnlyCONFIDENTIAL" in all_of(world.reader())
    with world.pipeline.store.connect() as connection:
        connection.execute("UPDATE document SET sensitivity = 'RESTRICTED' WHERE doc_id = 'confidential.txt'")
    assert "confidential" not in all_of(servable_graph_of(world, "CONFIDENTIAL")).casefold()


def test_a_published_graph_is_read_up_to_a_lower_label(world: World, tmp_path: Path) -> None:
    publish_snapshot(world.pipeline.store, tmp_path / "snapshots", max_label="CONFIDENTIAL")
    snapshot = Snapshot.open(tmp_path / "snapshots")
    for label in LABELS:
        published, of_the_store = snapshot.graph(max_label=label), servable_graph_of(world, label)
        assert published.nodes() == of_the_store.nodes()
        assert published.edges() == of_the_store.edges()
        assert export_graphml(published) == export_graphml(of_the_store)
    assert snapshot.graph().nodes() == snapshot.graph(max_label="CONFIDENTIAL").nodes()
    assert len(snapshot.graph(max_label="PUBLIC").nodes()) < len(snapshot.graph().nodes())
    with pytest.raises(ValueError, match="max_label"):
        snapshot.graph(max_label="RESTRICTED")
