"""The graph of a store: incremental, minimal in what it writes, without a trace of RESTRICTED documents."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragspine_assets.graph import (
    build_relation_graph,
    fact_table,
    facts_of,
    graph_digest,
    rebuild_graph,
    servable_chunks,
    withdraw_documents,
    write_facts,
)
from ragspine_assets.policy import DomainProfile
from ragspine_assets.store.database import transaction

from .conftest import Store, fact

Traces = Callable[[duckdb.DuckDBPyConnection, str], list[str]]


def test_a_first_build_reports_what_there_is(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "Nordwerk grows", "nothing", entity="HOLD")
    report = rebuild_graph(store.con, profile)
    assert report.nodes == {"doc": 1, "entity": 3, "external_entity": 3, "metric": 1, "region": 2, "zone": 1}
    assert report.edges == {"competes_with": 3, "derives": 3, "mentions": 2, "parent_of": 2}
    assert report.evidence["mentions"] == 3
    assert report.nodes_added == report.nodes
    assert report.edges_added == report.edges
    assert (report.documents, report.documents_scanned, report.written) == (1, 1, True)
    assert report.digest == graph_digest(store.con)


def test_a_second_build_writes_nothing_and_searches_nothing(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "Nordwerk grows", entity="HOLD")
    first = rebuild_graph(store.con, profile)
    before = store.dump()
    again = rebuild_graph(store.con, profile)
    assert (again.written, again.documents_scanned) == (False, 0)
    assert not again.nodes_added
    assert not again.edges_removed
    assert again.digest == first.digest
    assert store.dump() == before


def test_temporary_tables_and_views_do_not_stay(store: Store, profile: DomainProfile) -> None:
    rebuild_graph(store.con, profile)
    withdraw_documents(store.con, ["a.txt"])
    write_facts(store.con, fact_table([fact()]))
    assert store.con.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall() == []
    assert store.con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == []


def test_only_a_new_version_is_searched_again(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "Nordwerk grows")
    store.add("b.txt", "Sudwerk grows")
    rebuild_graph(store.con, profile)
    store.add("a.txt", "Sudwerk too", version=2)
    report = rebuild_graph(store.con, profile)
    assert report.documents_scanned == 1
    assert ("a.txt", "mentions", "SUD") in store.edges()
    assert ("a.txt", "mentions", "NORD") not in store.edges()
    assert store.con.execute("SELECT DISTINCT version FROM graph_mention WHERE doc_id = 'a.txt'").fetchall() == [(2,)]


def test_new_names_in_the_profile_make_every_text_be_searched_again(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "Westwerk grows")
    rebuild_graph(store.con, profile)
    wider = DomainProfile(home_entity_code="HOLD", home_entity_synonyms={"westwerk": "WEST"})
    report = rebuild_graph(store.con, wider)
    assert report.documents_scanned == 1
    assert ("a.txt", "mentions", "WEST") in store.edges()
    assert ("entity", "NORD") not in store.nodes()


def test_a_removed_document_takes_its_facts_and_its_own_entities_with_it(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "text", entity="Only Here")
    store.add("b.txt", "text", entity="NORD")
    write_facts(store.con, fact_table([fact("a.txt")]))
    rebuild_graph(store.con, profile)
    store.remove("a.txt")
    report = rebuild_graph(store.con, profile)
    assert ("doc", "a.txt") not in store.nodes()
    assert ("entity", "Only Here") not in store.nodes()
    assert ("b.txt", "mentions", "NORD") in store.edges()
    assert report.nodes_removed == {"doc": 1, "entity": 1}
    assert report.edges_removed == {"mentions": 3}


def test_a_document_that_comes_back_has_only_its_new_evidence(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "Nordwerk")
    rebuild_graph(store.con, profile)
    store.remove("a.txt")
    rebuild_graph(store.con, profile)
    store.add("a.txt", "nothing", "Nordwerk", version=2)
    rebuild_graph(store.con, profile)
    evidence = store.con.execute("SELECT source_locator, version FROM graph_evidence WHERE source_doc_id = 'a.txt'")
    assert evidence.fetchall() == [("a.txt#para2", 2)]


@pytest.mark.parametrize("label", ["RESTRICTED", "", "odd", " restricted "])
def test_a_raised_label_removes_every_trace(store: Store, profile: DomainProfile, traces: Traces, label: str) -> None:
    store.add("hidden.txt", "Nordwerk", entity="Only Here")
    store.add("open.txt", "Nordwerk")
    sly = {**vars(fact("open.txt")), "source_locator": "hidden.txt#para1"}
    write_facts(store.con, fact_table([fact("hidden.txt"), type(fact())(**sly)]))
    rebuild_graph(store.con, profile)
    assert traces(store.con, "hidden.txt")
    store.relabel("hidden.txt", label)
    report = rebuild_graph(store.con, profile)
    assert report.written
    assert traces(store.con, "hidden.txt") == []
    assert traces(store.con, "Only Here") == []


def test_a_label_raised_only_in_the_document_table_counts(store: Store, profile: DomainProfile, traces: Traces) -> None:
    store.add("hidden.txt", "Nordwerk")
    store.con.execute("UPDATE document SET sensitivity = 'RESTRICTED'")
    rebuild_graph(store.con, profile)
    assert traces(store.con, "hidden.txt") == []


def test_one_restricted_chunk_hides_the_document(store: Store, profile: DomainProfile, traces: Traces) -> None:
    store.add("hidden.txt", "Nordwerk", "Sudwerk")
    store.con.execute("UPDATE narrative_chunk SET sensitivity = 'RESTRICTED' WHERE seq = 1")
    rebuild_graph(store.con, profile)
    assert traces(store.con, "hidden.txt") == []


def test_a_leaking_label_reader_would_leave_traces(
    store: Store, profile: DomainProfile, traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add("hidden.txt", "Nordwerk", label="RESTRICTED")
    monkeypatch.setattr("ragspine_assets.graph.temp_tables.read_label", lambda _: SimpleNamespace(rank=0))
    rebuild_graph(store.con, profile)
    assert {"graph_node", "graph_edge", "graph_evidence", "graph_scan", "graph_mention"} <= set(
        traces(store.con, "hidden.txt")
    )


def test_a_restricted_document_changes_no_number_of_the_report(store: Store, profile: DomainProfile) -> None:
    store.add("open.txt", "Nordwerk")
    without = rebuild_graph(store.con, profile)
    store.add("hidden.txt", "Nordwerk", entity="Only Here", label="RESTRICTED")
    with_secret = rebuild_graph(store.con, profile)
    assert (with_secret.nodes, with_secret.edges, with_secret.evidence) == (
        without.nodes,
        without.edges,
        without.evidence,
    )
    assert (with_secret.documents, with_secret.documents_scanned) == (1, 0)
    assert with_secret.digest == without.digest


def test_a_label_lowered_again_brings_the_document_back(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "Nordwerk")
    before = rebuild_graph(store.con, profile).digest
    store.relabel("a.txt", "RESTRICTED")
    rebuild_graph(store.con, profile)
    store.relabel("a.txt", "INTERNAL")
    assert rebuild_graph(store.con, profile).digest == before


def test_withdrawing_does_what_a_rebuild_would(store: Store, profile: DomainProfile, traces: Traces) -> None:
    store.add("hidden.txt", "Nordwerk", entity="Only Here", label="PUBLIC")
    store.add("a.txt", "Sudwerk", entity="Shared", label="CONFIDENTIAL")
    store.add("0.txt", "text", entity="Shared", label="PUBLIC")
    write_facts(store.con, fact_table([fact("hidden.txt", entity="Shared"), fact("outside.csv", entity="Shared")]))
    rebuild_graph(store.con, profile)
    with transaction(store.con):
        store.relabel("hidden.txt", "RESTRICTED")
        store.relabel("0.txt", "RESTRICTED")
        withdraw_documents(store.con, ["hidden.txt", "0.txt", "never seen.txt"])
    assert traces(store.con, "hidden.txt") == traces(store.con, "Only Here") == traces(store.con, "0.txt") == []
    before = store.dump()
    assert not rebuild_graph(store.con, profile).written
    assert store.dump() == before


def test_withdrawing_is_undone_with_the_callers_transaction(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "Nordwerk")
    rebuild_graph(store.con, profile)
    before = store.dump()

    def withdraw_and_fail() -> None:
        with transaction(store.con):
            withdraw_documents(store.con, ["a.txt"])
            raise RuntimeError("something fails later")

    with pytest.raises(RuntimeError, match="later"):
        withdraw_and_fail()
    assert store.dump() == before


def test_withdrawing_from_a_store_without_graph_tables_is_no_error() -> None:
    with duckdb.connect() as con:
        withdraw_documents(con, ["a.txt"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12, deadline=None)
@given(
    documents=st.lists(
        st.tuples(
            st.sampled_from(["Nordwerk", "sudwerk", "none"]),
            st.sampled_from(["", "Shared", "Other", "NORD"]),
            st.sampled_from(["PUBLIC", "INTERNAL", "CONFIDENTIAL"]),
        ),
        min_size=1,
        max_size=5,
    ),
    facts=st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["Shared", "NORD", "Third"])), max_size=4),
    withdrawn=st.sets(st.integers(0, 4)),
)
def test_withdrawing_always_leaves_what_a_rebuild_leaves(
    store: Store,
    profile: DomainProfile,
    documents: list[tuple[str, str, str]],
    facts: list[tuple[int, str]],
    withdrawn: set[int],
) -> None:
    for table in (
        "narrative_chunk",
        "document",
        "graph_node",
        "graph_edge",
        "graph_evidence",
        "graph_scan",
        "graph_mention",
    ):
        store.con.execute(f"DELETE FROM {table}")
    for number, (text, entity, label) in enumerate(documents):
        store.add(f"{number}.txt", text, entity=entity, label=label)
    write_facts(store.con, fact_table([fact(f"{number}.txt", entity=entity) for number, entity in facts]))
    rebuild_graph(store.con, profile)
    gone = [f"{number}.txt" for number in withdrawn]
    for doc_id in gone:
        store.con.execute("INSERT INTO document (doc_id, sensitivity) VALUES (?, 'RESTRICTED')", [doc_id])
        store.relabel(doc_id, "RESTRICTED")
    withdraw_documents(store.con, gone)
    before = store.dump()
    assert not rebuild_graph(store.con, profile).written
    assert store.dump() == before


def test_the_store_and_values_in_memory_give_the_same_graph(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "Nordwerk grows", "北方", entity="HOLD")
    store.add("b.txt", "text", entity="Someone", label="CONFIDENTIAL", version=3)
    store.add("hidden.txt", "text", entity="NORD", label="RESTRICTED")
    facts = fact_table([fact("a.txt"), fact("hidden.txt"), fact("outside.csv", metric="EBIT")])
    write_facts(store.con, facts)
    report = rebuild_graph(store.con, profile)
    graph = build_relation_graph(profile, facts=facts_of(facts), chunks=servable_chunks(store.con))
    with graph.connect() as con:
        # Only the store knows that hidden.txt is RESTRICTED; values in memory cannot.
        withdraw_documents(con, ["hidden.txt"])
        assert graph_digest(con) == report.digest


def test_rows_changed_by_hand_are_put_right(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "Nordwerk")
    digest = rebuild_graph(store.con, profile).digest
    for damage in (
        "DELETE FROM graph_edge WHERE type = 'parent_of'",
        "UPDATE graph_node SET label = 'x' WHERE id = 'NORD'",
        "INSERT INTO graph_edge VALUES ('doc', 'ghost', 'entity', 'NORD', 'mentions')",
        "INSERT INTO graph_node SELECT * FROM graph_node",
    ):
        store.con.execute(damage)
        assert rebuild_graph(store.con, profile).written
        assert graph_digest(store.con) == digest


def test_a_changed_label_is_a_changed_node_and_no_new_one(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "Nordwerk")
    rebuild_graph(store.con, profile)
    store.relabel("a.txt", "PUBLIC")
    report = rebuild_graph(store.con, profile)
    assert (report.nodes_changed, report.nodes_added, report.nodes_removed) == ({"doc": 1}, {}, {})


def test_the_digest_does_not_depend_on_order(store: Store, profile: DomainProfile, tmp_path: object) -> None:
    store.add("a.txt", "Nordwerk")
    store.add("b.txt", "Sudwerk", entity="HOLD")
    first = rebuild_graph(store.con, profile).digest
    store.con.execute("DELETE FROM narrative_chunk")
    store.add("b.txt", "Sudwerk", entity="HOLD")
    store.add("a.txt", "Nordwerk")
    for table in ("graph_node", "graph_edge", "graph_evidence", "graph_scan", "graph_mention"):
        store.con.execute(f"DELETE FROM {table}")
    assert rebuild_graph(store.con, profile).digest == first


def test_a_failing_build_leaves_the_graph_as_it_was(
    store: Store, profile: DomainProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add("a.txt", "Nordwerk")
    rebuild_graph(store.con, profile)
    before = store.dump()
    store.add("b.txt", "Sudwerk")

    def fail(con: duckdb.DuckDBPyConnection) -> str:
        raise RuntimeError("killed")

    monkeypatch.setattr("ragspine_assets.graph.build.graph_digest", fail)
    with pytest.raises(RuntimeError, match="killed"):
        rebuild_graph(store.con, profile)
    assert store.dump() == before
    monkeypatch.undo()
    assert rebuild_graph(store.con, profile).documents_scanned == 1


def test_progress_is_told_in_chunks(store: Store, profile: DomainProfile) -> None:
    store.add("a.txt", "one", "two", "three")
    told: list[int] = []
    rebuild_graph(store.con, profile, progress=told.append)
    assert told[-1] == 3


def test_chunks_for_extractors_are_active_open_and_in_order(store: Store) -> None:
    store.add("b.txt", *(f"text {n}" for n in range(12)))
    store.add("a.txt", "old")
    store.add("a.txt", "new", version=2)
    store.add("hidden.txt", "secret", label="RESTRICTED")
    chunks = servable_chunks(store.con)
    assert [(chunk.doc_id, chunk.seq) for chunk in chunks] == [("a.txt", 0), *(("b.txt", n) for n in range(12))]
    assert (chunks[0].text, chunks[0].version) == ("new", 2)
