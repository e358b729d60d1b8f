"""The values of the graph room."""

from __future__ import annotations

import json
import pickle

import pytest

from ragspine_assets.graph import CONTROLLED_TYPES, Fact, GraphEdge, GraphNode


def test_metadata_of_a_node_cannot_be_changed() -> None:
    node = GraphNode("A", "entity", metadata={"source_doc_id": "a.txt"})
    with pytest.raises(TypeError, match="read-only"):
        node.metadata["source_doc_id"] = "b.txt"  # pyright: ignore[reportIndexIssue]
    with pytest.raises(TypeError, match="read-only"):
        node.metadata.update(verified="yes")  # pyright: ignore[reportAttributeAccessIssue]
    assert node.metadata == {"source_doc_id": "a.txt"}


def test_metadata_do_not_follow_the_mapping_they_were_made_from() -> None:
    given = {"source_doc_id": "a.txt"}
    edge = GraphEdge("A", "B", "parent_of", given)
    given["derived"] = "model-derived"
    assert "derived" not in edge.metadata


def test_nodes_and_edges_travel_between_processes_and_into_json() -> None:
    edge = GraphEdge("A", "B", "parent_of", {"source_doc_id": "a.txt"}, "entity", "entity")
    again = pickle.loads(pickle.dumps(edge))
    assert again == edge
    with pytest.raises(TypeError):
        again.metadata["x"] = "y"
    assert json.loads(json.dumps(edge.metadata)) == {"source_doc_id": "a.txt"}
    assert len({edge, again}) == 1


def test_a_node_of_another_kind_is_another_node() -> None:
    assert GraphNode("REV", "metric") != GraphNode("REV", "doc")


@pytest.mark.parametrize(("doc_id", "locator"), [("", "a#row1"), ("a.csv", "")])
def test_a_fact_without_a_source_cannot_exist(doc_id: str, locator: str) -> None:
    with pytest.raises(ValueError, match="where it comes from"):
        Fact("REV", "A", "FY", "2024", 1.0, "EUR", doc_id, locator)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_fact_has_a_finite_value(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Fact("REV", "A", "FY", "2024", value, "EUR", "a.csv", "a.csv#row1")


def test_the_controlled_types_are_the_four_of_the_contract() -> None:
    assert frozenset({"parent_of", "derives", "competes_with", "mentions"}) == CONTROLLED_TYPES
