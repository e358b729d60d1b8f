"""On which page each paragraph of a document lies (SPEC 1.4).

``page_starts`` has, for each page from 1, the number (from 1) of the first paragraph on or after the start of that page.
A paragraph lies on the page where it starts.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from .normalise import paragraphs

_NOT_LETTERS = re.compile(r"[\W_]+")
_ANCHOR = 48
_NEAR, _FAR = 400, 20_000


def cut_at_marks(text: str, mark: str, additions: Sequence[str] = ()) -> tuple[str, tuple[int, ...]]:
    """Take page marks out of a text; return it and its ``page_starts``.

    Args:
        text: normalised text in which each page begins with ``mark``, its number and a full stop.
        mark: letters that no text of the document holds.
        additions: for each page from the first, text to add at its end.
    """
    pieces = re.split(rf"\s*{re.escape(mark)}(\d+)\.(?:[ \t]*\n)*", text)
    kept = [pieces[0].strip("\n")] if pieces[0].strip() else []
    starts: list[int] = []
    count = sum(len(paragraphs(piece)) for piece in kept)
    for page, piece in enumerate(pieces[2::2]):
        starts.append(count + 1)
        for part in (piece, *additions[page : page + 1]):
            if part.strip():
                kept.append(part.strip("\n"))
                count += len(paragraphs(part))
    return "\n\n".join(kept) + "\n" if kept else "", tuple(starts)


def align_pages(text: str, nodes: Sequence[Mapping[str, object]], pages: int) -> tuple[int, ...]:
    """Find the pages of a Markdown text with the help of the document structure it was made from.

    The nodes know their page and follow each other in the order of the text, so each is looked for behind the one
    before it, letters only: what Markdown adds to a text are no letters. A node that is not found is passed over.

    Args:
        text: the normalised Markdown.
        nodes: kreuzberg's document nodes.
        pages: number of pages.
    """
    letters = [_NOT_LETTERS.sub("", paragraph) for paragraph in paragraphs(text)]
    if not letters or pages < 1:
        return (1,) * pages
    ends = list(accumulate(map(len, letters)))
    everything = "".join(letters)
    starts = [0] * (pages + 2)
    position = 0
    for words, page in _placed(nodes):
        anchor = words[:_ANCHOR]
        found = everything.find(anchor, position, position + (_FAR if len(anchor) >= 12 else _NEAR) + len(anchor))
        if found < 0:
            continue
        paragraph = bisect_right(ends, found) + 1
        if 1 <= page <= pages and not starts[page]:
            starts[page] = paragraph
        position = found + len(anchor)
    following = len(letters) + 1
    for page in range(pages, 0, -1):
        following = starts[page] = min(starts[page] or following, following)
    # Before the first text there is nothing, so the first page that has any begins with the first paragraph.
    first = next((page for page in range(pages, 0, -1) if starts[page] == starts[1]), 1)
    for page in range(1, first + 1):
        starts[page] = 1
    return tuple(starts[1 : pages + 1])


def _placed(nodes: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, int]]:
    """Letters and page of each node that has both, pages never going back."""
    latest = 1
    for node in nodes:
        content = node.get("content")
        page = node.get("page")
        if not isinstance(content, Mapping) or content.get("node_type") == "group":
            continue
        if isinstance(page, int):
            latest = max(latest, page)
        if isinstance(page, int) and (words := _NOT_LETTERS.sub("", _words(content))):
            yield words, latest


def _words(content: Mapping[str, object]) -> str:
    text, grid = content.get("text"), content.get("grid")
    if isinstance(text, str):
        return text
    if isinstance(grid, Mapping) and isinstance(cells := grid.get("cells"), Sequence):
        return "".join(str(cell.get("content") or "") for cell in cells if isinstance(cell, Mapping))
    return ""
