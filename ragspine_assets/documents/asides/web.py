"""Pages and sources: what HTML hides, and what a text format says outside of its text (SPEC 1.11)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from ragspine_assets.documents.asides.gathering import Gathering
from ragspine_assets.documents.decoding import decode_text
from ragspine_assets.documents.normalise import normalise_text
from ragspine_assets.policy.reading import reading

_INLINE = frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "code",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "ins",
        "kbd",
        "label",
        "mark",
        "nobr",
        "q",
        "rp",
        "rt",
        "ruby",
        "s",
        "samp",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
        "var",
        "wbr",
    ]
)
_SKIPPED = frozenset({"script", "style"})
_WORDS = (
    "alt",
    "title",
    "aria-label",
    "aria-description",
    "placeholder",
    "value",
    "content",
    "label",
    "summary",
    "download",
    "srcdoc",
)
# Attributes that hold lists of names, code or drawings.
_NO_WORDS = frozenset({"class", "style", "href", "src", "srcset", "sizes", "rel", "d", "points", "transform", "rev"})
_TWO_WORDS = re.compile(r"[^\W\d_]\s+[^\W\d_]")
_CSS_TEXT = re.compile(r"""content\s*:\s*(?:"([^"\n]{1,2000})"|'([^'\n]{1,2000})')""")
_LINK_TITLE = re.compile(
    r"""\]\([^()\n"']{0,2000}["']([^"'\n]{1,500})["']\s*\)|^\s*\[[^\]\n]{1,200}\]:\s*\S+\s+["'(]([^"'()\n]{1,500})""",
    re.MULTILINE,
)
_ATTRIBUTE = re.compile(
    r"""\b(?:alt|title|aria-label|content|placeholder)\s*=\s*(?:"([^"<>]{1,2000})"|'([^'<>]{1,2000})')""", re.IGNORECASE
)
_META = re.compile(r"<meta\b[^<>]{0,2000}>", re.IGNORECASE)


def gather_page(data: bytes, found: Gathering) -> None:
    """Gather from an HTML page."""
    gather_html(decode_text(data, markup=True).text, found, "")


def gather_html(source: str, found: Gathering, place: str) -> None:
    """Gather from the source of an HTML page or of an HTML part."""
    if not source.strip():
        return
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=False, huge_tree=False)
    try:
        root = etree.fromstring(normalise_text(source).encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:
        root = None
    if root is None or any("depth" in entry.message.lower() for entry in parser.error_log):
        # Nested too deeply for the parser: the source is read as it stands.
        found.add_lines("page source", place, reading(source, "").split("\n"))
        if root is None:
            return
    for element in root.iter():
        _gather_element(element, found, place)
    found.add_lines("text that is not shown", place, _lines(root))
    if "<rt" in source or "<RT" in source:
        etree.strip_elements(root, "rt", "rp", with_tail=False)
        found.add_lines("text without its readings", place, _lines(root))


def _gather_element(element: etree._Element, found: Gathering, place: str) -> None:
    tag = element.tag
    if tag is etree.Comment:
        found.add("comment", place, element.text or "")
    elif not isinstance(tag, str):
        return
    elif tag == "title":
        found.add("title", place, "".join(element.itertext()))
    elif tag == "meta":
        name = (
            element.get("name") or element.get("property") or element.get("http-equiv") or element.get("itemprop") or ""
        )
        value = element.get("content") or ""
        found.add("meta", place, value)
        found.carry_named("HTML meta", name, value)
        found.carry_purview("HTML meta", [(name, value)])
    elif tag == "style":
        for groups in _CSS_TEXT.findall(element.text or ""):
            found.add("style", place, "".join(groups))
    elif tag == "script":
        if "json" in (element.get("type") or ""):
            found.add("data", place, element.text or "")
    else:
        for name, value in element.attrib.items():
            if name in _WORDS:
                found.add(f"attribute {name}", place, value)
            elif " " in value and name not in _NO_WORDS and _TWO_WORDS.search(value):
                found.add("attribute", place, value)
        if (link := element.get("href") or element.get("src")) and not link.startswith("data:"):
            found.add("link", place, link)


def _lines(root: etree._Element) -> Iterator[str]:
    """Yield the lines of a page's whole text, hidden or not."""
    line: list[str] = []
    for event, element in etree.iterwalk(root, events=("start", "end", "comment")):
        if event == "comment":
            if element.tail:
                line.append(element.tail)
            continue
        tag = element.tag if isinstance(element.tag, str) else ""
        if tag not in _INLINE and line:
            yield " ".join("".join(line).split())
            line = []
        if event == "start" and element.text and tag not in _SKIPPED:
            line.append(element.text)
        elif event == "end" and element.tail:
            line.append(element.tail)
    if line:
        yield " ".join("".join(line).split())


def gather_source(data: bytes, found: Gathering) -> None:
    """Gather from Markdown, reStructuredText or CSV: whatever its text does not show as a line of its own."""
    source = normalise_text(decode_text(data).text)
    found.add_lines("source", "", _without_front_matter(source).split("\n"))
    if "](" in source or "]:" in source:
        for groups in _LINK_TITLE.findall(source):
            found.add("title of a link", "", "".join(groups))
    if "<" in source and "=" in source:
        for groups in _ATTRIBUTE.findall(source):
            found.add("attribute", "", "".join(groups))
        for tag in _META.findall(source):
            gather_html(tag, found, "")


def _without_front_matter(source: str) -> str:
    """The source behind a block that is read as front matter, whose lines are no lines of the text."""
    if not source.startswith("---"):
        return source
    end = re.search(r"^(?:---|\.\.\.)[ \t]*$", source[3:], re.MULTILINE)
    return source[3 + end.end() :] if end else source
