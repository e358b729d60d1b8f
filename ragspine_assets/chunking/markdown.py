"""Headings of a Markdown text, as CommonMark finds them (SPEC 2.5).

markdown-it-py decides; what it need not see is taken away first. Whole paragraphs of ordinary lines change nothing
for what comes after them but that a paragraph was there, so a run of them is handed over as one short paragraph.
That makes prose several times faster and leaves every line that could matter as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cache
from typing import TYPE_CHECKING

from ragspine_assets.chunking.spans import collector_paused

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# An ordinary line begins at the margin with what starts no block but a paragraph or a list item with a word in it,
# and has no ">", which might end a block of HTML.
_MARKER = r"(?:[-*+]|[0-9]{1,9}[.)]) {1,4}"
_ORDINARY = rf"(?:[^\s0-9#*+\-<=>\[_`~][^>\n]*|{_MARKER}[^\W\d_][^>\n]*)\n"
# Only behind a blank line or an ATX heading is it sure that no paragraph or link definition is still open.
_RUN = re.compile(
    rf"^(?:(?<![\s\S])|[ \t]*\n|\#{{1,6}}[ \t][^\n]*\n)(?P<run>{_ORDINARY}(?:{_ORDINARY}|\n)*+)", re.MULTILINE
)
_ITEM = re.compile(rf"^{_MARKER}", re.MULTILINE)
_OPAQUE = frozenset({"fence", "code_block", "html_block"})
_MAY_BE_OPAQUE = re.compile(r"^(?:[ \t]|[^\n]*(?:```|~~~|<))", re.MULTILINE)


def markdown_headings(text: str) -> list[int]:
    """Return the first line (from 0) of every heading at top level, in order.

    ATX and setext headings count, not what stands in a fence, an indented block, a comment, a quote or a list.

    Args:
        text: normalised text, not stripped.
    """
    reduced, kept_at, original_at = _reduced(text if text.endswith("\n") else text + "\n")
    headings: list[int] = []
    for line in _headings(_blocks(reduced)):
        stretch = bisect_right(kept_at, line) - 1
        headings.append(original_at[stretch] + line - kept_at[stretch])
    return headings


def headings_and_opaque_lines(text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the headings of a text and its line ranges (end excluded) that are code, comments or HTML.

    Lines are counted from 0; both are in order.

    Args:
        text: normalised text, not stripped.
    """
    if _MAY_BE_OPAQUE.search(text) is None:
        return markdown_headings(text), []
    # Where code begins and ends can be told from the whole text only.
    tokens = _blocks(text)
    return _headings(tokens), [_lines(token) for token in tokens if token.type in _OPAQUE]


def _headings(tokens: list[Token]) -> list[int]:
    return [_lines(token)[0] for token in tokens if token.type == "heading_open" and token.level == 0]


def _lines(token: Token) -> tuple[int, int]:
    first, behind = token.map or (0, 0)
    return first, behind


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")


def _blocks(text: str) -> list[Token]:
    # Blocks only: what is inside a paragraph plays no part, and is where Markdown can become slow.
    parser = _parser()
    tokens: list[Token] = []
    with collector_paused():
        parser.block.parse(text, parser, {}, tokens)
    return tokens


def _reduced(text: str) -> tuple[str, list[int], list[int]]:
    """Return a shorter text with the same headings, and where its stretches begin: their lines here and there."""
    parts: list[str] = []
    kept_at: list[int] = []
    original_at: list[int] = []
    here = there = position = 0

    def keep(end: int) -> None:
        nonlocal here, there, position
        if end > position:
            kept_at.append(here)
            original_at.append(there)
            lines = text.count("\n", position, end)
            parts.append(text[position:end])
            here += lines
            there += lines
            position = end

    def drop(end: int, instead: str = "") -> None:
        nonlocal here, there, position
        parts.append(instead)
        here += instead.count("\n")
        there += text.count("\n", position, end)
        position = end

    for match in _RUN.finditer(text):
        start, end = match.span("run")
        body_end = start + len(match["run"].rstrip("\n"))
        block = text.rfind("\n\n", start, body_end) + 2
        if block > 1:
            keep(start)
            drop(block, "x\n\n")
        else:
            block = start
        items = [item.start() for item in _ITEM.finditer(text, block, body_end)]
        if not items:
            # Of a paragraph the first line counts, in case the line behind it makes it a heading.
            keep(text.index("\n", block) + 1)
            if body_end > position:
                drop(body_end + 1)
        elif items[0] == block or text[items[-1]] in "-*+":
            # Not every number begins an item where a paragraph is open; a bullet does, and so does its neighbour.
            keep(block)
            drop(items[-1])
        keep(end)
    keep(len(text))
    return "".join(parts), kept_at, original_at


def line_is_in(ranges: list[tuple[int, int]], line: int) -> bool:
    """Tell whether a line lies in one of some disjoint, ascending ranges."""
    before = bisect_left(ranges, (line + 1,)) - 1
    return before >= 0 and line < ranges[before][1]
