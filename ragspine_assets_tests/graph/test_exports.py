"""Reads, exports and pictures with what a model asserts, marked, or without it (SPEC 5.8)."""

from __future__ import annotations

import io
import json

import networkx as nx
import pytest

from ragspine_assets.graph import (
    ReviewDecision,
    build_relation_graph,
    export_graphml,
    export_jsonld,
    is_unverified,
    neighbourhood_picture,
)

from .conftest import Piece
from .extraction_world import World, leads

rdflib = pytest.importorskip("rdflib")
PROV = "http://www.w3.org/ns/prov#"
ACCEPT = ReviewDecision("Cy", "leads", "NORD", "accept", "Eva", "2026-01-02T10:00:00Z")


@pytest.fixture
def told(world: World) -> World:
    """The world, with a graph; one of the model's two edges was accepted."""
    world.put("c.txt", "Nordwerk and Sudwerk belong together.")
    world.graph(decisions=[ACCEPT])
    return world


def ids(nodes: list[object]) -> list[str]:
    return [node.id for node in nodes]  # pyright: ignore[reportAttributeAccessIssue]


# -- reads ----------------------------------------------------------------------------------------------------------------


def test_reads_show_controlled_edges_only_unless_asked(told: World) -> None:
    graph = told.reader()
    assert graph.neighbors("Ann") == []
    assert graph.get_node("Boltworks") is None
    assert graph.traverse("Ann", direction="both") == []
    assert graph.path("Ann", "Boltworks") is None
    assert not any(map(is_unverified, graph.subgraph(["NORD"], depth=3).edges))
    assert not any(map(is_unverified, graph.edges()))


def test_a_read_with_models_says_which_edges_nobody_checked(told: World) -> None:
    graph = told.reader()
    found = graph.neighbors("Ann", include_model_derived=True)
    assert ids(found) == ["Boltworks"]
    assert [(edge.src, edge.dst) for edge in found.unverified] == [("Ann", "Boltworks")]
    assert found[0].metadata["verified"] == "unverified"
    assert [edge.dst for edge in graph.subgraph(["Ann"], include_model_derived=True).unverified] == ["Boltworks"]


def test_a_node_that_a_controlled_edge_reaches_carries_no_marker(told: World) -> None:
    found = told.reader().neighbors("Cy", include_model_derived=True)
    assert ids(found) == ["NORD"]
    assert "verified" not in found[0].metadata
    assert [edge.dst for edge in found.unverified] == ["NORD"]


def test_a_traversal_marks_what_it_reached_only_by_a_models_word(told: World) -> None:
    told.model.answers["Sudwerk"] = leads(("Nordwerk", "Sudwerk"), kind="owns")
    told.model.answers = dict(reversed(told.model.answers.items()))
    told.model.model = "again"
    told.graph()
    found = told.reader().traverse("NORD", max_depth=1, include_model_derived=True)
    assert [(node.id, "verified" in node.metadata) for node in found] == [("SUD", True)]
    assert [(edge.type, edge.dst) for edge in found.unverified] == [("owns", "SUD")]
    assert told.reader().traverse("NORD", max_depth=1) == []


def test_directions_and_types_narrow_a_read_with_models(told: World) -> None:
    graph = told.reader()
    assert ids(graph.neighbors("Boltworks", include_model_derived=True)) == []
    assert ids(graph.neighbors("Boltworks", direction="in", include_model_derived=True)) == ["Ann"]
    assert graph.neighbors("Ann", edge_type="owns", include_model_derived=True).unverified == ()


def test_a_path_goes_by_controlled_edges_where_it_can(told: World) -> None:
    graph = told.reader()
    way = graph.path("Cy", "SUD")
    assert way is not None
    assert [node.id for node in way.nodes][:2] == ["Cy", "NORD"]
    assert way.unverified == ()
    asked = graph.path("Cy", "SUD", include_model_derived=True)
    assert asked is not None
    assert asked.unverified == ()
    unsure = graph.path("Ann", "Boltworks", include_model_derived=True)
    assert unsure is not None
    assert len(unsure.unverified) == 1


def test_a_path_keeps_direction_type_and_length(told: World) -> None:
    graph = told.reader()
    assert graph.path("NORD", "Cy", direction="out") is None
    assert graph.path("Cy", "NORD", direction="out") is not None
    assert graph.path("NORD", "Cy", direction="in") is not None
    assert graph.path("Cy", "SUD", max_depth=1) is None
    assert graph.path("Cy", "NORD", edge_types=["mentions"]) is None
    here = graph.path("NORD", "NORD")
    assert here is not None
    assert ([node.id for node in here.nodes], here.edges) == (["NORD"], ())


def test_all_evidence_of_a_models_edge_is_there(told: World) -> None:
    told.put("copy.txt", "Ann leads Boltworks since the spring.")
    told.graph()
    (edge,) = [edge for edge in told.reader().edges(include_model_derived=True) if edge.src == "Ann"]
    evidence = told.reader().evidence(edge)
    assert [(found.kind, found.source_doc_id, found.model) for found in evidence] == [
        ("model", "a.txt", "scripted"),
        ("model", "copy.txt", "scripted"),
    ]
    assert all(found.asserted_at.endswith("Z") and found.answer_id for found in evidence)


# -- exports --------------------------------------------------------------------------------------------------------------


def test_graphml_opens_in_networkx_with_everything(told: World) -> None:
    opened = nx.read_graphml(io.BytesIO(export_graphml(told.reader(), include_model_derived=True)))
    reader = told.reader()
    assert opened.number_of_nodes() == len(reader.nodes(include_model_derived=True))
    assert opened.number_of_edges() == len(reader.edges(include_model_derived=True))
    unverified = [edge for _, _, edge in opened.edges(data=True) if edge.get("verified")]
    assert len(unverified) == 2
    for edge in unverified:
        assert (edge["derived"], edge["verified"]) == ("model-derived", "unverified")
        assert json.loads(edge["evidence"])[0]["source_doc_id"] in {"a.txt", "b.txt"}


def test_jsonld_opens_in_rdflib_and_says_who_from_what_and_when(told: World) -> None:
    graph = rdflib.Graph().parse(data=export_jsonld(told.reader(), include_model_derived=True), format="json-ld")
    terms = rdflib.Namespace("urn:ragspine:terms:")
    prov = rdflib.Namespace(PROV)
    unverified = [
        thing
        for thing in graph.subjects(terms.verified, rdflib.Literal("unverified"))
        if (thing, rdflib.RDF.type, rdflib.RDF.Statement) in graph
    ]
    assert len(unverified) == 2
    for edge in unverified:
        assert (edge, terms.derived, rdflib.Literal("model-derived")) in graph
        (agent,) = graph.objects(edge, prov.wasAttributedTo)
        assert (agent, rdflib.RDF.type, prov.SoftwareAgent) in graph
        (place,) = graph.objects(edge, prov.wasDerivedFrom)
        assert list(graph.objects(place, terms.locator))
        (when,) = graph.objects(edge, prov.generatedAtTime)
        assert when.datatype == rdflib.XSD.dateTime
    people = list(graph.subjects(rdflib.RDF.type, prov.Person))
    assert [str(name) for person in people for name in graph.objects(person, rdflib.RDFS.label)] == ["Eva"]


@pytest.mark.parametrize("export", [export_graphml, export_jsonld])
@pytest.mark.parametrize("models", [False, True])
def test_the_same_graph_gives_the_same_bytes(told: World, export: object, models: bool) -> None:
    first = export(told.reader(), include_model_derived=models)  # pyright: ignore[reportCallIssue]
    with told.pipeline.store.connect() as con:
        for table in ("graph_edge", "graph_node", "graph_evidence", "model_edge", "model_evidence"):
            con.execute(f"CREATE TEMP TABLE turned AS FROM {table}")
            con.execute(f"DELETE FROM {table}")
            con.execute(f"INSERT INTO {table} FROM turned ORDER BY ALL DESC")
            con.execute("DROP TABLE turned")
    assert export(told.reader(), include_model_derived=models) == first  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("export", [export_graphml, export_jsonld])
def test_without_being_asked_an_export_has_nothing_of_a_model(told: World, export: object) -> None:
    content = export(told.reader()).decode()  # pyright: ignore[reportCallIssue]
    assert "unverified" not in content
    assert "Boltworks" not in content
    assert "Boltworks" in export(told.reader(), include_model_derived=True).decode()  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("export", [export_graphml, export_jsonld])
def test_no_restricted_name_is_in_an_export(told: World, export: object) -> None:
    content = export(told.reader(), include_model_derived=True).decode()  # pyright: ignore[reportCallIssue]
    assert "Zanzibarquux" not in content
    assert "s.txt" not in content


def test_names_that_xml_cannot_hold_are_exported_all_the_same(told: World) -> None:
    chunks = [Piece("odd & <n>\x01 \u202e.txt", "NORD", "", "odd#para1")]
    graph = build_relation_graph(told.profile, chunks=chunks)
    assert nx.read_graphml(io.BytesIO(export_graphml(graph))).number_of_edges() == len(graph.edges())
    assert len(rdflib.Graph().parse(data=export_jsonld(graph), format="json-ld")) > 0


# -- pictures -------------------------------------------------------------------------------------------------------------


def test_a_picture_is_a_png_and_the_same_each_time(told: World) -> None:
    first = neighbourhood_picture(told.reader(), "NORD")
    assert first.startswith(b"\x89PNG")
    assert neighbourhood_picture(told.reader(), "NORD") == first


def test_a_picture_dashes_what_nobody_checked_and_writes_its_markers(
    told: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    styles: list[str] = []
    notes: list[str] = []
    annotate = Axes.annotate
    supxlabel = Figure.supxlabel

    def watch(self: Axes, *given: object, **named: object) -> object:
        if "arrowprops" in named:
            styles.append(named["arrowprops"]["linestyle"])  # pyright: ignore[reportIndexIssue]
        return annotate(self, *given, **named)  # pyright: ignore[reportArgumentType]

    def write(self: Figure, text: str, **named: object) -> object:
        notes.append(text)
        return supxlabel(self, text, **named)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Axes, "annotate", watch)
    monkeypatch.setattr(Figure, "supxlabel", write)
    neighbourhood_picture(told.reader(), "Cy")
    assert sorted(styles) == ["-", "--"]
    assert "model-derived, unverified; b.txt#para1" in notes[0]
    styles.clear()
    neighbourhood_picture(told.reader(), "Cy", include_model_derived=False)
    assert styles == ["-"]


def test_a_node_that_is_not_there_gives_an_empty_picture(told: World) -> None:
    assert neighbourhood_picture(told.reader(), "nobody").startswith(b"\x89PNG")


def test_a_name_that_looks_like_mathematics_or_is_han_can_be_drawn(told: World) -> None:
    graph = build_relation_graph(told.profile, chunks=[Piece("$x^{$北京.txt", "NORD", "", "x#para1")])
    assert neighbourhood_picture(graph, "NORD").startswith(b"\x89PNG")
