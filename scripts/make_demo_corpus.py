"""Make the demo corpus' binary and legacy-encoded files from the texts in ``scripts/demo_text``.

    python scripts/make_demo_corpus.py            write what is missing or differs
    python scripts/make_demo_corpus.py --check    write nothing; exit 1 and name every file that differs

Text files of the corpus (UTF-8 Markdown, HTML, CSV, ...) are ordinary files in ``data/raw``, edited there. This script
makes only what no editor makes, and makes it byte for byte the same every time: dates, document ids and zip entry times
are fixed, and nothing is compressed, since two builds of zlib may compress alike texts differently. That includes the
encrypted PDF, whose old cipher (RC4) is chosen because AES takes random bytes: it guards nothing, it only has to be
unreadable.

The sources are a small part of Markdown: headings, list items, tables, paragraphs of one line, and ``<<page>>`` on a
line of its own, which starts a page or a slide. Needs the extra ``demo``.
"""

from __future__ import annotations

import argparse
import html
import io
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import docx
import pikepdf
import xlsxwriter
from docx.document import Document as WordDocument
from docx.enum.style import WD_STYLE_TYPE
from pptx import Presentation
from pptx.shapes.placeholder import SlidePlaceholder
from pptx.util import Inches, Pt
from reportlab.lib import colors
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.platypus import Flowable, PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table

PROJECT = Path(__file__).resolve().parent.parent
TEXTS = PROJECT / "scripts" / "demo_text"
CORPUS = PROJECT / "data" / "raw"

FIXED_TIME = datetime(2026, 1, 15, 9, 0, 0, tzinfo=UTC)
"""The one moment that all made files claim to have been made at."""

AUTHOR = "Veltamara Group"
PDF_PASSWORD = "skerravoe"  # opens a file that holds one harmless sentence

TEXT_WIDTH = 439
"""Points between the margins of an A4 page."""

ENERGY_COLUMNS = ("Month", "Veltamara Skerra", "Veltamara Italia", "Veltamara Lanmen", "Veltamara Japan")
ENERGY_GWH = {
    "2025-01": (3.6, 2.3, 5.0, 1.9),
    "2025-02": (3.4, 2.1, 4.8, 1.8),
    "2025-03": (3.9, 1.8, 5.6, 2.0),
    "2025-04": (3.6, 2.0, 5.5, 1.4),
    "2025-05": (3.5, 2.1, 5.7, 1.3),
    "2025-06": (3.4, 2.0, 6.0, 1.5),
    "2025-07": (3.6, 2.1, 6.5, 1.7),
    "2025-08": (3.7, 2.2, 6.8, 1.7),
    "2025-09": (3.9, 2.4, 7.2, 1.9),
    "2025-10": (4.1, 2.4, 6.4, 1.4),
    "2025-11": (3.9, 2.3, 6.0, 1.4),
    "2025-12": (4.0, 2.4, 6.0, 1.4),
}


@dataclass(frozen=True)
class Block:
    """One piece of a source text: ``kind`` is ``heading``, ``text``, ``item``, ``table`` or ``page``."""

    kind: str
    text: str = ""
    level: int = 0
    rows: tuple[tuple[str, ...], ...] = ()


def read_source(name: str) -> str:
    """Return a source text of ``scripts/demo_text``, with plain newlines."""
    return (TEXTS / name).read_text(encoding="utf-8")


def blocks(source: str) -> Iterator[Block]:
    """Yield the blocks of a source text in order."""
    table: list[tuple[str, ...]] = []
    for raw in [*source.split("\n"), ""]:
        line = raw.strip()
        if line.startswith("|"):
            if not set(line) <= set("|-"):
                table.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
            continue
        if table:
            yield Block("table", rows=tuple(table))
            table = []
        if line == "<<page>>":
            yield Block("page")
        elif line.startswith("#"):
            marks, _, text = line.partition(" ")
            yield Block("heading", text, len(marks))
        elif line.startswith("- "):
            yield Block("item", line[2:])
        elif line:
            yield Block("text", line)


def title_of(source: str) -> str:
    """Return the text of a source's first heading."""
    return next(block.text for block in blocks(source) if block.kind == "heading")


def repack(data: bytes) -> bytes:
    """Return a zip archive with the same entries, stored and with one fixed time, whatever wrote it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as new:
        for entry in old.infolist():
            new.writestr(zip_entry(entry.filename), old.read(entry))
    return packed.getvalue()


def zip_entry(name: str) -> zipfile.ZipInfo:
    """Return the header of a zip entry that is the same on every system."""
    entry = zipfile.ZipInfo(name, FIXED_TIME.timetuple()[:6])
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    return entry


def make_pdf(source: str, font: str = "Helvetica") -> bytes:
    """Return a PDF of the source; Han and kana need one of the Adobe CID fonts, which are named and not embedded."""
    wrap = None
    if font != "Helvetica":
        pdfmetrics.registerFont(UnicodeCIDFont(font))
        wrap = "CJK"
    body = ParagraphStyle("body", fontName=font, fontSize=10.5, leading=15, spaceAfter=7, wordWrap=wrap)
    headings = {
        level: ParagraphStyle(f"h{level}", parent=body, fontSize=size, leading=size + 6, spaceBefore=8)
        for level, size in ((1, 18), (2, 14), (3, 12))
    }
    story: list[Flowable] = []
    for block in blocks(source):
        if block.kind == "page":
            story.append(PageBreak())
        elif block.kind == "heading":
            story.append(Paragraph(html.escape(block.text), headings[block.level]))
        elif block.kind == "table":
            style = [
                ("FONT", (0, 0), (-1, -1), font, 9.5),
                ("GRID", (0, 0), (-1, -1), 0.4, colors.grey),
                ("BACKGROUND", (0, 0), (-1, 0), colors.whitesmoke),
            ]
            # As wide as the page: beside narrow tables kreuzberg 4.10 takes ordinary lines for more of the table and
            # then leaves text of that page out.
            widths = [TEXT_WIDTH / len(block.rows[0])] * len(block.rows[0])
            story += [Table([list(row) for row in block.rows], widths, style=style), Spacer(1, 8)]
        else:
            bullet = "• " if block.kind == "item" else ""
            story.append(Paragraph(bullet + html.escape(block.text), body))
    out = io.BytesIO()
    SimpleDocTemplate(
        out, invariant=1, pageCompression=0, title=title_of(source), author=AUTHOR, subject="", creator=AUTHOR
    ).build(story)
    return out.getvalue()


def make_encrypted_pdf(source: str) -> bytes:
    """Return a PDF that cannot be read without a password."""
    out = io.BytesIO()
    with pikepdf.open(io.BytesIO(make_pdf(source))) as pdf:
        pdf.save(
            out,
            static_id=True,
            compress_streams=False,
            object_stream_mode=pikepdf.ObjectStreamMode.disable,
            encryption=pikepdf.Encryption(owner=PDF_PASSWORD, user=PDF_PASSWORD, R=3, aes=False, metadata=False),
        )
    return out.getvalue()


def drop_unused_styles(document: WordDocument) -> None:
    """Take out of the template what is not used here: uncompressed, it would be nine tenths of every file."""
    for style in [style for style in document.styles if style.type == WD_STYLE_TYPE.TABLE]:
        if style.name not in ("Normal Table", "Table Grid"):
            style.delete()
    unused = [key for key, part in document.part.rels.items() if part.reltype.endswith("/stylesWithEffects")]
    for key in unused:
        del document.part.rels[key]


def make_docx(source: str) -> bytes:
    """Return a Word document with real headings, lists and tables."""
    document = docx.Document()
    drop_unused_styles(document)
    for block in blocks(source):
        if block.kind == "heading":
            document.add_heading(block.text, block.level)
        elif block.kind == "item":
            document.add_paragraph(block.text, style="List Bullet")
        elif block.kind == "table":
            table = document.add_table(rows=0, cols=len(block.rows[0]), style="Table Grid")
            for row in block.rows:
                for cell, text in zip(table.add_row().cells, row, strict=True):
                    cell.text = text
        elif block.kind == "text":
            document.add_paragraph(block.text)
    properties = document.core_properties
    properties.title, properties.author, properties.last_modified_by = title_of(source), AUTHOR, AUTHOR
    properties.comments, properties.revision = "", 1
    properties.created = properties.modified = FIXED_TIME.replace(tzinfo=None)
    out = io.BytesIO()
    document.save(out)
    return repack(out.getvalue())


def make_pptx(source: str) -> bytes:
    """Return a slide deck: one slide for each page of the source, its heading as the title."""
    deck = Presentation()
    slide = None
    for block in [Block("page"), *blocks(source)]:
        if block.kind == "page":
            slide = deck.slides.add_slide(deck.slide_layouts[1])
            continue
        assert slide is not None
        title, content = slide.shapes.title, slide.placeholders[1]
        assert title is not None
        assert isinstance(content, SlidePlaceholder)
        if block.kind == "heading":
            title.text_frame.text = block.text
        elif block.kind == "table":
            # An empty placeholder would be shown as "click to add text" under the table.
            content.element.getparent().remove(content.element)
            shape = slide.shapes.add_table(
                len(block.rows), len(block.rows[0]), Inches(0.6), Inches(1.8), Inches(8.8), Inches(3)
            )
            for number, row in enumerate(block.rows):
                for column, text in enumerate(row):
                    shape.table.cell(number, column).text = text
        else:
            frame = content.text_frame
            paragraph = frame.add_paragraph() if frame.text else frame.paragraphs[0]
            paragraph.text = block.text
            paragraph.font.size = Pt(22)
    properties = deck.core_properties
    properties.title, properties.author, properties.last_modified_by = title_of(source), AUTHOR, AUTHOR
    properties.revision = 1
    properties.created = properties.modified = FIXED_TIME.replace(tzinfo=None)
    out = io.BytesIO()
    deck.save(out)
    return repack(out.getvalue())


def make_epub(source: str) -> bytes:
    """Return an EPUB with one chapter for each second-level heading of the source."""
    title = title_of(source)
    chapters: list[list[str]] = []
    for block in blocks(source):
        text = html.escape(block.text)
        if block.kind == "heading" and block.level == 2:
            chapters.append([f"<h2>{text}</h2>"])
        elif chapters:
            chapters[-1].append(f"<p>{text}</p>")
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    names = [f"chapter{number}" for number in range(1, len(chapters) + 1)]
    spine = "".join(f'<itemref idref="{n}"/>' for n in names)
    items = "".join(f'<item id="{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in names)
    entries = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": head
        + '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        "OEBPS/content.opf": head
        + '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">veltamara-visitors-guide'
        f"</dc:identifier><dc:title>{html.escape(title)}</dc:title><dc:language>en</dc:language>"
        f'<meta property="dcterms:modified">{FIXED_TIME:%Y-%m-%dT%H:%M:%SZ}</meta></metadata>'
        '<manifest><item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
        f"{items}</manifest><spine>{spine}</spine></package>",
        "OEBPS/nav.xhtml": head
        + '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><head>'
        f'<title>{html.escape(title)}</title></head><body><nav epub:type="toc"><ol>'
        + "".join(f'<li><a href="{n}.xhtml">{n}</a></li>' for n in names)
        + "</ol></nav></body></html>",
    }
    for name, lines in zip(names, chapters, strict=True):
        entries[f"OEBPS/{name}.xhtml"] = (
            f'{head}<html xmlns="http://www.w3.org/1999/xhtml"><head><title>{html.escape(title)}</title></head>'
            f"<body>{''.join(lines)}</body></html>"
        )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as book:
        for name, text in entries.items():
            book.writestr(zip_entry(name), text)
    return out.getvalue()


def make_energy_log() -> bytes:
    """Return the workbook of energy delivered in each month of 2025, in GWh, with the year's totals."""
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True})
    book.set_properties({"title": "Energy log FY2025", "author": AUTHOR, "created": FIXED_TIME.replace(tzinfo=None)})
    sheet = book.add_worksheet("Energy FY2025 (GWh)")
    totals = [round(sum(column), 1) for column in zip(*ENERGY_GWH.values(), strict=True)]
    sheet.write_row(0, 0, ENERGY_COLUMNS)
    for number, (month, values) in enumerate([*ENERGY_GWH.items(), ("Total", totals)], start=1):
        sheet.write_row(number, 0, [month, *values])
    book.close()
    return repack(out.getvalue())


def make_encoded(source: str, encoding: str, bom: bytes = b"") -> bytes:
    """Return the source in a legacy encoding, with the line ends of the system that would have written it."""
    return bom + source.replace("\n", "\r\n").encode(encoding)


def made_files() -> dict[str, Callable[[], bytes]]:
    """Return, for the path below ``data/raw`` of every made file, the function that makes it."""
    files: dict[str, Callable[[], bytes]] = {
        "sites/energy-log-FY2025.xlsx": make_energy_log,
        "sites/skerravoe/adcp-sample.bin": lambda: bytes(range(256)),
        "reports/~$half-year-review-2025H1.docx": lambda: b"\x0fDemo lock file".ljust(162, b"\x00"),
    }
    for path, maker in {
        "reports/annual-review-FY2024.pdf": make_pdf,
        "reports/half-year-review-2025H1.docx": make_docx,
        "reports/業績報告-2025H1.pdf": lambda source: make_pdf(source, "HeiseiMin-W3"),
        "board/verbale-cda-2025-06.docx": make_docx,
        "products/vm-400-manuale.docx": make_docx,
        "products/vm-1200-保守手順書.pdf": lambda source: make_pdf(source, "HeiseiMin-W3"),
        "safety/密闭空间救援预案.pdf": lambda source: make_pdf(source, "STSong-Light"),
        "safety/avviso-sicurezza-SN-2025-03.txt": lambda source: make_encoded(source, "cp1252"),
        "safety/安全のお知らせ-SN-2025-03.txt": lambda source: make_encoded(source, "shift_jis"),
        "safety/安全通告-SN-2025-03.txt": lambda source: make_encoded(source, "utf-16-le", b"\xff\xfe"),
        "hr/员工手册.docx": make_docx,
        "hr/2026年薪酬方案.docx": make_docx,
        "market/competitor-briefing-FY2025.pptx": make_pptx,
        "training/visitors-guide-skerravoe.epub": make_epub,
        "sites/skerravoe/seabed-survey-2024.pdf": make_encrypted_pdf,
    }.items():
        name = path.rpartition("/")[2]
        stem, _, suffix = name.rpartition(".")
        source_name = name if suffix == "txt" else f"{stem}.md"
        files[path] = lambda maker=maker, source_name=source_name: maker(read_source(source_name))
    return files


def differing(root: Path) -> dict[str, bytes]:
    """Return the path and right content of every made file that is missing below ``root`` or has other bytes."""
    wrong: dict[str, bytes] = {}
    for path, make in sorted(made_files().items()):
        content, target = make(), root / path
        if not target.is_file() or target.read_bytes() != content:
            wrong[path] = content
    return wrong


def main() -> int:
    """Write the files, or with ``--check`` say which ones differ; return the exit code."""
    parser = argparse.ArgumentParser(description="Make the demo corpus' binary and legacy-encoded files.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs")
    parser.add_argument("--root", type=Path, default=CORPUS, help="folder to write to (default: data/raw)")
    options = parser.parse_args()
    wrong = differing(options.root)
    if options.check:
        for path in wrong:
            print(f"differs: {path} (run scripts/make_demo_corpus.py, or take the edit into scripts/demo_text)")
        return 1 if wrong else 0
    for path, content in wrong.items():
        target = options.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        print(f"wrote {path}")
    print(f"{len(wrong)} written, {len(made_files()) - len(wrong)} already right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
