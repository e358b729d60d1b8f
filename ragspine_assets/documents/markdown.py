"""Text as Markdown: the one rule for what is escaped, and tables (SPEC 1.4, 1.12).

Readers write headings, lists, tables and preformatted text; emphasis and link targets are no text and are not written.
So a character of the file is escaped only where it would otherwise be taken for a mark: ``R&D``, ``a < b``, ``C*`` and
``snake_case`` stay as they are. The number of a list item stands for itself and needs no escape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_MARKS = frozenset("\\`*_<&[~")
_BACKSLASH = re.compile(r"\\(?=[!-/:-@\[-`{-~])")
_TAG = re.compile(r"<(?=[A-Za-z/!?][^<>]{0,2000}>)")
_REFERENCE = re.compile(r"&(?=(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)")
_LINK = re.compile(r"\[(?=[^\[\]\n]{0,1000}\][(\[:])|(?<=!)\[")
_OPENING = re.compile(r"(?<![*\\])\*+(?=[^\s*])|(?<![\w\\])_+(?=[^\s_])")
_CLOSING = re.compile(r"(?<=[^\s*\\])\*+|(?<=[^\s_\\])_+(?!\w)")
_FLANKING = re.compile(r"(?<!\\)[*_]")
_BLOCK = re.compile(
    r"^(?=#{1,6}(?:[ \t]|$)|>|[-+*](?:[ \t]|$)|(?:`{3}|~{3})|=+[ \t]*$|[-*_](?:[ \t]*[-*_])*[ \t]*$|\|?[ \t]*:?-+:?[ \t]*\|)",
    re.MULTILINE,
)


def escape(text: str, *, first: bool = True) -> str:
    """Return text of a document so that Markdown reads every character of it as itself.

    Args:
        text: lines of plain text.
        first: whether it begins a line; marks of blocks mean something only there.
    """
    if not _MARKS.isdisjoint(text):
        if "\\" in text:
            text = _BACKSLASH.sub(r"\\\\", text)
        if "<" in text and ">" in text:
            text = _TAG.sub(r"\\<", text)
        if "&" in text:
            text = _REFERENCE.sub(r"\\&", text)
        if "[" in text:
            text = _LINK.sub(r"\\[", text)
        if text.count("`") > 1:
            text = text.replace("`", "\\`")
        if text.count("*") > 1 or text.count("_") > 1:
            text = _escape_emphasis(text)
    return _BLOCK.sub(r"\\", text) if (first and not text[:1].isalnum()) or "\n" in text else text


def _escape_emphasis(text: str) -> str:
    """Escape stars and underscores of a text in which one could begin emphasis and a later one end it."""
    for mark in "*_":
        if text.count(mark) < 2:
            continue
        openings = [found for found in _OPENING.finditer(text) if found.group()[0] == mark]
        closings = [found for found in _CLOSING.finditer(text) if found.group()[0] == mark]
        if openings and closings and openings[0].end() < closings[-1].start():
            places = {found.start() + n for found in (*openings, *closings) for n in range(len(found.group()))}
            text = "".join(f"\\{char}" if place in places else char for place, char in enumerate(text))
    return text


def paragraph(text: str) -> str:
    """Return the Markdown of one paragraph, '' if it is blank; its own line breaks are kept."""
    lines = [line.strip() for line in text.split("\n")]
    return escape("\n".join(filter(None, lines)))


def heading(level: int, text: str) -> str:
    """Return the Markdown of a heading, levels from 1; '' if it is blank."""
    words = " ".join(text.split())
    if not words:
        return ""
    escaped = escape(words, first=False)
    # Marks at the end of a heading would be taken for its closing sequence.
    escaped = re.sub(r"(^|\s)(#+)$", r"\1\\\2", escaped)
    return f"{'#' * min(max(level, 1), 6)} {escaped}"


def cell(text: str) -> str:
    """Return the Markdown of the text of one cell: one line, no cell ends in it."""
    return _one_cell(escape(" ".join(text.split()), first=False)) if text else ""


def _one_cell(markdown: str) -> str:
    return " ".join(markdown.split()).replace("|", "\\|")


def fenced(text: str) -> str:
    """Return preformatted text as a fenced block, '' if it is blank."""
    if not text.strip():
        return ""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.strip(chr(10))}\n{fence}"


_NARROW = 40


def table(rows: Iterable[Sequence[str]], *, written: bool = False) -> str:
    """Return texts as a Markdown table, the first row as its head; '' if all cells are blank.

    Rows that are blank are dropped, and columns that are blank behind the last one that is not. A row shorter than the
    widest one is filled up with empty cells where that does not cost much.

    Args:
        rows: the cells of each row.
        written: whether the cells are Markdown already, not plain text.
    """
    lines: list[list[str]] = []
    for row in rows:
        cells = [_one_cell(text) for text in row] if written else list(map(cell, row))
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            lines.append(cells)
    if not lines:
        return ""
    width = max(map(len, lines))
    if width * len(lines) <= 4 * sum(map(len, lines)) + 1000:
        for cells in lines:
            cells.extend([""] * (width - len(cells)))
    head = lines[0]
    head.extend([""] * (width - len(head)))
    rule = "| --- " * width + "|" if width <= _NARROW else "|-" * width + "|"
    printed = [f"| {' | '.join(cells)} |" for cells in lines]
    return "\n".join([printed[0], rule, *printed[1:]])


def join_blocks(blocks: Iterable[str]) -> str:
    """Return blocks of Markdown with an empty line between them; blank ones are dropped, list items stay together."""
    pieces: list[str] = []
    item_before = False
    for block in blocks:
        if not block.strip():
            continue
        item = block.lstrip(" ").startswith("- ")
        if pieces:
            pieces.append("\n" if item and item_before else "\n\n")
        pieces.append(block)
        item_before = item
    return "".join(pieces) + "\n" if pieces else ""
