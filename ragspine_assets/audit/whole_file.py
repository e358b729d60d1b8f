"""Everything that a file holds, read from its bytes for the proof of labels (SPEC 1.8, 1.10, 1.11, 6.3).

Written again, on purpose, and by other means than the readers whose work is proved: packages are read part by part as XML,
whatever a part is for; PDF by its objects and by pdfium; mail by its headers and parts; text by its characters. What is
found goes to `audit.stated_labels` and nowhere else: none of it is stored.

`read_whole_file` runs in a worker process, where a file may hang, crash or eat memory without hurting anybody.
"""

from __future__ import annotations

import csv
import io
import posixpath
import re
import zipfile
from collections.abc import Iterable, Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import lru_cache
from html import unescape
from typing import NamedTuple

from lxml import etree, html  # pyright: ignore[reportAttributeAccessIssue]

from ragspine_assets.documents.decoding import UndecodableText, decode_text
from ragspine_assets.documents.extraction import Extracted, ExtractionError, ExtractionLimits

VERSION = "whole file 2"
"""Part of every record of what was proved: raised whenever more or less of a file would be read."""

READER = "ragspine_assets.audit.whole_file:read_whole_file"
"""Where a worker finds the function that reads one file."""

TEXT_SUFFIXES = frozenset({".txt", ".srt", ".md", ".markdown", ".rst", ".csv"})
"""Formats that are read by their characters alone: linear in their length, without a parser."""

LABEL = "label"
"""The place of a statement that is a carried label: its text is GUID and name, with a unit separator between."""

DAMAGED = "damaged label"
"""The place of a statement that says that a part which carries labels cannot be read; its text names the part."""

_RECORD, _UNIT = "\x1e", "\x1f"
_CONTROLS = {code: " " for code in range(0x20) if chr(code) not in "\t\n"}


class Statement(NamedTuple):
    """Something that a file says.

    Attributes:
        place: where it stands: text, header or footer, master, note, comment, property, title, attachment name, ...
        text: its words: a line for each paragraph, cell or value, cells of a row separated by tabs.
        source: whether it is source text, whose marks (of Markdown, reStructuredText, HTML) are still in it.
    """

    place: str
    text: str
    source: bool = False


def pack(statements: Iterable[Statement]) -> str:
    """Return statements as one string, as a worker hands them over."""
    return _RECORD.join(
        _UNIT.join((place, "1" if source else "", text if place == LABEL else text.translate(_CONTROLS)))
        for place, text, source in statements
    )


def unpack(packed: str) -> Iterator[Statement]:
    """Give the statements that `pack` made a string of."""
    for record in packed.split(_RECORD) if packed else ():
        place, source, text = record.split(_UNIT, 2)
        yield Statement(place, text, bool(source))


def label_statement(guid: str, name: str) -> Statement:
    """Return the statement that a file carries a label that is enabled and not removed."""
    return Statement(LABEL, f"{_plain(guid)}{_UNIT}{_plain(name)}")


def _plain(text: str) -> str:
    return " ".join(text.translate(_CONTROLS).split())


def read_whole_file(data: bytes, suffix: str, limits: ExtractionLimits) -> Extracted:
    """Read what a file holds; the text of the result is the packed statements.

    Raises:
        ExtractionError: with the reason, where nothing of it can be read.
    """
    return Extracted(pack(statements_of(data, suffix, limits)), "plain", VERSION)


def statements_of(data: bytes, suffix: str, limits: ExtractionLimits | None = None) -> list[Statement]:
    """Return everything that the bytes of a file say.

    Args:
        data: all bytes of the file.
        suffix: lower-case suffix with its dot.
        limits: what it may cost.

    Raises:
        ExtractionError: with the reason, where nothing of it can be read.
    """
    limits = limits or ExtractionLimits()
    if len(data) > limits.max_bytes:
        raise ExtractionError(f"it is larger than {limits.max_bytes} bytes")
    if suffix in TEXT_SUFFIXES:
        found = _of_text(_decoded(data), suffix)
    elif suffix in {".html", ".htm"}:
        found = _of_html(_decoded(data, markup=True))
    elif suffix == ".eml":
        found = _of_mail(data)
    elif suffix == ".pdf":
        found = _of_pdf(data, limits)
    elif suffix == ".rtf":
        found = _of_rtf(data)
    elif data[:2] == b"PK":
        found = _of_package(data, limits)
    else:
        found = _of_binary(data)
    kept: list[Statement] = []
    characters = 0
    for statement in found:
        if not statement.text or statement.text.isspace():
            continue
        characters += len(statement.text)
        if characters > 4 * limits.max_characters:
            raise ExtractionError(f"its text is longer than {limits.max_characters} characters")
        kept.append(statement)
    return kept


def _decoded(data: bytes, *, markup: bool = False) -> str:
    try:
        # Nearly every file is UTF-8; NUL and escape are what another encoding could be known by.
        sure = not data.startswith(b"\xef\xbb\xbf") and b"\0" not in data and b"\x1b" not in data
        text = data.decode() if sure else decode_text(data, markup=markup).text
    except UnicodeDecodeError:
        try:
            text = decode_text(data, markup=markup).text
        except UndecodableText as problem:
            raise ExtractionError(str(problem)) from None
    except UndecodableText as problem:
        raise ExtractionError(str(problem)) from None
    for line_end in ("\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"):
        text = text.replace(line_end, "\n")
    return text


# -- text --------------------------------------------------------------------------------------------------------------


def _of_text(text: str, suffix: str) -> Iterator[Statement]:
    yield Statement("text", text, source=True)
    if suffix == ".csv":
        yield Statement("cell", "\n".join("\t".join(row) for row in _rows(text)), source=True)


def _rows(text: str) -> Iterator[list[str]]:
    """Give the cells of each row, without the line ends inside them."""
    head = re.sub('"[^"]*"', "", text[:4000]).partition("\n")[0]
    delimiter = max(",;\t|", key=head.count)
    previous = csv.field_size_limit(1 << 30)
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            yield [" ".join(cell.split()) for cell in row]
    except csv.Error:
        return
    finally:
        csv.field_size_limit(previous)


# -- trees: HTML and every kind of XML ---------------------------------------------------------------------------------

_PARSER_LIMITS = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False}
_XLINK = "{http://www.w3.org/1999/xlink}"
# Elements that hold one line; what is inside of them continues it unless it is a line itself.
_LINES = frozenset(
    re.findall(
        r"\S+",
        "p h h1 h2 h3 h4 h5 h6 si c li dt dd td th caption title div pre blockquote option textarea button summary "
        "figcaption legend label-p tr row table ul ol body section article header footer aside main nav form fieldset "
        "instrText delText txbxContent note annotation comment list-item table-cell sp tbl tc del moveFrom author "
        "creator subject description keywords category contentStatus property lpwstr navLabel docTitle text-p script-p "
        "rPh Fallback text ",
    )
)
# What stands between two words without being text.
_GAPS = {
    "tab": "\t",
    "br": "\n",
    "cr": "\n",
    "line-break": "\n",
    "s": " ",
    "ptab": "\t",
    "hr": "\n",
    "noBreakHyphen": "-",
}
# Values of attributes that are shown to somebody.
_SHOWN = frozenset(
    re.findall(
        r"\S+",
        "alt title descr summary placeholder aria-label label content value string tooltip prompt promptTitle error "
        "errorTitle displayText display alias oddHeader statusText helpText abbr standby caption tip ",
    )
)
_HIDDEN_TAGS = frozenset({"script", "style"})


@lru_cache(4096)
def _name(tag: object) -> str:
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


class _Lines:
    """The lines of a tree, with what runs into each other joined by nothing, and joined by a space."""

    def __init__(self) -> None:
        self.done: list[list[str]] = []
        self.shown: list[str] = []
        self.comments: list[str] = []
        self._open: list[list[str]] = [[]]

    def enter(self) -> None:
        self._open.append([])

    def leave(self) -> None:
        line = self._open.pop()
        if line:
            self.done.append(line)

    def say(self, text: str) -> None:
        self._open[-1].append(text)

    def close(self) -> None:
        while self._open:
            self.leave()

    def texts(self) -> list[str]:
        """The reading with the marks of runs as nothing, and where it differs the one with a space."""
        joined = "\n".join("".join(line) for line in self.done)
        if all(len(line) < 2 for line in self.done):
            return [joined]
        return [joined, "\n".join(" ".join(line) for line in self.done)]


def _lines_of(root: etree._Element, *, spaces_count: bool) -> _Lines:
    """Read a tree in document order, without recursion.

    Args:
        root: the tree.
        spaces_count: whether white space between elements is text, as in HTML; in Office parts it is layout.
    """
    lines = _Lines()
    skipped = 0
    for event, element in etree.iterwalk(root, events=("start", "end", "comment")):
        tag = _name(element.tag)
        if event == "comment":
            lines.comments.append(element.text or "")
        elif event == "start":
            if tag in _HIDDEN_TAGS and spaces_count:
                skipped += 1
            if tag in _LINES:
                lines.enter()
            if tag in _GAPS:
                lines.say(_GAPS[tag])
            if not skipped and element.text and (spaces_count or tag in {"t", "v"} or not element.text.isspace()):
                lines.say(element.text)
            for attribute, value in element.attrib.items():
                short = _name(attribute)
                if (
                    short in _SHOWN
                    or (short == "name" and tag in {"sheet", "tableColumn"})
                    or tag in {"statusText", "helpText"}
                ):
                    lines.shown.append(str(value))
                elif short == "char" and tag == "sym" and re.fullmatch("[0-9A-Fa-f]{4}", str(value)):
                    lines.say(
                        chr(int(str(value), 16) & 0xFF) if str(value)[:2].upper() == "F0" else chr(int(str(value), 16))
                    )
                elif short == "val" and tag in {"default", "alias", "tag", "lvlText"} and str(value):
                    lines.shown.append(str(value))
        if event == "end":
            if tag in _LINES:
                lines.leave()
            if tag in _HIDDEN_TAGS and spaces_count:
                skipped -= 1
        tail = element.tail if event != "start" and element is not root else None
        if tail and not skipped and (spaces_count or not tail.isspace()):
            lines.say(tail)
    lines.close()
    return lines


def _of_tree(root: etree._Element, place: str, *, spaces_count: bool) -> Iterator[Statement]:
    lines = _lines_of(root, spaces_count=spaces_count)
    for text in lines.texts():
        yield Statement(place, text)
    if lines.shown:
        yield Statement(
            f"attribute in {place}" if place != "text" else "attribute", "\n".join(map(_plain, lines.shown))
        )
    if lines.comments:
        yield Statement("comment", "\n".join(lines.comments))


def _of_html(page: str) -> Iterator[Statement]:
    try:
        root = html.document_fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", page.replace("\x00", "")))
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        # A page without any element.
        yield Statement("text", page, source=True)
        return
    yield from _of_tree(root, "text", spaces_count=True)
    for meta in root.iter("meta"):
        named = {str(meta.get(key, "")).strip().casefold() for key in ("name", "property", "http-equiv", "itemprop")}
        content = str(meta.get("content", "")).strip()
        if "classification" in named and content:
            yield label_statement("", content)
        yield from _purview({name: content for name in named if name.startswith("msip_label")})


def _xml(part: bytes) -> tuple[etree._Element | None, bool]:
    """Return the tree of an XML part and whether it is sound; what can be saved of one that is not."""
    sound = True
    try:
        return etree.fromstring(part, etree.XMLParser(**_PARSER_LIMITS)), sound
    except (etree.XMLSyntaxError, ValueError):
        sound = False
    try:
        return etree.fromstring(part, etree.XMLParser(recover=True, **_PARSER_LIMITS)), sound
    except (etree.XMLSyntaxError, ValueError):
        return None, sound


# -- packages: docx, pptx, xlsx, epub, OpenDocument --------------------------------------------------------------------

_PLACES = (
    (re.compile("header|footer"), "header or footer"),
    (re.compile("slidemaster|slidelayout|notesmaster|handoutmaster|styles[.]xml"), "master"),
    (re.compile("notesslide|footnotes|endnotes"), "note"),
    (re.compile("comment"), "comment"),
    (re.compile("docprops|docmetadata|meta[.]xml|customxml|[.]opf$"), "property"),
)
_XML_ENDINGS = (".xml", ".opf", ".ncx", ".vml", ".rdf", ".svg", ".smil")
_PAGE_ENDINGS = (".xhtml", ".html", ".htm")
# What a program keeps for itself: names of styles and fonts, colours.
_NOT_SAID = re.compile(
    r"(?:^|/)(?:theme\d*|fonttable|websettings|settings|tablestyles|viewprops|presprops|calcchain)[.]xml$|^word/styles|^xl/styles|^_rels/|/_rels/|^\[content_types\]"
)
_SHEET_CODES = re.compile(r'&(?:"[^"]*"|[LCRPNDTZFAGBIUESXYOH+-]|K[0-9A-Fa-f+-]{5,6}|K\d\d[+-]\d{3}|\d{1,3})')


def _of_package(data: bytes, limits: ExtractionLimits) -> Iterator[Statement]:
    try:
        package = zipfile.ZipFile(io.BytesIO(data))
        entries = package.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, UnicodeError):
        raise ExtractionError("it is damaged: its table of contents cannot be read") from None
    room = limits.max_unpacked_bytes
    parts: dict[str, bytes] = {}
    for entry in entries:
        name = entry.filename.replace("\\", "/").lstrip("/")
        lowered = name.casefold()
        if not lowered.endswith(_XML_ENDINGS + _PAGE_ENDINGS) or _NOT_SAID.search(lowered):
            if "attachment" in lowered or "embeddings/" in lowered:
                yield Statement("attachment name", posixpath.basename(name))
            continue
        try:
            with package.open(entry) as part:
                content = part.read(room + 1)
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            RuntimeError,
            ValueError,
            EOFError,
            OSError,
            zipfile.LargeZipFile,
        ) as problem:
            if "password" in str(problem):
                raise ExtractionError("it needs a password") from None
            if _carries_labels(lowered):
                yield Statement(DAMAGED, posixpath.basename(lowered))
            continue
        except Exception as problem:
            if type(problem).__name__ != "error":  # zlib.error
                raise
            if _carries_labels(lowered):
                yield Statement(DAMAGED, posixpath.basename(lowered))
            continue
        room -= len(content)
        if room < 0:
            raise ExtractionError(f"it unpacks to more than {limits.max_unpacked_bytes} bytes")
        parts[name] = content
    shared: list[str] = []
    for name, content in parts.items():
        lowered = name.casefold()
        place = next((place for pattern, place in _PLACES if pattern.search(lowered)), "text")
        if lowered.endswith(_PAGE_ENDINGS):
            try:
                yield from _of_html(_decoded(content, markup=True))
            except ExtractionError:
                continue
            continue
        root, sound = _xml(content)
        if _carries_labels(lowered):
            yield from _of_label_part(root, sound, lowered)
        if root is None:
            continue
        if lowered.endswith("sharedstrings.xml"):
            shared = ["".join(str(t) for t in item.itertext("{*}t")) for item in root.iterfind("{*}si")]
        yield from _of_tree(root, place, spaces_count=lowered.endswith((".ncx", ".svg", "content.xml")))
    for name, content in parts.items():
        if re.search(r"worksheets/[^/]+[.]xml$|chartsheets/[^/]+[.]xml$", name.casefold()):
            root, _ = _xml(content)
            if root is not None:
                yield from _of_sheet(root, shared)


def _of_sheet(root: etree._Element, shared: list[str]) -> Iterator[Statement]:
    rows: list[str] = []
    for row in root.iter("{*}row"):
        cells: list[str] = []
        for cell in row.iterfind("{*}c"):
            value = "".join(str(t) for t in cell.itertext("{*}t")) or (cell.findtext("{*}v") or "")
            if cell.get("t") == "s" and value.strip().isdigit() and int(value) < len(shared):
                value = shared[int(value)]
            cells.append(" ".join(value.split()))
        rows.append("\t".join(cells))
    yield Statement("cell", "\n".join(rows))
    for formula in root.iterfind(".//{*}c/{*}f"):
        pieces = (formula.text or "").split('"')
        between = "&,;" if "CONCAT" in pieces[0].upper() or "TEXTJOIN" in pieces[0].upper() else "&"
        if any(piece.strip() and piece.strip() in between for piece in pieces[2:-1:2]):
            kept = [
                piece for at, piece in enumerate(pieces) if at % 2 or not (piece.strip() and piece.strip() in between)
            ]
            yield Statement("cell", "".join(kept))
            yield Statement("cell", " ".join(kept))
    for holder in root.iter("{*}headerFooter"):
        for element in holder:
            text = str(element.text or "")
            parts = [_SHEET_CODES.sub("", part) for part in re.split("&[LCR]", text.replace("&&", "\x00"))]
            yield Statement("header or footer", "\n".join(part.replace("\x00", "&") for part in parts))


def _carries_labels(lowered: str) -> bool:
    return lowered.endswith(("docprops/custom.xml", "labelinfo.xml")) or lowered == "meta.xml"


def _of_label_part(root: etree._Element | None, sound: bool, lowered: str) -> Iterator[Statement]:
    """Read labels from a part that is there for them; one that is damaged may have held any."""
    if not sound:
        yield Statement(DAMAGED, posixpath.basename(lowered))
    if root is None:
        return
    properties: dict[str, str] = {}
    for element in root.iter():
        tag = _name(element.tag).casefold()
        attributes = {_name(key).casefold(): str(value) for key, value in element.attrib.items()}
        if tag == "label" and "id" in attributes:
            removed, enabled = attributes.get("removed", ""), attributes.get("enabled", "1")
            if not _is_no(enabled) and not _is_yes(removed):
                yield label_statement(attributes["id"], attributes.get("name", ""))
        elif tag in {"property", "user-defined"} and "name" in attributes:
            properties[attributes["name"]] = "".join(map(str, element.itertext())).strip()
        elif tag == "classification":
            properties["classification"] = "".join(map(str, element.itertext())).strip()
    for name, value in properties.items():
        if name.strip().casefold() == "classification" and value:
            yield label_statement("", value)
    yield from _purview(properties)


_PURVIEW = re.compile(r"msip_label_(?P<guid>[0-9a-z-]+?)_(?P<what>[a-z]+)", re.IGNORECASE)


def _is_no(value: str) -> bool:
    return value.strip().casefold() in {"false", "0", "no", "off"}


def _is_yes(value: str) -> bool:
    return value.strip().casefold() in {"true", "1", "yes", "on"}


def _purview(properties: dict[str, str]) -> Iterator[Statement]:
    """Give the Purview labels among some properties: enabled unless they say no, and not removed."""
    labels: dict[str, dict[str, str]] = {}
    for name, value in properties.items():
        found = _PURVIEW.fullmatch(re.sub(r"\s+", "", name).lstrip("/"))
        if found:
            labels.setdefault(found["guid"].casefold(), {})[found["what"].casefold()] = value.strip()
    for guid, said in sorted(labels.items()):
        if not _is_no(said.get("enabled", "")) and not _is_yes(said.get("removed", "")):
            yield label_statement(guid, said.get("name", ""))


# -- PDF ---------------------------------------------------------------------------------------------------------------

# Keys whose strings somebody is shown: notes, forms, outlines, attachments, pictures' descriptions.
_PDF_SHOWN = {
    "/Contents": "comment", "/RC": "comment", "/Subj": "comment", "/V": "form value", "/DV": "form value", "/TU": "form value",
    "/CA": "form value", "/Opt": "form value", "/T": "comment", "/Title": "outline", "/F": "attachment name",
    "/UF": "attachment name", "/Desc": "attachment name", "/Alt": "description", "/ActualText": "description",
    "/E": "description",
}  # fmt: skip


def _of_pdf(data: bytes, limits: ExtractionLimits) -> Iterator[Statement]:
    import pikepdf
    import pypdfium2

    try:
        with pikepdf.open(io.BytesIO(data)) as pdf:
            yield from _of_pdf_objects(pdf)
    except pikepdf.PasswordError:
        raise ExtractionError("it needs a password") from None
    except pikepdf.PdfError:
        # Its text may be readable all the same.
        pass
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError:
        raise ExtractionError("it is no PDF that can be opened") from None
    with document:
        characters = 0
        for number in range(len(document)):
            page = document[number]
            words = page.get_textpage()
            text = words.get_text_bounded().replace("\r\n", "\n").replace("\ufffe", "-").replace("\x02", "-")
            characters += len(text)
            if characters > limits.max_characters:
                raise ExtractionError(f"its text is longer than {limits.max_characters} characters")
            yield Statement("text", text)
            words.close()
            page.close()


def _of_pdf_objects(pdf: object) -> Iterator[Statement]:
    import pikepdf

    assert isinstance(pdf, pikepdf.Pdf)
    properties: dict[str, str] = {}
    for key, value in dict(pdf.docinfo).items() if "/Info" in pdf.trailer else ():
        properties[str(key).lstrip("/")] = str(value)
    yield Statement("property", "\n".join(_plain(value) for value in properties.values()))
    metadata = pdf.Root.get("/Metadata")
    if isinstance(metadata, pikepdf.Stream):
        root, sound = _xml(metadata.read_bytes())
        if root is not None:
            yield from _of_tree(root, "property", spaces_count=False)
            said: dict[str, str] = {}
            for element in root.iter():
                said[_name(element.tag)] = "".join(map(str, element.itertext())).strip()
                said |= {_name(key): str(value) for key, value in element.attrib.items()}
                yield Statement("property", "\n".join(_plain(str(value)) for value in element.attrib.values()))
            properties = {**said, **properties}
        if not sound and b"msip" in metadata.read_bytes().replace(b"\x00", b"").lower():
            yield Statement(DAMAGED, "XMP")
    for name, value in properties.items():
        if name.casefold() == "classification" and value.strip():
            yield label_statement("", value)
    yield from _purview(properties)
    seen: set[tuple[int, int]] = set()
    pending: list[tuple[pikepdf.Object, str]] = [(pdf.Root, "")]
    found: dict[str, list[str]] = {}
    while pending:
        item, key = pending.pop()
        if item.is_indirect:
            if item.objgen in seen:
                continue
            seen.add(item.objgen)
        if isinstance(item, pikepdf.String):
            if place := _PDF_SHOWN.get(key):
                found.setdefault(place, []).append(str(item))
        elif isinstance(item, pikepdf.Array):
            pending.extend((inner, key) for inner in item if isinstance(inner, pikepdf.Object))
        elif isinstance(item, pikepdf.Dictionary | pikepdf.Stream):
            if key == "/Names" or "/Names" in item:
                # A tree of names: of attachments, of places in the document.
                found.setdefault("attachment name", []).extend(
                    str(name) for name in item.get("/Names", ()) if isinstance(name, pikepdf.String)
                )
            for inner_key, inner in item.items():
                if isinstance(inner, pikepdf.Object) and inner_key not in {"/Metadata", "/Font", "/FontDescriptor"}:
                    pending.append((inner, inner_key))
    for place, texts in found.items():
        texts = [re.sub("<[^<>]*>", "", text) if place == "comment" and "<" in text else text for text in texts]
        yield Statement(place, "\n".join(texts))


# -- mail --------------------------------------------------------------------------------------------------------------

_HEADERS = ("subject", "keywords", "comments", "thread-topic", "x-classification", "from", "to", "cc", "organization")


def _of_mail(data: bytes) -> Iterator[Statement]:
    message = message_from_bytes(data, policy=policy.default)
    yield from _of_headers(message)
    for number, part in enumerate(message.walk()):
        if number and part.get_content_type() == "message/rfc822":
            continue
        if number and "subject" in part:
            yield from _of_headers(part)
        name = part.get_filename()
        if name:
            yield Statement("attachment name", str(name))
        kind = part.get_content_type()
        if part.is_multipart() or not kind.startswith("text/") or part.get_content_disposition() == "attachment":
            continue
        payload = part.get_payload(decode=True)
        if not isinstance(payload, bytes):
            continue
        text = _mail_text(payload, part.get_content_charset())
        if kind == "text/html":
            yield from _of_html(text)
        else:
            yield Statement("text", text, source=True)


def _mail_text(payload: bytes, charset: str | None) -> str:
    try:
        return payload.decode(charset or "utf-8").replace("\r\n", "\n")
    except (LookupError, UnicodeDecodeError):
        try:
            return _decoded(payload)
        except ExtractionError:
            return payload.decode("latin-1")


def _of_headers(message: EmailMessage) -> Iterator[Statement]:
    values = [(name.casefold(), str(value)) for name, value in message.items()]
    for name, value in values:
        if name in _HEADERS:
            yield Statement("title" if name == "subject" else "header", value)
        elif name == "sensitivity" and value.strip().casefold() not in {"", "normal", "none"}:
            yield label_statement("", value.strip())
        elif name == "msip_labels":
            pairs = [item.partition("=") for item in re.sub(r"\r?\n", "", value).split(";")]
            yield from _purview({key.strip(): text for key, _, text in pairs})


# -- others ------------------------------------------------------------------------------------------------------------


def _of_rtf(data: bytes) -> Iterator[Statement]:
    """Read the words of an RTF file: groups and commands off, escapes read."""
    text = data.decode("latin-1")
    text = re.sub(r"\\u(-?\d{1,5}) ?(?:\\'[0-9a-fA-F]{2}|\?)?", lambda m: chr(int(m[1]) % 0x10000), text)
    text = re.sub(r"\\'([0-9a-fA-F]{2})", lambda m: bytes.fromhex(m[1]).decode("cp1252", "replace"), text)
    text = re.sub(r"\\(?:par|line|cell|row|tab|sect|page)(?![a-z])-?\d* ?", "\n", text)
    text = re.sub(r"\\[a-z]{1,32}-?\d{0,10} ?|[{}]|\\\*", "", text.replace("\\~", " "))
    yield Statement("text", unescape(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


_WIDE = re.compile(rb"(?:[^\x00-\x08\x0e-\x1f][\x00-\x06\x1e-\x9f\xff]){4,4000}")
_NARROW = re.compile(rb"[\x09\x20-\x7e\xa0-\xff]{4,4000}")


def _of_binary(data: bytes) -> Iterator[Statement]:
    """Read the runs of characters in a file of the old Office kind, of two bytes or one each."""
    if b"E\x00n\x00c\x00r\x00y\x00p\x00t\x00e\x00d\x00P\x00a\x00c\x00k\x00a\x00g\x00e" in data:
        raise ExtractionError("it needs a password")
    yield Statement("text", "\n".join(run.decode("cp1252", "replace") for run in _NARROW.findall(data)))
    for start in (0, 1):
        runs = [run.decode("utf-16-le", "replace") for run in _WIDE.findall(data[start:])]
        yield Statement("text", "\n".join(runs))
