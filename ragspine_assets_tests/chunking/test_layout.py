"""Sections (SPEC 2.5)."""

from itertools import pairwise

import pytest
from hypothesis import given, settings

from ragspine_assets.chunking import Chunk, DocumentMeta, LayoutAwareChunker, make_chunker
from ragspine_assets.chunking.layout import QaChunker

from .rule import CHUNKERS, TEXTS, sizes

META = DocumentMeta("d")


def chunks(text: str, spec: str = "layout", markup: str = "plain", max_chars: int = 480) -> list[Chunk]:
    chunker = make_chunker(spec)
    assert chunker is not None
    return chunker.chunk(text, DocumentMeta("d", markup=markup), max_chars=max_chars, overlap_chars=0)


def is_heading(line: str, spec: str = "layout", markup: str = "plain") -> bool:
    filler = "这是一个没有任何标记的正文句子，用来占位。"
    return [chunk.heading for chunk in chunks(f"{filler}\n\n{line}\n\n{filler}", spec, markup)] == ["", line]


@pytest.mark.parametrize(
    "line",
    [
        "# A heading, with a comma", "###### Six.", "第三章 开始，结束", "第12节：说明", "第一百零二篇，", "第四部，", "第五回，", "第六讲，",
        "第３章，", "第 3 章，", "第一節，", "第二講，", "1. First, then", "1.2) Sub, item", "1.2.3. Deep, item", "一、概述，", "十二、概述，",
        "IV. Roman, number", "iv) small, too", "１．全角，", "1.概述，", "Short line", "x" * 30, "短行",
    ],
)  # fmt: skip
def test_a_line_of_plain_text_that_looks_like_a_heading_is_one(line: str) -> None:
    assert is_heading(line)


@pytest.mark.parametrize(
    "line",
    [
        "x" * 31, "Short, with a comma", "Short.", "短，", "#no space, no heading", "3.14 is pi, about", "1.2.3 is a version, yes",
        "2024 was a good year, then", "- an item, of a list", "I.e. it is not, at all", "####### seven, marks",
        "Civil law, that is", "第章，", "第一百，",
    ],
)  # fmt: skip
def test_any_other_line_of_plain_text_is_none(line: str) -> None:
    assert not is_heading(line)


def test_text_before_the_first_heading_is_a_section_without_heading() -> None:
    found = chunks("Intro line.\n## Deep\nTail.")
    assert [(c.heading, c.parent_id, c.text) for c in found] == [
        ("", "d#s0", "Intro line."),
        ("## Deep", "d#s1", "## Deep\nTail."),
    ]


def test_inside_a_section_the_built_in_rule_applies_and_its_number_stays() -> None:
    found = chunks("# A\n\naaaa, b.\ncccc, d.\n# B\nee, f.", max_chars=14)
    assert [(c.text, c.parent_id, c.source_locator) for c in found] == [
        ("# A\naaaa, b.", "d#s0", "d#para1-2"),
        ("cccc, d.", "d#s0", "d#para3"),
        ("# B\nee, f.", "d#s1", "d#para4-5"),
    ]


def test_nothing_is_carried_into_the_next_section() -> None:
    text = "# A\naa, b.\n# B\ncc, d."
    found = LayoutAwareChunker().chunk(text, META, max_chars=12, overlap_chars=11)
    assert [chunk.text for chunk in found] == ["# A\naa, b.", "# B\ncc, d."]


def test_layout_gives_no_windows() -> None:
    assert {(c.window_text, c.parent_locator) for c in chunks("# A\ntext, b.")} == {("", "")}


def test_a_heading_longer_than_a_chunk_is_kept_and_the_text_after_it_too() -> None:
    found = chunks("# " + "long title " * 60 + "\nThe one fact.", max_chars=120)
    assert found[-1].text == "The one fact."
    assert len({c.heading for c in found}) == 1


def test_an_endless_heading_is_shortened_and_says_so() -> None:
    found = chunks("# " + "x" * 5_000)
    assert {len(c.heading) for c in found} == {2_000}
    assert found[0].heading.endswith("…")


@settings(max_examples=100, deadline=None)
@given(text=TEXTS, size=sizes())
def test_no_chunk_crosses_from_one_section_into_the_next(text: str, size: tuple[int, int]) -> None:
    max_chars, overlap_chars = size
    for name in ("layout", "laws", "qa", "book"):
        found = CHUNKERS[name].chunk(text, META, max_chars=max_chars, overlap_chars=overlap_chars)
        spans: dict[str, tuple[int, int]] = {}
        for chunk in found:
            first, last = spans.get(chunk.parent_id, (chunk.para_start, chunk.para_end))
            spans[chunk.parent_id] = (min(first, chunk.para_start), max(last, chunk.para_end))
        ordered = list(spans.values())
        assert list(spans) == [f"d#s{k}" for k in range(len(spans))]
        assert all(before[1] < after[0] for before, after in pairwise(ordered))


@pytest.mark.parametrize(
    "line", ["第五条 内容，", "第5條 内容，", "第二款，", "第三项，", "第三項，", "Article 5 says, that", "ARTICLE IV, the", "Art. 3 says, so",
             "Articolo 7, comma", "§ 4 says, so", "§4, so", "第二章 总则，", "# Title, of it"],
)  # fmt: skip
def test_laws_are_cut_at_articles_and_clauses(line: str) -> None:
    assert is_heading(line, "laws")


@pytest.mark.parametrize(
    "line", ["Short line", "1. an item, of it", "Articles are, so", "Art of war, the", "见第五条，如下"]
)
def test_laws_are_cut_nowhere_else(line: str) -> None:
    assert not is_heading(line, "laws")


@pytest.mark.parametrize(
    "line",
    ["Q: why, then", "q. why", "Q12: why", "问：为什么，", "問：何，", "Is it so, then?", "为什么，如此？", "هل هذا؟"],
)
def test_questions_start_sections(line: str) -> None:
    assert is_heading(line, "qa")


@pytest.mark.parametrize(
    "line", ["A: because, so", "Short line", "Quick: no question", "# Title", "1. item", "Why? Because, so"]
)
def test_what_is_no_question_starts_none(line: str) -> None:
    assert not is_heading(line, "qa")


def test_an_answer_stays_with_its_question() -> None:
    found = chunks("Q: Why\nA: Because.\nMore of it.\nHow?\nSo.", "qa")
    assert [c.text for c in found] == ["Q: Why\nA: Because.\nMore of it.", "How?\nSo."]


@pytest.mark.parametrize(
    "line",
    [
        "第一章 开端，",
        "第三回，",
        "第十讲，",
        "# 第二章，",
        "Chapter 4. The whale, at last",
        "CHAPTER IV",
        "Capitolo 2, qui",
    ],
)
def test_books_are_cut_at_chapter_marks(line: str) -> None:
    assert is_heading(line, "book")


@pytest.mark.parametrize("line", ["Short line", "1. item", "# Title", "Chapter and verse, he said", "一、概述"])
def test_books_are_cut_nowhere_else(line: str) -> None:
    assert not is_heading(line, "book")


@pytest.mark.parametrize("line", ["第五条 内容，", "**Article 5** says, that", "## § 4, so", "## Any title"])
def test_laws_in_markdown_are_cut_at_their_marks_and_at_headings(line: str) -> None:
    assert is_heading(line, "laws", "markdown")


@pytest.mark.parametrize("spec", ["laws", "qa", "book"])
def test_marks_in_code_are_no_headings(spec: str) -> None:
    text = "text, here.\n\n```\n第五条\nQ: why\n第一章\n```\n\n    第五条\n\n<!-- \nHow?\n-->"
    assert {chunk.heading for chunk in chunks(text, spec, "markdown")} == {""}


@pytest.mark.parametrize(
    "contents",
    [
        "Q: What is it? ..... 3\nQ: Who made it? ..... 5",
        "Q: What is it?\nQ: Who made it?",
        "- Q: What is it? 3\n- Q: Who made it? 5",
    ],
)
def test_questions_of_a_table_of_contents_start_no_sections(contents: str) -> None:
    text = f"Questions\n{contents}\n\nQ: What is it?\nA pump.\n\nQ: Who made it?\nThe works."
    chunks = QaChunker().chunk(text, DocumentMeta("d"), max_chars=200, overlap_chars=0)
    assert [chunk.heading for chunk in chunks] == ["", "Q: What is it?", "Q: Who made it?"]


@pytest.mark.parametrize("line", ["1.2 Introduction", "3.1 適用範囲", "2.10.3 Grenzwerte der Anlage"])
def test_a_section_number_without_a_mark_begins_a_heading_on_a_short_line(line: str) -> None:
    chunks = LayoutAwareChunker().chunk(f"Some text, before.\n{line}\nMore text, after.", DocumentMeta("d"))
    assert [chunk.heading for chunk in chunks] == ["", line]


@pytest.mark.parametrize(
    "line", ["3.5 million people live there, it says", "1.2 Introduction. It goes on here.", "2.5 kg"]
)
def test_a_number_that_begins_a_line_of_prose_is_no_heading(line: str) -> None:
    chunks = LayoutAwareChunker().chunk(f"Some text, before, and\n{line}, and more.\nText, after.", DocumentMeta("d"))
    assert [chunk.heading for chunk in chunks] == [""]


@pytest.mark.parametrize("spec", ["layout", "parent_child"])
def test_a_chunk_knows_the_headings_above_it_outermost_first(spec: str) -> None:
    chunker = make_chunker(spec)
    assert chunker is not None
    text = "Preface.\n\n# Guide\n\n## Start *here*\n\nOne.\n\n### Deep\n\nTwo.\n\n## End\n\nThree.\n\n# Annex\n\nFour."
    chunks = chunker.chunk(text, DocumentMeta("d", markup="markdown"))
    paths = {chunk.text.rpartition("\n")[2]: chunk.heading_path for chunk in chunks}
    assert paths == {
        "Preface.": "",
        "# Guide": "Guide",
        "One.": "Guide > Start here",
        "Two.": "Guide > Start here > Deep",
        "Three.": "Guide > End",
        "Four.": "Annex",
    }
