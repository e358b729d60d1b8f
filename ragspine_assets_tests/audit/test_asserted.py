"""The checks on model edges see what they are there for: each corruption of the store is found (SPEC 6.3)."""

from __future__ import annotations

import pytest

from ragspine_assets.audit.asserted import audit_external_model_edges, audit_model_edges
from ragspine_assets.audit.relations import audit_evidence, audit_graph_isolation
from ragspine_assets.graph import DeterministicRelationExtractor, ReviewDecision, update_graph
from ragspine_assets_tests.graph.extraction_world import World

KEY = "src_type, src, dst_type, dst, type"
MOVED = f"INSERT INTO graph_edge SELECT {KEY} FROM model_edge; INSERT INTO graph_evidence BY NAME SELECT {KEY},"


def spoil(world: World, *statements: str) -> None:
    with world.pipeline.store.connect() as con:
        for statement in statements:
            con.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE model_edge SET verified = 'verified' WHERE src = 'Ann'",
        "UPDATE model_edge SET derived = '' WHERE src = 'Ann'",
        "DELETE FROM model_edge WHERE src = 'Ann'",
        "INSERT INTO model_edge BY NAME SELECT * REPLACE ('Eve' AS src) FROM model_edge LIMIT 1",
        "INSERT INTO model_edge FROM model_edge",
        "INSERT INTO model_evidence BY NAME SELECT * REPLACE ('b.txt' AS source_doc_id) FROM model_evidence WHERE src = 'Ann'",
        "UPDATE model_evidence SET answer_id = 'none'",
        'UPDATE model_answer SET proposals = \'{"items": [], "more": 0}\'',
        "UPDATE model_answer SET text_hash = ''",
        f"INSERT INTO graph_edge SELECT {KEY} FROM model_edge",
        f"{MOVED} 'extracted' AS kind, source_doc_id, source_locator, chunk_id, version FROM model_evidence",
        f"{MOVED} 'text' AS kind, source_doc_id, source_locator, chunk_id, version FROM model_evidence",
        f"{MOVED} 'review' AS kind, 'review_decisions' AS source_doc_id, 'a.txt#decision-1' AS source_locator FROM model_edge",
        "UPDATE extraction_record SET deterministic = TRUE",
    ],
)
def test_a_model_edge_that_is_not_as_recorded_is_found(world: World, statement: str) -> None:
    world.graph()
    assert audit_model_edges(world.pipeline.store, world.profile).passed
    spoil(world, *statement.split("; "))
    result = audit_model_edges(world.pipeline.store, world.profile)
    assert not result.passed
    assert result.examples
    assert "Ann" not in result.message


def test_an_edge_with_both_markers_forged_away_everywhere_is_found_by_the_record(world: World) -> None:
    world.graph()
    spoil(
        world,
        f"INSERT INTO graph_edge SELECT {KEY} FROM model_edge",
        "DELETE FROM model_edge",
        "DELETE FROM model_evidence",
    )
    assert not audit_model_edges(world.pipeline.store, world.profile).passed


def test_a_rejected_edge_that_is_still_there_is_found(world: World) -> None:
    world.graph(decisions=[ReviewDecision("Ann", "leads", "Boltworks", "reject", "Eva", "2026")])
    assert audit_model_edges(world.pipeline.store, world.profile).passed
    spoil(
        world,
        f"INSERT INTO model_edge BY NAME SELECT {KEY} FROM review_decision",
        "INSERT INTO model_evidence BY NAME SELECT * EXCLUDE (deterministic) FROM extraction_record WHERE src = 'Ann'",
    )
    assert not audit_model_edges(world.pipeline.store, world.profile).passed


def test_edges_of_a_rule_are_no_models(world: World) -> None:
    world.put("c.txt", "Nordwerk and Sudwerk")
    update_graph(world.pipeline.store, world.profile, DeterministicRelationExtractor(world.profile))
    assert audit_model_edges(world.pipeline.store, world.profile).passed
    spoil(world, "DELETE FROM extraction_record")
    assert not audit_model_edges(world.pipeline.store, world.profile).passed


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE model_evidence SET dst = 'Acmo' WHERE src = 'Ann'",
        "UPDATE model_evidence SET dst = 'the A-c-m-o group' WHERE src = 'Ann'",
        "UPDATE model_evidence SET type = 'like_acmo' WHERE src = 'Ann'",
        "UPDATE model_edge SET src = 'Аcmo' WHERE src = 'Ann'",
        "UPDATE model_node SET id = 'ＡＣＭＯ' WHERE id = 'Ann'",
        "UPDATE model_evidence SET dst_type = 'external_entity' WHERE src = 'Ann'",
    ],
)
def test_an_outsider_on_a_model_edge_is_found(world: World, statement: str) -> None:
    world.graph()
    assert audit_external_model_edges(world.pipeline.store, world.profile).passed
    spoil(world, statement)
    assert not audit_external_model_edges(world.pipeline.store, world.profile).passed


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE model_node SET source_doc_id = 's.txt' WHERE id = 'Ann'",
        "UPDATE model_evidence SET source_doc_id = 's.txt' WHERE src = 'Ann'",
        "UPDATE model_evidence SET source_locator = 's.txt#para1' WHERE src = 'Ann'",
        "UPDATE extraction_record SET source_doc_id = 's.txt' WHERE src = 'Ann'",
        f"INSERT INTO review_evidence BY NAME SELECT {KEY}, 's.txt' AS doc_id, 'x' AS text_hash FROM model_edge",
        "UPDATE model_answer SET text_hash = (SELECT sha256(text) FROM narrative_chunk WHERE doc_id = 's.txt')",
        "UPDATE narrative_chunk SET sensitivity = 'RESTRICTED' WHERE doc_id = 'a.txt'",
    ],
)
def test_a_trace_of_a_restricted_document_in_the_models_tables_is_found(world: World, statement: str) -> None:
    world.graph()
    assert audit_graph_isolation(world.pipeline.store).passed
    spoil(world, statement)
    assert not audit_graph_isolation(world.pipeline.store).passed


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM model_evidence WHERE src = 'Ann'",
        "DELETE FROM model_edge WHERE src = 'Ann'",
        "DELETE FROM model_node WHERE id = 'Ann'",
        "UPDATE model_evidence SET version = 9",
        "DELETE FROM review_decision",
        "DELETE FROM graph_evidence WHERE kind = 'reviewed'",
    ],
)
def test_model_evidence_and_decisions_that_do_not_resolve_are_found(world: World, statement: str) -> None:
    world.graph(decisions=[ReviewDecision("Cy", "leads", "NORD", "accept", "Eva", "2026")])
    assert audit_evidence(world.pipeline.store).passed
    spoil(world, statement)
    assert not audit_evidence(world.pipeline.store).passed
