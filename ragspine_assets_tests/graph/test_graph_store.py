"""Reads: what they return, in which order, and that they follow every change."""

from __future__ import annotations

import random
from collections import deque
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.graph import (
    DuckDBGraphStore,
    GraphEdge,
    GraphNode,
    GraphStore,
    build_relation_graph,
    readable_subgraph,
    rebuild_graph,
    withdraw_documents,
)
from ragspine_assets.policy import DomainProfile

from .conftest import Piece, Store


@pytest.fixture
def graph(profile: DomainProfile) -> DuckDBGraphStore:
    chunks = [
        Piece("a.txt", "NORD", "", "a.txt#para1"),
        Piece("b.txt", "NORD", "", "b.txt#para1"),
        Piece("b.txt", "SUD", "", "b.txt#para2"),
        Piece("NORD", "SUD", "", "NORD#para1"),
    ]
    return build_relation_graph(profile, chunks=chunks)


def ids(nodes: list[GraphNode]) -> list[str]:
    return [node.id for node in nodes]


def test_it_is_a_graph_store(graph: DuckDBGraphStore) -> None:
    assert isinstance(graph, GraphStore)


def test_a_node_is_found_by_id_and_kind(graph: DuckDBGraphStore) -> None:
    assert graph.get_node("nobody") is None
    assert [node.type for node in (graph.get_node("NORD"), graph.get_node("NORD", "doc")) if node] == ["entity", "doc"]
    assert graph.get_node("NORD", "metric") is None


def test_neighbours_follow_direction_and_type(graph: DuckDBGraphStore) -> None:
    assert ids(graph.neighbors("b.txt")) == ["NORD", "SUD"]
    assert ids(graph.neighbors("NORD", node_type="entity", direction="in")) == ["a.txt", "b.txt", "HOLD"]
    assert ids(graph.neighbors("NORD", node_type="entity", direction="in", edge_type="parent_of")) == ["HOLD"]
    assert ids(graph.neighbors("NORD", node_type="entity", direction="both", edge_type="derives")) == ["NORTH"]
    assert graph.neighbors("nobody") == []


def test_neighbours_of_an_id_with_several_kinds_are_those_of_all(graph: DuckDBGraphStore) -> None:
    assert ids(graph.neighbors("NORD")) == ["SUD", "NORTH"]
    assert ids(graph.neighbors("NORD", node_type="doc")) == ["SUD"]


def test_a_traversal_gives_the_nearest_first_and_stops_at_its_depth(graph: DuckDBGraphStore) -> None:
    assert ids(graph.traverse("a.txt")) == ["NORD", "NORTH", "COLD"]
    assert ids(graph.traverse("a.txt", max_depth=2)) == ["NORD", "NORTH"]
    assert ids(graph.traverse("a.txt", max_depth=0)) == []
    assert ids(graph.traverse("COLD", direction="in", edge_types=["derives"])) == ["NORTH", "NORD"]
    assert ids(graph.traverse("COLD", direction="in", edge_types=[])) == []
    assert graph.traverse("nobody") == []


def test_wrong_depths_and_directions_are_refused(graph: DuckDBGraphStore) -> None:
    with pytest.raises(ValueError, match="number of edges"):
        graph.traverse("a.txt", max_depth=-1)
    with pytest.raises(ValueError, match="'sideways'"):
        graph.neighbors("a.txt", direction="sideways")  # pyright: ignore[reportArgumentType]


def test_a_subgraph_holds_the_nodes_around_and_the_edges_among_them(graph: DuckDBGraphStore) -> None:
    part = graph.subgraph(["a.txt"], depth=2, edge_types=["mentions"])
    assert ids(list(part.nodes)) == ["a.txt", "b.txt", "NORD"]
    assert [(edge.src, edge.dst) for edge in part.edges] == [("a.txt", "NORD"), ("b.txt", "NORD")]
    assert part.edges[0].metadata == {"source_doc_id": "a.txt", "source_locator": "a.txt#para1"}
    assert graph.subgraph([]).nodes == ()


def test_a_traversal_sees_what_was_written_since(graph: DuckDBGraphStore) -> None:
    assert "COLD" in ids(graph.traverse("a.txt"))
    with graph.connect() as con:
        con.execute("DELETE FROM graph_edge WHERE dst = 'COLD'")
        assert "COLD" not in ids(graph.traverse("a.txt"))
        con.execute("UPDATE graph_edge SET dst = 'COLD', dst_type = 'zone' WHERE src = 'a.txt'")
    assert ids(graph.traverse("a.txt")) == ["COLD"]


def test_in_a_store_too_a_traversal_sees_rebuilds_and_withdrawals(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "Nordwerk")
    store.add("b.txt", "Nordwerk")
    rebuild_graph(store.con, profile)
    graph = DuckDBGraphStore(store.con)
    assert ids(graph.traverse("a.txt", direction="both", max_depth=2, edge_types=["mentions"])) == ["NORD", "b.txt"]
    withdraw_documents(store.con, ["b.txt"])
    assert ids(graph.traverse("a.txt", direction="both", max_depth=2, edge_types=["mentions"])) == ["NORD"]
    store.add("c.txt", "Nordwerk")
    store.relabel("b.txt", "RESTRICTED")
    rebuild_graph(store.con, profile)
    assert ids(graph.traverse("a.txt", direction="both", max_depth=2, edge_types=["mentions"])) == ["NORD", "c.txt"]


def test_reads_come_after_an_unfinished_statement_of_the_caller(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "Nordwerk")
    rebuild_graph(store.con, profile)
    store.con.execute("SELECT * FROM graph_edge").fetchone()
    assert ids(DuckDBGraphStore(store.con).traverse("a.txt", max_depth=1)) == ["NORD"]
    store.con.execute("SELECT * FROM graph_edge").fetchone()
    rebuild_graph(store.con, DomainProfile())


def test_whatever_opens_connections_can_hold_a_graph(profile: DomainProfile, tmp_path: Path) -> None:
    class Opener:
        opened = 0

        @contextmanager
        def connect(self):
            self.opened += 1
            with duckdb.connect(str(tmp_path / "g.duckdb")) as con:
                yield con

    opener = Opener()
    graph = build_relation_graph(profile, store=opener)
    assert graph.count_nodes() == DuckDBGraphStore(opener).count_nodes() == 10
    with duckdb.connect(str(tmp_path / "g.duckdb"), read_only=True):
        assert opener.opened == 3


def test_the_picture_holds_the_best_connected_nodes(graph: DuckDBGraphStore) -> None:
    with graph.connect() as con:
        part = readable_subgraph(con, max_nodes=3)
        whole = readable_subgraph(con)
    assert {node.id for node in part.nodes} == {"HOLD", "NORD", "SUD"}
    assert {(edge.src, edge.dst) for edge in part.edges} == {("HOLD", "NORD"), ("HOLD", "SUD")}
    assert len(whole.nodes) == graph.count_nodes()
    assert len(whole.edges) == graph.count_edges()


def test_the_same_graph_gives_the_same_picture(profile: DomainProfile) -> None:
    chunks = [Piece(f"{n}.txt", "NORD", "", f"{n}.txt#para1") for n in range(30)]
    pictures = []
    for _ in range(2):
        random.Random(1).shuffle(chunks)
        with build_relation_graph(profile, chunks=chunks).connect() as con:
            pictures.append(readable_subgraph(con, max_nodes=12))
    assert pictures[0] == pictures[1]


_pairs = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from(["x", "y"])), max_size=20)


@settings(max_examples=40, deadline=None)
@given(
    _pairs, st.integers(0, 4), st.sampled_from(["out", "in", "both"]), st.sampled_from([None, ["x"], ["x", "y"], ["z"]])
)
def test_a_traversal_reaches_what_a_plain_search_reaches(
    pairs: list[tuple[int, int, str]], depth: int, direction: str, kinds: list[str] | None
) -> None:
    graph = DuckDBGraphStore()
    with graph.connect() as con:
        graph.create_tables(con)
        for node in range(8):
            con.execute("INSERT INTO graph_node VALUES ('n', ?, '', 'INTERNAL', 'd', 'd#1')", [str(node)])
        for src, dst, kind in set(pairs):
            con.execute("INSERT INTO graph_edge VALUES ('n', ?, 'n', ?, ?)", [str(src), str(dst), kind])
    distance = {0: 0}
    queue = deque([0])
    while queue:
        near = queue.popleft()
        for src, dst, kind in pairs:
            if kinds is not None and kind not in kinds:
                continue
            for start, end, way in ((src, dst, "out"), (dst, src, "in")):
                if direction in (way, "both") and start == near and end not in distance and distance[near] < depth:
                    distance[end] = distance[near] + 1
                    queue.append(end)
    expected = [str(node) for node in sorted(distance, key=lambda node: (distance[node], str(node))) if node]
    assert ids(graph.traverse("0", max_depth=depth, direction=direction, edge_types=kinds)) == expected  # pyright: ignore[reportArgumentType]


def test_evidence_is_asked_for_by_ends_and_type(graph: DuckDBGraphStore) -> None:
    assert graph.evidence(GraphEdge("a.txt", "NORD", "mentions", src_type="entity")) == []
    (found,) = graph.evidence(GraphEdge("HOLD", "NORD", "parent_of"))
    assert (found.kind, found.source_doc_id, found.source_locator) == (
        "profile",
        "company_profile",
        "company_profile#parent_of/HOLD->NORD",
    )
