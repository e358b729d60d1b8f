"""Packed files (docx, pptx, xlsx, epub): every part of the package (SPEC 1.10, 1.11).

Parts are told apart by what is in them, not by what the package says about them: a label is found in whatever part holds
it, and a label part that cannot be read fails closed.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from html import unescape

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from ragspine_assets.documents.asides.gathering import Gathering, guid_in, is_off, is_on
from ragspine_assets.documents.asides.web import gather_html
from ragspine_assets.documents.decoding import UndecodableText, decode_text

_LABEL_PART = re.compile(r"(?:^|/)(?:docprops/custom|docmetadata/.*|[^/]*labelinfo)[^/]*\.xml$", re.IGNORECASE)
_KINDS = (
    (r"word/header", "header"),
    (r"word/footer", "footer"),
    (r"comment|/persons?/", "comment"),
    (r"footnotes|endnotes", "note"),
    (r"word/glossary", "building block"),
    (r"slidemasters|handoutmasters|notesmasters", "master"),
    (r"slidelayouts", "layout"),
    (r"notesslides", "notes"),
    (r"charts?/|chartsheets", "chart"),
    (r"diagrams/", "diagram"),
    (r"vmldrawing|drawings/", "drawing"),
    (r"xl/workbook", "workbook"),
    (r"xl/tables|querytables|pivot|slicer|connections", "table"),
    (r"docprops/", "property"),
    (r"customxml/", "custom XML"),
    (r"\.(?:opf|ncx)$", "property"),
    (r"word/document|ppt/slides/|xl/worksheets/|xl/sharedstrings|xl/.*macrosheets", "text that is not shown"),
)
_KIND = tuple((re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in _KINDS)
# Their words are counted among the text's: only what is not in it is added.
_MAIN = "text that is not shown"
_PLAIN_NAME = re.compile(r"[A-Za-z]{1,24}\d{0,5}\.[a-z]{3,5}")
_XML = re.compile(r"\.(?:xml|rels|vml|opf|ncx|svg)$", re.IGNORECASE)
_PAGE = re.compile(r"\.(?:xhtml|html|htm)$", re.IGNORECASE)
_BLOCKS = frozenset(
    [
        "p",
        "tc",
        "tr",
        "tbl",
        "si",
        "is",
        "sp",
        "txBody",
        "txbxContent",
        "comment",
        "footnote",
        "endnote",
        "row",
        "c",
        "br",
        "cr",
        "tab",
        "definedName",
        "sheet",
        "text",
        "pt",
        "v",
        "f",
        "oddHeader",
        "evenHeader",
        "firstHeader",
        "oddFooter",
        "evenFooter",
        "firstFooter",
        "property",
        "title",
        "textpath",
    ]
)
_INSIDE_LINES = frozenset(
    [
        "r",
        "t",
        "rt",
        "hyperlink",
        "ins",
        "del",
        "moveFrom",
        "moveTo",
        "smartTag",
        "sdt",
        "sdtContent",
        "fldSimple",
        "delText",
        "fld",
        "tspan",
        "textPath",
        "ruby",
        "rubyBase",
    ]
)
_TWO_WORDS = re.compile(r"[^\W\d_]\s+[^\W\d_]")
_INSTRUCTIONS = frozenset({"instrText", "delInstrText"})
_WORDS = frozenset(
    [
        "descr",
        "title",
        "alt",
        "string",
        "tooltip",
        "prompt",
        "promptTitle",
        "error",
        "errorTitle",
        "caption",
        "name",
        "displayName",
        "altText",
        "author",
        "fullAlt",
        "comment",
        "uniqueName",
        "userName",
        "displayText",
        "instr",
        "opf:file-as",
        "content",
    ]
)
_VALUED = frozenset(
    ["alias", "tag", "statusText", "helpText", "default", "docPartName", "placeholder", "docVar", "category", "status"]
)
_HEADER_CODES = re.compile(r'&(?:"[^"]*"|K[0-9A-Fa-f]{6}|K\d\d[+-]\d{3}|\d{1,3}|[A-JL-Za-jl-z])')
_HEADERS = frozenset(["oddHeader", "evenHeader", "firstHeader", "oddFooter", "evenFooter", "firstFooter"])
_SHEET_DATA = re.compile(rb"<(?:\w+:)?sheetData\b.*</(?:\w+:)?sheetData\s*>", re.DOTALL)
_CELL_TEXT = re.compile(rb"<(?:\w+:)?(?:t|f)(?:\s[^<>]*)?>([^<]+)<|<(?:\w+:)?v>([^<]*[A-Za-z\x80-\xff&][^<]*)<")
_JOINED = re.compile(r'"\s*&\s*"')
_ARGUMENTS = re.compile(r'"\s*[&,;]\s*"')
_CONCAT = re.compile(r"\b(?:CONCAT(?:ENATE)?|TEXTJOIN)\s*\(", re.IGNORECASE)
_BOOK = "{http://www.idpf.org/2007/opf}package"
_LARGEST_TREE = 30 << 20
_DEEP = "nested too deeply"


def gather_package(data: bytes, found: Gathering) -> None:
    """Gather from every part of a package."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        for entry in package.infolist():
            name = entry.filename
            is_label = bool(_LABEL_PART.search(name))
            if name.endswith("/"):
                continue
            if not (_XML.search(name) or _PAGE.search(name)):
                if re.search(r"embeddings|media|attach", name, re.IGNORECASE):
                    found.add("embedded file", "", posixpath.basename(name))
                continue
            try:
                part = package.read(entry)
            except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, ValueError, EOFError, OSError):
                if is_label:
                    found.problem(f"its part {_place(name)} cannot be unpacked")
                continue
            if _PAGE.search(name):
                gather_html(_decoded(part), found, "")
            else:
                _gather_part(name, part, found, is_label=is_label)


def _decoded(part: bytes) -> str:
    try:
        return decode_text(part, markup=True).text
    except UndecodableText:
        return part.decode("utf-8", "replace")


def _place(name: str) -> str:
    """Name a part, if its name is one that a program gave it."""
    base = posixpath.basename(name)
    return base if _PLAIN_NAME.fullmatch(base) else ""


def _gather_part(name: str, part: bytes, found: Gathering, *, is_label: bool) -> None:
    kind = next((kind for pattern, kind in _KIND if pattern.search(name)), "part")
    place = _place(name)
    if "worksheets/" in name.lower():
        found.add_lines(kind, place, _cells(part))
        part = _SHEET_DATA.sub(b"", part)
    if name.lower().endswith(".rels"):
        if b"External" in part:
            _gather_links(part, found)
        return
    root = _tree(part, strict=True)
    if root is None and is_label:
        found.problem(f"its part {place or 'for labels'} cannot be read")
        found.carry_purview(place or "properties", (), _raw(part))
    if root is None:
        root = _tree(part, strict=False)
    if root is None:
        found.add_lines(kind, place, re.sub(r"<[^<>]*>", "\n", _raw(part)).split("\n"))
        return
    local = _local(root)
    if local == "labelList" or "LabelInfo" in name:
        _gather_label_list(root, found, place or "LabelInfo.xml")
    elif local in {"Properties", "properties"} or is_label or root.tag == _BOOK or b"MSIP" in part.upper():
        _gather_properties(root, part, found, place or "properties")
    if kind == _MAIN:
        found.add_lines(kind, place, _lines(root))
    else:
        found.add(kind, place, "\n".join(_lines(root)))
    _gather_attributes(root, found, kind, place)


def _tree(part: bytes, *, strict: bool) -> etree._Element | None:
    """Return the root of a part without reading entities or anything outside; None if it cannot be read."""
    if len(part) > _LARGEST_TREE or (strict and b"<!DOCTYPE" in part):
        return None
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=not strict, remove_pis=True
    )
    try:
        return etree.fromstring(part, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None


def _raw(part: bytes) -> str:
    encoding = "utf-16" if part[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    return unescape(part.decode(encoding, "replace"))


def _local(element: etree._Element) -> str:
    tag = element.tag
    return tag.rsplit("}", 1)[-1] if isinstance(tag, str) else ""


def _lines(root: etree._Element) -> Iterator[str]:
    """Yield the lines of a part: paragraphs, cells, and the texts of whatever else holds one."""
    line: list[str] = []
    instructions: list[str] = []
    for event, element in etree.iterwalk(root, events=("start", "end", "comment")):
        if event == "comment":
            yield element.text or ""
            continue
        local = _local(element)
        own = local in _BLOCKS or (local not in _INSIDE_LINES and bool(element.text and element.text.strip()))
        if own and line and local not in _INSTRUCTIONS:
            yield "".join(line)
            line = []
        if event == "start" and element.text:
            if local in _INSTRUCTIONS:
                instructions.append(element.text)
            elif local in _HEADERS:
                line.append(_HEADER_CODES.sub("\n", element.text))
            else:
                line.append(element.text)
        elif event == "end" and element.tail and element.tail.strip():
            line.append(element.tail)
    yield "".join(line)
    yield "".join(instructions)


_NAMES = {"sheet": "name of a sheet", "definedName": "defined name", "bookmarkStart": "bookmark"}
_SHOWN_INSTEAD = frozenset({"descr", "title", "alt", "string", "altText", "fullAlt"})


def _gather_attributes(root: etree._Element, found: Gathering, kind: str, place: str) -> None:
    seen: set[str] = set()
    for element in root.iter():
        local = _local(element)
        for name, value in element.attrib.items():
            key = str(name).rsplit("}", 1)[-1]
            if key == "string":
                found.add("watermark" if local == "textpath" else "alternative text", place, value)
            elif key in _SHOWN_INSTEAD:
                found.add("alternative text", place, value)
            elif key == "name" and kind != "part" and local != "property":
                found.add(_NAMES.get(local, "name of an object"), place, value)
            elif (key in _WORDS and kind != "part") or (key in {"val", "value"} and local in _VALUED):
                found.add("attribute", place, value)
            elif " " in value and value not in seen and _TWO_WORDS.search(value):
                # Whoever wrote words into an attribute that nobody listed wrote them for a reader.
                seen.add(value)
                found.add("attribute", place, value)


def _gather_links(part: bytes, found: Gathering) -> None:
    root = _tree(part, strict=False)
    for relation in root.iter() if root is not None else ():
        if relation.get("TargetMode") == "External":
            found.add("link", "", relation.get("Target") or "")


def _cells(part: bytes) -> Iterator[str]:
    for data in _SHEET_DATA.findall(part):
        for groups in _CELL_TEXT.findall(data):
            text = unescape(b"".join(groups).decode("utf-8", "replace"))
            yield text
            # A program that writes no values leaves it to the reader's to join them.
            seam = _ARGUMENTS if _CONCAT.search(text) else _JOINED
            if seam.search(text):
                yield seam.sub("", text)
                yield seam.sub(" ", text)


def _gather_label_list(root: etree._Element, found: Gathering, source: str) -> None:
    """Read Purview's list of labels: one that is not said to be off or removed is in force."""
    for label in root.iterchildren():
        if not isinstance(label.tag, str):
            continue
        values = {str(key).rsplit("}", 1)[-1].lower(): str(value) for key, value in label.attrib.items()}
        guid = values.get("id", "") or next((value for value in values.values() if guid_in(value)), "")
        if not guid:
            found.problem(f"a label in its part {source} has no id")
            continue
        enabled = not is_off(values.get("enabled")) and not is_on(values.get("removed"))
        found.carry(source, guid=guid, name=values.get("name", ""), enabled=enabled)


def _gather_properties(root: etree._Element, part: bytes, found: Gathering, source: str) -> None:
    pairs: list[tuple[str, str]] = []
    for element in root.iter():
        if not isinstance(element.tag, str):
            continue
        text = "".join(element.itertext()).strip() or element.get("content", "")
        named = [str(value) for value in element.attrib.values()]
        for name in named:
            pairs.append((name, text))
            found.carry_named("property", name, text)
        if not named and not len(element):
            found.carry_named("property", _local(element), text)
            pairs.append((_local(element), text))
    found.carry_purview(source, pairs, _raw(part))
