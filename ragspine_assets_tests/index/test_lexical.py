"""The index that serves queries: made from an earlier one, searched by rounded scores, kept on disk (SPEC 4.3, 6.6)."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.index import lexical, postings
from ragspine_assets.index.bm25 import bm25_scores
from ragspine_assets.index.lexical import LexicalIndex, Texts, best, write_index
from ragspine_assets.index.tokens import Tokens, tokenize, tokens_of
from ragspine_assets_tests.index.test_tokens import PIECES

WORDS = st.sampled_from(
    ["a", "b", "c", "de", "décor", "深", "深海", "long-word-over-eight", "long-word-over-nine", "\ud800"]
)
DOCUMENT = st.lists(WORDS, max_size=12)
DOCUMENTS = st.lists(DOCUMENT, max_size=12)


def counted(documents: list[list[str]]) -> list[Tokens]:
    return [Tokens.of(documents[first : first + 2]) for first in range(0, len(documents), 2)]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@settings(deadline=None, max_examples=150)
@given(
    before=DOCUMENTS,
    staying=st.sets(st.integers(0, 11)),
    new=DOCUMENTS,
    mix=st.randoms(use_true_random=False),
    tokens=st.sampled_from([1, 7, 2_000_000]),
    in_block=st.sampled_from([1, 1_000_000]),
    entries=st.sampled_from([1, 5, 2_000_000]),
)
def test_an_index_is_the_same_however_it_was_made(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[list[str]],
    staying: set[int],
    new: list[list[str]],
    mix: Random,
    tokens: int,
    in_block: int,
    entries: int,
) -> None:
    folder = tmp_path_factory.mktemp("index")
    LexicalIndex(before).save(folder / "before")
    stays = sorted(one for one in staying if one < len(before))
    size = len(stays) + len(new)
    taken = sorted(mix.sample(range(size), len(stays)))
    places = np.full(len(before), -1, np.int32)
    places[stays] = taken
    together, fresh = [], iter(new)
    for position in range(size):
        together.append(before[stays[taken.index(position)]] if position in taken else next(fresh))
    with pytest.MonkeyPatch.context() as patch:
        # Several blocks and ranges, of documents that a test can make.
        patch.setattr(lexical, "_BATCH", 2)
        patch.setattr(postings, "_TOKENS", tokens)
        patch.setattr(postings, "_DOCUMENTS", in_block)
        patch.setattr(postings, "_ENTRIES", entries)
        earlier = LexicalIndex.open(folder / "before")
        write_index(folder / "made", counted(new), size=size, earlier=earlier, places=places)
        write_index(folder / "anew", counted(together), size=size)
    LexicalIndex(together).save(folder / "saved")
    assert files(folder / "made") == files(folder / "anew") == files(folder / "saved")


@settings(deadline=None)
@given(
    st.lists(st.text() | st.lists(st.sampled_from(PIECES)).map("".join), max_size=7), st.sampled_from([1, 2_000_000])
)
def test_an_index_is_the_same_whether_its_tokens_were_found_one_by_one_or_together(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], tokens: int
) -> None:
    folder = tmp_path_factory.mktemp("index")
    LexicalIndex(map(tokenize, texts)).save(folder / "one by one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "_TOKENS", tokens)
        parts = [tokens_of(texts[:3]), tokens_of(texts[3:])]
        write_index(folder / "together", parts, size=len(texts))
        LexicalIndex.of_tokens(parts).save(folder / "in memory")
    assert files(folder / "together") == files(folder / "one by one") == files(folder / "in memory")


def test_a_wrong_number_of_documents_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 positions have no document"):
        write_index(tmp_path, [Tokens.of([["a"]])], size=2)
    with pytest.raises(ValueError, match="1 documents have no position"):
        write_index(tmp_path, [Tokens.of([["a"], ["b"]])], size=1)


@settings(deadline=None, max_examples=150)
@given(
    documents=DOCUMENTS,
    query=st.lists(WORDS, max_size=6),
    top_k=st.integers(0, 14),
    allowed=st.none() | st.sets(st.integers(0, 11)),
)
def test_a_search_gives_the_beginning_of_the_full_ranking(
    documents: list[list[str]], query: list[str], top_k: int, allowed: set[int] | None
) -> None:
    index = LexicalIndex(documents)
    scores = np.array(bm25_scores(query, documents))
    positions = None if allowed is None else np.array(sorted(p for p in allowed if p < len(documents)), np.int32)
    mask = None if positions is None else np.isin(np.arange(len(documents)), positions)
    found, shown = index.rank(query, top_k, positions)
    exact = index.scores(query)
    assert np.allclose(exact, scores, rtol=1e-9, atol=0)
    assert found.tolist() == best(exact, top_k, mask).tolist()
    assert shown.tolist() == exact[found].tolist()


def test_among_many_near_ties_the_exact_scores_decide() -> None:
    rng = np.random.default_rng(3)
    documents = [["x"] * int(n) + ["y"] * int(m) for n, m in rng.integers(1, 60, (5_000, 2))]
    index = LexicalIndex(documents)
    found, shown = index.rank(["x", "y"], 25)
    assert found.tolist() == best(index.scores(["x", "y"]), 25).tolist()
    assert list(shown) == sorted(shown, reverse=True)


def test_searches_one_after_another_do_not_see_each_other() -> None:
    index = LexicalIndex([["a"], ["b"], ["a", "b"]])
    first = index.rank(["a"], 3)[1].tolist()
    index.rank(["b"], 3)
    assert index.rank(["a"], 3)[1].tolist() == first
    assert index.rank(["unknown"], 3)[0].tolist() == []


def test_the_documents_of_a_token_are_known() -> None:
    index = LexicalIndex([["a"], ["b"], ["a", "b"]])
    assert index.documents_with("a").tolist() == [0, 2]
    assert index.documents_with("c").tolist() == []


@given(st.lists(st.text(st.characters(), max_size=5), max_size=9), st.sampled_from([1, 2, 4096]))
def test_texts_are_read_back_from_their_buffer(strings: list[str], together: int) -> None:
    texts = Texts.of(strings)
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    assert bytes(texts.data) == b"".join(encoded)
    assert np.diff(texts.offsets).tolist() == [len(one) for one in encoded]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexical, "_TERMS", together)
        assert list(texts) == strings
    assert texts[0:2] == strings[0:2]
    with pytest.raises(IndexError):
        texts[len(strings)]
    with pytest.raises(IndexError):
        texts[-1]


def test_an_index_stays_readable_when_its_folder_is_deleted(tmp_path: Path) -> None:
    LexicalIndex([["a", "b"], ["b"]]).save(tmp_path / "index")
    index = LexicalIndex.open(tmp_path / "index")
    for path in (tmp_path / "index").iterdir():
        path.unlink()
    assert index.rank(["a"], 1)[0].tolist() == [0]
    assert index.scores(["b"])[1] > 0


def pages_of_files() -> int:
    """Bytes of files that are in this process's memory."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssFile:")[2].split()[0]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux")
def test_what_was_read_of_a_large_index_can_be_let_go(tmp_path: Path) -> None:
    documents = [["a", "b"]] * 2_000_000
    LexicalIndex(documents).save(tmp_path)
    index = LexicalIndex.open(tmp_path)
    before, few = pages_of_files(), 10_000_000
    scores = index.scores(["a", "b"])
    assert pages_of_files() > before + few
    index.release()
    assert pages_of_files() < before + few
    assert np.array_equal(index.scores(["a", "b"]), scores)
    index.release()
    block = index.staying(np.arange(len(documents), dtype=np.int32)).block
    assert block.documents[0 : 2 * len(documents)][-1] == len(documents) - 1
    assert pages_of_files() < before + few
