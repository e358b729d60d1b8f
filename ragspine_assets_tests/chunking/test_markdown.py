"""Markdown structure (SPEC 2.5)."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ragspine_assets.chunking import DocumentMeta, LayoutAwareChunker
from ragspine_assets.chunking.headings import plain_heading
from ragspine_assets.chunking.markdown import headings_and_opaque_lines, markdown_headings
from ragspine_assets.documents.normalise import normalise_text

META = DocumentMeta("d", markup="markdown")


def headings(text: str) -> list[str]:
    return list(dict.fromkeys(chunk.heading for chunk in LayoutAwareChunker().chunk(text, META)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Real\n~~~sh\n# not a heading\n~~~\nend", ["# Real"]),
        ("# Real\n```\n# never closed\n\n## still code", ["# Real"]),
        ("Title\n=====\nbody\n\nSub\n---\nmore", ["Title", "Sub"]),
        ("A title of\ntwo lines\n===\nbody", ["A title of"]),
        ("text\n\n    # indented code\n\n# Real", ["", "# Real"]),
        ("<!--\n# in a comment\n\n# still in it\n-->\n\n# Real", ["", "# Real"]),
        ("> # in a quote\n\n- # in a list\n\n# Real", ["", "# Real"]),
        ("#no space\n\n####### seven", [""]),
        ("1. a numbered item\n2. another\n\nShort line", [""]),
        ("   ### three spaces\ntext", ["### three spaces"]),
        ("paragraph\n---\n\n---\n\ntext", ["paragraph"]),
        ("\\# escaped\n\ntext", [""]),
    ],
)
def test_a_heading_is_what_commonmark_calls_one_at_top_level(text: str, expected: list[str]) -> None:
    assert headings(text) == expected


def test_paragraph_numbers_stay_those_of_the_document() -> None:
    text = "\n\nintro\n\n\n# One\n\n  text  \n\nTwo\n===\n\nmore"
    chunks = LayoutAwareChunker().chunk(text, META)
    assert [(chunk.heading, chunk.para_start, chunk.para_end) for chunk in chunks] == [
        ("", 1, 1),
        ("# One", 2, 3),
        ("Two", 4, 6),
    ]


LINES = st.sampled_from(
    [
        "", "", "  ", "plain words", "more words, here.", "'quoted'", "中文。", "# H", "## H2 ", "===", "---", "--", "=", "#",
        "- a", "* b", "+ c", "1. a", "2. b", "3) c", "10. ten", "  inside", "    code", "\tcode", "  # x", "    # y",
        "> q", "> # h", "```", "~~~", "   ```", "<!--", "-->", "ends -->", "<div>", "</div>", "<script>", "x</script>",
        "[a]: /u", "[a]:", '[b]: /u "t', 'title"', "/url", "- # h", "- ```", "-", "1.", "***", "_ _ _", "-      a",
        "- [a]: x", "<?php", "?>", "&amp;", "| a |", "\u3000", "\u200b",
    ]
)  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(st.lists(LINES, max_size=14).map("\n".join))
def test_shortening_prose_changes_no_heading(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse(text)
    expected = [token.map[0] for token in tokens if token.type == "heading_open" and not token.level and token.map]
    assert markdown_headings(text) == expected
    assert headings_and_opaque_lines(text)[0] == expected


def test_line_ends_of_every_kind_count_once() -> None:
    text = "intro\r\n\r\n# One\rtext\u2028\x85Two\x0b===\x0cmore"
    assert headings(text) == ["", "# One", "Two"]
    assert markdown_headings(normalise_text(text)) == [2, 5]


def test_code_comments_and_html_are_opaque() -> None:
    text = "a\n\n```\nb\n```\n\n    c\n\n<!-- d -->\n\ne"
    assert headings_and_opaque_lines(text)[1] == [(2, 5), (6, 7), (8, 9)]
    assert headings_and_opaque_lines("# a\n\nb") == ([0], [])


@pytest.mark.parametrize("filler", [" ", "\u3000", "#", " #", "*", "\\"])
def test_a_heading_is_made_plain_in_linear_time(filler: str) -> None:
    started = time.process_time()
    plain_heading(f"# a{filler * 100_000}b")
    assert time.process_time() - started < 1
