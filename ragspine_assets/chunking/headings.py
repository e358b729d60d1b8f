"""How deep a heading stands, and which headings stand above it (SPEC 2.5, 2.9)."""

from __future__ import annotations

import re

from ragspine_assets.chunking.chunk import DocumentMeta
from ragspine_assets.documents.normalise import CanonicalText

_DEEPEST = 6
_ATX = re.compile(r"(#{1,6})(?=\s|\Z)")
_SETEXT = re.compile(r"(=+|-+)\Z")
_SETEXT_LINES = 8
_MARKS = re.compile(r"^#{1,6}\s+|(?<!\s)\s+#+\s*$|[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}|\\(?=[!-/:-@\[-`{-~])")
_HAN = "〇零一二三四五六七八九十百千万萬两兩"
_ORDINAL = re.compile(rf"第\s*(?:[0-9０-９]+|[{_HAN}]+)\s*([篇部编編章回讲講节節条條款项項])")
_ORDINAL_LEVELS = {"篇": 1, "部": 1, "编": 1, "編": 1, "章": 2, "回": 2, "讲": 2, "講": 2, "节": 3, "節": 3}
_NUMBER = re.compile(r"([0-9０-９]+(?:[.．][0-9０-９]+)*)")
_CONTENTS = re.compile(r"(?:(?:[.·…‥．]\s?){4,}|…{2,}|\t\s*)\s*(?:[0-9０-９]{1,4}|[ivxlc]{1,6})?\s*\Z", re.IGNORECASE)


def is_contents_line(text: str, start: int, end: int) -> bool:
    """Tell whether a line leads to a page, as in a table of contents, or is nothing but dots."""
    return _CONTENTS.search(text, max(start, end - 80), end) is not None


def heading_level(document: CanonicalText, paragraph: int, *, markdown: bool) -> int:
    """Return how deep a heading stands, from 1; a short line of plain text stands deepest.

    Args:
        document: the text.
        paragraph: index of the heading's first paragraph, from 0.
        markdown: whether a heading without a mark is underlined, as CommonMark has it.
    """
    text, start = document.text, document.starts[paragraph]
    if found := _ATX.match(text, start, document.ends[paragraph]):
        return len(found[1])
    if markdown:
        for following in range(paragraph + 1, min(paragraph + 1 + _SETEXT_LINES, len(document.starts))):
            underline = _SETEXT.match(text, document.starts[following], document.ends[following])
            if underline:
                return 1 if underline[1][0] == "=" else 2
    if found := _ORDINAL.match(text, start, document.ends[paragraph]):
        return _ORDINAL_LEVELS.get(found[1], 4)
    if found := _NUMBER.match(text, start, document.ends[paragraph]):
        return min(1 + len(re.findall("[.．]", found[1])), _DEEPEST)
    return _DEEPEST


def plain_heading(heading: str) -> str:
    """Return a heading without the marks of Markdown, white space as one space."""
    return " ".join(_MARKS.sub("", heading).split())


class HeadingOutline:
    """Follows the headings of one document and knows which stand above each."""

    def __init__(self) -> None:
        self._above: list[tuple[int, str]] = []

    def enter(
        self, document: CanonicalText, paragraph: int, heading: str, *, markdown: bool, level: int | None = None
    ) -> tuple[int, tuple[str, ...]]:
        """Take the next heading; return its level, where it is not given, and its path, outermost first and itself last."""
        level = level or heading_level(document, paragraph, markdown=markdown)
        while self._above and self._above[-1][0] >= level:
            self._above.pop()
        self._above.append((level, plain_heading(heading)))
        return level, tuple(name for _, name in self._above if name)

    def path(self, document: CanonicalText, paragraph: int, heading: str, meta: DocumentMeta) -> tuple[str, ...]:
        """Return the path of the section that starts at a paragraph; of one without a heading there is none."""
        if not heading:
            return ()
        return self.enter(document, paragraph, heading, markdown=meta.markup == "markdown")[1]
