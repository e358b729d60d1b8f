"""Handed cases: what rag-spine answers, and faults that users of comparable systems met.

Where SPEC wins over a case: UN-09 asks for cuts at grapheme ends, SPEC 2.3 cuts every ``max_chars`` code points for
every chunker (2.5 to 2.7 refer to it). CT-07 asks for a flagged heading path in 120 code points; here a heading is kept
whole up to 2,000. CT-13 asks for the table header in a context field; chunks have none, rows are not cut. CT-15 asks for
sizes derived from each other; SPEC 2.2 refuses them, and the message says so. LO-07 asks for an option not to cross
pages; pages are recorded. CP-07's "cut every size" and CT-05's slices hold by 2.4.
"""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from ragspine_assets.chunking import Chunk, Chunker, DocumentMeta, LayoutAwareChunker, SentenceWindowChunker
from ragspine_assets.chunking.enforcement import cut_document
from ragspine_assets.natural_order import natural_key

from .rule import CHUNKERS, assert_rule_holds, assert_windows_hold

META = DocumentMeta("d")


@pytest.fixture(scope="module")
def cases(shared: Path) -> dict[str, dict[str, object]]:
    return {case["id"]: case["input"] for case in json.loads((shared / "cases" / "bug_cases.json").read_text("utf-8"))}


@pytest.mark.parametrize("name", ["default", "parent_child"])
def test_chunks_equal_those_of_rag_spine(shared: Path, name: str) -> None:
    path = shared / "cases" / "oracle" / ("chunk_document.jsonl" if name == "default" else f"{name}.jsonl")
    recorded = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert len(recorded) >= 49
    for case in recorded:
        chunker, sizes = CHUNKERS[name], {key: case[key] for key in ("max_chars", "overlap_chars")}
        meta = DocumentMeta(**case["meta"])
        if "error" in case:
            assert case["error"]["type"] == "ValueError"
            with pytest.raises(ValueError, match="_chars"):
                chunker.chunk(case["text"], meta, **sizes)
            continue
        for made in (
            chunker.chunk(case["text"], meta, **sizes),
            cut_document(case["text"], meta, chunker, **sizes),
        ):
            assert len(made) == len(case["chunks"]), case["id"]
            for chunk, expected in zip(made, case["chunks"], strict=True):
                assert {key: getattr(chunk, key) for key in expected} == expected, case["id"]
                assert all(getattr(chunk, key) == value for key, value in case["meta"].items() if _is_inherited(key))


def _is_inherited(key: str) -> bool:
    return key in {column.name for column in fields(Chunk)}


SIZED = [
    "CP-01",
    "CP-05",
    "CP-07",
    "CP-11",
    "CT-01",
    "CT-05",
    "CT-07",
    "CT-09",
    "CT-11",
    "CT-13",
    "CT-17",
    "LO-05",
    "UN-09",
]


@pytest.mark.parametrize("case_id", SIZED)
@pytest.mark.parametrize("chunker", CHUNKERS.values(), ids=CHUNKERS.keys())
@pytest.mark.parametrize("markup", ["plain", "markdown"])
def test_texts_that_broke_others_keep_the_rule_here(
    cases: dict[str, dict[str, object]], case_id: str, chunker: Chunker, markup: str
) -> None:
    case = cases[case_id]
    text = eval(str(case["text_expr"])) if "text_expr" in case else str(case["text"])
    size = case.get("size", 30)
    max_chars = size if isinstance(size, int) else 3
    for overlap_chars in {0, min(int(str(case.get("overlap", 0))), max_chars - 1), max_chars - 1}:
        meta = DocumentMeta("d", markup=markup)
        chunks = cut_document(text, meta, chunker, max_chars=max_chars, overlap_chars=overlap_chars)
        assert_rule_holds(text, chunks, max_chars)
        assert_windows_hold(text, chunks)


@pytest.mark.parametrize("case_id", ["CP-03", "CT-15"])
@pytest.mark.parametrize("chunker", CHUNKERS.values(), ids=CHUNKERS.keys())
def test_sizes_that_made_others_hang_are_refused(
    cases: dict[str, dict[str, object]], case_id: str, chunker: Chunker
) -> None:
    size = int(str(cases[case_id].get("size", cases[case_id].get("child_size"))))
    overlap = cases[case_id]["overlap"]
    with pytest.raises(ValueError, match="less than max_chars"):
        chunker.chunk("abcdefghijkl", META, max_chars=size, overlap_chars=overlap if isinstance(overlap, int) else 80)


def test_a_table_is_cut_between_rows_only(cases: dict[str, dict[str, object]]) -> None:
    text = str(cases["CT-13"]["text"])
    rows = set(text.splitlines())
    for chunk in cut_document(text, DocumentMeta("d", markup="markdown"), max_chars=80, overlap_chars=0):
        assert set(chunk.text.splitlines()) <= rows


def test_the_sentences_of_many_scripts(cases: dict[str, dict[str, object]]) -> None:
    counts = {"CT-17": 3, "CT-19": 2, "UN-11": 4}
    for case_id, expected in counts.items():
        assert len(SentenceWindowChunker().chunk(str(cases[case_id]["text"]), META)) == expected


def test_equal_paragraphs_get_their_own_locators(cases: dict[str, dict[str, object]]) -> None:
    found = cut_document(str(cases["LO-03"]["text"]), META, max_chars=10, overlap_chars=0)
    assert [chunk.source_locator for chunk in found if chunk.text == "Note well."] == ["d#para1", "d#para3"]


def test_locators_are_ordered_by_number(cases: dict[str, dict[str, object]]) -> None:
    names = cases["LO-09"]["locators"]
    assert isinstance(names, list)
    assert sorted([*names[1:], names[0]], key=natural_key) == names


def test_crlf_gives_the_same_paragraphs_as_lf(cases: dict[str, dict[str, object]]) -> None:
    text = bytes.fromhex(str(cases["UN-01"]["bytes_hex"])).decode()
    (chunk,) = cut_document(text, META)
    assert (chunk.text, chunk.para_end) == (text.replace("\r\n\r\n", "\n"), 2)


def test_every_line_end_counts_the_same_everywhere(cases: dict[str, dict[str, object]]) -> None:
    text = str(cases["UN-13"]["text"])
    for chunker in CHUNKERS.values():
        chunks = cut_document(text, META, chunker, max_chars=1, overlap_chars=0)
        assert chunks[-1].para_end == 3 + text.count("\u2028")


@pytest.mark.parametrize(("case_id", "expected"), [("MD-01", ["# Real"]), ("MD-05", ["Title", "Sub"])])
def test_markdown_headings(cases: dict[str, dict[str, object]], case_id: str, expected: list[str]) -> None:
    chunks = LayoutAwareChunker().chunk(str(cases[case_id]["text"]), DocumentMeta("d", markup="markdown"))
    assert list(dict.fromkeys(chunk.heading for chunk in chunks)) == expected
