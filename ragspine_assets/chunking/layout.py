"""Sections: a heading starts one, and no chunk crosses into the next (SPEC 2.5).

In Markdown a heading is what CommonMark calls one; in plain text it is what looks like one. The presets for laws,
questions and books look for marks of their own.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import ClassVar

from ragspine_assets.chunking.chunk import DocumentMeta
from ragspine_assets.chunking.default import gather_paragraphs
from ragspine_assets.chunking.headings import HeadingOutline, is_contents_line
from ragspine_assets.chunking.markdown import headings_and_opaque_lines, line_is_in, markdown_headings
from ragspine_assets.chunking.spans import CutChunker, Cuts, SourceText, shortened_heading
from ragspine_assets.documents.normalise import CanonicalText

# The patterns are tried at the start of each paragraph of the canonical text.
_BLANKS = r"[^\S\n]*"
_HAN = "〇零一二三四五六七八九十百千万萬两兩"
_ORDINAL = rf"第{_BLANKS}(?:[0-9０-９]+|[{_HAN}]+){_BLANKS}"
_ROMAN = "(?=[IVXLCDM])M*(?:CM|CD|D?C*)(?:XC|XL|L?X*)(?:IX|IV|V?I*)"
_ATX = rf"\#{{1,6}}(?:[^\S\n]{_BLANKS}\S|(?=\n|\Z))"
_CHAPTER = rf"{_ORDINAL}[章节節篇部回讲講]"
# Behind a full stop a digit or a Latin letter goes on with the same number or name: 3.14, 1.a, I.e.
_NUMBERED = (
    rf"(?:[0-9０-９]+(?:[.．][0-9０-９]+)*|[{_HAN}]+|{_ROMAN}|{_ROMAN.lower()})"
    rf"(?:[.．](?![0-9A-Za-z０-９])|[、)）])(?={_BLANKS}\S)"
)
# "1.2 Introduction": without a mark behind the number only where the line is short, begins like a name and ends without
# a full stop, since "3.5 million" begins a line of prose.
_SECTION_NUMBER = (
    r"[0-9０-９]{1,3}(?:[.．][0-9０-９]{1,3})+[^\S\n]+(?![^\W\d_A-Z\u00c0-\uffff])(?=[^\W\d_])"
    r"[^\n。！？；.!?;,，、]{1,60}(?=\n|\Z)"
)
_SHORT_LINE = r"[^\n。！？；…，、：.!?;,:]{1,30}(?=\n|\Z)"
_CLAUSE = (
    rf"{_ORDINAL}[条條款项項]"
    rf"|(?i:Article|Art\.|Articolo){_BLANKS}[0-9]"
    rf"|(?i:Article|Articolo){_BLANKS}{_ROMAN}\b"
    rf"|§{{1,2}}{_BLANKS}[0-9]"
)
_CHAPTER_IN_WORDS = rf"(?i:Chapter|Capitolo){_BLANKS}(?:[0-9]+|{_ROMAN})\b"
_QUESTION = (
    rf"(?:[Qq][0-9]*|[问問][0-9０-９{_HAN}]*){_BLANKS}[:：、.)）]"
    r"|[^\n]*[?？؟][\"'”’」』)）*]*(?=\n|\Z)"
)
_PAGE_NUMBER = re.compile(r"[.·…\s]*[0-9]{0,4}\s*\Z")
# In a Markdown text a mark may stand in a heading or be emphasised.
_ADORNED = rf"(?:\#{{1,6}}[^\S\n]{_BLANKS})?[*_]{{0,3}}"


@dataclass(frozen=True, slots=True)
class LayoutAwareChunker(CutChunker):
    """Cuts at headings first, then each section by the built-in rule (SPEC 2.5)."""

    marks: ClassVar[re.Pattern[str]] = re.compile(f"{_ATX}|{_CHAPTER}|{_NUMBERED}|{_SECTION_NUMBER}|{_SHORT_LINE}")
    """What a heading looks like in plain text."""
    numbered: ClassVar[re.Pattern[str]] = re.compile(f"{_ATX}|{_CHAPTER}|{_NUMBERED}|{_SECTION_NUMBER}")
    """The same, without the lines that are only short."""
    marks_in_markdown: ClassVar[re.Pattern[str] | None] = None
    """What starts a section in Markdown text too, outside of code, comments and HTML."""
    markdown_headings: ClassVar[bool] = True
    """Whether a CommonMark heading starts a section."""

    def cuts(self, source: SourceText, meta: DocumentMeta, max_chars: int, overlap_chars: int) -> Cuts:
        """Return where to cut, see `CutChunker.cuts`."""
        cuts = Cuts()
        document, outline = source.canonical, HeadingOutline()
        for number, (first, stop, heading) in enumerate(self.sections(source, meta)):
            gather_paragraphs(document, first, stop, max_chars, overlap_chars, cuts)
            added = len(cuts.starts) - len(cuts.sections)
            cuts.sections.extend([number] * added)
            cuts.headings.extend([heading] * added)
            cuts.heading_paths.extend([outline.path(document, first, heading, meta)] * added)
        return cuts

    def sections(self, source: SourceText, meta: DocumentMeta) -> list[tuple[int, int, str]]:
        """Return the sections as ``(first paragraph, paragraph behind the last, heading)``, indices from 0.

        Long headings are shortened, see `shortened_heading`.
        """
        return self._sections_at(source.canonical, self._headings(source, meta))

    def _sections_at(self, document: CanonicalText, headings: list[int]) -> list[tuple[int, int, str]]:
        begins = headings if headings[:1] == [0] else [0, *headings]
        behind = [*begins[1:], len(document.starts)]
        titled = set(headings)
        return [
            (first, last, _heading(document, first) if first in titled else "")
            for first, last in zip(begins, behind, strict=True)
            if first < last
        ]

    def _headings(self, source: SourceText, meta: DocumentMeta) -> list[int]:
        document = source.canonical
        if meta.markup != "markdown":
            return _marked(document, self.marks)
        marked = _marked(document, self.marks_in_markdown) if self.marks_in_markdown else []
        if marked:
            lines, opaque = headings_and_opaque_lines(source.normalised)
            marked = [i for i in marked if not line_is_in(opaque, document.lines[i])]
        else:
            lines = markdown_headings(source.normalised) if self.markdown_headings else []
        found = set(marked)
        if self.markdown_headings:
            # A heading may begin on a line that is blank here but not in Markdown: one of zero-width characters.
            found.update(bisect_left(document.lines, line) for line in lines)
            found.discard(len(document.lines))
        return sorted(found)


@dataclass(frozen=True, slots=True)
class LawsChunker(LayoutAwareChunker):
    """Sections are articles and clauses, and the chapters and headings above them (SPEC 2.5)."""

    marks_in_markdown: ClassVar[re.Pattern[str] | None] = re.compile(f"{_ADORNED}(?:{_CHAPTER}|{_CLAUSE})")
    marks: ClassVar[re.Pattern[str]] = re.compile(f"{_ADORNED}(?:{_CHAPTER}|{_CLAUSE})|{_ATX}")


@dataclass(frozen=True, slots=True)
class QaChunker(LayoutAwareChunker):
    """Sections are questions, each with its answer (SPEC 2.5)."""

    marks: ClassVar[re.Pattern[str]] = re.compile(f"{_ADORNED}(?:{_QUESTION})")
    marks_in_markdown: ClassVar[re.Pattern[str] | None] = marks
    markdown_headings: ClassVar[bool] = False

    def _headings(self, source: SourceText, meta: DocumentMeta) -> list[int]:
        # A dataclass with slots is made twice, so that `super()` without arguments would name the first of them.
        found = super(QaChunker, self)._headings(source, meta)
        return _without_contents(source.canonical, found)


@dataclass(frozen=True, slots=True)
class BookChunker(LayoutAwareChunker):
    """Sections are chapters: only chapter marks start one (SPEC 2.5)."""

    marks: ClassVar[re.Pattern[str]] = re.compile(f"{_ADORNED}(?:{_CHAPTER}|{_CHAPTER_IN_WORDS})")
    marks_in_markdown: ClassVar[re.Pattern[str] | None] = marks
    markdown_headings: ClassVar[bool] = False


def _without_contents(document: CanonicalText, questions: list[int]) -> list[int]:
    """Leave out questions of a table of contents: those that lead to a page, and runs of those that are asked again."""
    text, starts, ends = document.text, document.starts, document.ends
    listed = [is_contents_line(text, starts[i], ends[i]) for i in questions]
    names = [_PAGE_NUMBER.sub("", text[starts[i] : ends[i]]) for i in questions]
    last = {name: position for position, name in enumerate(names)}
    asked = set(questions)
    return [
        i
        for position, i in enumerate(questions)
        if not listed[position] and not (last[names[position]] > position and (i + 1 in asked or i - 1 in asked))
    ]


def _marked(document: CanonicalText, marks: re.Pattern[str]) -> list[int]:
    match = marks.match
    text = document.text
    return [i for i, start in enumerate(document.starts) if match(text, start)]


def _heading(document: CanonicalText, paragraph: int) -> str:
    return shortened_heading(document.text[document.starts[paragraph] : document.ends[paragraph]])
