"""A search that is asked with something of another kind says so in a sentence (SPEC 4.1, 4.6)."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ragspine_assets.chunking import DocumentMeta, chunk_document
from ragspine_assets.retrieval import NarrativeIndex, NarrativeIndexRetriever, QuestionError
from ragspine_assets.serving import Snapshot
from ragspine_assets.serving.snapshot_files import SnapshotError

INDEX = NarrativeIndex(chunk_document("Every crane is greased.", DocumentMeta("a.txt")))
LINK = NarrativeIndexRetriever(INDEX)
SECRET = "Zanzibarquux"


@pytest.mark.parametrize("search", [INDEX.retrieve, LINK.retrieve])
@pytest.mark.parametrize("query", [None, 3, b"crane", [SECRET]])
def test_a_query_that_is_no_string_is_told(search: Callable[..., object], query: object) -> None:
    with pytest.raises(QuestionError, match=r"^query must be a string; it is of the type \w+\.$"):
        search(query)


@pytest.mark.parametrize("search", [INDEX.retrieve, LINK.retrieve])
@pytest.mark.parametrize("top_k", ["3", 2.5, None, True])
def test_a_number_of_hits_that_is_none_is_told(search: Callable[..., object], top_k: object) -> None:
    with pytest.raises(QuestionError, match=r"^top_k must be a whole number; it is of the type \w+\.$"):
        search("crane", top_k=top_k)
    assert search("crane", top_k=np.int64(1))


def test_a_filter_is_a_keyword_or_in_a_mapping_a_value_or_a_list() -> None:
    chunks = [
        chunk
        for topic in ("hr", "law", "it")
        for chunk in chunk_document("crane", DocumentMeta(f"{topic}.txt", topic=topic))
    ]
    index = NarrativeIndex(chunks)
    link = NarrativeIndexRetriever(index)

    def found(**given: object) -> set[object]:
        return {snippet["doc_id"] for snippet in link.retrieve("crane", **given)}  # pyright: ignore[reportArgumentType]

    assert found(topic="hr") == found(filters={"topic": "hr"}) == found(topic=["hr"]) == {"hr.txt"}
    assert found(topic=["hr", "law"]) == found(filters={"topic": ("law", "hr", "no")}) == {"hr.txt", "law.txt"}
    assert found(topic=["no"]) == set()
    assert found(topic=[]) == found(topic="") == found(topic=None) == found() == {"hr.txt", "law.txt", "it.txt"}
    assert {hit.chunk.doc_id for hit in index.retrieve("crane", topic=["it", "law"])} == {"it.txt", "law.txt"}


def test_a_filter_that_is_none_is_told_and_not_quoted() -> None:
    for given, said in (
        ({"limit": 3}, r"^There is no argument 'limit'; there are query, filters, top_k and the filters topic"),
        ({"topic": SECRET, "filters": {"topic": SECRET}}, r"^topic is given twice"),
        ({"topic": {SECRET: 1}}, r"^The filter topic must be a value or a list of values\.$"),
        ({"filters": f"topic={SECRET}"}, r"^filters must be a mapping"),
    ):
        with pytest.raises(QuestionError, match=said) as caught:
            LINK.retrieve("crane", **given)  # pyright: ignore[reportArgumentType]
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize("given", [3, None])
def test_a_snapshot_is_no_file_and_no_number(tmp_path: Path, given: object) -> None:
    (tmp_path / "store.duckdb").write_bytes(b"")
    for path in (tmp_path / "store.duckdb", given):
        with pytest.raises(SnapshotError, match="is opened by its folder"):
            Snapshot.open(path)  # pyright: ignore[reportArgumentType]
