"""A framework gets what the library gives, within the same audience, and no more."""

import os
from collections.abc import Callable

import pytest

from ragspine_assets.adapters.fields import passage_of
from ragspine_assets.serving import Snapshot
from ragspine_assets_tests.serving.conftest import SECRET, Port, published, template

# That framework tells its makers what is used, unless it is asked not to.
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

__all__ = ["published", "template"]

Found = list[tuple[str, dict[str, object]]]


def langchain(snapshot: Snapshot, query: str, **given: object) -> Found:
    made = pytest.importorskip("ragspine_assets.adapters.langchain_retriever").RagspineRetriever(
        snapshot=snapshot, **given
    )
    return [(document.page_content, document.metadata) for document in made.invoke(query)]


def llama_index(snapshot: Snapshot, query: str, **given: object) -> Found:
    made = pytest.importorskip("ragspine_assets.adapters.llama_index_retriever").RagspineRetriever(snapshot, **given)
    return [(node.node.get_content(), node.node.metadata) for node in made.retrieve(query)]


def haystack(snapshot: Snapshot, query: str, **given: object) -> Found:
    library = pytest.importorskip("haystack")
    adapter = pytest.importorskip("ragspine_assets.adapters.haystack_retriever")
    pipeline = library.Pipeline()
    pipeline.add_component("found", adapter.RagspineRetriever(path=str(snapshot.path), **given))
    again = library.Pipeline.loads(pipeline.dumps(), allowed_modules=[adapter.__name__])
    return [
        (document.content, document.meta) for document in again.run({"found": {"query": query}})["found"]["documents"]
    ]


FRAMEWORKS = pytest.mark.parametrize("ask", [langchain, llama_index, haystack], ids=lambda ask: ask.__name__)


@FRAMEWORKS
def test_a_framework_gets_what_the_library_gives(published: Port, ask: Callable[..., Found]) -> None:
    snapshot = published.open()
    expected = [passage_of(snapshot, one) for one in snapshot.retriever().retrieve("crane winter harbour", top_k=5)]
    assert ask(snapshot, "crane winter harbour") == expected
    _, known = expected[0]
    assert str(known["citation"]).startswith(f"{known['doc_id']}@v1#c")
    assert known["label"] in {"PUBLIC", "INTERNAL", "CONFIDENTIAL"}


@FRAMEWORKS
def test_an_audience_and_filters_hold_there_too(published: Port, ask: Callable[..., Found]) -> None:
    snapshot = published.open()
    assert {known["label"] for _, known in ask(snapshot, "tariff crane harbour", max_label="PUBLIC")} == {"PUBLIC"}
    found = ask(snapshot, "tariff crane harbour", filters={"topic": ["upkeep", "prices"]})
    assert {known["doc_id"] for _, known in found} == {"cranes.md", "numbers.txt"}
    assert SECRET not in repr(ask(snapshot, SECRET))
    with pytest.raises(ValueError, match="max_label"):
        ask(snapshot, "crane", max_label="RESTRICTED")
