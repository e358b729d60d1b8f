"""Pages of the web: what a browser shows of them, navigation too (SPEC 1.4, 1.12).

The tree is made by libxml2 and walked once, without recursion. Scripts, styles, templates and what only browsers without
scripts show are no text; elements that are hidden, and where links lead, are counted. Navigation is kept: it is words a
reader sees.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  # it brings no types

from ragspine_assets.documents.decoding import UndecodableText, decode_text
from ragspine_assets.documents.markdown import escape, fenced, heading, join_blocks, paragraph, table
from ragspine_assets.documents.normalise import normalise_text
from ragspine_assets.documents.reading import ExtractionError, ExtractionLimits, Reading, one_line

from .numbering import spell_number
from .package import Element

# The rest of a tag. A quote that is not closed soon is a mistake and must not swallow the page; that no pattern here
# reaches over the next tag of its kind keeps them linear.
_TAG = r"""(?:[^<>"']|"[^"]{0,4000}+"|'[^']{0,4000}+'|["'])*+>"""
_TITLE = re.compile(
    rf"<title\b{_TAG}((?:[^<]|<(?!/?(?:title|head|body|meta|link|script|style)\b)){{0,2000}}+)(?:</title\s*>)?",
    re.IGNORECASE,
)
_HEAD_TAGS = re.compile(rf"<(?:meta|link|base)\b{_TAG}", re.IGNORECASE)
# Scripts are dropped with their element too, but not those a page breaks off in.
_SCRIPT = re.compile(rf"<(script|style)\b{_TAG}.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)

_DROPPED = frozenset(
    [
        "script",
        "style",
        "template",
        "noscript",
        "head",
        "title",
        "iframe",
        "object",
        "embed",
        "audio",
        "video",
        "canvas",
        "map",
        "datalist",
        "annotation",
        "annotation-xml",
        "desc",
        "metadata",
        "defs",
    ]
)
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "center",
        "dd",
        "details",
        "dialog",
        "dir",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hgroup",
        "html",
        "legend",
        "li",
        "main",
        "menu",
        "nav",
        "ol",
        "optgroup",
        "p",
        "search",
        "section",
        "summary",
        "ul",
        "caption",
        "hr",
        "tbody",
        "thead",
        "tfoot",
    ]
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HIDDEN_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))\b", re.IGNORECASE)
_SPACES = re.compile(r"[ \t\n\r\f]+")
_BREAK = "\x0b"  # the normaliser takes it out of every text, so that it can stand for a line break here
_TOO_DEEP = "its parts are nested too deeply"
_MAX_SPAN = 1000
_LIST_FORMATS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}


def read(data: bytes, mime: str, limits: ExtractionLimits) -> Reading:  # noqa: ARG001
    """Read an HTML file."""
    try:
        decoded = decode_text(data, markup=True)
    except UndecodableText as problem:
        raise ExtractionError(str(problem)) from None
    page, title = without_head(decoded.text)
    left_out: Counter[str] = Counter()
    text = join_blocks(page_blocks(page, left_out))
    return Reading(text, title, left_out, encoding=decoded.encoding, encoding_found_by=decoded.found_by)


def without_head(html: str) -> tuple[str, str]:
    """Return a page without scripts and metadata, and its title."""
    html = _SCRIPT.sub("", normalise_text(html))
    found = _TITLE.search(html)
    title = one_line(unescape(found.group(1))) if found else ""
    return _HEAD_TAGS.sub("", _TITLE.sub("", html)), title


def page_blocks(html: str, left_out: Counter[str]) -> list[str]:
    """Return the blocks of Markdown a page shows.

    Args:
        html: the page, as `without_head` returns it.
        left_out: counts what is not shown.

    Raises:
        ExtractionError: it is nested too deeply.
    """
    if not html.strip():
        return []
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(html.encode("utf-8", "replace"), parser)
    except (etree.ParserError, etree.XMLSyntaxError):
        root = None
    if any("depth" in entry.message for entry in parser.error_log if entry.level_name == "FATAL"):
        raise ExtractionError(_TOO_DEEP)
    if root is None:
        return []
    page = _Page(left_out)
    page.walk(root)
    return page.blocks


@dataclass(slots=True)
class _List:
    number: int = 0  # of the next item; 0 in a list without numbers
    step: int = 1
    number_format: str = "decimal"


@dataclass(slots=True)
class _Cell:
    span: int
    rows: int
    texts: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Table:
    layout: bool
    blocks: list[str]  # of what is around it
    lists: list[_List]
    rows: list[list[_Cell]] = field(default_factory=list)
    cell: _Cell | None = None


class _Page:
    """A page while it is walked through."""

    def __init__(self, left_out: Counter[str]) -> None:
        self.blocks: list[str] = []
        self._left_out = left_out
        self._line: list[str] = []
        self._lists: list[_List] = []
        self._tables: list[_Table] = []
        self._marker = ""
        self._level = 0
        self._pre = 0
        self._quotes = 0

    def walk(self, root: Element) -> None:
        skipped: Element | None = None
        events: Iterator[tuple[str, Element]] = etree.iterwalk(root, events=("start", "end"))
        for event, element in events:
            if not isinstance(element.tag, str):
                continue
            if event == "start":
                if skipped is None:
                    if self._is_dropped(element):
                        skipped = element
                    else:
                        self._start(element)
                continue
            if skipped is None:
                self._end(element)
            elif skipped is element:
                skipped = None
            if skipped is None and element.tail and element is not root:
                self._add(element.tail)
        self._flush()

    def _is_dropped(self, element: Element) -> bool:
        tag = element.tag
        if tag in _DROPPED:
            return True
        style = element.get("style", "")
        hidden = element.get("hidden", None) is not None or bool(style and _HIDDEN_STYLE.search(style))  # pyright: ignore[reportArgumentType]
        if hidden or (tag == "dialog" and element.get("open", None) is None):  # pyright: ignore[reportArgumentType]
            self._left_out["hidden passages"] += 1
            return True
        if tag == "select":
            options = list(element.iter("option"))
            chosen = [option for option in options if "selected" in _attributes(option)] or options[:1]
            self._add(" ".join("".join(_texts(option)) for option in chosen))
            return True
        return False

    def _start(self, element: Element) -> None:
        tag = element.tag
        if tag == "br":
            self._line.append("\n" if self._pre else _BREAK)
        elif tag in _HEADINGS:
            self._flush()
            self._level = _HEADINGS[tag]
            if self._tables and self._tables[-1].cell is not None:
                self._tables[-1].layout = True
        elif tag in {"pre", "listing", "xmp", "plaintext"}:
            self._flush()
            self._pre += 1
        elif tag == "table":
            self._start_table(element)
        elif tag in {"tr", "td", "th"}:
            self._start_cell(element, tag)
        elif tag in {"ul", "ol", "menu", "dir"}:
            self._flush()
            self._lists.append(_list_of(element))
        elif tag == "li":
            self._flush()
            self._marker = self._next_marker(element)
        elif tag in _BLOCKS:
            self._flush()
        elif tag == "img":
            self._add(element.get("alt", ""))
        elif tag == "input":
            self._input(element)
        elif tag == "q":
            self._line.append("“")
        elif tag == "rt" and not _has_parentheses(element):
            self._line.append("(")
        elif tag == "a" and element.get("href", ""):
            self._left_out["link targets"] += 1
        if element.text:
            self._add(element.text)

    def _end(self, element: Element) -> None:
        tag = element.tag
        if tag in _HEADINGS:
            self._flush()
            self._level = 0
        elif tag in {"pre", "listing", "xmp", "plaintext"}:
            self._flush()
            self._pre = max(self._pre - 1, 0)
        elif tag == "table":
            self._end_table()
        elif tag in {"td", "th"}:
            self._flush()
            if self._tables:
                self._tables[-1].cell = None
        elif tag in {"ul", "ol", "menu", "dir"}:
            self._flush()
            if self._lists:
                self._lists.pop()
            self._marker = ""
        elif tag in _BLOCKS:
            self._flush()
            if tag == "li":
                self._marker = ""
        elif tag == "q":
            self._line.append("”")
        elif tag == "rt" and not _has_parentheses(element):
            self._line.append(")")

    def _add(self, text: str) -> None:
        self._line.append(text if self._pre else _SPACES.sub(" ", text))

    def _input(self, element: Element) -> None:
        kind = element.get("type", "text").lower()
        if kind in {"checkbox", "radio"}:
            self._line.append("☒" if "checked" in _attributes(element) else "☐")
        elif kind not in {"hidden", "password", "image", "file", "color", "range"}:
            self._add(f" {element.get('value', '')} ")

    def _next_marker(self, element: Element) -> str:
        depth = min(len(self._lists), 9) - 1
        indent = "  " * max(depth, 0)
        if not self._lists or not self._lists[-1].number_format:
            return f"{indent}- "
        items = self._lists[-1]
        value = element.get("value", "")
        if re.fullmatch(r"-?\d{1,8}", value):
            items.number = int(value)
        label = spell_number(items.number, items.number_format)
        items.number += items.step
        return f"{indent}{label}. "

    def _flush(self) -> None:
        """End the block that is being read."""
        if not self._line:
            return
        raw = "".join(self._line)
        self._line.clear()
        if self._pre:
            raw = raw.replace(_BREAK, "\n")
            self._put(" ".join(raw.split()), fenced(raw))
            return
        lines = [_SPACES.sub(" ", line).strip(" ") for line in raw.split(_BREAK)]
        text = "\n".join(filter(None, lines))
        if not text.strip():
            return
        if self._level:
            self._put(text, heading(self._level, text))
        elif self._lists:
            marker = self._marker
            indent = " " * (len(marker) if marker else 2 * min(len(self._lists), 9))
            written = paragraph(text).split("\n")
            first = marker or indent
            self._put(
                f"{marker.strip()} {text}".lstrip("- ") if marker.strip() != "-" else text,
                "\n".join(f"{first if number == 0 else indent}{line}" for number, line in enumerate(written)),
            )
            self._marker = ""
        else:
            self._put(text, paragraph(text))

    def _put(self, text: str, block: str) -> None:
        cell = self._tables[-1].cell if self._tables else None
        if cell is None:
            self.blocks.append(block)
        else:
            cell.texts.append(text)
            cell.blocks.append(block)

    def _start_table(self, element: Element) -> None:
        self._flush()
        layout = element.get("role", "") in {"presentation", "none"}
        if self._tables and self._tables[-1].cell is not None:
            # What holds another table is there for the eye.
            self._tables[-1].layout = True
        self._tables.append(_Table(layout, self.blocks, self._lists))
        self._lists = []

    def _start_cell(self, element: Element, tag: str) -> None:
        self._flush()
        if not self._tables:
            return
        inner = self._tables[-1]
        inner.cell = None
        if tag == "tr" or not inner.rows:
            inner.rows.append([])
        if tag != "tr":
            inner.cell = _Cell(_span(element, "colspan"), _span(element, "rowspan"))
            inner.rows[-1].append(inner.cell)

    def _end_table(self) -> None:
        self._flush()
        if not self._tables:
            return
        done = self._tables.pop()
        self._lists = done.lists
        cells = [cell for row in done.rows for cell in row]
        if done.layout or len(cells) == 1:
            texts = [text for cell in cells for text in cell.texts]
            blocks = [block for cell in cells for block in cell.blocks]
        else:
            texts = []
            blocks = [table(_grid(done.rows), written=True)]
        outer = self._tables[-1].cell if self._tables else None
        if outer is None:
            self.blocks += blocks
        else:
            outer.texts += texts
            outer.blocks += blocks


def _grid(rows: list[list[_Cell]]) -> Iterator[list[str]]:
    """The texts of each row in their columns; what a cell spans besides its first place stays empty."""
    reaching: dict[int, int] = {}
    for row in rows:
        line: list[str] = []

        def fill(line: list[str] = line) -> None:
            while reaching.get(len(line), 0):
                reaching[len(line)] -= 1
                line.append("")

        for cell in row:
            fill()
            for place in range(cell.span):
                if cell.rows > 1:
                    reaching[len(line)] = cell.rows - 1
                line.append(
                    " ".join(escape(" ".join(text.split()), first=False) for text in cell.texts) if not place else ""
                )
        fill()
        yield line


def _span(element: Element, name: str) -> int:
    value = element.get(name, "1").strip()
    return max(1, min(int(value), _MAX_SPAN)) if re.fullmatch(r"\d{1,6}", value) else 1


def _list_of(element: Element) -> _List:
    if element.tag != "ol":
        return _List(number_format="")
    attributes = _attributes(element)
    start = attributes.get("start", "")
    step = -1 if "reversed" in attributes else 1
    number = int(start) if re.fullmatch(r"-?\d{1,8}", start) else 1
    if step < 0 and not start:
        number = sum(1 for _ in element.iterchildren("li"))
    return _List(number, step, _LIST_FORMATS.get(attributes.get("type", ""), "decimal"))


def _attributes(element: Element) -> dict[str, str]:
    return dict(element.attrib)  # pyright: ignore[reportAttributeAccessIssue]


def _texts(element: Element) -> Iterator[str]:
    for inner in element.iter():
        yield inner.text or ""
        if inner is not element:
            yield inner.tail or ""


def _has_parentheses(reading: Element) -> bool:
    ruby = reading.getparent()  # pyright: ignore[reportAttributeAccessIssue]
    return ruby is not None and next(ruby.iterchildren("rp"), None) is not None
