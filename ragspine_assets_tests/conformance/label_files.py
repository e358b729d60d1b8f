"""Files that say that they are secret: format by place by spelling, made here and now (SPEC 1.8, 1.10, 1.11)."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape

from ragspine_assets.policy import SensitivityPolicy

OPEN = "The harbour crane is inspected every spring."
SECRET = "strictly confidential"
KNOWN, HARMLESS, UNKNOWN = (
    "2f1c3a54-7a0b-4d1e-9c55-0d2b6f3e8a11",
    "55aa55aa-1111-4222-8333-444455556666",
    "99999999-9999-4999-8999-999999999999",
)
POLICY = SensitivityPolicy(
    restricted_keywords=("strictly confidential", "M&A", "exec_comp"),
    markings={"CONFIDENTIAL": ("For your eyes", "社外秘")},
    labels={
        KNOWN: "RESTRICTED",
        "Board only": "RESTRICTED",
        HARMLESS: "PUBLIC",
        "Company-Confidential": "CONFIDENTIAL",
    },
)


@dataclass(frozen=True)
class Case:
    """A file, and the label that it says it has; '' where it says none."""

    name: str
    suffix: str
    data: bytes
    label: str


# Characters are the same in every format.
CHARACTERS: Mapping[str, str] = {
    "plain": SECRET,
    "capitals": "STRICTLY CONFIDENTIAL",
    "full width": "ｓｔｒｉｃｔｌｙ　ｃｏｎｆｉｄｅｎｔｉａｌ",
    "zero width": "stri\u200bctly confi\u00addential",
    "no-break and double spaces": "strictly \u00a0 confidential",
    "a longer sentence": "This is strictly confidential, as ever.",
}
_LINES: Mapping[str, str] = {"line break": "strictly\nconfidential", "CRLF": "strictly\r\nconfidential"}


# -- source text -------------------------------------------------------------------------------------------------------

_SOURCE: Mapping[str, Mapping[str, str]] = {
    ".txt": {"body": f"{OPEN}\n\n{{}}\n\n{OPEN}\n", "first line": f"{{}}\n\n{OPEN}\n"},
    ".md": {
        "body": f"{OPEN}\n\n{{}}\n\n{OPEN}\n",
        "heading": f"## {{}}\n\n{OPEN}\n",
        "front matter": f"---\ntitle: {{}}\n---\n{OPEN}\n",
        "cell": f"{OPEN}\n\n| a | {{}} |\n|---|---|\n| b | c |\n",
        "comment": f"{OPEN}\n\n<!-- {{}} -->\n",
        "note": f"{OPEN}[^1]\n\n[^1]: {{}}\n",
        "picture": f"{OPEN}\n\n![{{}}](a.png)\n",
        "code": f"{OPEN}\n\n```\n{{}}\n```\n",
    },
    ".rst": {
        "body": f"{OPEN}\n\n{{}}\n",
        "comment": f"{OPEN}\n\n.. {{}}\n",
        "field": f":title: {{}}\n\n{OPEN}\n",
    },
    ".csv": {"cell": f'item,note\n{OPEN},"{{}}"\n', "head": f'item,"{{}}"\n{OPEN},b\n'},
    ".html": {
        "body": f"<html><body><p>{OPEN}</p><p>{{}}</p></body></html>",
        "title": f"<html><head><title>{{}}</title></head><body><p>{OPEN}</p></body></html>",
        "heading": f"<h1>{{}}</h1><p>{OPEN}</p>",
        "cell": f"<p>{OPEN}</p><table><tr><td>a</td><td>{{}}</td></tr></table>",
        "hidden": f'<p>{OPEN}</p><p style="display:none">{{}}</p>',
        "comment": f"<p>{OPEN}</p><!-- {{}} -->",
        "picture": f'<p>{OPEN}</p><img src="a.png" alt="{{}}">',
        "description": f'<html><head><meta name="description" content="{{}}"></head><body><p>{OPEN}</p></body></html>',
        "form value": f'<p>{OPEN}</p><form><input value="{{}}"></form>',
    },
    ".eml": {
        "body": f"From: a@example.org\nTo: b@example.org\nSubject: Crane\nContent-Type: text/plain; charset=utf-8\n\n{OPEN}\n\n{{}}\n",
        "page": (
            "From: a@example.org\nTo: b@example.org\nSubject: Crane\nContent-Type: text/html; charset=utf-8\n\n"
            f"<p>{OPEN}</p><p>{{}}</p>\n"
        ),
    },
}
_MARKED: Mapping[str, Mapping[str, str]] = {
    ".txt": {"bold": "**Strictly** confidential"},
    ".md": {
        "bold": "**Strictly** Confidential",
        "half bold": "**Str**ictly Confi*dential*",
        "struck": "~~Strictly~~ confidential",
        "code": "`strictly` confidential",
        "link": "[Strictly](https://example.org/a) confidential",
        "link by number": "[Strictly][1] confidential",
        "tag": "<b>Strictly</b> confidential",
        "half a tag": "Str<i>ictly</i> confidential",
        "entity": "strictly&nbsp;confidenti&#97;l",
        "escape": "see the table exec\\_comp",
        "ampersand": "about the M&amp;A deal",
        "escaped ampersand": "about the M\\&A deal",
        "quote": "> Strictly\n> Confidential",
        "list": "- Strictly\n- Confidential",
        "headings": "# Strictly\n## Confidential",
        "cells": "| Strictly | Confidential |\n|---|---|\n| a | b |",
        "hard break": "strictly\\\nconfidential",
        "underscores": "_strictly_ __confidential__",
    },
    ".rst": {
        "bold": "**Strictly** confidential",
        "literal": "``strictly`` confidential",
        "role": ":strong:`strictly` confidential",
    },
    ".csv": {"ampersand": "about the M&A deal", "underscore": "see exec_comp"},
    ".html": {
        "bold": "<b>Strictly</b> confidential",
        "half bold": "Str<b>ictly</b> confidential",
        "link": '<a href="https://example.org/a">Strictly</a> confidential',
        "deleted": "<del>Strictly</del> confidential",
        "entity": "strictly&nbsp;confidenti&#97;l",
        "ampersand": "about the M&amp;A deal",
        "cells": "<table><tr><td>Strictly</td><td>Confidential</td></tr></table>",
        "break": "strictly<br>confidential",
        "list": "<ul><li>Strictly</li><li>Confidential</li></ul>",
        "comment inside": "strict<!-- -->ly confidential",
    },
    ".eml": {"quote": "> Strictly\n> Confidential", "bold": "*Strictly* confidential"},
}


def source_cases() -> Iterator[Case]:
    """Text formats."""
    for suffix, places in _SOURCE.items():
        for place, frame in places.items():
            spellings = dict(CHARACTERS)
            if place in {"body", "hidden", "code"} or (suffix == ".csv" and place == "cell"):
                spellings |= _LINES
            for spelling, text in spellings.items():
                yield Case(f"{suffix} {place}: {spelling}", suffix, frame.format(text).encode(), "RESTRICTED")
    for suffix, spellings in _MARKED.items():
        places = _SOURCE[suffix]
        frame = places.get("body") or places["cell"]
        for spelling, text in spellings.items():
            yield Case(f"{suffix} body: {spelling}", suffix, frame.format(text).encode(), "RESTRICTED")


# -- mail --------------------------------------------------------------------------------------------------------------


def mail(headers: str, body: str = OPEN) -> bytes:
    """A mail with further headers."""
    return f"From: a@example.org\nTo: b@example.org\n{headers}\nContent-Type: text/plain; charset=utf-8\n\n{body}\n".encode()


def mail_cases() -> Iterator[Case]:
    """What stands in a mail beside its body."""
    from email.message import EmailMessage

    yield Case("eml subject: plain", ".eml", mail(f"Subject: {SECRET}"), "RESTRICTED")
    yield Case("eml subject: encoded", ".eml", mail("Subject: =?utf-8?b?c3RyaWN0bHkgY29uZmlkZW50aWFs?="), "RESTRICTED")
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "a@example.org", "b@example.org", "Crane"
    message.set_content(OPEN)
    message.add_attachment(b"\x00\x01", maintype="application", subtype="octet-stream", filename=f"{SECRET}.bin")
    yield Case("eml attachment name: plain", ".eml", bytes(message), "RESTRICTED")
    body = EmailMessage()
    body["From"], body["To"], body["Subject"] = "a@example.org", "b@example.org", "Crane"
    body.set_content(f"{OPEN}\n\nstrictly confidentiäl", cte="quoted-printable")
    yield Case("eml body: quoted-printable", ".eml", bytes(body), "RESTRICTED")
    for name, headers, label in (
        (
            "msip known",
            f"Subject: Crane\nmsip_labels: MSIP_Label_{KNOWN}_Enabled=True; MSIP_Label_{KNOWN}_Name=X;",
            "RESTRICTED",
        ),
        ("msip unknown", f"Subject: Crane\nmsip_labels: MSIP_Label_{UNKNOWN}_Enabled=True;", "RESTRICTED"),
        ("msip disabled", f"Subject: Crane\nmsip_labels: MSIP_Label_{KNOWN}_Enabled=False;", ""),
        (
            "msip folded",
            f"Subject: Crane\nmsip_labels: MSIP_Label_{KNOWN}_Enabled=True;\n MSIP_Label_{KNOWN}_Name=X;",
            "RESTRICTED",
        ),
        ("sensitivity known", "Subject: Crane\nSensitivity: Company-Confidential", "CONFIDENTIAL"),
        ("sensitivity unknown", "Subject: Crane\nSensitivity: Private", "RESTRICTED"),
    ):
        yield Case(f"eml header: {name}", ".eml", mail(headers), label)


# -- packages ----------------------------------------------------------------------------------------------------------

Parts = Mapping[str, bytes]
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def packed(parts: Parts) -> bytes:
    """Return a package of parts."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as package:
        for name, part in parts.items():
            package.writestr(name, part)
    return buffer.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    """Return the parts of a package."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        return {name: package.read(name) for name in package.namelist()}


def _saved(document: object) -> dict[str, bytes]:
    buffer = io.BytesIO()
    document.save(buffer)  # pyright: ignore[reportAttributeAccessIssue]
    return unpacked(buffer.getvalue())


@cache
def word() -> dict[str, bytes]:
    """A document in which every place holds a marker of its own."""
    import docx

    document = docx.Document()
    document.add_heading("MARKheading", 1)
    document.add_paragraph(OPEN)
    document.add_paragraph("MARKbody")
    document.add_table(1, 2).rows[0].cells[1].text = "MARKcell"
    document.sections[0].header.paragraphs[0].text = "MARKheader"
    document.sections[0].footer.paragraphs[0].text = "MARKfooter"
    document.core_properties.title = "MARKtitle"
    document.core_properties.keywords = "MARKkeywords"
    document.core_properties.category = "MARKcategory"
    document.core_properties.comments = "MARKdescription"
    document.add_comment(document.paragraphs[1].runs, text="MARKcomment", author="A", initials="A")
    document.add_paragraph("MARKbox")
    parts = _saved(document)
    body = parts["word/document.xml"]
    box = (
        b'<w:r><w:pict xmlns:v="urn:schemas-microsoft-com:vml"><v:shape><v:textbox><w:txbxContent><w:p><w:r><w:t>MARKtextbox'
        b"</w:t></w:r></w:p></w:txbxContent></v:textbox></v:shape></w:pict></w:r>"
    )
    parts["word/document.xml"] = body.replace(b"<w:r><w:t>MARKbox</w:t></w:r>", box)
    header = next(name for name in parts if b"MARKheader" in parts[name])
    mark = (
        b'<w:p><w:r><w:pict xmlns:v="urn:schemas-microsoft-com:vml"><v:shape><v:textpath string="MARKwatermark"/>'
        b"</v:shape></w:pict></w:r></w:p></w:hdr>"
    )
    parts[header] = parts[header].replace(b"</w:hdr>", mark)
    return parts


@cache
def slides() -> dict[str, bytes]:
    """A presentation in which every place holds a marker of its own."""
    import pptx
    from pptx.util import Inches

    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "MARKtitleonslide"
    slide.placeholders[1].text = f"{OPEN}\nMARKbody"
    box = slide.shapes.add_textbox(Inches(1), Inches(4), Inches(3), Inches(1))
    box.text_frame.text = "MARKtextbox"
    slide.shapes.add_table(1, 2, Inches(1), Inches(5), Inches(3), Inches(1)).table.cell(0, 1).text = "MARKcell"
    slide.notes_slide.notes_text_frame.text = "MARKnotes"
    picture = show.slide_master.placeholders[0]
    picture.text_frame.text = "MARKmaster"
    show.core_properties.title = "MARKtitle"
    show.core_properties.keywords = "MARKkeywords"
    return _saved(show)


@cache
def sheets() -> dict[str, bytes]:
    """A workbook in which every place holds a marker of its own."""
    import xlsxwriter

    buffer = io.BytesIO()
    book = xlsxwriter.Workbook(buffer)
    sheet = book.add_worksheet("MARKsheet")
    sheet.write(0, 0, OPEN)
    sheet.write(1, 1, "MARKcell")
    sheet.write_comment(0, 0, "MARKcomment")
    sheet.insert_textbox(5, 5, "MARKtextbox")
    sheet.set_header("&LReport&CMARKheader")
    sheet.set_footer("&RMARKfooter &P")
    book.set_properties({"title": "MARKtitle", "keywords": "MARKkeywords", "comments": "MARKdescription"})
    book.close()
    return unpacked(buffer.getvalue())


@cache
def book() -> dict[str, bytes]:
    """An e-book in which every place holds a marker of its own."""
    return {
        "mimetype": b"application/epub+zip",
        "META-INF/container.xml": (
            b'<?xml version="1.0"?><container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            b'<rootfile full-path="c.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
        ),
        "c.opf": (
            b'<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="i"><metadata '
            b'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="i">x</dc:identifier><dc:title>MARKtitle</dc:title>'
            b"<dc:language>en</dc:language><dc:description>MARKdescription</dc:description></metadata><manifest>"
            b'<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine>'
            b"</package>"
        ),
        "a.xhtml": (
            f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>T</title></head><body><h1>MARKheading</h1><p>{OPEN}</p>'
            "<p>MARKbody</p></body></html>"
        ).encode(),
    }


PACKAGES: Mapping[str, Callable[[], dict[str, bytes]]] = {
    ".docx": word,
    ".pptx": slides,
    ".xlsx": sheets,
    ".epub": book,
}


def markers(parts: Parts) -> list[str]:
    """Return the places that have a marker."""
    import re

    return sorted({found.decode() for part in parts.values() for found in re.findall(rb"MARK([a-z]+)", part)})


def filled(parts: Parts, place: str, xml: str) -> dict[str, bytes]:
    """Put XML in one place, and nothing in particular in the others."""
    import re

    def fill(part: bytes) -> bytes:
        part = re.sub(rb"MARK%b(?![a-z])" % place.encode(), lambda _: xml.encode(), part) if place else part
        return re.sub(rb"MARK[a-z]+", b"crane", part)

    return {name: fill(part) for name, part in parts.items()}


def _run(text: str, *, bold: bool = False) -> str:
    return f'<w:r>{"<w:rPr><w:b/></w:rPr>" if bold else ""}<w:t xml:space="preserve">{escape(text)}</w:t></w:r>'


def _slide_run(text: str) -> str:
    return f"<a:r><a:rPr b='1'/><a:t>{escape(text)}</a:t></a:r>"


_RUNS = {
    "bold": ("Strictly", " confidential"),
    "half a word": ("Str", "ictly confi", "dential"),
    "a space": ("strictly", " ", "confidential"),
}


def package_cases() -> Iterator[Case]:
    """Packed formats, by place."""
    for suffix, make in PACKAGES.items():
        parts = make()
        for place in markers(parts):
            for spelling, text in CHARACTERS.items():
                if place == "sheet" and len(text) > 31:
                    continue
                data = packed(filled(parts, place, escape(text)))
                yield Case(f"{suffix} {place}: {spelling}", suffix, data, "RESTRICTED")
            data = packed(filled(parts, place, "strictly&#x20;confidenti&#97;l"))
            yield Case(f"{suffix} {place}: entity", suffix, data, "RESTRICTED")
    for spelling, pieces in _RUNS.items():
        parts = dict(word())
        old = b"<w:r><w:t>MARKbody</w:t></w:r>"
        assert old in parts["word/document.xml"]
        runs = "".join(_run(piece, bold=not number) for number, piece in enumerate(pieces)).encode()
        parts["word/document.xml"] = parts["word/document.xml"].replace(old, runs)
        yield Case(f".docx body: runs, {spelling}", ".docx", packed(filled(parts, "", "")), "RESTRICTED")
        parts = dict(slides())
        old = b"<a:r><a:t>MARKbody</a:t></a:r>"
        assert old in parts["ppt/slides/slide1.xml"]
        runs = "".join(map(_slide_run, pieces)).encode()
        parts["ppt/slides/slide1.xml"] = parts["ppt/slides/slide1.xml"].replace(old, runs)
        yield Case(f".pptx body: runs, {spelling}", ".pptx", packed(filled(parts, "", "")), "RESTRICTED")
    pages = {"bold": "<b>Strictly</b> confidential", "half bold": "Str<i>ictly</i> confidential"}
    for spelling, xml in pages.items():
        yield Case(f".epub body: {spelling}", ".epub", packed(filled(book(), "body", xml)), "RESTRICTED")


# -- carried labels ----------------------------------------------------------------------------------------------------


def custom_xml(properties: Mapping[str, str]) -> bytes:
    """Return custom properties of an Office file."""
    rows = "".join(
        f'<property fmtid="{{D5CDD505-2E9C-101B-9397-08002B2CF9AE}}" pid="{number}" name="{escape(name)}"><vt:lpwstr>'
        f"{escape(value)}</vt:lpwstr></property>"
        for number, (name, value) in enumerate(properties.items(), start=2)
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?><Properties xmlns="{_OFFICE}/custom-properties" '
        f'xmlns:vt="{_OFFICE}/docPropsVTypes">{rows}</Properties>'
    ).encode()


def purview(guid: str, *, enabled: str = "true", name: str = "Some label") -> dict[str, str]:
    """Return what Purview writes about a label."""
    return {f"MSIP_Label_{guid}_Enabled": enabled, f"MSIP_Label_{guid}_Name": name, f"MSIP_Label_{guid}_SiteId": "s"}


def label_info(*labels: str) -> bytes:
    """Return ``docMetadata/LabelInfo.xml`` with these labels."""
    return (
        '<?xml version="1.0" encoding="utf-8"?><clbl:labelList xmlns:clbl="http://schemas.microsoft.com/office/2020/mipLabelMetadata">'
        f"{''.join(labels)}</clbl:labelList>"
    ).encode()


def info_label(guid: str, enabled: str = "1", removed: str = "0") -> str:
    """Return one label of ``docMetadata/LabelInfo.xml``."""
    return f'<clbl:label id="{{{guid}}}" enabled="{enabled}" method="Privileged" siteId="{{s}}" removed="{removed}"/>'


CARRIED: Mapping[str, tuple[Mapping[str, str], str]] = {
    "known": (purview(KNOWN), "RESTRICTED"),
    "known by name": (purview(UNKNOWN, name="Board only"), "RESTRICTED"),
    "name in other case": (purview(UNKNOWN, name="BOARD  ONLY"), "RESTRICTED"),
    "unknown": (purview(UNKNOWN), "RESTRICTED"),
    "harmless": (purview(HARMLESS), ""),
    "disabled": (purview(KNOWN, enabled="false"), ""),
    "capitals": ({name.upper(): value.upper() for name, value in purview(KNOWN.upper()).items()}, "RESTRICTED"),
    "several": ({**purview(HARMLESS), **purview(KNOWN)}, "RESTRICTED"),
    "classification": ({"Classification": "Board only"}, "RESTRICTED"),
    "classification unknown": ({"classification": "Cosmic"}, "RESTRICTED"),
    "TLP": ({"Classification": "TLP:AMBER"}, "CONFIDENTIAL"),
}
INFO: Mapping[str, tuple[bytes, str]] = {
    "known": (label_info(info_label(KNOWN)), "RESTRICTED"),
    "unknown": (label_info(info_label(UNKNOWN)), "RESTRICTED"),
    "removed": (label_info(info_label(KNOWN, removed="1")), ""),
    "disabled": (label_info(info_label(KNOWN, enabled="0")), ""),
    "capitals": (label_info(info_label(KNOWN.upper(), enabled="TRUE")), "RESTRICTED"),
    "several": (label_info(info_label(HARMLESS), info_label(KNOWN)), "RESTRICTED"),
}


def carried_cases() -> Iterator[Case]:
    """Labels that files carry."""
    for suffix, make in PACKAGES.items():
        if suffix == ".epub":
            continue
        parts = filled(make(), "", "")
        for name, (properties, label) in CARRIED.items():
            data = packed({**parts, "docProps/custom.xml": custom_xml(properties)})
            yield Case(f"{suffix} custom.xml: {name}", suffix, data, label)
        for name, (part, label) in INFO.items():
            yield Case(
                f"{suffix} LabelInfo: {name}", suffix, packed({**parts, "docMetadata/LabelInfo.xml": part}), label
            )
    for name, content, label in (
        ("known", "Board only", "RESTRICTED"),
        ("unknown", "Cosmic", "RESTRICTED"),
        ("TLP", "TLP:GREEN", ""),
    ):
        page = f'<html><head><meta name="classification" content="{content}"></head><body><p>{OPEN}</p></body></html>'
        yield Case(f".html classification: {name}", ".html", page.encode(), label)
    for name, (properties, label) in CARRIED.items():
        yield Case(
            f".pdf info: {name}", ".pdf", pdf(info={f"/{key}": value for key, value in properties.items()}), label
        )
        yield Case(f".pdf XMP: {name}", ".pdf", pdf(xmp=properties), label)


# -- PDF ---------------------------------------------------------------------------------------------------------------


@cache
def _pages(head: str, body: tuple[str, ...], count: int) -> bytes:
    from reportlab.pdfgen.canvas import Canvas

    buffer = io.BytesIO()
    canvas = Canvas(buffer, invariant=1)
    for page in range(count):
        if head:
            canvas.drawString(72, 800, head)
        for number, line in enumerate((OPEN, *body, f"This is page number {page + 1} of the report.")):
            canvas.drawString(72, 700 - 20 * number, line)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def pdf(
    *,
    head: str = "",
    body: tuple[str, ...] = (),
    pages: int = 1,
    info: Mapping[str, str] | None = None,
    xmp: Mapping[str, str] | None = None,
    note: str = "",
    field: str = "",
    outline: str = "",
    attachment: str = "",
) -> bytes:
    """A PDF with something in one of its places."""
    import pikepdf

    with pikepdf.open(io.BytesIO(_pages(head, body, pages))) as document:
        for key, value in (info or {}).items():
            document.docinfo[key] = value
        if xmp is not None:
            rows = "".join(f"<pdfx:{name}>{escape(value)}</pdfx:{name}>" for name, value in xmp.items())
            packet = (
                '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
                f'<rdf:Description rdf:about="" xmlns:pdfx="http://ns.adobe.com/pdfx/1.3/">{rows}</rdf:Description></rdf:RDF>'
                "</x:xmpmeta>"
            )
            document.Root.Metadata = document.make_stream(
                packet.encode(), Type=pikepdf.Name.Metadata, Subtype=pikepdf.Name.XML
            )
        annotations: list[pikepdf.Object] = []
        if note:
            annotations.append(
                document.make_indirect(
                    pikepdf.Dictionary(
                        Type=pikepdf.Name.Annot, Subtype=pikepdf.Name.Text, Rect=[9, 9, 30, 30], Contents=note
                    )
                )
            )
        if field:
            widget = document.make_indirect(
                pikepdf.Dictionary(
                    Type=pikepdf.Name.Annot,
                    Subtype=pikepdf.Name.Widget,
                    FT=pikepdf.Name.Tx,
                    T="f",
                    V=field,
                    Rect=[9, 40, 90, 60],
                )
            )
            annotations.append(widget)
            document.Root.AcroForm = pikepdf.Dictionary(Fields=[widget])
        if annotations:
            document.pages[0].Annots = pikepdf.Array(annotations)
        if outline:
            with document.open_outline() as tree:
                tree.root.append(pikepdf.OutlineItem(outline, 0))
        if attachment:
            document.attachments[attachment] = b"x"
        buffer = io.BytesIO()
        document.save(buffer, static_id=True)
    return buffer.getvalue()


def pdf_cases() -> Iterator[Case]:
    """PDF, by place."""
    for name, text in CHARACTERS.items():
        yield Case(f".pdf title: {name}", ".pdf", pdf(info={"/Title": text}), "RESTRICTED")
        yield Case(f".pdf note: {name}", ".pdf", pdf(note=text), "RESTRICTED")
        yield Case(f".pdf form value: {name}", ".pdf", pdf(field=text), "RESTRICTED")
        yield Case(f".pdf outline: {name}", ".pdf", pdf(outline=text), "RESTRICTED")
    yield Case(".pdf body: plain", ".pdf", pdf(body=(SECRET,)), "RESTRICTED")
    yield Case(".pdf body: line break", ".pdf", pdf(body=("This is strictly", "confidential, as ever.")), "RESTRICTED")
    yield Case(".pdf running head: two pages", ".pdf", pdf(head=SECRET, pages=2), "RESTRICTED")
    yield Case(".pdf running head: five pages", ".pdf", pdf(head=SECRET, pages=5), "RESTRICTED")
    yield Case(".pdf keywords: plain", ".pdf", pdf(info={"/Keywords": SECRET}), "RESTRICTED")
    yield Case(".pdf XMP: plain", ".pdf", pdf(xmp={"Remark": SECRET}), "RESTRICTED")
    yield Case(".pdf attachment name: plain", ".pdf", pdf(attachment=f"{SECRET}.bin"), "RESTRICTED")
    yield Case(".pdf marking: running head", ".pdf", pdf(head="For your eyes", pages=5), "CONFIDENTIAL")
    yield Case(".pdf marking: in a sentence", ".pdf", pdf(body=("It is nothing for your eyes today.",)), "")


# -- markings ----------------------------------------------------------------------------------------------------------

_ALONE = {
    "plain": "For your eyes",
    "capitals": "FOR YOUR EYES",
    "punctuation": "*** For your eyes. ***",
    "numbering": "1. For your eyes",
    "page": "For your eyes - page 3 of 9",
    "date": "For your eyes, 30 November 2026",
    "day": "2026-11-30 For your eyes",
    "Japanese": "【社外秘】",
    "Japanese with a date": "社外秘　2026年11月30日",
}
_TLP = {
    "TLP:RED": "RESTRICTED", "TLP: RED": "RESTRICTED", "tlp:amber+strict": "RESTRICTED", "TLP : AMBER + STRICT": "RESTRICTED",
    "TLP:AMBER": "CONFIDENTIAL", "ＴＬＰ：ＲＥＤ": "RESTRICTED", "TLP:GREEN": "", "TLP:CLEAR": "", "TLP:WHITE": "",
}  # fmt: skip
_NOT_ALONE = (
    "This is for your eyes and theirs.",
    "Meant for your eyes, said he",
    "The TLP:RED rules are explained below.",
)


def marking_cases() -> Iterator[Case]:
    """Markings alone, and in a sentence."""
    for suffix in (".txt", ".md", ".html", ".rst", ".eml"):
        frame = _SOURCE[suffix]["body"]
        for name, text in _ALONE.items():
            yield Case(f"{suffix} marking: {name}", suffix, frame.format(text).encode(), "CONFIDENTIAL")
        for text, label in _TLP.items():
            yield Case(f"{suffix} {text}", suffix, frame.format(text).encode(), label)
        for text in _NOT_ALONE:
            yield Case(f"{suffix} {text}", suffix, frame.format(text).encode(), "")
    for suffix, make in PACKAGES.items():
        parts = make()
        for place in markers(parts):
            yield Case(
                f"{suffix} {place}: marking", suffix, packed(filled(parts, place, "For your eyes")), "CONFIDENTIAL"
            )
    yield Case(".csv cell: marking", ".csv", f"a,b\n{OPEN},For your eyes\n".encode(), "CONFIDENTIAL")
    yield Case(".md bold: marking", ".md", f"{OPEN}\n\n**For your eyes**\n".encode(), "CONFIDENTIAL")
    yield Case(
        ".md cell: marking", ".md", f"| a | For your eyes |\n|---|---|\n| {OPEN} | b |\n".encode(), "CONFIDENTIAL"
    )


def all_cases() -> list[Case]:
    """Every file of the table."""
    cases = [
        *source_cases(), *mail_cases(), *package_cases(), *carried_cases(), *pdf_cases(), *marking_cases(),
    ]  # fmt: skip
    # Nothing is said by the same files without it.
    cases += [
        Case(f"{suffix} nothing", suffix, packed(filled(make(), "", "")), "") for suffix, make in PACKAGES.items()
    ]
    return [*cases, Case(".pdf nothing", ".pdf", pdf(), "")]
