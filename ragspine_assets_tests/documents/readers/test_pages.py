"""The text of pages, mails, slides, sheets, tables of values and PDF is what their reader sees (SPEC 1.12)."""

import io
import zipfile
from collections.abc import Sequence

import pikepdf
import pptx
import pytest
import xlsxwriter
from hypothesis import given
from hypothesis import strategies as st
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
from reportlab.lib import colors
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import SimpleDocTemplate, Table

from ragspine_assets.documents.extraction import Extracted, ExtractionError, extract_bytes
from ragspine_assets.documents.markdown import escape, table
from ragspine_assets.documents.normalise import paragraphs
from ragspine_assets.documents.readers.displayed import displayed


def page(html: str) -> Extracted:
    return extract_bytes(html.encode(), ".html")


# --- pages of the web --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>R&amp;D: a &lt; b</p>", "R&D: a < b\n"),
        ("<p>un<b>believ</b>able <a href=x>link</a></p>", "unbelievable link\n"),
        ("a<br>b<hr>c", "a\nb\n\nc\n"),
        ("<ol start=3><li>a<li>b<ul><li>c</ul></ol>", "3. a\n\n4. b\n\n  - c\n"),
        ("<dl><dt>k<dd>v</dl>", "k\n\nv\n"),
        ("<ruby>漢<rt>かん</rt></ruby>字", "漢(かん)字\n"),
        ("<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp></ruby>字", "漢(かん)字\n"),
        ("<p>x <img src=' data:image/png;base64,\n AAAA' alt=''> y</p>", "x y\n"),
        ("<select><option>a<option selected>b</select>", "b\n"),
        ("<nav>Home</nav><p>x</p>", "Home\n\nx\n"),
        ("<details><summary>s</summary>d</details>", "s\n\nd\n"),
        ("<p># none</p><pre>\n# code\n</pre>", "\\# none\n\n```\n# code\n```\n"),
    ],
)
def test_a_page_reads_as_in_a_browser(html: str, text: str) -> None:
    assert page(html).text == text


def test_cells_that_span_leave_the_others_in_their_column() -> None:
    html = "<table border=0><tr><td>k<td colspan=2>wide<td>z<tr><td rowspan=2>tall<td>1<td><td>3<tr><td>4<td>5<td>6</table>"
    assert page(html).text == "| k | wide |  | z |\n| --- | --- | --- | --- |\n| tall | 1 |  | 3 |\n|  | 4 | 5 | 6 |\n"


def test_a_table_around_tables_is_layout() -> None:
    html = "<table><tr><td>left<td><table><tr><th>a<th>b<tr><td>1<td>2</table></table>"
    assert page(html).text == "left\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def test_what_is_hidden_is_left_out_and_counted() -> None:
    extracted = page("<p hidden>A</p><div style='display: none'>B<p>C</p></div><p>seen</p><dialog>D</dialog>")
    assert (extracted.text, extracted.left_out) == ("seen\n", "hidden passages: 3")


def test_a_page_nested_without_end_is_refused_in_linear_time() -> None:
    with pytest.raises(ExtractionError, match="nested too deeply"):
        page("<div>" * 100_000 + "x")


@given(st.text("ab*_`[]()<>#|&;!~=+-.\\1 \n", max_size=40))
def test_escapes_only_add_backslashes(text: str) -> None:
    escaped = escape(text)
    position = 0
    for char in text:
        while escaped[position] == "\\" and char != "\\":
            position += 1
        assert escaped[position] == char
        position += 1


def test_wide_rows_do_not_fill_up_narrow_ones_without_bound() -> None:
    text = table([["x"] * 1000, *([["y"]] * 1000)])
    assert len(text) < 30_000


# --- mail --------------------------------------------------------------------------------------------------------


def mail(*parts: str, kind: str = "mixed") -> Extracted:
    inner = "".join(f"--b\r\n{part}\r\n" for part in parts)
    head = f"From: a@x.test\r\nSubject: s\r\nMIME-Version: 1.0\r\nContent-Type: multipart/{kind}; boundary=b\r\n\r\n"
    return extract_bytes(f"{head}{inner}--b--\r\n".encode(), ".eml")


@pytest.mark.parametrize("plain", ["", "  \r\n", "This mail needs a reader of HTML."])
def test_a_page_is_the_body_where_the_plain_text_says_nothing(plain: str) -> None:
    rich = "<p>" + " ".join(f"word{n}" for n in range(40)) + "</p>"
    text = mail(
        f"Content-Type: text/plain\r\n\r\n{plain}", f"Content-Type: text/html\r\n\r\n{rich}", kind="alternative"
    ).text
    assert "word39" in text
    assert "needs a reader" not in text


def test_a_forwarded_mail_says_who_wrote_it() -> None:
    inner = "From: third@x.test\r\nSubject: first\r\nDate: Mon, 1 Jan 2024 10:00:00 +0000\r\n\r\nORIGINAL"
    text = mail("Content-Type: text/plain\r\n\r\nsee below", f"Content-Type: message/rfc822\r\n\r\n{inner}").text
    found = paragraphs(text)
    assert found.index("see below") < found.index("**From**: third@x.test") < found.index("ORIGINAL")
    assert "**Subject**: first" in found


def test_folded_lines_of_a_mail_are_joined_where_it_says_so() -> None:
    data = b"Subject: s\r\nContent-Type: text/plain; format=flowed\r\n\r\none \r\ntwo\r\n> quoted\r\n"
    assert extract_bytes(data, ".eml").text.endswith("one two\n\\> quoted\n")


# --- slides ------------------------------------------------------------------------------------------------------


def test_runs_charts_and_numbers_of_a_slide() -> None:
    file = pptx.Presentation()
    slide = file.slides.add_slide(file.slide_layouts[5])
    slide.shapes.title.text = "T"
    box = slide.shapes.add_textbox(0, Inches(4), Inches(1), Inches(1)).text_frame
    for text in ("12", "3", ".5 a|b"):
        box.paragraphs[0].add_run().text = text
    slide.shapes.add_textbox(0, Inches(2), Inches(1), Inches(1)).text_frame.text = "above"
    data = CategoryChartData()
    data.categories = ["Q1"]
    data.add_series("North", [4.5])
    slide.shapes.add_chart(XL_CHART_TYPE.PIE, 0, Inches(6), Inches(1), Inches(1), data)
    hidden = file.slides.add_slide(file.slide_layouts[5])
    hidden.shapes.title.text = "HIDDEN"
    hidden._element.set("show", "0")
    packed = io.BytesIO()
    file.save(packed)
    extracted = extract_bytes(packed.getvalue(), ".pptx")
    assert extracted.text == "## T\n\nabove\n\n123.5 a|b\n\n|  | North |\n| --- | --- |\n| Q1 | 4.5 |\n"
    assert (extracted.pages, extracted.left_out) == (2, "hidden slides: 1")


# --- sheets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        ("0.1", "General", "0.1"),
        ("0.30000000000000004", "General", "0.3"),
        ("1234567.891", "#,##0.00", "1,234,567.89"),
        ("-5", "0.0;(0.0)", "(5.0)"),
        ("0.256", "0.0%", "25.6%"),
        ("45000", "yyyy-mm-dd", "2023-03-15"),
        ("45000.5", "d mmm yyyy h:mm AM/PM", "15 Mar 2023 12:00 PM"),
        ("1.5", "[h]:mm", "36:00"),
        ("7", '"No. "000', "No. 007"),
        ("3", "[$€-407] 0.00", "€ 3.00"),
        ("1500000", '0.0,,"M"', "1.5M"),
        ("2", "0;-0;zero", "2"),
    ],
)
def test_numbers_are_shown_as_their_cells_display_them(value: str, code: str, shown: str) -> None:
    assert displayed(value, code) == shown


def test_a_sheet_says_what_it_shows() -> None:
    packed = io.BytesIO()
    with xlsxwriter.Workbook(packed, {"in_memory": True}) as book:
        sheet = book.add_worksheet("Shown")
        sheet.merge_range("A1:A3", "Group")
        for row in range(3):
            sheet.write(row, 1, row + 1)
            sheet.write(row, 2, "OUT")
        sheet.write_boolean(3, 1, True)
        sheet.write_formula(4, 1, "=1/0", None, "#DIV/0!")
        sheet.set_column(2, 2, None, None, {"hidden": True})
        sheet.set_row(2, None, None, {"hidden": True})
        sheet.write_comment("B1", "REMARK")
        book.add_worksheet("Hidden").hide()
    extracted = extract_bytes(packed.getvalue(), ".xlsx")
    assert extracted.text == "## Shown\n\n| Group | 1 |\n| --- | --- |\n| Group | 2 |\n|  | TRUE |\n|  | #DIV/0! |\n"
    assert extracted.left_out == "comments: 1; hidden columns: 1; hidden rows: 1; hidden sheets: 1"


# --- PDF ---------------------------------------------------------------------------------------------------------


def drawn(pages: Sequence[Sequence[tuple[float, float, str]]]) -> bytes:
    packed = io.BytesIO()
    canvas = Canvas(packed, invariant=True)
    for words in pages:
        for x, y, text in words:
            canvas.drawString(x, y, text)
        canvas.showPage()
    canvas.save()
    return packed.getvalue()


def test_a_line_near_the_edge_is_kept() -> None:
    assert extract_bytes(drawn([[(72, 830, "edge"), (72, 400, "middle"), (72, 8, "foot")]]), ".pdf").text.split() == [
        "edge", "middle", "foot",
    ]  # fmt: skip


def test_only_what_is_printed_alike_on_three_pages_is_a_running_head() -> None:
    pages = [
        [(72, 800, "Report"), (72, 780, f"Total 2024-00{n}"), (72, 400, "Body"), (300, 30, f"Page {n}")]
        for n in (1, 2, 3)
    ]
    extracted = extract_bytes(drawn(pages), ".pdf")
    found = paragraphs(extracted.text)
    assert found.count("Report") == 1
    assert found.count("Body") == 3
    assert [line for line in found if "Total" in line] == ["Total 2024-001", "Total 2024-002", "Total 2024-003"]
    assert extracted.left_out == "running heads and page numbers: 4"


def test_wrapped_lines_are_joined_and_others_are_not() -> None:
    long = "These words fill the whole line up to its right edge so that nothing"
    pages = [[(72, 700, long), (72, 685, "else fits in."), (72, 670, "Next line.")]]
    assert paragraphs(extract_bytes(drawn(pages), ".pdf").text) == [f"{long} else fits in.", "Next line."]


def test_a_ruled_table_keeps_its_rows_and_columns() -> None:
    packed = io.BytesIO()
    rows = [["a", "b", ""], ["1", "", "3"], ["x y", "z|w", "-5"]]
    SimpleDocTemplate(packed, invariant=1).build([Table(rows, style=[("GRID", (0, 0), (-1, -1), 1, colors.black)])])
    text = extract_bytes(packed.getvalue(), ".pdf").text
    assert text == "| a | b |  |\n| --- | --- | --- |\n| 1 |  | 3 |\n| x y | z\\|w | -5 |\n"


def test_a_page_without_a_character_map_is_called_unreadable() -> None:
    packed = io.BytesIO()
    with pikepdf.open(io.BytesIO(drawn([[(72, 700, "some words that could be read")]]))) as file:
        font = file.pages[0].Resources.Font["/F1"]
        codes = pikepdf.Array([32, *(pikepdf.Name(f"/g{n}") for n in range(33, 127))])
        font.Encoding = pikepdf.Dictionary(Type=pikepdf.Name.Encoding, Differences=codes)
        file.save(packed)
    extracted = extract_bytes(packed.getvalue(), ".pdf")
    assert (extracted.text, extracted.left_out) == ("", "unreadable pages: 1")


# --- values ------------------------------------------------------------------------------------------------------


def test_values_may_be_parted_by_anything_usual() -> None:
    for delimiter in ",;\t|":
        text = extract_bytes(f'a{delimiter}b\n"x{delimiter}y"{delimiter}2\n'.encode(), ".csv").text
        assert text.startswith("| a | b |\n| --- | --- |\n| x"), delimiter
    assert extract_bytes(b"only\none\ncolumn\n", ".csv").text == "| only |\n| --- |\n| one |\n| column |\n"


def test_a_book_closes_elements_as_xml_does() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="b.opf"/>'
            "</rootfiles></container>",
        )
        file.writestr(
            "b.opf",
            '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="a.xhtml" '
            'media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine></package>',
        )
        file.writestr(
            "a.xhtml",
            '<?xml version="1.0"?><html><head><title/></head><body><script src="x"/><a id="p"/>kept</body></html>',
        )
    assert extract_bytes(packed.getvalue(), ".epub").text == "kept\n"
