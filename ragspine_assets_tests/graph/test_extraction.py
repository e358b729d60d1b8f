"""Extractors and their seam (SPEC 5.3, 5.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from ragspine_assets.graph import (
    EDGE_META_DERIVED,
    EDGE_META_VERIFIED,
    DeterministicRelationExtractor,
    Extraction,
    GraphChunk,
    GraphEdge,
    RelationExtractor,
    Vocabulary,
    build_relation_graph,
    extract_relations,
    graph_digest,
    make_relation_extractor,
    rebuild_graph,
    servable_chunks,
)
from ragspine_assets.policy import DomainProfile

from .conftest import Labelled, Piece, Store


def chunk(doc_id: str = "a.txt", seq: int = 0, entity: str = "", text: str = "", label: str = "INTERNAL") -> GraphChunk:
    return GraphChunk(doc_id, f"{doc_id}#c{seq}", seq, entity, text, f"{doc_id}#para{seq + 1}", label, 1)


@dataclass
class Scripted:
    """An extractor that gives fixed edges and remembers what it saw."""

    edges: tuple[GraphEdge, ...] = ()
    deterministic: object = True
    seen: list[GraphChunk] = field(default_factory=list)

    def extract(self, chunks: Sequence[GraphChunk]) -> tuple[GraphEdge, ...]:
        self.seen.extend(chunks)
        return self.edges


def edge(
    src: str = "X",
    dst: str = "Y",
    kind: str = "supplies",
    doc_id: str = "a.txt",
    place: str = "a.txt#para1",
    **more: str,
) -> GraphEdge:
    return GraphEdge(src, dst, kind, {"source_doc_id": doc_id, "source_locator": place, **more})


def pairs(chunks: Sequence[GraphChunk], profile: DomainProfile | None = None) -> list[tuple[str, str, str]]:
    found = DeterministicRelationExtractor(profile).extract(chunks)
    return [(edge.src, edge.dst, edge.metadata["source_locator"]) for edge in found]


def test_every_two_entities_of_one_document_co_occur() -> None:
    chunks = [chunk(seq=0, entity="B"), chunk(seq=1, entity="A"), chunk(seq=2, entity="C"), chunk("z.txt", entity="Q")]
    assert pairs(chunks) == [("A", "B", "a.txt#para2"), ("A", "C", "a.txt#para3"), ("B", "C", "a.txt#para3")]


def test_names_in_the_text_co_occur_where_a_profile_knows_them() -> None:
    profile = DomainProfile(home_entity_synonyms={"ann": "ANN", "bob": "BOB", "cy": "CY"})
    chunks = [chunk(text="Ann met Bob. Cy left.")]
    assert pairs(chunks, profile) == [
        ("ANN", "BOB", "a.txt#para1"),
        ("ANN", "CY", "a.txt#para1"),
        ("BOB", "CY", "a.txt#para1"),
    ]
    assert pairs(chunks) == []


def test_the_lineage_of_a_pair_is_a_chunk_that_names_both_where_there_is_one() -> None:
    profile = DomainProfile(home_entity_synonyms={"ann": "ANN", "bob": "BOB"})
    chunks = [chunk(seq=0, text="Ann"), chunk(seq=1, text="Bob"), chunk(seq=2, text="Ann and Bob")]
    assert pairs(chunks, profile) == [("ANN", "BOB", "a.txt#para3")]
    assert pairs(chunks[:2], profile) == [("ANN", "BOB", "a.txt#para2")]


def test_co_occurrence_carries_no_marker_of_a_model() -> None:
    (found,) = DeterministicRelationExtractor().extract([chunk(entity="A"), chunk(seq=1, entity="B")])
    assert set(found.metadata) == {"source_doc_id", "source_locator"}
    assert found.type == "co_occurs_with"


def test_a_restricted_chunk_hides_its_document_from_co_occurrence() -> None:
    assert pairs([chunk(entity="A"), chunk(seq=1, entity="B"), chunk(seq=2, entity="C", label="RESTRICTED")]) == []


def test_the_order_of_chunks_does_not_matter() -> None:
    chunks = [chunk("b.txt", 0, "A"), chunk("b.txt", 1, "B"), chunk(seq=0, entity="A"), chunk(seq=1, entity="B")]
    assert pairs(chunks) == pairs(chunks[::-1])


def test_pairs_of_one_document_are_bounded_and_the_rest_is_counted() -> None:
    extractor = DeterministicRelationExtractor(max_entities_per_document=10)
    chunks = [chunk(seq=n, entity=f"E{n:04d}") for n in range(1000)] + [chunk(seq=1000, entity="E0999")]
    found = extractor.extract(chunks)
    assert len(found) == 45
    assert extractor.entities_left_out == 990
    assert any("E0999" in (edge.src, edge.dst) for edge in found)


def test_a_bound_below_a_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        DeterministicRelationExtractor(max_entities_per_document=1)


@pytest.mark.parametrize("spec", ["deterministic", " RULE ", "CoOccurrence"])
def test_names_select_the_deterministic_extractor(spec: str) -> None:
    assert isinstance(make_relation_extractor(spec), DeterministicRelationExtractor)


@pytest.mark.parametrize("spec", ["", "  ", "none", "NONE", "llm", "on"])
def test_nothing_and_a_model_without_provider_are_no_extractor(spec: str) -> None:
    assert make_relation_extractor(spec) is None


def test_the_environment_selects_where_nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSPINE_RELATION_EXTRACTOR", "rule")
    assert isinstance(make_relation_extractor(), DeterministicRelationExtractor)
    monkeypatch.delenv("RAGSPINE_RELATION_EXTRACTOR")
    assert make_relation_extractor() is None


def test_an_unknown_name_is_an_error_that_lists_what_there_is() -> None:
    with pytest.raises(ValueError, match="none, deterministic, rule, cooccurrence, llm, on"):
        make_relation_extractor("magic")


def test_the_seam_hands_over_only_open_documents(profile: DomainProfile) -> None:
    extractor = Scripted()
    chunks = [chunk(), chunk("s.txt"), chunk("s.txt", 1, label="RESTRICTED"), chunk("t.txt", label="")]
    extract_relations(extractor, chunks, Vocabulary(profile))
    assert {seen.doc_id for seen in extractor.seen} == {"a.txt"}


def test_an_extractor_cannot_change_what_it_was_given() -> None:
    with pytest.raises(AttributeError):
        chunk().text = "forged"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("offered", "reason"),
    [
        (edge(doc_id="s.txt", place="s.txt#para1"), "lineage"),
        (edge(place="a.txt#para9"), "lineage"),
        (edge(doc_id="b.txt"), "lineage"),
        (GraphEdge("X", "Y", "supplies"), "lineage"),
        (edge(doc_id="company_profile", place="company_profile#x"), "lineage"),
        (edge(src=" "), "empty"),
        (edge(kind=""), "empty"),
        (edge(src="NORD", dst="nordwerk"), "self_loop"),
        (edge(dst="A c m o"), "external"),
        (edge(src="the Nordwerk Rivals"), "external"),
        (edge(kind="like_acmo"), "external"),
        ("no edge at all", "shape"),
    ],
)
def test_the_seam_refuses_and_counts_by_reason(profile: DomainProfile, offered: GraphEdge, reason: str) -> None:
    chunks = [chunk(), chunk("b.txt"), chunk("s.txt", label="RESTRICTED")]
    for deterministic in (True, False):
        result = extract_relations(Scripted((offered,), deterministic), chunks, Vocabulary(profile))
        assert (result.edges, result.model_edges, result.refused) == ((), (), {reason: 1})


@pytest.mark.parametrize("kind", ["parent_of", " Competes_With "])
def test_a_controlled_type_is_refused_where_it_would_enter_the_controlled_tables(
    profile: DomainProfile, kind: str
) -> None:
    offered = (edge(kind=kind),)
    result = extract_relations(Scripted(offered, True), [chunk()], Vocabulary(profile))
    assert (result.edges, result.refused) == ((), {"controlled_type": 1})
    result = extract_relations(Scripted(offered, False), [chunk()], Vocabulary(profile))
    assert (result.edges, len(result.model_edges)) == ((), 1)


@pytest.mark.parametrize("declared", [False, None, 1, "True"])
def test_whoever_is_not_deterministic_is_a_model_whatever_it_says(profile: DomainProfile, declared: object) -> None:
    forged = edge(derived="controlled", verified="verified")
    result = extract_relations(Scripted((forged,), declared), [chunk()], Vocabulary(profile))
    (stamped,) = result.model_edges
    assert result.edges == ()
    assert stamped.metadata[EDGE_META_DERIVED] == "model-derived"
    assert stamped.metadata[EDGE_META_VERIFIED] == "unverified"


def test_an_extractor_without_the_attribute_is_a_model(profile: DomainProfile) -> None:
    class Bare:
        def extract(self, chunks: Sequence[GraphChunk]) -> tuple[GraphEdge, ...]:
            return (edge(),)

    assert isinstance(Bare(), RelationExtractor)
    result = extract_relations(Bare(), [chunk()], Vocabulary(profile))
    assert len(result.model_edges) == 1


def test_ends_that_the_profile_knows_become_its_codes(profile: DomainProfile) -> None:
    result = extract_relations(Scripted((edge("Nordwerk Plant", "Somebody"),)), [chunk()], Vocabulary(profile))
    assert [(found.src, found.dst) for found in result.edges] == [("NORD", "Somebody")]


def test_without_an_extractor_nothing_else_is_in_the_graph(profile: DomainProfile) -> None:
    graph = build_relation_graph(profile, chunks=[Piece("a.txt", "NORD", "sudwerk", "a.txt#para1")])
    assert {found.type for found in graph.edges()} == {"parent_of", "derives", "competes_with", "mentions"}


def test_the_deterministic_extractor_adds_edges_and_changes_none(profile: DomainProfile) -> None:
    chunks = [
        Labelled("a.txt", "NORD", "sudwerk", "a.txt#para1"),
        Labelled("s.txt", "NORD", "sudwerk", "s", sensitivity="RESTRICTED"),
    ]
    base = build_relation_graph(profile, chunks=chunks)
    more = build_relation_graph(profile, chunks=chunks, relation_extractor=DeterministicRelationExtractor(profile))
    added = [found for found in more.edges() if found not in base.edges()]
    assert [(found.src, found.type, found.dst) for found in added] == [("NORD", "co_occurs_with", "SUD")]
    assert [found for found in more.edges() if found not in added] == base.edges()
    assert more.nodes() == base.nodes()
    assert [found.kind for found in more.evidence(added[0])] == ["extracted"]


def test_a_models_edges_do_not_enter_the_controlled_graph(profile: DomainProfile) -> None:
    chunks = [Piece("a.txt", "NORD", "", "a.txt#para1")]
    base = build_relation_graph(profile, chunks=chunks)
    more = build_relation_graph(profile, chunks=chunks, relation_extractor=Scripted((edge(),), deterministic=False))
    assert (more.nodes(), more.edges()) == (base.nodes(), base.edges())


def test_new_ends_of_a_deterministic_extractor_are_nodes_with_its_lineage(profile: DomainProfile) -> None:
    graph = build_relation_graph(
        profile, chunks=[Piece("a.txt", "", "", "a.txt#para1")], relation_extractor=Scripted((edge("Ann", "NORD"),))
    )
    node = graph.get_node("Ann")
    assert node is not None
    assert node.metadata["source_locator"] == "a.txt#para1"


def test_extraction_goes_into_a_store_and_out_again(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "Nordwerk and Sudwerk")
    base = rebuild_graph(store.con, profile).digest
    chunks = servable_chunks(store.con)
    extraction = extract_relations(DeterministicRelationExtractor(profile), chunks, Vocabulary(profile))
    report = rebuild_graph(store.con, profile, extraction=extraction)
    assert report.edges_added == {"co_occurs_with": 1}
    assert not rebuild_graph(store.con, profile, extraction=extraction).written
    assert rebuild_graph(store.con, profile).digest == base


def test_an_extraction_older_than_the_store_gives_no_edge_for_what_changed(
    store: Store, profile: DomainProfile
) -> None:
    store.add("a.txt", "Nordwerk and Sudwerk")
    store.add("b.txt", "Nordwerk and Sudwerk")
    chunks = servable_chunks(store.con)
    extraction = extract_relations(DeterministicRelationExtractor(profile), chunks, Vocabulary(profile))
    store.relabel("a.txt", "RESTRICTED")
    store.add("b.txt", "Nordwerk and Sudwerk", version=2)
    assert "co_occurs_with" not in rebuild_graph(store.con, profile, extraction=extraction).edges
    assert graph_digest(store.con) == rebuild_graph(store.con, profile).digest


def _from_rules(*edges: GraphEdge) -> Extraction:
    class Rules:
        deterministic = True

        def extract(self, chunks: object) -> tuple[GraphEdge, ...]:
            return edges

    chunk = GraphChunk("open.md", "open.md#c0", 0, "", "Ann met Bob.", "open.md#para1", "PUBLIC", 1)
    return extract_relations(Rules(), [chunk], Vocabulary(DomainProfile()))


LINEAGE = {"source_doc_id": "open.md", "source_locator": "open.md#para1"}


@pytest.mark.parametrize("kind", ["parent\u200b_of", "pаrent_of", "ｐarent_of", "parent-of", "Parent Of", " MENTIONS "])
def test_a_controlled_type_in_disguise_is_a_controlled_type(kind: str) -> None:
    found = _from_rules(GraphEdge("Ann", "Bob", kind, LINEAGE))
    assert found.edges == ()
    assert sum(found.refused.values()) == 1


@pytest.mark.parametrize(
    "edge",
    [
        GraphEdge("secret.md", "Ann", "x", LINEAGE, "doc", ""),
        GraphEdge("Ann", "secret.md", "x", LINEAGE, "", "doc"),
        GraphEdge("Ann", "NO_SUCH", "x", LINEAGE, "", "metric"),
        GraphEdge("Ann", "Bob", "x", LINEAGE, "secretkind", ""),
        GraphEdge("A" * 5000, "Bob", "x", LINEAGE),
        GraphEdge("Ann\x00", "Bob", "x", LINEAGE),
        GraphEdge("Ann", 5, "x", LINEAGE),  # pyright: ignore[reportArgumentType]
        GraphEdge("Ann", "Bob", None, LINEAGE),  # pyright: ignore[reportArgumentType]
    ],
)
def test_rules_too_name_only_what_they_were_handed(edge: GraphEdge) -> None:
    found = _from_rules(edge)
    assert found.edges == ()
    assert sum(found.refused.values()) == 1


def test_rules_may_name_their_own_document() -> None:
    assert len(_from_rules(GraphEdge("open.md", "Ann", "cites", LINEAGE, "doc", "")).edges) == 1
