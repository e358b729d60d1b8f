"""What holds for every built-in chunker, whatever the text (SPEC 2.2, 2.4)."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.chunking import Chunker, DocumentMeta

from .rule import CHUNKERS, TEXTS, assert_rule_holds, assert_windows_hold, sizes

every_chunker = pytest.mark.parametrize("chunker", CHUNKERS.values(), ids=CHUNKERS.keys())
MARKUPS = st.sampled_from(["plain", "markdown"])


@every_chunker
@settings(max_examples=120, deadline=None)
@given(text=TEXTS, size=sizes(), markup=MARKUPS)
def test_chunks_quote_and_cover_the_canonical_text(
    chunker: Chunker, text: str, size: tuple[int, int], markup: str
) -> None:
    max_chars, overlap_chars = size
    meta = DocumentMeta("d", markup=markup)
    chunks = chunker.chunk(text, meta, max_chars=max_chars, overlap_chars=overlap_chars)
    assert_rule_holds(text, chunks, max_chars)
    assert_windows_hold(text, chunks)


@every_chunker
@pytest.mark.parametrize("text", ["", "some text"])
@pytest.mark.parametrize(("max_chars", "overlap_chars"), [(0, 0), (-5, 0), (10, -1), (10, 10), (1, 1), (64, 80)])
def test_illegal_sizes_are_refused_also_for_an_empty_text(
    chunker: Chunker, text: str, max_chars: int, overlap_chars: int
) -> None:
    with pytest.raises(ValueError, match=r"max_chars|overlap_chars"):
        chunker.chunk(text, DocumentMeta("d"), max_chars=max_chars, overlap_chars=overlap_chars)


@every_chunker
@pytest.mark.parametrize("text", ["", " \t\n\u3000\n\u200b\n\ufeff"])
def test_a_blank_text_has_no_chunks(chunker: Chunker, text: str) -> None:
    assert chunker.chunk(text, DocumentMeta("d")) == []


ENDLESS = {
    "100,000 blank lines around two words": "one" + "\n" * 100_000 + "two",
    "one line of 1 MB": "word " * 200_000,
    "one line of 1 MB without a space": "x" * 1_000_000,
    "one line of sentence ends": ".!" * 250_000,
    "one line of quotes": '。"' * 200_000,
    "unsplittable pairs": "0," * 30_000,
    "a heading of 1 MB": "# " + "long title " * 90_000 + "\ntext",
    "a number of 1 MB": "1." * 250_000 + " x",
    "a Roman number of 1 MB": "MCXI" * 125_000,
    "unbalanced fences": "```\n# a\n~~~\n" * 10_000 + "text\n" * 1_000,
    "headings only": "# h\n" * 20_000,
    "list items": "- item\n" * 100_000,
    "quotes": "> " * 100_000 + "x",
    "brackets": "[" * 500_000,
    "stars": "*" * 500_000,
    "unclosed comments": "<!-- a\n" * 20_000,
}


@pytest.mark.parametrize(
    "spec", ["default", "layout", "laws", "qa", "book", "parent_child", "sentence_window", "structure"]
)
@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS.keys())
@pytest.mark.parametrize("markup", ["plain", "markdown"])
def test_no_text_is_too_much(spec: str, text: str, markup: str) -> None:
    started = time.process_time()
    chunks = CHUNKERS[spec].chunk(text, DocumentMeta("d", markup=markup), max_chars=480, overlap_chars=80)
    # Each takes a second at most; anything that grows with the square of these sizes takes minutes.
    assert time.process_time() - started < 20
    assert all(0 < len(chunk.text) <= 480 for chunk in chunks)
    assert max(len(chunk.heading) for chunk in chunks) <= 2_000
    assert max(len(chunk.window_text) for chunk in chunks) <= 8_000
