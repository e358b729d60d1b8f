"""A source folder, a store, a scripted model, and what a run of the graph makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ragspine_assets.chunking import DocumentMeta
from ragspine_assets.chunking.enforcement import cut_document
from ragspine_assets.graph import (
    DuckDBGraphStore,
    GraphReport,
    LLMRelationExtractor,
    LLMReport,
    ReviewDecision,
    StoredAnswers,
    update_graph,
)
from ragspine_assets.llm import ChatReply, ProviderError
from ragspine_assets.policy import DomainProfile
from ragspine_assets_tests.conftest import Pipeline

PROFILE = DomainProfile(
    home_company_name="Holding",
    home_entity_code="HOLD",
    home_entity_synonyms={"holding": "HOLD", "nordwerk": "NORD", "sudwerk": "SUD"},
    external_entities={"acmo": "Acmo"},
)
MODEL_TABLES = ("model_answer", "model_node", "model_edge", "model_evidence", "extraction_record")
REVIEW_TABLES = ("review_decision", "review_evidence")
CONTROLLED_TABLES = ("graph_node", "graph_edge", "graph_evidence")


def leads(*pairs: tuple[str, str], kind: str = "leads") -> str:
    """Return an answer that says who leads whom."""
    return json.dumps({"relations": [{"source": a, "target": b, "kind": kind} for a, b in pairs]})


@dataclass
class Model:
    """Answers by what stands in the text; counts and keeps what it is asked."""

    answers: dict[str, str] = field(default_factory=dict)
    model: str = "scripted"
    prompts: list[str] = field(default_factory=list)
    before: Callable[[], None] = lambda: None

    def chat(self, messages: Sequence[dict[str, str]], **options: object) -> ChatReply:
        prompt = messages[-1]["content"]
        self.prompts.append(prompt)
        self.before()
        for word, answer in self.answers.items():
            if word in prompt:
                if answer == "fail":
                    raise ProviderError("no", "down")
                return ChatReply(answer, self.model, 100, 10)
        return ChatReply(leads(), self.model, 100, 10)


@dataclass
class World:
    pipeline: Pipeline
    model: Model
    profile: DomainProfile = PROFILE
    report: LLMReport = field(default_factory=LLMReport)

    def put(self, doc_id: str, text: str, label: str = "INTERNAL") -> None:
        """Bring a document into the store, as the stages before the graph would."""
        with self.pipeline.store.connect() as con:
            con.execute("DELETE FROM document WHERE doc_id = ?", [doc_id])
            row = [doc_id, label]
            con.execute("INSERT INTO document (doc_id, status, sensitivity) VALUES (?, 'ingested', ?)", row)
            chunks = cut_document(text, DocumentMeta(doc_id=doc_id, sensitivity=label))
            self.pipeline.store.replace_doc_chunks(doc_id, chunks)

    def remove(self, doc_id: str) -> None:
        """Take a document away."""
        with self.pipeline.store.connect() as con:
            con.execute("UPDATE document SET status = 'removed' WHERE doc_id = ?", [doc_id])
            self.pipeline.store.replace_doc_chunks(doc_id, [])

    def graph(self, decisions: Sequence[ReviewDecision] | None = None, **settings: object) -> GraphReport:
        """Run the graph with the model."""
        store = self.pipeline.store
        settings = {"cache": StoredAnswers(store), **settings}
        extractor = LLMRelationExtractor(self.model, profile=self.profile, **settings)  # pyright: ignore[reportArgumentType]
        report = update_graph(store, self.profile, extractor, decisions=decisions)
        self.report = extractor.report
        return report

    def plain(self) -> GraphReport:
        """Run the graph without an extractor."""
        return update_graph(self.pipeline.store, self.profile)

    def reader(self) -> DuckDBGraphStore:
        return DuckDBGraphStore(self.pipeline.store)

    def dump(self, *tables: str) -> dict[str, list[tuple[object, ...]]]:
        return {table: self.pipeline.rows(f"SELECT * FROM {table} ORDER BY ALL") for table in tables}

    def traces(self, word: str) -> list[str]:
        """Return in which tables of graph, answers and decisions a word stands."""
        return [
            table
            for table in (*CONTROLLED_TABLES, *MODEL_TABLES, *REVIEW_TABLES, "graph_mention", "graph_scan", "fact")
            if any(word.casefold() in repr(row).casefold() for row in self.dump(table)[table])
        ]

    def model_edges(self) -> list[tuple[object, ...]]:
        return self.pipeline.rows("SELECT src, type, dst FROM model_edge ORDER BY ALL")

    def with_profile(self, **changes: object) -> None:
        self.profile = replace(self.profile, **changes)  # pyright: ignore[reportArgumentType]
