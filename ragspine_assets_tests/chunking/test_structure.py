"""Chunks that read well (SPEC 2.10): what lies together, where a text is cut, what a table's rows show."""

import textwrap
from pathlib import Path

import pytest

from ragspine_assets.chunking import Chunk, DocumentMeta, StructureChunker, make_chunker
from ragspine_assets.chunking.enforcement import cut_document
from ragspine_assets.chunking.spans import source_text

SENTENCES = [
    f"Sentence number {n} of this text says that pump {n} was looked at by the crew on day {n}." for n in range(1, 61)
]
WRAPPED = textwrap.fill(" ".join(SENTENCES), 72)


def cut(text: str, *, markup: str = "markdown", max_chars: int = 480, **options: int | str) -> list[Chunk]:
    return cut_document(
        text, DocumentMeta("d", markup=markup), StructureChunker(**options), max_chars=max_chars, overlap_chars=0
    )


def paths(text: str, markup: str = "markdown", max_chars: int = 480) -> list[tuple[str, ...]]:
    return StructureChunker().cuts(source_text(text), DocumentMeta("d", markup=markup), max_chars, 0).heading_paths


@pytest.mark.parametrize("markup", ["plain", "markdown"])
def test_hard_wrapped_text_is_cut_at_the_ends_of_sentences_and_not_of_lines(markup: str) -> None:
    chunks = cut(WRAPPED, markup=markup)
    assert len(chunks) > 5
    assert all(chunk.text.endswith(".") for chunk in chunks)


def test_a_heading_lies_with_its_text() -> None:
    text = "\n\n".join(f"## Part {n}\n\n{' '.join(SENTENCES[n : n + 5])}" for n in range(8))
    for chunk in cut(text):
        lines = chunk.text.split("\n")
        assert not lines[-1].startswith("#")


def test_headings_above_each_other_lie_with_the_first_text_below_them() -> None:
    text = f"# Manual\n\n## Guidelines\n\n### Grade Nine\n\n{' '.join(SENTENCES[:12])}"
    first, *others = cut(text)
    assert first.text.startswith("# Manual\n## Guidelines\n### Grade Nine\nSentence number 1")
    assert first.heading == "### Grade Nine"
    assert others


def test_small_sections_of_one_parent_lie_together_and_those_of_another_do_not() -> None:
    parts = [" ".join(SENTENCES[:5]), SENTENCES[5], SENTENCES[6], SENTENCES[7]]
    text = "\n\n".join(
        f"{name}\n\n{part}" for name, part in zip(("# A", "## One", "## Two", "# B"), parts, strict=True)
    )
    assert [chunk.text.split("\n")[0] for chunk in cut(text)] == ["# A", "## One", "# B"]


def test_no_tail_of_a_few_characters_is_left() -> None:
    for count in range(4, 30):
        text = " ".join(SENTENCES[:count])
        assert min(len(chunk.text) for chunk in cut(text)) >= 80


def test_rows_further_down_a_table_show_its_header_in_the_window_and_never_in_the_text() -> None:
    rows = "\n".join(f"| Company {n} | {n * 7} |" for n in range(100))
    chunks = cut(f"Before.\n\n| Name | Amount |\n|---|---|\n{rows}\n\nAfter.")
    assert sum("| Name | Amount |" in chunk.text for chunk in chunks) == 1
    later = [chunk for chunk in chunks if chunk.text.startswith("| Company")]
    assert len(later) > 3
    for chunk in later:
        assert chunk.window_text == f"| Name | Amount |\n|---|---|\n{chunk.text}"
        assert chunk.parent_locator == f"d#para2-{chunk.para_end}"
        assert all(line.startswith("|") and line.endswith("|") for line in chunk.text.split("\n")[:-1])


def test_two_tables_do_not_borrow_each_others_header() -> None:
    def table(name: str) -> str:
        return f"| {name} | Amount |\n| --- | --- |\n" + "\n".join(f"| {name}{n} | {n} |" for n in range(60))

    for chunk in cut(f"{table('Left')}\n\nText between them.\n\n{table('Right')}"):
        if chunk.window_text:
            assert ("| Left |" in chunk.window_text) == ("| Left" in chunk.text)


def test_a_table_of_contents_makes_no_headings() -> None:
    contents = "\n".join(f"{n}. Chapter {n} {'.' * 30} {n * 3}" for n in range(1, 12))
    text = f"{contents}\n\n1. Chapter 1\n\n{SENTENCES[0]}\n\n2. Chapter 2\n\n{SENTENCES[1]}"
    found = {name for path in paths(text, "plain", 120) for name in path}
    assert found == {"1. Chapter 1", "2. Chapter 2"}


def test_a_heading_path_goes_from_the_outermost_heading_to_the_nearest() -> None:
    text = "".join(
        f"# {top}\n\n## {name}\n\n{' '.join(SENTENCES[:6])}\n\n"
        for top, name in (("Manual", "Grade Nine"), ("Rules", "Grade Ten"))
    )
    assert set(paths(text)) == {("Manual", "Grade Nine"), ("Rules", "Grade Ten")}


def test_a_chunk_of_several_sections_stands_under_what_they_have_in_common() -> None:
    text = "# Manual\n\nIntroduction.\n\n## One\n\nFirst.\n\n## Two\n\nSecond."
    assert paths(text) == [("Manual",)]


def test_a_short_line_inside_a_paragraph_of_plain_text_is_no_heading() -> None:
    text = f"{SENTENCES[0]}\nof the pump\n{SENTENCES[1]}\n\n1.2 Scope\n\n{SENTENCES[2]}"
    assert {name for path in paths(text, "plain", 150) for name in path} == {"1.2 Scope"}


def test_han_text_without_spaces_is_cut_at_its_full_stops() -> None:
    text = "".join(f"第{n}台泵在本月的检修中更换了密封件并通过了压力测试。" for n in range(200))
    assert all(chunk.text.endswith("。") for chunk in cut(text, markup="plain"))


def test_sizes_in_tokens_hold_for_every_chunk(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: number for number, word in enumerate(sorted(set(" ".join(SENTENCES).replace(".", " .").split())))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({**words, "?": len(words)}, unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    chunks = cut(WRAPPED, max_chars=4_000, max_tokens=40, tokenizer=str(path))
    counts = [len(tokenizer.encode(chunk.text).ids) for chunk in chunks]
    assert max(counts) <= 40
    assert len(chunks) > 20


@pytest.mark.parametrize("options", [{"max_tokens": 5}, {"tokenizer": "x"}, {"max_tokens": -1}])
def test_sizes_in_tokens_need_a_tokenizer_and_a_size(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        make_chunker("structure", **options)


@pytest.mark.parametrize("error", [RuntimeError("Zanzibarquux"), SystemExit("Zanzibarquux")])
def test_a_tokenizer_that_panics_is_one_sentence(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def panics(name: str) -> object:
        raise error

    tokenizers = pytest.importorskip("tokenizers")
    monkeypatch.setattr(tokenizers, "Tokenizer", type("Tokenizer", (), {"from_pretrained": staticmethod(panics)}))
    with pytest.raises(ValueError, match="no tokenizer 'panics'") as caught:
        StructureChunker(max_tokens=5, tokenizer="panics")
    assert "Zanzibarquux" not in str(caught.value)


def test_a_tokenizer_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no tokenizer|tokenizers"):
        StructureChunker(max_tokens=5, tokenizer=str(tmp_path / "none.json"))


UNDERLINED = """\
Release notes
=============

Before all parts.

Version 2.1
-----------

New
~~~

* A pump forecast.

Changed
~~~~~~~

* The valve closes earlier.

Version 2.0
-----------

First of all.
"""


def test_titles_that_signs_underline_are_headings_of_plain_text_at_their_level() -> None:
    found = paths(UNDERLINED, "plain", max_chars=60)
    assert ("Release notes", "Version 2.1", "New") in found
    assert ("Release notes", "Version 2.1", "Changed") in found
    assert ("Release notes", "Version 2.0") in found


def test_a_title_is_not_torn_from_the_row_under_it() -> None:
    for size in range(40, 140):
        for chunk in cut(UNDERLINED, markup="plain", max_chars=size):
            lines = chunk.text.split("\n")
            assert not lines[0].startswith(("~~~", "---", "==="))
            assert not lines[-1].startswith(("~~~", "---", "===")), size


@pytest.mark.parametrize("text", ["One line.\nAnother line\n------------\n\nMore.", "--- ---\na   b\n--- ---\n"])
def test_rows_of_signs_elsewhere_underline_nothing(text: str) -> None:
    assert set(paths(text, "plain")) == {()}
