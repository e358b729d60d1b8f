"""Promise: whatever a plug-in raises, panics of native libraries included, no word of it gets out, and a cancel stays one (SPEC 6.1)."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import traceback
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ragspine_assets.chunking import Chunk, DocumentMeta
from ragspine_assets.chunking.enforcement import cut_document
from ragspine_assets.graph import GraphChunk, GraphEdge, Vocabulary, extract_relations
from ragspine_assets.graph.llm_extractor import LLMRelationExtractor
from ragspine_assets.llm import ChatReply, make_provider
from ragspine_assets.policy import DomainProfile
from ragspine_assets.retrieval.embedding import unit_vectors
from ragspine_assets.retrieval.rerank import ModelJudge, listwise_rerank
from ragspine_assets.retrieval.rewriting import rewritten
from ragspine_assets_tests.retrieval.doubles import chunk, hit

CANARY = "Zanzibarquux"
RELATION = GraphChunk("a.txt", "a.txt#c0", 0, "", CANARY, "a.txt#para1", "INTERNAL", 1)


class PanicException(BaseException):
    """What a native library's panic looks like from here."""


class Broken:
    """Everything that can be plugged in, and fails."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def extract(self, chunks: Sequence[GraphChunk]) -> tuple[GraphEdge, ...]:
        raise self.error

    def judge(self, query: str, candidates: list[str]) -> list[int]:
        raise self.error

    def embed_texts(self, texts: list[str]) -> NDArray[np.float32]:
        raise self.error

    def rewrite(self, query: str) -> list[str]:
        raise self.error

    def chunk(self, text: str, meta: DocumentMeta, *, max_chars: int = 0, overlap_chars: int = 0) -> list[Chunk]:
        raise self.error

    def chat(self, messages: Sequence[object], **options: object) -> ChatReply:
        raise self.error


SEAMS: dict[str, Callable[[Broken], object]] = {
    "extractor": lambda broken: extract_relations(broken, [RELATION], Vocabulary(DomainProfile())),
    "judge": lambda broken: listwise_rerank(CANARY, [hit(chunk(CANARY))], broken),
    "judge with a model": lambda broken: listwise_rerank(CANARY, [hit(chunk(CANARY))], ModelJudge(broken)),
    "embedding backend": lambda broken: unit_vectors(broken, [CANARY]),
    "rewriter": lambda broken: rewritten(broken, CANARY),
    "chunker": lambda broken: cut_document(CANARY, DocumentMeta("a.txt"), broken),
}
PANICS = [PanicException(CANARY), SystemExit(CANARY), ValueError(CANARY)]


@pytest.mark.parametrize("error", PANICS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("seam", SEAMS.values(), ids=SEAMS)
def test_what_a_plug_in_raises_is_told_by_its_type_alone(
    seam: Callable[[Broken], object], error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    told = ""
    with caplog.at_level(logging.DEBUG):
        try:
            seam(Broken(error))
        except Exception as raised:
            told = "".join(traceback.format_exception(raised))
            told = "\n".join(line for line in told.splitlines() if not line.startswith("  "))
    assert type(error).__name__ in told + caplog.text
    assert CANARY not in told + caplog.text


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), asyncio.CancelledError()], ids=lambda error: type(error).__name__
)
@pytest.mark.parametrize("seam", SEAMS.values(), ids=SEAMS)
def test_a_cancel_stays_a_cancel_at_every_seam(seam: Callable[[Broken], object], error: BaseException) -> None:
    with pytest.raises(type(error)):
        seam(Broken(error))


@pytest.mark.parametrize("error", PANICS, ids=lambda error: type(error).__name__)
def test_a_provider_that_panics_refuses_one_question(
    error: BaseException, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    extractor = LLMRelationExtractor(Broken(error), profile=DomainProfile())
    with caplog.at_level(logging.DEBUG):
        assert extractor.extract([RELATION]) == ()
    assert extractor.report.refused == {"provider: error": 1}
    assert CANARY not in caplog.text + "".join(capfd.readouterr())


@pytest.mark.parametrize("error", PANICS, ids=lambda error: type(error).__name__)
@pytest.mark.skipif(importlib.util.find_spec("openai") is None, reason="needs the extra llm")
def test_a_library_of_a_provider_that_panics_ends_neither_the_run_nor_the_next_question(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from openai.resources.chat.completions import AsyncCompletions

    async def panics(*_: object, **__: object) -> object:
        raise error

    monkeypatch.setattr(AsyncCompletions, "create", panics)
    provider = make_provider("openai:m", base_url="http://127.0.0.1:9/v1", environment={}, time_limit_s=5, attempts=1)
    assert provider is not None
    for _ in range(2):
        # The second question needs the event loop that the first one met.
        with pytest.raises(Exception, match=type(error).__name__) as caught:
            provider.chat([{"role": "user", "content": "question"}])
        assert CANARY not in str(caught.value)
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None
    assert CANARY not in "".join(capfd.readouterr())
