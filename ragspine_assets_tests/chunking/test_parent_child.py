"""Small chunks with their parent's text (SPEC 2.6)."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from ragspine_assets.chunking import DocumentMeta, LayoutAwareChunker, ParentChildChunker

from .rule import TEXTS, sizes

META = DocumentMeta("d", source_locator_prefix="deck")


def test_each_child_carries_the_text_and_the_span_of_its_section() -> None:
    text = "Intro, here.\n\n# A\n\naaaa, b.\n\ncccc, d."
    chunks = ParentChildChunker().chunk(text, META, max_chars=14, overlap_chars=0)
    assert [(c.text, c.window_text, c.parent_locator, c.source_locator) for c in chunks] == [
        ("Intro, here.", "Intro, here.", "deck#para1", "deck#para1"),
        ("# A\naaaa, b.", "# A\naaaa, b.\ncccc, d.", "deck#para2-4", "deck#para2-3"),
        ("cccc, d.", "# A\naaaa, b.\ncccc, d.", "deck#para2-4", "deck#para4"),
    ]


@settings(max_examples=100, deadline=None)
@given(text=TEXTS, size=sizes())
def test_but_for_windows_the_chunks_are_those_of_layout(text: str, size: tuple[int, int]) -> None:
    max_chars, overlap_chars = size
    chunks = ParentChildChunker().chunk(text, META, max_chars=max_chars, overlap_chars=overlap_chars)
    plain = LayoutAwareChunker().chunk(text, META, max_chars=max_chars, overlap_chars=overlap_chars)
    assert [replace(chunk, window_text="", parent_locator="") for chunk in chunks] == plain


def test_a_long_section_becomes_several_parents_that_end_at_paragraph_ends() -> None:
    text = "# A\n" + "\n".join(f"line {n}, x." for n in range(6))
    chunks = ParentChildChunker(max_window_chars=35).chunk(text, META, max_chars=20, overlap_chars=19)
    parents = dict.fromkeys((c.parent_id, c.window_text, c.parent_locator, c.heading) for c in chunks)
    assert list(parents) == [
        ("d#s0", "# A\nline 0, x.\nline 1, x.", "deck#para1-3", "# A"),
        ("d#s1", "line 2, x.\nline 3, x.\nline 4, x.", "deck#para4-6", "# A"),
        ("d#s2", "line 5, x.", "deck#para7", "# A"),
    ]
    # Nothing is carried from one parent into the next.
    assert next(c.text for c in chunks if c.parent_id == "d#s1").startswith("line 2")


def test_a_long_paragraph_becomes_several_parents_that_end_where_its_pieces_end() -> None:
    text = "One two. Three four. Five six. Seven eight."
    chunks = ParentChildChunker(max_window_chars=22).chunk(text, META, max_chars=14, overlap_chars=0)
    assert [(c.text, c.window_text, c.parent_locator) for c in chunks] == [
        ("One two.", "One two. Three four.", "deck#para1"),
        (" Three four.", "One two. Three four.", "deck#para1"),
        (" Five six.", " Five six.", "deck#para1"),
        (" Seven eight.", " Seven eight.", "deck#para1"),
    ]


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, size=sizes())
def test_no_window_is_longer_than_its_bound(text: str, size: tuple[int, int]) -> None:
    max_chars, overlap_chars = size
    chunks = ParentChildChunker(max_window_chars=50).chunk(text, META, max_chars=max_chars, overlap_chars=overlap_chars)
    assert all(len(chunk.text) <= len(chunk.window_text) <= 50 for chunk in chunks)


def test_a_book_without_headings_costs_no_more_than_a_page_per_window() -> None:
    text = "All of this is one line, and the next one follows it at once.\n" * 3_300
    chunks = ParentChildChunker().chunk(text, META)
    windows = {chunk.window_text for chunk in chunks}
    assert max(map(len, windows)) <= 8_000
    assert "\n".join(dict.fromkeys(chunk.parent_id for chunk in chunks)) == "\n".join(f"d#s{k}" for k in range(26))


def test_a_window_that_could_hold_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="max_window_chars must be positive, not 0"):
        ParentChildChunker(max_window_chars=0)
