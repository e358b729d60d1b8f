"""What people decide about a model's edges (SPEC 5.9)."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragspine_assets.audit.asserted import audit_model_edges
from ragspine_assets.audit.relations import audit_evidence, audit_graph_isolation
from ragspine_assets.graph import ReviewDecision, ReviewError, read_decisions, review_template
from ragspine_assets.graph.review import inert_cell, plain_cell

from .extraction_world import CONTROLLED_TABLES, Model, World, leads

ACCEPT = ReviewDecision("Ann", "leads", "Boltworks", "accept", "Eva", "2026-01-02T10:00:00Z")
REJECT = ReviewDecision("Ann", "leads", "Boltworks", "reject", "Eva", "2026-01-02")
BOTH = [("Ann", "leads", "Boltworks"), ("Cy", "leads", "NORD")]


def controlled(world: World) -> list[tuple[object, ...]]:
    return world.pipeline.rows("SELECT src, type, dst FROM graph_edge WHERE type = 'leads' ORDER BY ALL")


def proved(world: World) -> bool:
    store = world.pipeline.store
    results = [audit_graph_isolation(store), audit_evidence(store), audit_model_edges(store, world.profile)]
    return all(result.passed for result in results)


def test_an_accepted_edge_is_controlled_and_the_models_stays_unverified(world: World) -> None:
    world.graph()
    report = world.graph(decisions=[ACCEPT])
    assert controlled(world) == BOTH[:1]
    assert world.model_edges() == BOTH
    assert world.pipeline.rows("SELECT DISTINCT verified FROM model_edge") == [("unverified",)]
    assert (report.review.accepted, report.review.waiting) == (1, 1)
    assert proved(world)


def test_the_source_of_an_accepted_edge_is_the_decision_and_what_it_rests_on_stands_beside(world: World) -> None:
    world.graph(decisions=[ACCEPT])
    (edge,) = [edge for edge in world.reader().edges() if edge.type == "leads"]
    assert edge.metadata["source_doc_id"] == "review_decisions"
    assert edge.metadata["source_locator"].startswith("a.txt#decision-")
    assert "verified" not in edge.metadata
    evidence = [(found.kind, found.source_doc_id, found.chunk_id) for found in world.reader().evidence(edge)]
    assert evidence == [("reviewed", "a.txt", "a.txt#c0"), ("review", "review_decisions", "")]


def test_the_ends_of_an_accepted_edge_are_as_closed_as_its_document(world: World) -> None:
    world.graph(decisions=[ACCEPT])
    rows = world.pipeline.rows("SELECT id, sensitivity FROM graph_node WHERE type = 'model_entity' ORDER BY id")
    assert rows == [("Ann", "CONFIDENTIAL"), ("Boltworks", "CONFIDENTIAL")]


def test_a_decision_is_cited_in_the_name_of_each_document_it_rests_on(world: World) -> None:
    world.put("copy.txt", "Ann leads Boltworks since the spring.")
    world.graph(decisions=[ACCEPT])
    rows = world.pipeline.rows(
        "SELECT split_part(source_locator, '#', 1) FROM graph_evidence WHERE kind = 'review' ORDER BY 1"
    )
    assert rows == [("a.txt",), ("copy.txt",)]


def test_a_rejected_edge_is_not_shown_and_stays_in_the_record(world: World) -> None:
    report = world.graph(decisions=[REJECT])
    assert world.model_edges() == BOTH[1:]
    assert controlled(world) == []
    assert (report.review.rejected, report.review.waiting) == (1, 1)
    assert len(world.dump("extraction_record")["extraction_record"]) == 2
    assert proved(world)


def test_decisions_outlive_rebuilds_other_models_and_runs_without_one(world: World) -> None:
    world.graph(decisions=[ACCEPT])
    world.plain()
    assert controlled(world) == BOTH[:1]
    world.model = Model({"Nordwerk": leads(("Cy", "Nordwerk"))}, model="other")
    world.graph()
    assert controlled(world) == BOTH[:1]
    assert proved(world)


def test_a_rejection_holds_for_what_another_model_says_again(world: World) -> None:
    world.graph(decisions=[REJECT])
    world.plain()
    world.model.model = "other"
    world.graph()
    assert world.model_edges() == BOTH[1:]


def test_a_decision_goes_with_the_text_it_rests_on(world: World) -> None:
    world.graph(decisions=[ACCEPT])
    world.put("a.txt", "Boltworks has moved.", "CONFIDENTIAL")
    world.graph()
    assert controlled(world) == []
    assert world.dump("review_decision", "review_evidence") == {"review_decision": [], "review_evidence": []}
    assert proved(world)


def test_a_decision_stays_while_another_document_holds_the_text(world: World) -> None:
    world.put("copy.txt", "Ann leads Boltworks since the spring.")
    world.graph(decisions=[ACCEPT])
    world.remove("a.txt")
    world.graph()
    assert controlled(world) == BOTH[:1]
    assert proved(world)


def test_a_new_version_with_the_same_text_keeps_the_decision(world: World) -> None:
    world.graph(decisions=[ACCEPT])
    world.put("a.txt", "Ann leads Boltworks since the spring.", "CONFIDENTIAL")
    world.graph()
    assert controlled(world) == BOTH[:1]
    assert proved(world)


def test_a_row_taken_out_of_the_file_is_taken_back(world: World) -> None:
    world.graph()
    before = world.dump(*CONTROLLED_TABLES)
    world.graph(decisions=[ACCEPT])
    world.graph(decisions=[])
    assert world.dump(*CONTROLLED_TABLES) == before


def test_without_a_file_decisions_stay(world: World) -> None:
    world.graph(decisions=[ACCEPT])
    world.graph(decisions=None)
    assert controlled(world) == BOTH[:1]


def test_of_two_rows_about_one_edge_the_later_counts(world: World) -> None:
    report = world.graph(decisions=[ACCEPT, REJECT])
    assert (report.review.accepted, report.review.rejected) == (0, 1)


def test_a_row_about_an_edge_nobody_asserts_does_nothing_and_is_counted(world: World) -> None:
    nobody = ReviewDecision("Ann", "owns", "The Moon", "accept", "Eva", "2026")
    report = world.graph(decisions=[nobody])
    assert (report.review.accepted, report.review.unmatched) == (0, 1)
    assert world.traces("The Moon") == []


def test_a_restricted_documents_edge_cannot_be_decided_about(world: World) -> None:
    secret = ReviewDecision("Zanzibarquux", "leads", "Ann", "accept", "Eva", "2026")
    world.graph(decisions=[secret])
    assert world.traces("Zanzibarquux") == []


def test_nobody_can_accept_a_competitor(world: World) -> None:
    world.graph(decisions=[ACCEPT])
    world.with_profile(external_entities={"boltworks": "Boltworks"})
    report = world.graph()
    assert controlled(world) == []
    assert report.review.screened == 1


def test_the_kinds_of_ends_narrow_a_decision(world: World) -> None:
    typed = ReviewDecision("Ann", "leads", "Boltworks", "accept", "Eva", "2026", src_type="entity")
    assert world.graph(decisions=[typed]).review.unmatched == 1
    typed = ReviewDecision("Ann", "leads", "Boltworks", "accept", "Eva", "2026", src_type="model_entity")
    assert world.graph(decisions=[typed]).review.accepted == 1


# -- the file -------------------------------------------------------------------------------------------------------------


def test_a_file_of_decisions_is_read(tmp_path: Path) -> None:
    path = tmp_path / "review.csv"
    path.write_text('\ufeffsrc,type,dst,verdict,who,when\nAnn,leads,"Bolt, Ltd", Accept ,Eva,2026-01-02\n')
    assert read_decisions(path) == [ReviewDecision("Ann", "leads", "Bolt, Ltd", "accept", "Eva", "2026-01-02")]


def test_a_missing_file_says_nothing(tmp_path: Path) -> None:
    assert read_decisions(tmp_path / "none.csv") is None


def test_the_template_lists_what_waits_and_reads_back_once_filled_in(world: World, tmp_path: Path) -> None:
    world.graph(decisions=[REJECT])
    with world.pipeline.store.connect() as con:
        template = review_template(con)
    assert template.splitlines() == [
        "src_type,src,type,dst_type,dst,verdict,who,when",
        "model_entity,Cy,leads,entity,NORD,,,",
    ]
    path = tmp_path / "review.csv"
    path.write_text(template.replace(",,,", ",accept,Eva,2026"))
    assert world.graph(decisions=read_decisions(path)).review.accepted == 1


BEGINNINGS = tuple(
    char for char in map(chr, range(0x110000)) if unicodedata.normalize("NFKC", char)[:1] in tuple("=+-@")
)

FORMULAS = [
    *(f"{char}1" for char in BEGINNINGS), "x;=HYPERLINK(1)", "x\t@SUM(1)", "x| +1", "\u200b=1", "\ufeff\u00a0=1", "a;'=1", "\u22121",
    "=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''=1", " =1", "＝1", "'quoted'", "O'Neill", "plain", "x=1", "",
]  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_no_cell_of_the_template_is_a_formula_and_reading_gives_the_name_back(name: str) -> None:
    cell = inert_cell(name)
    assert plain_cell(cell) == name
    # As spreadsheets of any locale cut it, and as they skip what is not to be seen.
    for part in re.split("[;|\t\r\n]", cell):
        assert not part.lstrip(" \u00a0\u200b\ufeff").startswith((*BEGINNINGS, "\u2212"))


@given(st.text(alphabet="'=+-@\t\r\n a;|＝\u200b", max_size=8))
def test_what_is_written_inert_is_read_as_it_was(name: str) -> None:
    assert plain_cell(inert_cell(name)) == name


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"src,type,dst,verdict,who\n", "'when' is missing"),
        (b"src,type,dst,verdict,who,when,why\n", "column 7 is unknown"),
        (b"src,type,dst,verdict,who,when\nA,k,B,maybe,E,2026\n", "line 2: verdict must be accept or reject"),
        (b"src,type,dst,verdict,who,when\nA,k,B,accept,,2026\n", "line 2: who must not be empty"),
        (b"src,type,dst,verdict,who,when\nA,k,B,accept,E,2026,x,y\n", "line 2"),
        (b"src,type,dst,verdict,who,when\nA,k\n", "line 2"),
        (b'src,type,dst,verdict,who,when\n"A,k', "line"),
        (b"\xff\xfe\xfa", "UTF-8"),
        (b"", "missing"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_what_is_allowed(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "review.csv"
    path.write_bytes(content)
    with pytest.raises(ReviewError, match=message):
        read_decisions(path)
