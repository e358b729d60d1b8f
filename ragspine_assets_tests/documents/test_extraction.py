"""What each format says, and a clear reason when it says nothing (SPEC 1.4, 1.6)."""

import base64
import contextlib
import io
import random
import struct
import zipfile
from collections.abc import Callable, Mapping
from importlib.metadata import version

import docx
import pikepdf
import pptx
import pytest
import xlsxwriter
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from pptx.util import Inches
from reportlab.pdfgen.canvas import Canvas

from ragspine_assets.documents import extraction
from ragspine_assets.documents.extraction import (
    ExtractionError,
    ExtractionLimits,
    TimeLimitError,
    extract_bytes,
    parser_for,
)
from ragspine_assets.documents.formats import BY_SUFFIX
from ragspine_assets.documents.normalise import normalise_text, paragraphs
from ragspine_assets.documents.office import UnsafePackage, check_package
from ragspine_assets.documents.source import SUPPORTED_SUFFIXES


def refusal(data: bytes, suffix: str, limits: ExtractionLimits | None = None) -> str:
    with pytest.raises(ExtractionError) as caught:
        extract_bytes(data, suffix, limits)
    assert caught.value.reason
    assert "\n" not in caught.value.reason
    return caught.value.reason


# --- text formats ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".txt", ".rst", ".md", ".markdown", ".srt"])
def test_plain_text_and_markdown_are_not_rewritten(suffix: str) -> None:
    text = "# Head\n\n    indented * code _ <b> & [x]\n\ttab\n\n\n~~~\n# no head\n~~~\n1) one\n"
    assert extract_bytes(text.encode(), suffix).text == text


def test_markdown_is_markup_and_plain_text_is_not() -> None:
    assert [extract_bytes(b"x", suffix).markup for suffix in (".md", ".txt", ".rst", ".html")] == [
        "markdown",
        "plain",
        "plain",
        "markdown",
    ]


def test_the_text_is_normalised_and_not_stripped() -> None:
    extracted = extract_bytes(b"\xef\xbb\xbf  a\r\nb\x00\x0cc\r", ".txt")
    assert extracted.text == "  a\nb\nc\n"


@pytest.mark.parametrize("suffix", sorted(SUPPORTED_SUFFIXES))
def test_an_empty_file_of_any_format_has_no_text(suffix: str) -> None:
    assert extract_bytes(b"", suffix).text == ""


@pytest.mark.parametrize("suffix", sorted(SUPPORTED_SUFFIXES))
def test_the_parser_of_every_format_is_known_without_parsing(suffix: str) -> None:
    parser = parser_for(suffix)
    assert extract_bytes(b"", suffix).parser == parser
    assert all(version(library) in parser for library in BY_SUFFIX[suffix].libraries) or "kreuzberg" in parser


def test_a_format_that_is_not_read_is_refused() -> None:
    assert ".exe" in refusal(b"MZ", ".exe")
    with pytest.raises(KeyError):
        parser_for(".exe")


def test_the_encoding_and_how_it_was_found_are_told() -> None:
    extracted = extract_bytes("<p>Però è così</p>".encode("cp1252"), ".html")
    assert (extracted.text, extracted.encoding, extracted.encoding_found_by) == ("Però è così\n", "cp1252", "detected")


def test_undecodable_text_is_refused() -> None:
    assert "not text" in refusal(random.Random(3).randbytes(3000), ".txt")


@pytest.mark.parametrize(
    "page",
    [
        "<style>p{x:1}</style><SCRIPT >LEAK()</SCRIPT ><template>LEAK</template><p>ok</p>",
        "<p>ok</p><script>document.write('<p>LEAK</p>')</script>",
        "<p>ok</p><script type='a>b'>LEAK</script>",
        "<p>ok</p><script>LEAK that never ends",
        "<p>ok</p><style>LEAK",
        "<head><meta name=description content='LEAK'><link rel=canonical href=LEAK><base href=LEAK></head><p>ok</p>",
        "<!-- LEAK --><p>ok</p>",
        "<p>ok</p><script>a</script foo>",
    ],
)
def test_nothing_of_a_page_but_its_text_comes_through(page: str) -> None:
    assert extract_bytes(page.encode(), ".html").text == "ok\n"


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("<html><head><title>A &amp; B\n c</title></head><body><p>ok</p></body></html>", "A & B c"),
        ("<TITLE lang=en>T</TITLE><p>ok</p>", "T"),
        ("<title>a < b</title><p>ok</p>", "a < b"),
        ("<title>never closed<body><p>ok</p>", "never closed"),
        ("<p>ok</p>", ""),
    ],
)
def test_the_title_of_a_page_is_metadata_and_not_text(page: str, title: str) -> None:
    extracted = extract_bytes(page.encode(), ".html")
    assert (extracted.text, extracted.title) == ("ok\n", title)


def test_a_page_inside_a_form_is_kept() -> None:
    assert "all of it" in extract_bytes(b"<body><form><p>all of it</p></form></body>", ".html").text


def test_a_quote_that_is_never_closed_does_not_swallow_the_page() -> None:
    page = b"<meta content='oops name=d><p>one</p>" + b"<p>two</p>" * 1000
    assert extract_bytes(page, ".html").text.startswith("one\n\ntwo\n")


def test_embedded_pictures_leave_their_name_alone() -> None:
    page = b"<p>a <img alt=Logo src='data:image/png;base64,AAAA'> b</p>"
    assert extract_bytes(page, ".html").text == "a Logo b\n"


def test_headings_lists_and_tables_of_a_page_become_markdown() -> None:
    page = b"<h2>H</h2><ul><li>a<li>b</ul><table><tr><th>k<th>v<tr><td>1<td>2</table><pre>x\n  y</pre>"
    assert extract_bytes(page, ".html").text == (
        "## H\n\n- a\n- b\n\n| k | v |\n| --- | --- |\n| 1 | 2 |\n\n```\nx\n  y\n```\n"
    )


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ('a,b\n1,"x, y"\n2,"l1\nl2"\n', "| a | b |\n| --- | --- |\n| 1 | x, y |\n| 2 | l1 l2 |\n"),
        ("a;b\r\n1;2\r\n", "| a | b |\n| --- | --- |\n| 1 | 2 |\n"),
        ('"q""q",z|z\n', '| q"q | z\\|z |\n| --- | --- |\n'),
        ("a,b\n1\n", "| a | b |\n| --- | --- |\n| 1 |  |\n"),
    ],
)
def test_a_table_of_values_becomes_a_markdown_table(table: str, text: str) -> None:
    assert extract_bytes(table.encode(), ".csv").text == text


def test_a_wide_table_keeps_every_column() -> None:
    row = ",".join(f"c{number}" for number in range(300))
    assert "| c299 |" in extract_bytes(f"{row}\n{row}\n".encode(), ".csv").text


# --- mail --------------------------------------------------------------------------------------------------------


def test_a_mail_tells_its_head_body_and_attachments() -> None:
    mail = (
        b"From: Ann <ann@x.test>\r\nTo: Bo <bo@x.test>\r\nSubject: =?utf-8?q?Caff=C3=A8?=\r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\n'
        b'Content-Type: text/plain; charset="iso-8859-1"\r\nContent-Transfer-Encoding: 8bit\r\n\r\nPer\xf2 no\r\n'
        b'--b\r\nContent-Type: text/plain; name="plan.txt"\r\n'
        b'Content-Disposition: attachment; filename="plan.txt"\r\n\r\nINSIDE\r\n--b--\r\n'
    )
    extracted = extract_bytes(mail, ".eml")
    assert extracted.title == "Caffè"
    assert all(words in extracted.text for words in ("Caffè", "ann@x.test", "Però no", "**Attachments**: plan.txt"))


@pytest.mark.parametrize(
    ("charset", "words"),
    [
        ("iso-2022-jp", "会社は来年"),
        ("shift_jis", "会社は来年"),
        ("euc-jp", "会社は来年"),
        ("gb2312", "公司明年"),
        ("big5", "公司明年"),
        ("euc-kr", "회사는 내년에"),
        ("koi8-r", "Привет"),
        ("utf-8", "会社は来年"),
    ],
)
def test_a_mail_is_read_in_its_charset(charset: str, words: str) -> None:
    subject = base64.b64encode(words.encode(charset)).decode()
    head = (
        f"From: a@x.test\r\nSubject: =?{charset}?B?{subject}?=\r\nMIME-Version: 1.0\r\n"
        f'Content-Type: text/plain; charset="{charset}"\r\n\r\n'
    )
    extracted = extract_bytes(head.encode() + f"{words}\r\n".encode(charset), ".eml")
    assert extracted.title == words
    assert paragraphs(extracted.text)[-1] == words


def test_bytes_that_must_not_stand_in_the_head_of_a_mail_are_read_all_the_same() -> None:
    extracted = extract_bytes("Subject: Però è così\r\nFrom: x@x.test\r\n\r\nwords\r\n".encode("cp1252"), ".eml")
    assert extracted.title == "Però è così"


@pytest.mark.parametrize("head", ["To: <<<", "Date: x", "Content-Type: text/plain; charset=", "Message-ID: [", "From"])
def test_a_mail_with_a_broken_head_is_read(head: str) -> None:
    assert "words" in extract_bytes(f"{head}\r\nSubject: s\r\n\r\nwords\r\n".encode(), ".eml").text


def test_nothing_but_the_text_of_a_mail_in_html_comes_through() -> None:
    page = "<title>LEAK</title><meta name=x content=LEAK><script>LEAK</script><style>LEAK</style><p>words</p>"
    mail = f"From: a@x.test\r\nMIME-Version: 1.0\r\nContent-Type: text/html\r\n\r\n{page}\r\n"
    text = extract_bytes(mail.encode(), ".eml").text
    assert "words" in text
    assert "LEAK" not in text


def test_the_two_forms_of_a_body_are_read_once() -> None:
    mail = (
        "From: a@x.test\r\nMIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n"
        "--b\r\nContent-Type: text/plain\r\n\r\nsame words\r\n"
        "--b\r\nContent-Type: text/html\r\n\r\n<p>same words</p>\r\n--b--\r\n"
    )
    assert extract_bytes(mail.encode(), ".eml").text.count("same words") == 1


# --- Word --------------------------------------------------------------------------------------------------------

Body = Callable[[docx.document.Document], None]
_NAMES = (
    nsdecls("w", "wp", "a")
    + ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:v="urn:schemas-microsoft-com:vml"'
    + ' xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
)


def word(fill: Body, title: str = "") -> bytes:
    document = docx.Document()
    document.core_properties.title = title
    fill(document)
    packed = io.BytesIO()
    document.save(packed)
    return packed.getvalue()


def tracked(tag: str, inner: str) -> str:
    return f'<w:{tag} {nsdecls("w")} w:id="1" w:author="a">{inner}</w:{tag}>'


def run(text: str, tag: str = "t") -> str:
    return f'<w:r {nsdecls("w")}><w:{tag} xml:space="preserve">{text}</w:{tag}></w:r>'


def test_insertions_are_kept_and_deletions_are_not() -> None:
    def fill(document: docx.document.Document) -> None:
        paragraph = document.add_paragraph("pre ")._p
        paragraph.append(parse_xml(tracked("ins", run("INSERTED"))))
        paragraph.append(parse_xml(tracked("del", run("DELETED", "delText"))))
        paragraph.append(parse_xml(tracked("moveFrom", run("DELETED"))))
        paragraph.append(parse_xml(tracked("moveTo", run(" MOVED"))))

    assert extract_bytes(word(fill), ".docx").text == "pre INSERTED MOVED\n"


def test_a_deleted_table_row_is_not_kept() -> None:
    def fill(document: docx.document.Document) -> None:
        table = document.add_table(3, 1)
        for number, row in enumerate(table.rows):
            row.cells[0].text = f"row{number}"
        table._tbl.tr_lst[1].get_or_add_trPr().append(parse_xml(tracked("del", "")))

    text = extract_bytes(word(fill), ".docx").text
    assert ("row0" in text, "row1" in text, "row2" in text) == (True, False, True)


def test_a_deleted_paragraph_mark_deletes_no_text() -> None:
    def fill(document: docx.document.Document) -> None:
        properties = document.add_paragraph("kept")._p.get_or_add_pPr()
        properties.append(parse_xml(f"<w:rPr {nsdecls('w')}>{tracked('del', '')}</w:rPr>"))

    assert extract_bytes(word(fill), ".docx").text == "kept\n"


def text_box(inner: str) -> str:
    content = f"<w:txbxContent>{inner}</w:txbxContent>"
    return (
        f"<w:r {_NAMES}><mc:AlternateContent><mc:Choice Requires='wps'><w:drawing><wp:anchor><a:graphic>"
        f"<a:graphicData uri='x'><wps:wsp><wps:txbx>{content}</wps:txbx></wps:wsp></a:graphicData></a:graphic>"
        f"</wp:anchor></w:drawing></mc:Choice><mc:Fallback><w:pict><v:shape><v:textbox>{content}</v:textbox>"
        f"</v:shape></w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )


def test_a_text_box_and_the_paragraph_around_it_are_both_kept_once() -> None:
    def fill(document: docx.document.Document) -> None:
        paragraph = document.add_paragraph("before")
        paragraph._p.append(parse_xml(text_box(f"<w:p>{run('BOX')}</w:p>")))
        paragraph.add_run(" after")

    assert extract_bytes(word(fill), ".docx").text == "before after\n\nBOX\n"


def test_a_text_box_in_a_text_box_is_kept() -> None:
    def fill(document: docx.document.Document) -> None:
        innermost = f"<w:p>{run('INNER')}</w:p>"
        inner = f"<w:p>{run('OUTER')}{text_box(innermost)}</w:p>"
        document.add_paragraph("before")._p.append(parse_xml(text_box(inner)))

    assert extract_bytes(word(fill), ".docx").text == "before\n\nOUTER\n\nINNER\n"


def test_the_title_of_a_word_file_is_that_of_its_properties() -> None:
    assert (
        extract_bytes(word(lambda document: document.add_heading("Head") and None, "Title"), ".docx").title == "Title"
    )


# --- PowerPoint --------------------------------------------------------------------------------------------------


def deck(fill: Callable[[pptx.presentation.Presentation], None]) -> bytes:
    presentation = pptx.Presentation()
    fill(presentation)
    packed = io.BytesIO()
    presentation.save(packed)
    return packed.getvalue()


def add_slide(presentation: pptx.presentation.Presentation, title: str, notes: str = ""):
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = title
    if notes:
        slide.notes_slide.notes_text_frame.text = notes
    return slide


def test_boxes_groups_tables_and_notes_of_a_slide_are_all_kept() -> None:
    def fill(presentation: pptx.presentation.Presentation) -> None:
        slide = add_slide(presentation, "Title", "NOTE one\nNOTE two")
        slide.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "PLAIN"
        group = slide.shapes.add_group_shape()
        group.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "GROUPED"
        slide.shapes.add_table(1, 1, 0, 0, Inches(1), Inches(1)).table.cell(0, 0).text = "CELL"
        add_slide(presentation, "Second")

    extracted = extract_bytes(deck(fill), ".pptx")
    assert extracted.text == (
        "## Title\n\nPLAIN\n\nGROUPED\n\n| CELL |\n| --- |\n\nNOTE one\n\nNOTE two\n\n## Second\n"
    )
    assert (extracted.pages, extracted.page_starts) == (2, (1, 8))


def test_slides_come_in_the_order_of_the_presentation_and_deleted_ones_do_not_come() -> None:
    def fill(presentation: pptx.presentation.Presentation) -> None:
        for number in range(1, 5):
            add_slide(presentation, f"S{number}", f"n{number}")
        order = presentation.slides._sldIdLst
        first, second, third, fourth = list(order)
        for entry in (first, second, third, fourth):
            order.remove(entry)
        for entry in (fourth, first, third):
            order.append(entry)

    extracted = extract_bytes(deck(fill), ".pptx")
    assert paragraphs(extracted.text) == ["## S4", "n4", "## S1", "n1", "## S3", "n3"]
    assert extracted.page_starts == (1, 3, 5)


def test_a_slide_without_text_shares_its_start_with_the_next() -> None:
    def fill(presentation: pptx.presentation.Presentation) -> None:
        presentation.slides.add_slide(presentation.slide_layouts[6])
        add_slide(presentation, "Second")
        presentation.slides.add_slide(presentation.slide_layouts[6])

    extracted = extract_bytes(deck(fill), ".pptx")
    assert (extracted.text, extracted.page_starts) == ("## Second\n", (1, 1, 2))


def test_notes_cannot_pass_for_markdown() -> None:
    text = extract_bytes(
        deck(lambda file: add_slide(file, "T", "# no head\n- no list\n1. no number") and None), ".pptx"
    ).text
    assert paragraphs(text) == ["## T", "\\# no head", "\\- no list", "1. no number"]


# --- PDF ---------------------------------------------------------------------------------------------------------


def pdf(pages: list[list[str]], title: str = "", encrypt: bool = False) -> bytes:
    packed = io.BytesIO()
    canvas = Canvas(packed, invariant=True)
    canvas.setTitle(title)
    for lines in pages:
        for number, line in enumerate(lines):
            canvas.drawString(72, 720 - 60 * number, line)
        canvas.showPage()
    canvas.save()
    if not encrypt:
        return packed.getvalue()
    locked = io.BytesIO()
    with pikepdf.open(io.BytesIO(packed.getvalue())) as file:
        file.save(locked, encryption=pikepdf.Encryption(user="secret", owner="owner"))
    return locked.getvalue()


def test_each_paragraph_of_a_pdf_lies_on_its_page() -> None:
    lines = [
        [f"{'Some' * line} words that stand on page {page} of a file" for line in range(1, 4)] for page in range(1, 5)
    ]
    extracted = extract_bytes(pdf(lines, "Report"), ".pdf")
    assert (extracted.pages, extracted.title) == (4, "Report")
    assert [paragraph for page in lines for paragraph in page] == paragraphs(extracted.text)
    assert extracted.page_starts == (1, 4, 7, 10)


def test_blank_pages_count() -> None:
    extracted = extract_bytes(pdf([[], ["The only sentence of this whole file."], []]), ".pdf")
    assert (extracted.pages, extracted.page_starts) == (3, (1, 1, 2))


def test_a_pdf_without_a_text_layer_has_pages_and_no_text() -> None:
    extracted = extract_bytes(pdf([[], []]), ".pdf")
    assert (extracted.text, extracted.pages) == ("", 2)


def test_an_encrypted_pdf_asks_for_a_copy_without_a_password() -> None:
    assert "password" in refusal(pdf([["text"]], encrypt=True), ".pdf")


# --- other packages ----------------------------------------------------------------------------------------------


def workbook() -> bytes:
    packed = io.BytesIO()
    with xlsxwriter.Workbook(packed, {"in_memory": True}) as book:
        book.set_properties({"title": "Book"})
        for name in ("First", "Second"):
            sheet = book.add_worksheet(name)
            sheet.write_row(0, 0, ["name", "value"])
            sheet.write_row(1, 0, [f"{name} row", 1234.5])
    return packed.getvalue()


def test_every_sheet_of_a_workbook_is_a_headed_table() -> None:
    extracted = extract_bytes(workbook(), ".xlsx")
    assert extracted.title == "Book"
    assert extracted.text == (
        "## First\n\n| name | value |\n| --- | --- |\n| First row | 1234.5 |\n\n"
        "## Second\n\n| name | value |\n| --- | --- |\n| Second row | 1234.5 |\n"
    )


def package(parts: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as file:
        for name, part in parts.items():
            file.writestr(name, part)
    return packed.getvalue()


def book(title: str = "A book") -> bytes:
    return package(
        {
            "mimetype": b"application/epub+zip",
            "META-INF/container.xml": b'<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
            b'<rootfiles><rootfile full-path="c.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
            "c.opf": f'<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
            f'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></metadata><manifest>'
            f'<item id="b" href="b.xhtml" media-type="application/xhtml+xml"/>'
            f'<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
            f'<spine><itemref idref="b"/><itemref idref="a"/></spine></package>'.encode(),
            "a.xhtml": b'<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>Last</h1><p>two</p></body></html>',
            "b.xhtml": b'<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>First</h1><p>one</p></body></html>',
        }
    )


def test_the_chapters_of_a_book_come_in_reading_order() -> None:
    extracted = extract_bytes(book(), ".epub")
    assert (paragraphs(extracted.text), extracted.title) == (["# First", "one", "# Last", "two"], "A book")


MAKERS: dict[str, Callable[[], bytes]] = {
    ".pdf": lambda: pdf([["One sentence of text on one page."]]),
    ".docx": lambda: word(lambda document: document.add_paragraph("text") and None),
    ".pptx": lambda: deck(lambda file: add_slide(file, "text") and None),
    ".xlsx": workbook,
    ".epub": book,
}


@pytest.mark.parametrize("suffix", MAKERS)
def test_a_file_that_is_cut_off_is_refused(suffix: str) -> None:
    data = MAKERS[suffix]()
    assert "damaged" in refusal(data[: len(data) // 2], suffix)


@pytest.mark.parametrize("suffix", [*MAKERS, ".xls", ".msg", ".rtf"])
def test_a_file_that_is_not_what_its_name_says_is_refused(suffix: str) -> None:
    assert f"no {suffix} file" in refusal(b"just some words\n" * 20, suffix)


@pytest.mark.parametrize("suffix", MAKERS)
def test_the_same_bytes_give_the_same_text(suffix: str) -> None:
    data = MAKERS[suffix]()
    assert extract_bytes(data, suffix) == extract_bytes(data, suffix)


@pytest.mark.parametrize("suffix", MAKERS)
def test_texts_are_normalised_and_sound(suffix: str) -> None:
    text = extract_bytes(MAKERS[suffix](), suffix).text
    assert text
    assert text == normalise_text(text)
    assert "\ufffd" not in text


def test_an_encrypted_office_file_asks_for_a_copy_without_a_password() -> None:
    data = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(512) + "EncryptedPackage".encode("utf-16-le") + bytes(512)
    assert "password" in refusal(data, ".xlsx")


def test_an_old_office_file_with_a_new_suffix_is_refused_with_advice() -> None:
    assert "save it as .docx" in refusal(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(2048), ".docx")


def test_a_file_larger_than_the_limit_is_refused() -> None:
    assert "larger than 10 bytes" in refusal(b"x" * 11, ".txt", ExtractionLimits(max_bytes=10))


def test_a_text_longer_than_the_limit_is_refused() -> None:
    assert "longer than 10 characters" in refusal(b"x" * 11, ".txt", ExtractionLimits(max_characters=10))


def test_a_package_that_unpacks_to_more_than_the_limit_is_refused() -> None:
    bomb = package({"word/document.xml": b"0" * 3_000_000})
    assert len(bomb) < 10_000
    assert "unpacks to more" in refusal(bomb, ".docx", ExtractionLimits(max_unpacked_bytes=2_000_000))


def test_a_package_whose_directory_lies_about_its_sizes_is_refused() -> None:
    bomb = bytearray(package({"word/document.xml": b"0" * 3_000_000}))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", bomb, bomb.index(signature) + offset, 1000)
    with pytest.raises(UnsafePackage, match="not what its table of contents says"):
        check_package(bytes(bomb), 2_000_000)


def test_a_package_of_too_many_parts_is_refused() -> None:
    many = package({str(number): b"" for number in range(20_001)}, zipfile.ZIP_STORED)
    with pytest.raises(UnsafePackage, match="parts"):
        check_package(many, 2_000_000)


@pytest.mark.parametrize("suffix", MAKERS)
def test_a_damaged_file_gives_a_text_or_a_reason(suffix: str) -> None:
    data = MAKERS[suffix]()
    chosen = random.Random(11)
    for _ in range(25):
        damaged = bytearray(data)
        for _ in range(chosen.choice([1, 5, 40])):
            damaged[chosen.randrange(len(damaged))] = chosen.randrange(256)
        with contextlib.suppress(ExtractionError):
            extracted = extract_bytes(bytes(damaged), suffix)
            assert len(extracted.page_starts) == extracted.pages


def with_failing(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    import kreuzberg

    def fail(*_: object) -> object:
        raise RuntimeError(words)

    monkeypatch.setattr(kreuzberg, "extract_bytes_sync", fail)


def test_the_parser_keeps_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with_failing(monkeypatch, "extraction timed out after 1s: SECRET")
    with pytest.raises(TimeLimitError, match="time limit of 1 s") as caught:
        extract_bytes(rb"{\rtf1 x}", ".rtf", ExtractionLimits(time_limit_s=1))
    assert caught.value.retry
    assert "SECRET" not in caught.value.reason


def test_what_a_reader_says_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    def quotes(*_: object) -> object:
        raise RuntimeError("SECRET words of the document")

    monkeypatch.setattr("ragspine_assets.documents.readers.web.page_blocks", quotes)
    extraction._prove_reader.cache_clear()
    with pytest.raises(ExtractionError) as caught:
        extract_bytes(b"<p>x</p>", ".html")
    assert "SECRET" not in caught.value.reason
    assert caught.value.__cause__ is None


def test_a_parser_that_cannot_read_a_sound_file_is_not_the_documents_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    extraction._prove_reader.cache_clear()
    data, suffix = extraction.sound_sample(".rtf")
    with monkeypatch.context() as broken:
        with_failing(broken, "no space left for SECRET")
        with pytest.raises(ExtractionError, match="does not work on this machine") as caught:
            extract_bytes(data, suffix)
    assert caught.value.retry
    assert "SECRET" not in str(caught.value)
    # What failed once is tried anew: room may have been made.
    extract_bytes(data, suffix)


@pytest.mark.parametrize("suffix", sorted(SUPPORTED_SUFFIXES))
def test_every_sound_sample_can_be_read(suffix: str) -> None:
    extract_bytes(*extraction.sound_sample(suffix))
