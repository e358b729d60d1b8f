"""What stands in examples/ works as it says there."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ragspine_assets.chunking import Chunker, DocumentMeta
from ragspine_assets.chunking.enforcement import cut_document
from ragspine_assets.graph import LLMRelationExtractor, RelationExtractor, build_relation_graph
from ragspine_assets.llm import LLMProvider
from ragspine_assets.policy import DomainProfile
from ragspine_assets.retrieval import EmbeddingBackend, NarrativeIndex

PLUG_INS = Path(__file__).resolve().parents[1] / "examples" / "plug_ins"
META = DocumentMeta("call.txt", sensitivity="INTERNAL")
PROFILE = DomainProfile(home_company_name="Home", home_entity_code="HOM")


@pytest.fixture
def plug_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    monkeypatch.syspath_prepend(str(PLUG_INS))

    def load(name: str) -> ModuleType:
        return importlib.import_module(f"plug_ins.{name}")

    return load


@pytest.mark.parametrize("max_chars", [480, 40, 3])
def test_the_chunker_keeps_each_turn_apart_and_every_rule(plug_in, max_chars: int) -> None:
    text = "Minutes of a call\n\nAnn: We begin on Monday.\nAs always.\n\nBob: " + "A long answer follows here. " * 30
    made = plug_in("chunker").TranscriptChunker()
    assert isinstance(made, Chunker)
    chunks = cut_document(text, META, made, max_chars=max_chars, overlap_chars=0)
    assert next(chunk.heading for chunk in chunks if chunk.heading) == "Ann"
    if max_chars == 480:
        assert [chunk.text for chunk in chunks][:2] == ["Minutes of a call", "Ann: We begin on Monday.\nAs always."]
    assert cut_document("", META, made) == []


def test_the_extractors_edges_pass_and_are_no_models(plug_in) -> None:
    made = plug_in("extractor").ReportingLines()
    assert isinstance(made, RelationExtractor)
    chunks = cut_document("Ann Smith reports to Bob. Bob reports to nobody.", META)
    graph = build_relation_graph(PROFILE, chunks=chunks, relation_extractor=made)
    (edge,) = [edge for edge in graph.edges() if edge.type == "reports_to"]
    assert (edge.src, edge.dst, edge.metadata.get("derived")) == ("Ann Smith", "Bob", None)


def test_the_providers_answers_are_screened_and_its_failures_counted(plug_in) -> None:
    chunks = cut_document("Ann leads the harbour.", META)
    answer = json.dumps({"relations": [{"source": "Ann", "target": "harbour", "kind": "leads"}]})

    def silent(prompt: str) -> str:
        raise TimeoutError(prompt)

    for ask, edges, refused in ((lambda prompt: answer, 1, {}), (silent, 0, {"provider: timeout": 1})):
        provider = plug_in("provider").GatewayProvider(ask)
        assert isinstance(provider, LLMProvider)
        extractor = LLMRelationExtractor(provider, profile=PROFILE)
        assert len(extractor.extract(chunks)) == edges
        assert dict(extractor.report.refused) == refused


def test_the_embedding_finds_a_word_with_a_typing_error(plug_in) -> None:
    backend = plug_in("embedding").HashedTrigrams()
    assert isinstance(backend, EmbeddingBackend)
    index = NarrativeIndex(cut_document("Refrigeration of fish.", META), embedding_backend=backend)
    assert [hit.chunk.doc_id for hit in index.retrieve("refrigaration")] == ["call.txt"]


def test_the_service_of_the_example_loads_with_its_own_extractor(plug_in) -> None:
    resource = (plug_in("definitions").defs.resources or {})["relation_extractor"]
    assert type(resource.make(PROFILE)).__name__ == "ReportingLines"
