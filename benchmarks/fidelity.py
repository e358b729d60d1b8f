"""How much of a file is in its text, and how much of the text is in the file (SPEC 1.12).

    python benchmarks/fidelity.py [--corpus DIR ...] [--documents 40]

Texts that are known are written to each format, with headings and a table, and read back: by this project and, where they
are installed, by the peers, in the same run. Words are runs of letters and digits, each Han character and kana by itself.
Recall is the share of the file's words that are in the text, precision the other way round, both with repetitions; order
the share of words that stand once in both and in the same order; cells the share of table rows whose cells stand in one row
of the text in their order; headings and pages the share that is found. A corpus is a folder with ``docs.jsonl`` (title and
text); without one the Markdown files of the demo are taken. The exit code is 1 if this project is below its goal.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import re
import sys
import time
import zipfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from html import escape
from pathlib import Path

import docx
import pptx
import xlsxwriter
from pptx.util import Inches
from reportlab.lib import colors
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table

from ragspine_assets.documents.extraction import extract_bytes

GOAL = {"pdf": 0.995}
DEFAULT_GOAL = 0.999
WORD = re.compile(r"[^\W_\u3040-\u30ff\u3400-\u9fff]+|[\u3040-\u30ff\u3400-\u9fff]")
Rows = list[list[str]]


@dataclass(frozen=True)
class Known:
    """A document whose text is known: sections of a title, paragraphs and a table."""

    sections: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]], ...]

    def words(self, *, tables_only: bool = False) -> list[str]:
        """All words in their order."""
        pieces: list[str] = []
        for title, paragraphs, rows in self.sections:
            if not tables_only:
                pieces += [title, *paragraphs]
            pieces += [cell for row in rows for cell in row]
        return WORD.findall("\n".join(pieces))


def texts(folders: Sequence[Path], count: int) -> Iterator[list[tuple[str, str]]]:
    if not folders:
        demo = Path(__file__).resolve().parents[1] / "data" / "raw"
        yield [(path.stem, path.read_text(encoding="utf-8")) for path in sorted(demo.rglob("*.md"))][:count]
    for folder in folders:
        with (folder / "docs.jsonl").open(encoding="utf-8") as lines:
            entries = [json.loads(line) for _, line in zip(range(count), lines, strict=False)]
        yield [(entry.get("title") or f"Text {entry['id']}", entry["text"]) for entry in entries]


def known(entries: Sequence[tuple[str, str]]) -> Known:
    sections = []
    for number, (title, text) in enumerate(entries):
        paragraphs = tuple(words for line in re.split(r"\n\s*\n", text) if (words := " ".join(line.split())))
        rows = (
            ("Item", "Amount", "R&D <x>"),
            *((f"Row{number}x{n}", f"{n}.{number}5", f"a{n} < b|c") for n in range(4)),
        )
        sections.append((" ".join(title.split()), paragraphs, rows))
    return Known(tuple(sections))


def to_docx(document: Known) -> bytes:
    file = docx.Document()
    for title, paragraphs, rows in document.sections:
        file.add_heading(title, 1)
        for text in paragraphs:
            file.add_paragraph(text)
        table = file.add_table(len(rows), len(rows[0]))
        for row, cells in zip(table.rows, rows, strict=True):
            for cell, text in zip(row.cells, cells, strict=True):
                cell.text = text
    return saved(file.save)


def to_pptx(document: Known) -> bytes:
    file = pptx.Presentation()
    for title, paragraphs, rows in document.sections:
        slide = file.slides.add_slide(file.slide_layouts[5])
        assert slide.shapes.title is not None
        slide.shapes.title.text = title
        box = slide.shapes.add_textbox(Inches(1), Inches(1.5), Inches(8), Inches(3))
        box.text_frame.text = "\n".join(paragraphs)
        table = slide.shapes.add_table(len(rows), len(rows[0]), Inches(1), Inches(5), Inches(8), Inches(2)).table
        for y, cells in enumerate(rows):
            for x, text in enumerate(cells):
                table.cell(y, x).text = text
    return saved(file.save)


def to_xlsx(document: Known) -> bytes:
    packed = io.BytesIO()
    with xlsxwriter.Workbook(packed, {"in_memory": True}) as book:
        for number, (title, paragraphs, rows) in enumerate(document.sections):
            sheet = book.add_worksheet(f"S{number}")
            for line, cells in enumerate([[title], *([text] for text in paragraphs), *rows]):
                for column, text in enumerate(cells):
                    sheet.write_string(line, column, text)
    return packed.getvalue()


def to_html(document: Known) -> bytes:
    return f"<!DOCTYPE html><html><body>{''.join(html_sections(document))}</body></html>".encode()


def html_sections(document: Known) -> Iterator[str]:
    for title, paragraphs, rows in document.sections:
        table = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows)
        body = "".join(f"<p>{escape(text)}</p>" for text in paragraphs)
        yield f"<h1>{escape(title)}</h1>{body}<table border='0'>{table}</table>"


def to_epub(document: Known) -> bytes:
    chapters = list(html_sections(document))
    items = "".join(
        f'<item id="c{n}" href="c{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(len(chapters))
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("mimetype", "application/epub+zip")
        file.writestr(
            "META-INF/container.xml",
            '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
            'full-path="b.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        )
        file.writestr(
            "b.opf",
            '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
            'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>T</dc:title></metadata>'
            f"<manifest>{items}</manifest><spine>{spine}</spine></package>",
        )
        for n, chapter in enumerate(chapters):
            page = (
                f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>T</title></head><body>{chapter}</body></html>'
            )
            file.writestr(f"c{n}.xhtml", page)
    return packed.getvalue()


def to_eml(document: Known) -> bytes:
    mail = EmailMessage()
    mail.set_content("")
    mail.add_alternative(to_html(document).decode(), subtype="html")
    return mail.as_bytes()


def to_csv(document: Known) -> bytes:
    lines = (",".join(f'"{cell}"' for cell in row) for _, _, rows in document.sections for row in rows)
    return "\n".join(lines).encode()


def to_pdf(document: Known) -> bytes:
    text = "".join(title + "".join(paragraphs) for title, paragraphs, _ in document.sections)
    font = "Helvetica"
    if re.search(r"[\u3040-\u30ff]", text):
        font = "HeiseiMin-W3"
    elif re.search(r"[\u3400-\u9fff]", text):
        font = "STSong-Light"
    if font != "Helvetica":
        pdfmetrics.registerFont(UnicodeCIDFont(font))
    wrap = None if font == "Helvetica" else "CJK"
    body = ParagraphStyle("body", fontName=font, fontSize=10.5, leading=15, spaceAfter=8, wordWrap=wrap)
    head = ParagraphStyle("head", parent=body, fontSize=16, leading=20)
    flow = []
    for title, paragraphs, rows in document.sections:
        flow += [Paragraph(escape(title), head), *(Paragraph(escape(text), body) for text in paragraphs)]
        flow.append(Table([list(row) for row in rows], style=[("GRID", (0, 0), (-1, -1), 0.5, colors.black)]))
        flow.append(PageBreak())
    packed = io.BytesIO()
    SimpleDocTemplate(packed, invariant=1).build(flow)
    return packed.getvalue()


def saved(save: Callable[[io.BytesIO], object]) -> bytes:
    packed = io.BytesIO()
    save(packed)
    return packed.getvalue()


WRITERS: dict[str, Callable[[Known], bytes]] = {
    "docx": to_docx, "pptx": to_pptx, "xlsx": to_xlsx, "html": to_html, "epub": to_epub, "eml": to_eml,
    "csv": to_csv, "pdf": to_pdf,
}  # fmt: skip


def ours(data: bytes, suffix: str) -> str:
    return extract_bytes(data, f".{suffix}").text


def peers() -> dict[str, Callable[[bytes, str], str]]:
    found: dict[str, Callable[[bytes, str], str]] = {}
    mimes = {
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "html": "text/html", "epub": "application/epub+zip", "eml": "message/rfc822", "csv": "text/csv",
        "pdf": "application/pdf",
    }  # fmt: skip
    try:
        import kreuzberg

        config = kreuzberg.ExtractionConfig(use_cache=False, output_format="markdown")
        found["kreuzberg"] = lambda data, suffix: kreuzberg.extract_bytes_sync(data, mimes[suffix], config).content
    except ImportError:
        pass
    try:
        import xberg  # pyright: ignore[reportMissingImports]

        settings = xberg.ExtractionConfig(use_cache=False, output_format="markdown")

        async def by_xberg(data: bytes, suffix: str) -> str:
            given = xberg.ExtractInput(kind="bytes", bytes=data, mime_type=mimes[suffix])
            return "\n".join(result.content for result in (await xberg.extract(given, settings)).results)

        found["xberg"] = lambda data, suffix: asyncio.run(by_xberg(data, suffix))
    except (ImportError, AttributeError):
        pass
    try:
        from markitdown import MarkItDown, StreamInfo  # pyright: ignore[reportMissingImports]

        converter = MarkItDown()
        found["markitdown"] = lambda data, suffix: (
            converter.convert_stream(io.BytesIO(data), stream_info=StreamInfo(extension=f".{suffix}")).text_content
        )
    except ImportError:
        pass
    return found


def unmarked(markdown: str) -> str:
    """Text of Markdown: escapes, references and marks taken off."""
    text = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", markdown)
    for reference, char in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(reference, char)
    return re.sub(r"(?m)^\s*\|?(?:\s*:?-+:?\s*\|)+\s*$", "", text)


def measure(document: Known, suffix: str, markdown: str) -> dict[str, float]:
    expected = document.words(tables_only=suffix == "csv")
    text = unmarked(markdown)
    if suffix == "xlsx":
        text = re.sub(r"(?m)^#+ S\d+$", "", text)
    got = WORD.findall(text)
    common = sum((Counter(expected) & Counter(got)).values())
    once = {word for word, n in Counter(got).items() if n == 1} & {
        word for word, n in Counter(expected).items() if n == 1
    }
    places = {word: place for place, word in enumerate(got) if word in once}
    longest: list[int] = []
    for word in expected:
        if word in once:
            place = bisect_left(longest, places[word])
            longest[place : place + 1] = [places[word]]
    lines = {" ".join(line.replace("|", " ").split()) for line in text.split("\n")}
    rows = [" ".join(" ".join(row).replace("|", " ").split()) for _, _, rows in document.sections for row in rows]
    titles = [" ".join(WORD.findall(title)) for title, _, _ in document.sections]
    heads = {" ".join(WORD.findall(line)) for line in markdown.split("\n") if re.match(r" {0,3}#{1,6} ", line)}
    scores = {
        "recall": common / len(expected),
        "precision": common / max(len(got), 1),
        "order": len(longest) / max(len(once), 1),
        "cells": sum(row in lines for row in rows) / len(rows),
    }
    if suffix not in {"csv", "xlsx"}:
        scores["headings"] = sum(title in heads for title in titles) / len(titles)
    return scores


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--corpus", type=Path, nargs="*", default=[])
    arguments.add_argument("--documents", type=int, default=40)
    options = arguments.parse_args()
    documents = [known(entries) for entries in texts(options.corpus, options.documents)]
    engines = {"this project": ours, **peers()}
    below = False
    print(
        f"{'format':8}{'engine':14}{'recall':>9}{'precision':>11}{'order':>8}{'cells':>8}{'headings':>10}{'seconds':>9}"
    )
    for suffix, write in WRITERS.items():
        files = [(document, write(document)) for document in documents]
        for name, read in engines.items():
            scores: Counter[str] = Counter()
            started = time.process_time()
            try:
                found = [(document, read(data, suffix)) for document, data in files]
            except Exception as problem:
                print(f"{suffix:8}{name:14}  {type(problem).__name__}")
                continue
            seconds = time.process_time() - started
            for document, markdown in found:
                scores.update(measure(document, suffix, markdown))
            mean = {key: value / len(files) for key, value in scores.items()}
            shown = "".join(
                f"{mean[key]:{width}.4f}" if key in mean else " " * width
                for key, width in (("recall", 9), ("precision", 11), ("order", 8), ("cells", 8), ("headings", 10))
            )
            print(f"{suffix:8}{name:14}{shown}{seconds:9.2f}")
            if read is ours:
                below |= min(mean["recall"], mean["precision"]) < GOAL.get(suffix, DEFAULT_GOAL) or mean["cells"] < 1
    return int(below)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # xberg crashes when the interpreter ends
