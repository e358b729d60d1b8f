"""What a file says is found where nobody listed the place (SPEC 1.10, 1.11)."""

from __future__ import annotations

import io
from collections.abc import Callable

import pikepdf
import pytest
from pikepdf import Array, Dictionary, Name, String

from ragspine_assets.documents.asides import read_file_labels
from ragspine_assets.policy import SensitivityPolicy, explain_sensitivity
from ragspine_assets_tests.conformance.label_files import book, filled, packed, pdf, sheets, slides, word

POLICY = SensitivityPolicy(
    restricted_keywords=("strictly confidential",),
    markings={"CONFIDENTIAL": ("Confidential", "社外秘")},
    labels={"Board only": "RESTRICTED"},
)
SECRET = "Strictly confidential"


def label(data: bytes, suffix: str, text: str = "") -> str:
    return explain_sensitivity("a" + suffix, text, POLICY, file=read_file_labels(data, suffix, text)).label


PARTS = {
    "pivot": (".xlsx", "xl/pivotCache/pivotCacheDefinition1.xml", f"<a><s v='{SECRET}'/></a>"),
    "external sheet": (".xlsx", "xl/externalLinks/externalLink1.xml", f"<a><sheetName val='{SECRET}'/></a>"),
    "connection": (".xlsx", "xl/connections.xml", f"<a><connection description='{SECRET}'/></a>"),
    "number format": (".xlsx", "xl/more.xml", f"<a><numFmt formatCode='&quot;{SECRET}&quot;'/></a>"),
    "name of cells": (
        ".xlsx",
        "xl/workbook2.xml",
        "<a><definedName name='Strictly_Confidential'>$A$1</definedName></a>",
    ),
    "dotted name": (".xlsx", "xl/workbook2.xml", "<a><definedName name='Strictly.Confidential'>$A$1</definedName></a>"),
    "section of slides": (".pptx", "ppt/more.xml", f"<a><section name='{SECRET}'/></a>"),
    "tag of slides": (".pptx", "ppt/tags/tag1.xml", f"<a><tag name='NOTE' val='{SECRET}'/></a>"),
    "drawing of a book": (".epub", "p.svg", "<svg><text>Strict<tspan>ly</tspan> confidential</text></svg>"),
    "embedded name": (".docx", "word/embeddings/strictly_confidential.bin", "x"),
}
MADE = {".docx": word, ".pptx": slides, ".xlsx": sheets, ".epub": book}


@pytest.mark.parametrize("name", PARTS)
def test_words_in_any_part_or_attribute_of_a_package_are_read(name: str) -> None:
    suffix, part, content = PARTS[name]
    parts = filled(MADE[suffix](), "", "")
    assert label(packed(parts), suffix) == "INTERNAL"
    assert label(packed({**parts, part: content.encode()}), suffix) == "RESTRICTED"


@pytest.mark.parametrize(
    "meta", ["<meta property='classification'>Board only</meta>", "<meta name='classification' content='Board only'/>"]
)
def test_a_book_carries_a_label_in_its_description(meta: str) -> None:
    parts = filled(book(), "", "")
    parts["c.opf"] = parts["c.opf"].replace(b"</metadata>", meta.encode() + b"</metadata>")
    assert label(packed(parts), ".epub") == "RESTRICTED"


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ("<iframe srcdoc='<p>Strictly <b>confidential</b></p>'></iframe>", "RESTRICTED"),
        ("<div data-note='This is strictly confidential'>x</div>", "RESTRICTED"),
        ("<ruby>社<rt>しゃ</rt>外<rt>がい</rt>秘<rt>ひ</rt></ruby>", "CONFIDENTIAL"),
        ("<div class='strictly confidential'>x</div>", "INTERNAL"),
        ("<p>We kept the talks <b>confidential</b> for long.</p>", "INTERNAL"),
        ("<meta name='sensitivity' content='Normal'>", "INTERNAL"),
    ],
)
def test_a_page_says_what_its_reader_and_its_scripts_show(page: str, wanted: str) -> None:
    assert label(page.encode(), ".html") == wanted


def _form(document: pikepdf.Pdf, xfa: pikepdf.Object) -> None:
    document.Root.AcroForm = Dictionary(Fields=Array(), XFA=xfa)


def _annotated(document: pikepdf.Pdf, **entries: pikepdf.Object | str) -> None:
    annotation = Dictionary(Type=Name.Annot, Rect=[9, 9, 90, 30], **entries)
    document.pages[0].Annots = Array([document.make_indirect(annotation)])


def _stamped(document: pikepdf.Pdf) -> None:
    look = document.make_stream(
        b"BT /F1 12 Tf (Strictly) Tj ( confidential) Tj ET", Subtype=Name.Form, BBox=[0, 0, 90, 30]
    )
    _annotated(document, Subtype=Name.Stamp, AP=Dictionary(N=look))


def _set(key: str, value: pikepdf.Object) -> Callable[[pikepdf.Pdf], None]:
    return lambda document: document.Root.__setitem__(key, value)


_XFA = b"<template><draw><value><text>Strictly &#99;onfidential</text></value></draw></template>"
PDF = {
    "form in one stream": (lambda d: _form(d, d.make_stream(_XFA)), "RESTRICTED"),
    "form in several": (lambda d: _form(d, Array([String("template"), d.make_stream(_XFA)])), "RESTRICTED"),
    "choices": (lambda d: _annotated(d, Subtype=Name.Widget, Opt=Array([String(SECRET), String("b")])), "RESTRICTED"),
    "look of a stamp": (_stamped, "RESTRICTED"),
    "name of a stamp": (lambda d: _annotated(d, Subtype=Name.Stamp, Name=Name.Confidential), "CONFIDENTIAL"),
    "page label": (_set("/PageLabels", Dictionary(Nums=Array([0, Dictionary(P=SECRET)]))), "RESTRICTED"),
    "destination": (_set("/Names", Dictionary(Dests=Dictionary(Names=Array([String(SECRET), Array()])))), "RESTRICTED"),
    "script": (_set("/OpenAction", Dictionary(S=Name.JavaScript, JS=f"app.alert('{SECRET}')")), "RESTRICTED"),
}


@pytest.mark.parametrize("name", PDF)
def test_a_pdf_says_it_in_forms_stamps_labels_and_names(name: str) -> None:
    change, wanted = PDF[name]
    with pikepdf.open(io.BytesIO(pdf())) as document:
        change(document)
        buffer = io.BytesIO()
        document.save(buffer)
    assert label(buffer.getvalue(), ".pdf") == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Strict\\ **ly** confidential", "RESTRICTED"),
        ("Strictly\n: confidential", "RESTRICTED"),
        ("strictly\uf020confidential", "RESTRICTED"),
        ("Confidential, den 3. März 2026", "CONFIDENTIAL"),
        ("Confidential as of 2026-03-03", "CONFIDENTIAL"),
        ("社外秘 令和8年11月30日", "CONFIDENTIAL"),
        ("Confidential on request", "INTERNAL"),
        ("Confidential as of now", "INTERNAL"),
        ("社外秘とは何か", "INTERNAL"),
    ],
)
def test_a_text_says_it_with_signs_that_nobody_sees_and_dates_of_all_kinds(text: str, wanted: str) -> None:
    assert label(text.encode(), ".txt", text) == wanted


def test_the_name_of_an_attachment_is_read_without_its_separators() -> None:
    mail = (
        b"From: a@example.org\nContent-Type: application/pdf\n"
        b"Content-Disposition: attachment; filename=strictly_confidential.pdf\n\nx"
    )
    assert label(mail, ".eml") == "RESTRICTED"
