"""Handed cases: what the public library answers, and faults people met (kinds llm-output, graph, screen)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragspine_assets.graph import (
    DeterministicRelationExtractor,
    Fact,
    GraphChunk,
    GraphEdge,
    LLMRelationExtractor,
    build_relation_graph,
)
from ragspine_assets.llm import ChatReply, ProviderError
from ragspine_assets.policy import DimensionSpec, DomainProfile, SecurityGate

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "cases"
SOURCES = {"source_doc_id", "source_locator"}


def rows() -> list[dict[str, object]]:
    path = SHARED / "oracle" / "relation_graph.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def bug_cases(*kinds: str) -> list[dict[str, object]]:
    path = SHARED / "bug_cases.json"
    return [case for case in json.loads(path.read_text()) if case["kind"] in kinds] if path.is_file() else []


def profile_of(row: dict[str, object]) -> DomainProfile:
    given = dict(row["profile"])  # pyright: ignore[reportArgumentType, reportCallIssue]
    dimensions = tuple(
        DimensionSpec(**{key: value for key, value in spec.items() if key != "identity"})
        for spec in given.pop("dimensions")
    )
    return DomainProfile(**given, dimensions=dimensions)


class Replies:
    """The recorded replies, by the text asked about."""

    def __init__(self, row: dict[str, object]) -> None:
        texts = row.get("provider_user_texts") or []
        replies = row["replies"] or []
        self.by_text = dict(zip(texts, replies, strict=False))  # pyright: ignore[reportArgumentType, reportCallIssue]
        self.seen: list[str] = []

    def chat(self, messages: Sequence[dict[str, str]], **options: object) -> ChatReply:
        prompt = messages[-1]["content"]
        self.seen.append(prompt)
        reply = next(reply for text, reply in self.by_text.items() if text in prompt)
        if isinstance(reply, dict):
            raise ProviderError("recorded")
        return ChatReply(str(reply))


def pieces(row: dict[str, object], names: str = "") -> list[GraphChunk]:
    """Return a row's chunks; `names` is added to their text, since ours asks that ends stand in it (SPEC 5.6)."""
    return [
        GraphChunk(
            chunk["doc_id"], f"{chunk['doc_id']}#c{n}", n, chunk["entity"], chunk["text"] + names,
            chunk["source_locator"], chunk.get("sensitivity", "INTERNAL"),
        )
        for n, chunk in enumerate(row["chunks"])  # pyright: ignore[reportArgumentType]
    ]  # fmt: skip


# Our answers differ by SPEC 5.6: surrounding prose and a byte order mark are taken off before the value is read.
MORE_TOLERANT = {"llm trailing prose": [("SUBA", "SUBB", "k")], "llm bom": [("SUBA", "SUBB", "k")]}


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['id']} {row['name']}")
def test_what_is_visible_is_what_the_public_library_shows(row: dict[str, object]) -> None:
    profile = profile_of(row)
    facts = [Fact(**{k: v for k, v in f.items() if k not in {"channel", "geography"}}) for f in row["facts"]]  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]
    extractor = None
    if row["extractor"] == "llm":
        extractor = LLMRelationExtractor(Replies(row), profile=profile)
    elif row["extractor"] != "none":
        extractor = DeterministicRelationExtractor(profile)
    names = ". SUBA with GRP and SUBB." if row["extractor"] == "llm" else ""
    graph = build_relation_graph(profile, facts=facts, chunks=pieces(row, names), relation_extractor=extractor)
    secret = {chunk.doc_id for chunk in pieces(row) if chunk.sensitivity not in {"PUBLIC", "INTERNAL", "CONFIDENTIAL"}}
    expected = {tuple(edge) for edge in row["visible_edges"] if edge[0] not in secret}  # pyright: ignore[reportGeneralTypeIssues]
    # A label outside the lattice is RESTRICTED here (SPEC 1.8), and then the document says nothing.
    said = {(edge["src"], edge["dst"], edge["type"]) for edge in row.get("extracted_edges", [])}  # pyright: ignore[reportGeneralTypeIssues]
    asserted = [
        (edge["src"], edge["dst"], edge["type"])
        for edge in row.get("extracted_edges", [])  # pyright: ignore[reportGeneralTypeIssues]
        if edge["metadata"]["source_doc_id"] not in secret
    ] or MORE_TOLERANT.get(str(row["name"]), [])
    controlled = {(edge.src, edge.dst, edge.type) for edge in graph.edges()}
    # The public library puts a model's edges among the others; there they never are (SPEC 5.3).
    assert expected - said <= controlled
    more = controlled - expected
    assert all(kind == "mentions" for _, _, kind in more) or row["name"] == "llm collides parent_of"
    unverified = [edge for edge in graph.edges(include_model_derived=True) if "verified" in edge.metadata]
    assert [(edge.src, edge.dst, edge.type) for edge in unverified] == sorted(asserted)
    assert all(edge.metadata["derived"] == "model-derived" for edge in unverified)
    visible = {node.id for node in graph.nodes()}
    assert {name for name in row["visible_ids"] if name not in secret} <= visible  # pyright: ignore[reportGeneralTypeIssues]
    assert not secret & visible


@pytest.mark.parametrize("row", [row for row in rows() if row["replies"]], ids=lambda row: str(row["id"]))
def test_ends_that_are_not_in_the_text_are_refused_where_the_public_library_takes_them(row: dict[str, object]) -> None:
    extractor = LLMRelationExtractor(Replies(row), profile=profile_of(row))
    assert extractor.extract(pieces(row)) == ()


def relations(extractor_text: str, reply: str) -> tuple[tuple[GraphEdge, ...], dict[str, int]]:
    class One:
        def chat(self, messages: object, **options: object) -> ChatReply:
            return ChatReply(reply)

    extractor = LLMRelationExtractor(One(), profile=DomainProfile(external_entities={"rival": "Rival"}))
    chunk = GraphChunk("a.txt", "a.txt#c0", 0, "", extractor_text, "a.txt#para1")
    return extractor.extract([chunk]), dict(extractor.report.refused)


@pytest.mark.parametrize(
    "case", [case for case in bug_cases("llm-output") if case["expected"] == "1 edge"], ids=lambda case: str(case["id"])
)
def test_an_answer_that_others_could_not_read_gives_its_edge(case: dict[str, dict[str, str]]) -> None:
    edges, refused = relations("Ann leads Bolt Ltd, and says use `ls` there.", case["input"]["reply"])
    assert (len(edges), refused) == (1, {})


@pytest.mark.parametrize(
    "case", [case for case in bug_cases("llm-output") if case["id"] == "LJ-09"], ids=lambda case: str(case["id"])
)
def test_a_denied_relation_is_dropped(case: dict[str, dict[str, str]]) -> None:
    for text in (case["input"]["text"], case["input"]["text"].replace("Bolt", "Bolt Ltd")):
        edges, refused = relations(text, case["input"]["reply"])
        assert edges == ()
        assert set(refused) <= {"negated", "not_in_text"}


@pytest.mark.parametrize("case", bug_cases("screen"), ids=lambda case: f"{case['id']} {case['symptom']}")
def test_screening_agrees_with_the_handed_cases(case: dict[str, dict[str, str]]) -> None:
    gate = SecurityGate({case["input"]["alias"]: "X"}, "Home")
    hit = gate.detect(case["input"]["text"]).external_entity is not None
    assert hit is not str(case["expected"]).startswith("no hit")
    edges, refused = relations(
        f"Ann leads {case['input']['text']}.",
        json.dumps([{"source": "Ann", "target": case["input"]["text"], "kind": "leads"}]),
    )
    assert len(edges) + sum(refused.values()) == 1
