"""PDF: what its pages, annotations, forms, outlines, attachments and properties say (SPEC 1.10, 1.11)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from html import unescape

import pikepdf
import pypdfium2
from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from ragspine_assets.documents.asides.gathering import Gathering
from ragspine_assets.policy.reading import squeeze

_MOST_OBJECTS = 300_000
_DEEPEST = 6
# Key of a dictionary to what a string under it is.
_WORDS = {
    "/Contents": "annotation",
    "/RC": "annotation",
    "/Subj": "annotation",
    "/T": "form field",
    "/TU": "form field",
    "/V": "form field",
    "/DV": "form field",
    "/CA": "form field",
    "/Title": "outline",
    "/F": "attachment",
    "/UF": "attachment",
    "/Desc": "attachment",
    "/Alt": "alternative text",
    "/ActualText": "alternative text",
    "/E": "alternative text",
    "/Name": "layer",
    "/URI": "link",
    "/P": "page label",
    "/Opt": "form field",
    "/JS": "script",
}
_NESTED = frozenset(
    {
        "/Annots",
        "/Kids",
        "/Fields",
        "/Names",
        "/A",
        "/MK",
        "/Nums",
        "/OCGs",
        "/K",
        "/EF",
        "/Dests",
        "/EmbeddedFiles",
        "/PageLabels",
        "/OpenAction",
    }
)
_PURVIEW_XMP = re.compile(r"(MSIP_Label_[\w{}-]+)\s*(?:=\s*[\"']([^\"']*)|[^<>]*>([^<]*))", re.IGNORECASE)


def gather_pdf(data: bytes, found: Gathering) -> None:
    """Gather from a PDF."""
    with pikepdf.open(io.BytesIO(data)) as document:
        _gather_info(document, found)
        _gather_xmp(document, found)
        _gather_forms(document, found)
        for count, item in enumerate(document.objects):
            if count > _MOST_OBJECTS:
                found.problem("it has more parts than are read")
                break
            _gather_object(item, found, 0)
    _gather_pages(data, found)


def _gather_info(document: pikepdf.Pdf, found: Gathering) -> None:
    info = document.trailer.get("/Info")
    if not isinstance(info, pikepdf.Dictionary):
        return
    pairs: list[tuple[str, str]] = []
    for key, value in info.items():
        if isinstance(value, pikepdf.String | pikepdf.Name):
            pairs.append((_unescaped_name(str(key).lstrip("/")), str(value)))
    for name, value in pairs:
        if name not in {"CreationDate", "ModDate", "Producer", "Creator", "Trapped"}:
            found.add("title" if name == "Title" else "property", "PDF info", value)
        found.carry_named("PDF info", name, value)
    found.carry_purview("PDF info", pairs, "\n".join(name for name, _ in pairs))


def _unescaped_name(name: str) -> str:
    return re.sub("#([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), name)


def _gather_xmp(document: pikepdf.Pdf, found: Gathering) -> None:
    for item in document.objects:
        if isinstance(item, pikepdf.Stream) and item.get("/Type") == pikepdf.Name.Metadata:
            try:
                _gather_packet(item.read_bytes(), found)
            except pikepdf.PdfError:
                found.problem("its XMP metadata cannot be unpacked")


def _decoded(packet: bytes) -> str:
    encoding = "utf-16" if packet[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    return packet.decode(encoding, "replace").strip("\0 \n")


def _gather_packet(packet: bytes, found: Gathering) -> None:
    raw = _decoded(packet)
    pairs = [(name, left or right) for name, left, right in _PURVIEW_XMP.findall(raw)]
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(raw.encode(), parser)
    except (etree.XMLSyntaxError, ValueError):
        if "msip" in raw.lower():
            found.problem("its XMP metadata cannot be read")
        found.add("property", "XMP", re.sub(r"<[^<>]*>", "\n", raw))
        found.carry_purview("XMP", pairs, raw)
        return
    for element in root.iter():
        if not isinstance(element.tag, str):
            continue
        local = element.tag.rsplit("}", 1)[-1].replace("_x005f_", "_").replace("_x005F_", "_")
        text = (element.text or "").strip()
        if not text and len(element):
            text = " ".join("".join(element.itertext()).split()) if "itle" in local or "lassif" in local else ""
        if text:
            found.add("property", "XMP", text)
            found.carry_named("XMP", local, text)
            pairs.append((local, text))
        for key, value in element.attrib.items():
            name = str(key).rsplit("}", 1)[-1]
            found.carry_named("XMP", name, str(value))
            pairs.append((name, str(value)))
            if "{http://www.w3.org/" not in str(key) and re.search(r"\w\s+\w", str(value)):
                found.add("property", "XMP", value)
    found.carry_purview("XMP", pairs, raw)


def _gather_forms(document: pikepdf.Pdf, found: Gathering) -> None:
    """Gather from a form of the kind XFA: XML in one stream or in several."""
    form = document.Root.get("/AcroForm")
    source = form.get("/XFA") if isinstance(form, pikepdf.Dictionary) else None
    for part in source if isinstance(source, pikepdf.Array) else (source,):
        if isinstance(part, pikepdf.Stream):
            try:
                found.add_lines(
                    "form", "XFA", re.sub(r"<[^<>]*>", "\n", unescape(_decoded(part.read_bytes()))).split("\n")
                )
            except pikepdf.PdfError:
                found.problem("its XFA form cannot be unpacked")


def _gather_stamp(annotation: pikepdf.Dictionary | pikepdf.Stream, found: Gathering) -> None:
    """Gather what is printed by an annotation that has a look of its own or one of the standard's names."""
    if annotation.get("/Subtype") not in (pikepdf.Name.Stamp, pikepdf.Name.FreeText):
        return
    name, look = annotation.get("/Name"), annotation.get("/AP")
    if isinstance(name, pikepdf.Name):
        found.add("annotation", "", str(name).lstrip("/"))
    normal = look.get("/N") if isinstance(look, pikepdf.Dictionary) else None
    if isinstance(normal, pikepdf.Stream):
        try:
            found.add("annotation", "", _printed(normal))
        except pikepdf.PdfError:
            return


def _printed(look: pikepdf.Stream) -> str:
    """Return the strings that a stream prints, each line of them by itself."""
    printed: list[str] = []
    for operands, operator in pikepdf.parse_content_stream(look, "Tj TJ ' \" Td TD T* Tm"):
        if str(operator) not in {"Tj", "TJ", "'", '"'}:
            printed.append("\n")
            continue
        for operand in operands:
            strings = operand if isinstance(operand, pikepdf.Array) else (operand,)
            printed += [str(string) for string in strings if isinstance(string, pikepdf.String)]
    return "".join(printed)


def _gather_object(item: object, found: Gathering, depth: int) -> None:
    if depth > _DEEPEST:
        return
    if isinstance(item, pikepdf.Array):
        if depth:
            for entry in item:
                if isinstance(entry, pikepdf.String):
                    found.add("bookmark", "", str(entry))
                elif isinstance(entry, pikepdf.Dictionary | pikepdf.Array) and not entry.is_indirect:
                    _gather_object(entry, found, depth + 1)
        return
    if not isinstance(item, pikepdf.Dictionary | pikepdf.Stream):
        return
    _gather_stamp(item, found)
    for key in item.keys():  # noqa: SIM118 - a dictionary of the library
        kind = _WORDS.get(key)
        if kind is None and key not in _NESTED:
            continue
        value = item.get(key)
        if kind is not None and isinstance(value, pikepdf.String):
            found.add(kind, "", str(value))
        elif isinstance(value, pikepdf.Dictionary | pikepdf.Array) and (not value.is_indirect or key == "/MK"):
            _gather_object(value, found, depth + 1)


def _gather_pages(data: bytes, found: Gathering) -> None:
    seen: set[str] = set()
    document = pypdfium2.PdfDocument(data)
    try:
        for number, text in _page_texts(document):
            fresh = [line for line in text.splitlines() if (letters := squeeze(line)) and letters not in seen]
            seen.update(map(squeeze, fresh))
            found.add_lines("page", f"page {number}", fresh)
    finally:
        document.close()


def _page_texts(document: pypdfium2.PdfDocument) -> Iterator[tuple[int, str]]:
    for number in range(len(document)):
        try:
            page = document[number]
            yield number + 1, page.get_textpage().get_text_range()
            page.close()
        except pypdfium2.PdfiumError:
            # A damaged page shows nothing to anybody.
            continue
