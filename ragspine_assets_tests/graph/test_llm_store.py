"""A model's relations in the store: apart, marked, cached, and gone with their document (SPEC 5.3, 5.4, 5.6)."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ragspine_assets.audit.asserted import audit_external_model_edges, audit_model_edges
from ragspine_assets.audit.relations import audit_evidence, audit_graph_isolation
from ragspine_assets.graph import (
    DeterministicRelationExtractor,
    GraphEdge,
    LLMRelationExtractor,
    StoredAnswers,
    build_relation_graph,
    update_graph,
    withdraw_documents,
)
from ragspine_assets.graph.answer_cache import AnswersInMemory
from ragspine_assets.policy import Sensitivity
from ragspine_assets.store import ChunkStore, StoreError
from ragspine_assets.store.database import transaction
from ragspine_assets.store.labels import raise_labels

from .conftest import Piece
from .extraction_world import CONTROLLED_TABLES, MODEL_TABLES, Model, World, leads

SECRET = "Zanzibarquux"


def proved(world: World) -> bool:
    store = world.pipeline.store
    results = [
        audit_graph_isolation(store),
        audit_evidence(store),
        audit_model_edges(store, world.profile),
        audit_external_model_edges(store, world.profile),
    ]
    return all(result.passed for result in results)


def relabel(world: World, doc_id: str) -> None:
    """Raise a label as the intake does: within one transaction."""
    with world.pipeline.store.connect() as con, transaction(con):
        raise_labels(con, {doc_id: (Sensitivity.RESTRICTED, "test")}, withdraw=withdraw_documents)


def test_a_models_edges_are_in_tables_of_their_own_with_both_markers(world: World) -> None:
    report = world.graph()
    assert world.model_edges() == [("Ann", "leads", "Boltworks"), ("Cy", "leads", "NORD")]
    assert world.pipeline.rows("SELECT DISTINCT derived, verified FROM model_edge") == [("model-derived", "unverified")]
    assert report.model.edges == {"leads": 2}
    assert proved(world)


def test_the_controlled_tables_are_byte_equal_with_a_model_and_without(world: World) -> None:
    world.plain()
    before = world.dump(*CONTROLLED_TABLES)
    digest = world.plain().digest
    report = world.graph()
    assert world.dump(*CONTROLLED_TABLES) == before
    assert report.digest == digest
    assert report.content_digest != digest


def test_without_an_extractor_the_models_tables_are_empty_and_answers_stay(world: World) -> None:
    digest = world.plain().content_digest
    world.graph()
    assert world.plain().content_digest == digest
    dump = world.dump(*MODEL_TABLES)
    assert not any(dump[table] for table in MODEL_TABLES if table != "model_answer")
    assert len(dump["model_answer"]) == 2


def test_ends_that_no_controlled_node_stands_for_are_nodes_of_the_model(world: World) -> None:
    world.graph()
    nodes = world.pipeline.rows("SELECT type, id, sensitivity, source_doc_id, documents FROM model_node ORDER BY id")
    assert nodes == [
        ("model_entity", "Ann", "CONFIDENTIAL", "a.txt", 1),
        ("model_entity", "Boltworks", "CONFIDENTIAL", "a.txt", 1),
        ("model_entity", "Cy", "INTERNAL", "b.txt", 1),
    ]


def test_one_name_in_two_documents_says_in_how_many_it_stands(world: World) -> None:
    world.model.answers["Li Wei"] = leads(("Li Wei", "Harbour"), ("Li Wei", "Mill"))
    world.put("c.txt", "Li Wei leads the Harbour.")
    world.put("d.txt", "Li Wei leads the Mill.")
    world.graph()
    node = world.reader().get_node("Li Wei", include_model_derived=True)
    assert node is not None
    assert (node.type, node.metadata["documents"]) == ("model_entity", "2")


def test_a_second_run_asks_nothing_and_writes_nothing(world: World) -> None:
    first = world.graph()
    asked = len(world.model.prompts)
    again = world.graph()
    assert (asked, len(world.model.prompts)) == (2, 2)
    assert not again.written
    assert (again.digest, again.content_digest) == (first.digest, first.content_digest)
    assert (world.report.calls, world.report.cache_hits, world.report.input_tokens) == (0, 2, 0)


def test_only_a_changed_text_is_asked_about_again(world: World) -> None:
    world.graph()
    world.put("b.txt", "Dee leads the Nordwerk plant.")
    world.model.answers["Dee"] = leads(("Dee", "Nordwerk"))
    world.model.answers = dict(reversed(world.model.answers.items()))
    world.graph()
    assert len(world.model.prompts) == 3
    assert world.model_edges() == [("Ann", "leads", "Boltworks"), ("Dee", "leads", "NORD")]
    assert proved(world)


@pytest.mark.parametrize("change", ["model", "prompt", "parameters"])
def test_another_model_prompt_or_parameter_asks_again(
    world: World, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.graph()
    if change == "model":
        world.model.model = "another"
    if change == "prompt":
        monkeypatch.setattr("ragspine_assets.graph.llm_extractor.PROMPT_VERSION", "2-other")
    world.graph(**({"max_tokens": 77} if change == "parameters" else {}))
    assert len(world.model.prompts) == 4
    assert len(world.dump("model_answer")["model_answer"]) == 4
    assert proved(world)


def test_another_profile_judges_kept_answers_anew_without_asking(world: World) -> None:
    world.graph()
    world.with_profile(external_entities={"boltworks": "Boltworks"})
    world.graph()
    assert len(world.model.prompts) == 2
    assert world.model_edges() == [("Cy", "leads", "NORD")]
    assert world.report.refused == {"external": 1}
    assert proved(world)


def test_a_failed_question_is_put_again_in_the_next_run(world: World) -> None:
    world.model.answers = {"Boltworks": "fail", **world.model.answers}
    world.model.answers["Boltworks"] = "fail"
    world.graph()
    assert world.model_edges() == [("Cy", "leads", "NORD")]
    world.model.answers["Boltworks"] = leads(("Ann", "Boltworks"))
    world.graph()
    assert len(world.model.prompts) == 3
    assert len(world.model_edges()) == 2


def test_a_run_that_stops_at_a_limit_is_finished_by_the_next(world: World) -> None:
    world.graph(max_llm_calls=1)
    assert (world.report.stopped, world.report.chunks_left, len(world.model_edges())) == ("max_llm_calls", 1, 1)
    world.graph(max_llm_calls=1)
    assert (world.report.stopped, world.report.chunks_left, len(world.model_edges())) == ("", 0, 2)
    assert len(world.model.prompts) == 2


def test_no_connection_is_held_while_the_model_answers(world: World) -> None:
    path = Path(world.pipeline.store.path)
    free: list[bool] = []

    def look() -> None:
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_open_in_another_process, args=(str(path),))
        process.start()
        process.join(30)
        free.append(process.exitcode == 0)

    world.model.before = look
    world.graph(max_llm_calls=1)
    assert free == [True]


def _open_in_another_process(path: str) -> None:
    with ChunkStore(path, wait_s=0.2).connect() as con:
        con.execute("SELECT count(*) FROM narrative_chunk").fetchall()


def test_a_run_killed_after_an_answer_does_not_pay_for_it_again(world: World) -> None:
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_killed_at_second_question, args=(world,))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    assert len(world.dump("model_answer")["model_answer"]) == 1
    world.graph()
    assert (world.report.calls, world.report.cache_hits) == (1, 1)
    assert len(world.model_edges()) == 2


def _killed_at_second_question(world: World) -> None:
    def die() -> None:
        if len(world.model.prompts) == 2:
            os._exit(9)

    world.model.before = die
    world.graph()


# -- isolation ------------------------------------------------------------------------------------------------------------


def test_a_restricted_document_is_in_no_question_and_no_table(world: World) -> None:
    world.graph()
    assert not any(SECRET in prompt for prompt in world.model.prompts)
    assert world.traces(SECRET) == []
    assert world.traces("s.txt") == []


def test_the_search_for_traces_finds_one_when_the_document_is_open(world: World) -> None:
    world.put("s.txt", "Zanzibarquux leads Ann and everybody.", "PUBLIC")
    world.graph()
    assert {"model_answer", "model_node", "model_edge", "model_evidence"} <= set(world.traces(SECRET))


def test_raising_a_label_takes_edges_answers_and_decisions_along_at_once(world: World) -> None:
    world.graph()
    world.graph(decisions=[decision("Ann", "leads", "Boltworks", "accept")])
    assert "graph_edge" in world.traces("Boltworks")
    relabel(world, "a.txt")
    assert world.traces("Boltworks") == []
    assert world.traces("a.txt") == []
    assert proved(world)
    assert world.model_edges() == [("Cy", "leads", "NORD")]
    after = world.dump(*CONTROLLED_TABLES, "model_node", "model_edge", "model_evidence", "extraction_record")
    assert not world.graph().written
    assert world.dump(*after) == after


def test_what_two_documents_say_outlives_one_of_them(world: World) -> None:
    world.put("copy.txt", "Ann leads Boltworks since the spring.")
    world.graph()
    relabel(world, "a.txt")
    assert ("Ann", "leads", "Boltworks") in world.model_edges()
    assert world.pipeline.rows("SELECT DISTINCT source_doc_id FROM model_evidence ORDER BY 1") == [
        ("b.txt",),
        ("copy.txt",),
    ]
    assert world.pipeline.rows("SELECT source_doc_id, sensitivity, documents FROM model_node WHERE id = 'Ann'") == [
        ("copy.txt", "INTERNAL", 1)
    ]
    assert len(world.dump("model_answer")["model_answer"]) == 2
    assert world.traces("a.txt") == []


def test_a_label_raised_while_the_model_answers_takes_its_answer_along(world: World) -> None:
    def raise_it() -> None:
        if "Boltworks" in world.model.prompts[-1]:
            relabel(world, "a.txt")

    world.model.before = raise_it
    world.graph()
    assert world.traces("Boltworks") == []
    assert world.model_edges() == [("Cy", "leads", "NORD")]
    assert proved(world)


def test_a_document_that_is_gone_takes_its_edges_along(world: World) -> None:
    world.graph()
    world.remove("a.txt")
    world.graph()
    assert world.model_edges() == [("Cy", "leads", "NORD")]
    assert proved(world)


def test_answers_that_could_not_be_stored_are_an_error_and_not_silence(world: World) -> None:
    class Busy(StoredAnswers):
        def keep(self, answers: object) -> None:
            self._waiting.extend(answers)  # pyright: ignore[reportArgumentType]

    with pytest.raises(StoreError, match="could not be stored"):
        world.graph(cache=Busy(world.pipeline.store))


def test_a_label_raised_a_moment_before_the_question_withholds_it(world: World) -> None:
    def raise_the_other() -> None:
        relabel(world, "b.txt" if "Boltworks" in world.model.prompts[-1] else "a.txt")

    world.model.before = raise_the_other
    world.graph()
    assert len(world.model.prompts) == 1
    assert (world.report.calls, world.report.stopped) == (1, "withheld")


def test_a_busy_store_withholds_and_the_next_run_asks(world: World) -> None:
    holder = "import sys, duckdb; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.readline()"
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(world.pipeline.store.path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        cache = StoredAnswers(ChunkStore(world.pipeline.store.path, wait_s=0.1))
        assert cache.withheld({"a.txt", "b.txt"}) == {"a.txt", "b.txt"}
        extractor = LLMRelationExtractor(world.model, profile=world.profile, cache=AnswersBeside(cache))
        assert extractor.extract([Piece("a.txt", "", "Ann leads Boltworks", "a.txt#para1")]) == ()
        process.communicate("\n")
    assert world.model.prompts == []
    assert (extractor.report.calls, extractor.report.stopped) == (0, "withheld")
    world.graph()
    assert len(world.model.prompts) == 2


class AnswersBeside(AnswersInMemory):
    """Answers in memory, labels from a store."""

    def __init__(self, labels: StoredAnswers) -> None:
        super().__init__()
        self.withheld = labels.withheld  # pyright: ignore[reportAttributeAccessIssue]


# -- other ways in --------------------------------------------------------------------------------------------------------


def test_the_deterministic_extractor_leaves_the_base_part_as_it_is(world: World) -> None:
    world.put("c.txt", "Nordwerk and Sudwerk")
    world.plain()
    before = world.dump(*CONTROLLED_TABLES)
    update_graph(world.pipeline.store, world.profile, DeterministicRelationExtractor(world.profile))
    for table in ("graph_edge", "graph_evidence"):
        rows = world.pipeline.rows(f"SELECT * FROM {table} WHERE type <> 'co_occurs_with' ORDER BY ALL")
        assert rows == before[table]
    assert world.pipeline.rows("SELECT deterministic, src, dst FROM extraction_record") == [(True, "NORD", "SUD")]
    assert proved(world)


def test_a_graph_in_memory_keeps_a_models_edges_apart_too(world: World) -> None:
    class Somebody:
        def extract(self, chunks: object) -> tuple[GraphEdge, ...]:
            return (GraphEdge("X", "nordwerk", "likes", {"source_doc_id": "a.txt", "source_locator": "a.txt#para1"}),)

    chunks = [Piece("a.txt", "", "X likes nordwerk", "a.txt#para1")]
    graph = build_relation_graph(world.profile, chunks=chunks, relation_extractor=Somebody())
    base = build_relation_graph(world.profile, chunks=chunks)
    assert (graph.nodes(), graph.edges()) == (base.nodes(), base.edges())
    (edge,) = [e for e in graph.edges(include_model_derived=True) if e not in base.edges()]
    assert (edge.src, edge.dst, edge.metadata["verified"]) == ("X", "NORD", "unverified")


def decision(src: str, kind: str, dst: str, verdict: str) -> object:
    from ragspine_assets.graph import ReviewDecision

    return ReviewDecision(src, kind, dst, verdict, "Eva", "2026-01-02")


def test_running_twice_gives_a_byte_equal_graph(world: World) -> None:
    world.graph()
    before = world.dump(*CONTROLLED_TABLES, *MODEL_TABLES)
    world.graph()
    assert world.dump(*before) == before


def test_a_model_may_be_replaced_and_its_edges_go_with_it(world: World) -> None:
    world.graph()
    world.model = Model({"Boltworks": leads(("Ann", "Boltworks"), kind="owns")}, model="other")
    world.graph()
    assert world.model_edges() == [("Ann", "owns", "Boltworks")]
    assert world.pipeline.rows("SELECT DISTINCT model FROM model_evidence") == [("other",)]
