"""Text that a PDF's Markdown lost comes back, once, on its page (SPEC 1.4)."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragspine_assets.documents.extraction import ExtractionLimits, extract_bytes
from ragspine_assets.documents.lost_lines import restore_lost_lines
from ragspine_assets.documents.normalise import paragraphs


def test_a_line_that_is_only_on_the_page_is_put_back_behind_the_text_of_its_page() -> None:
    text, starts, added = restore_lost_lines(
        "# One\n\nFirst words.\n\n# Two\n\nLast words.\n",
        ["One\nFirst words.\nRevenue 140.8", "Two\nLast words."],
        (1, 3),
    )
    assert paragraphs(text) == ["# One", "First words.", "Revenue 140.8", "# Two", "Last words."]
    assert starts == (1, 4)
    assert added == 1


def test_text_that_is_complete_stays_byte_for_byte() -> None:
    text = "# One\n\n| a | 1.5 |\n| --- | --- |\n| b | 2 |\n\nEnd **bold** words.\n"
    assert restore_lost_lines(text, ["One\na 1.5\nb 2", "End bold\nwords."], (1, 5)) == (text, (1, 5), 0)


def test_lines_in_another_order_or_broken_elsewhere_are_no_loss() -> None:
    text = "Left column text goes here.\n\nRight column text goes there.\n"
    page = "Left column Right column\ntext goes here. text goes there."
    assert restore_lost_lines(text, [page], (1,))[2] == 0


def test_headers_that_repeat_on_every_page_stay_out() -> None:
    pages = [f"Annual report of a company, page {n}\nWords number {n * 'x'} only." for n in range(1, 6)]
    text = "\n\n".join(f"Words number {n * 'x'} only." for n in range(1, 6))
    assert restore_lost_lines(text, pages, (1, 2, 3, 4, 5))[2] == 0


def test_what_is_put_back_is_no_markup() -> None:
    text, _, _ = restore_lost_lines("Words.\n", ["Words.\n# not a heading at all\n1. neither a list"], (1,))
    assert paragraphs(text)[1:] == ["\\# not a heading at all", "1\\. neither a list"]


def test_pages_without_any_markdown_keep_their_place() -> None:
    text, starts, _ = restore_lost_lines("Only this.\n", ["lost in front", "Only this.", "lost behind"], (1, 1, 2))
    assert paragraphs(text) == ["lost in front", "Only this.", "lost behind"]
    assert starts == (1, 2, 3)


@given(
    st.lists(st.lists(st.text("abcdefg 12.", min_size=1, max_size=20), max_size=5), min_size=1, max_size=5),
    st.data(),
)
def test_nothing_is_lost_and_pages_never_go_back(pages: list[list[str]], data: st.DataObject) -> None:
    kept = [[line for line in page if data.draw(st.booleans())] for page in pages]
    text = "\n\n".join(line for page in kept for line in page)
    counts = [len(paragraphs("\n".join(page))) for page in kept]
    starts = tuple(1 + sum(counts[:n]) for n in range(len(pages)))
    restored, new_starts, added = restore_lost_lines(text, ["\n".join(page) for page in pages], starts)
    assert len(new_starts) == len(pages)
    assert list(new_starts) == sorted(new_starts)
    assert len(paragraphs(restored)) == len(paragraphs(text)) + added
    assert paragraphs(text) == [p for p in paragraphs(text) if p in paragraphs(restored)]


def test_a_real_pdf_with_lost_columns_has_them_back(shared: Path) -> None:
    data = (shared / "corpus/files/pdf/un_pdf_invalid-pdf-structure-pdfminer-one-page.pdf").read_bytes()
    text = extract_bytes(data, ".pdf", ExtractionLimits()).text
    assert "GOVERNMENT ACCOUNTABILITY OFFICE" in text
    assert "specific milestones" in text


@pytest.mark.parametrize("name", ["pl_issue-53-example.pdf", "pl_2023-06-20-PV.pdf"])
def test_a_real_pdf_that_lost_nothing_gains_nothing(shared: Path, name: str) -> None:
    data = (shared / "corpus/files/pdf" / name).read_bytes()
    text = extract_bytes(data, ".pdf", ExtractionLimits()).text
    lines = paragraphs(text)
    assert len(lines) - len(set(lines)) < len(lines) / 2
