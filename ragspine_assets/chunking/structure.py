"""Chunks that read well: whole sections, whole sentences, table rows that know their header (SPEC 2.10).

A text is cut where its structure allows, and only where it is longer than a chunk: first between sections, then between
blocks, then at the end of a sentence, which may lie in the middle of a line. The work is proportional to the text: what
lies before a possible end of a chunk is looked at once, from the end backwards.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

from ragspine_assets.chunking.chunk import DocumentMeta
from ragspine_assets.chunking.headings import HeadingOutline, is_contents_line
from ragspine_assets.chunking.layout import LayoutAwareChunker
from ragspine_assets.chunking.sentence_window import sentence_ends
from ragspine_assets.chunking.spans import Cuts, SourceText
from ragspine_assets.documents.normalise import CanonicalText
from ragspine_assets.errors import is_cancel

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TAIL_SHARE = 5
"""What is left of a section at its end has at least this part of a chunk, where sizes allow."""
_SHORTEST_SHARE = 0.4
_BLOCK_SHARE = 0.5
_LIST_ITEM = re.compile(r"(?:[-*+•‣▪◦·–—]|[0-9０-９]{1,3}[.)、．]|[(（][0-9０-９a-zA-Z]{1,3}[)）]|[a-zA-Z][.)])[^\S\n]")
_DELIMITER_ROW = re.compile(r"\|?[^\S\n]*:?-+:?[^\S\n]*(?:\|[^\S\n]*:?-+:?[^\S\n]*)*\|?(?=\n|\Z)")
_ROW_SIGNS = frozenset("=-~^\"'`#*+._")
_SIGN_ROW = re.compile(r"([=\-~^\"'`#*+._])\1{2,}[^\S\n]*\Z")
_WORD = re.compile(r"[^\W_]")
_LONGEST_TITLE = 120
_UNDERLINE_SHARE = 0.6
_CLAUSE = re.compile(r"[,;:、，；：)）\]」』](?=\s)|[、，；：」』]|[–—](?=\s)")
_SPACE = re.compile(r"\s+")
_WIDTH_LINES = 24
_LONG_ENOUGH_TO_WRAP = 40
_LONG_WORD = 12
_FULL_SHARE = 0.85


class _Section(NamedTuple):
    first: int
    stop: int
    level: int
    heading: str
    path: tuple[str, ...]
    titled: bool
    underlined: bool

    @property
    def is_bare(self) -> bool:
        """Whether it is a heading and nothing else."""
        return self.titled and self.stop - self.first == 1 + self.underlined

    @property
    def heading_lines(self) -> tuple[int, ...]:
        """The paragraphs of its heading."""
        return tuple(range(self.first, self.first + 1 + self.underlined)) if self.titled else ()


class _Table(NamedTuple):
    header: int
    first_row: int
    stop: int


@dataclass(frozen=True, slots=True)
class StructureChunker(LayoutAwareChunker):
    """The recommended chunker for documents of all kinds (SPEC 2.10).

    Small neighbouring sections of one parent lie together in a chunk, a heading lies with what it is about, a longer
    section is cut between blocks, sentences or rows. Neighbouring chunks share no text: what surrounds a chunk can be
    read from its document. A chunk that begins in the middle of a table shows the table's header row in its window.

    Attributes:
        max_tokens: longest chunk in tokens, besides ``max_chars``; 0 for no such limit.
        tokenizer: file of a tokenizer (``tokenizer.json``) or the name of one, as the library ``tokenizers`` knows it;
            needed where ``max_tokens`` is given.
    """

    max_tokens: int = 0
    tokenizer: str = ""

    def __post_init__(self) -> None:
        """Refuse a size that could hold nothing, and one without its tokenizer."""
        if self.max_tokens < 0:
            message = f"max_tokens must be at least 0, not {self.max_tokens}"
            raise ValueError(message)
        if bool(self.max_tokens) != bool(self.tokenizer):
            message = "max_tokens and tokenizer go together: name both or neither"
            raise ValueError(message)
        if self.tokenizer:
            _tokenizer(self.tokenizer)

    def cuts(self, source: SourceText, meta: DocumentMeta, max_chars: int, overlap_chars: int) -> Cuts:
        """Return where to cut, see `CutChunker.cuts`; nothing is repeated, so that the overlap is not used."""
        del overlap_chars
        cuts = Cuts()
        if not source.canonical.starts:
            return cuts
        text = _Text(source, meta.markup == "markdown")
        sizes = _Sizes(text.document.text, max_chars, self.max_tokens, self.tokenizer)
        sections = self._outlined(source, meta)
        for number, group in enumerate(_groups(sections, text.document, sizes)):
            headings = {line for section in group for line in section.heading_lines}
            spans = _cut(text, group[0].first, group[-1].stop, headings, sizes)
            _add(cuts, text, group, number, spans)
        return cuts

    def _outlined(self, source: SourceText, meta: DocumentMeta) -> list[_Section]:
        outline = HeadingOutline()
        sections: list[_Section] = []
        markdown = meta.markup == "markdown"
        headings = self._headings(source, meta)
        titled = set(headings)
        document = source.canonical
        underlined = {} if markdown else _underlined(document)
        for first, stop, heading in self._sections_at(document, headings):
            is_titled = first in titled
            level, path = 0, ()
            if is_titled:
                level, path = outline.enter(document, first, heading, markdown=markdown, level=underlined.get(first))
            sections.append(_Section(first, stop, level, heading, path, is_titled, first in underlined))
        return sections

    def _headings(self, source: SourceText, meta: DocumentMeta) -> list[int]:
        # A dataclass with slots is made twice, so that `super()` without arguments would name the first of them.
        found = super(StructureChunker, self)._headings(source, meta)
        if meta.markup == "markdown":
            return found
        underlined = _underlined(source.canonical)
        lines = {line for title in underlined for line in (title - 1, title, title + 1)}
        found = [paragraph for paragraph in found if paragraph not in lines]
        return sorted((*_plausible(_Text(source, markdown=False), found), *underlined))


def _underlined(document: CanonicalText) -> dict[int, int]:
    """Return the titles of plain text that a row of one sign underlines, as reStructuredText has it, each with its level.

    The sign that comes first stands for the outermost level, and so on; one with a row above it, too, counts as another.
    """
    text, starts, ends, lines = document.text, document.starts, document.ends, document.lines
    levels: dict[tuple[str, bool], int] = {}
    found: dict[int, int] = {}
    for row in range(1, len(starts)):
        if text[starts[row]] not in _ROW_SIGNS or _SIGN_ROW.match(text, starts[row], ends[row]) is None:
            continue
        title = row - 1
        length = ends[title] - starts[title]
        next_to_it = lines[row] == lines[title] + 1
        if not next_to_it or not length <= _LONGEST_TITLE or ends[row] - starts[row] < _UNDERLINE_SHARE * length:
            continue
        if _SIGN_ROW.match(text, starts[title], ends[title]):
            continue
        apart = title == 0 or lines[title] > lines[title - 1] + 1
        above = not apart and _SIGN_ROW.match(text, starts[title - 1], ends[title - 1]) is not None
        if apart or above:
            found[title] = levels.setdefault((text[starts[row]], above), len(levels) + 1)
    return found


def _plausible(layout: _Text, found: Sequence[int]) -> list[int]:
    """Leave out lines of plain text that are no headings: what goes on with the line before, and lists of short lines."""
    document = layout.document
    lines, starts, ends, text = document.lines, document.starts, document.ends, document.text
    candidates = set(found)
    numbered = LayoutAwareChunker.numbered.match
    kept: list[int] = []
    for paragraph in found:
        if _WORD.search(text, starts[paragraph], ends[paragraph]) is None:
            continue
        after_one, before_one = paragraph - 1 in candidates, paragraph + 1 in candidates
        stands_apart = after_one or paragraph == 0 or lines[paragraph] - lines[paragraph - 1] > 1
        if numbered(text, starts[paragraph]) is None:
            if not stands_apart or (after_one and before_one):
                continue
        elif not stands_apart and not layout.is_short(paragraph - 1):
            continue
        if paragraph + 1 < len(starts) and not is_contents_line(text, starts[paragraph], ends[paragraph]):
            kept.append(paragraph)
    return kept


class _Sizes:
    """How far a chunk may reach, in code points and tokens."""

    def __init__(self, text: str, max_chars: int, max_tokens: int, tokenizer: str) -> None:
        self._text = text
        self.max_chars = max_chars
        self._max_tokens = max_tokens
        self._count: Callable[[str], list[tuple[int, int]]] | None = None
        self._starts: list[int] = []
        if max_tokens:
            found = _tokenizer(tokenizer)
            self._count = lambda piece: found.encode(piece, add_special_tokens=False).offsets
            self._starts = [start for start, _ in self._count(text)]

    def limit(self, start: int) -> int:
        """Return the offset that no chunk from ``start`` may pass."""
        limit = start + self.max_chars
        if self._count is not None:
            behind = bisect_left(self._starts, start) + self._max_tokens
            limit = min(limit, self._starts[behind]) if behind < len(self._starts) else limit
            limit = max(limit, start + 1)
            # A piece by itself may have more tokens than where it stands: its first word begins without a space.
            while limit > start + 1 and (offsets := self._count(self._text[start:limit])):
                if len(offsets) <= self._max_tokens:
                    break
                limit = start + max(min(offsets[self._max_tokens][0], limit - start - 1), 1)
        return limit

    def fits(self, start: int, end: int) -> bool:
        """Tell whether one chunk can hold a stretch."""
        return end - start <= self.max_chars and (self._count is None or end <= self.limit(start))


def _groups(sections: Sequence[_Section], document: CanonicalText, sizes: _Sizes) -> list[list[_Section]]:
    """Put small neighbouring sections of one parent together, and a heading without a text with what follows it."""
    groups: list[list[_Section]] = []
    starts, ends = document.starts, document.ends
    bare = False
    for section in sections:
        if groups:
            group = groups[-1]
            below = section.level >= group[0].level
            fits = sizes.fits(starts[group[0].first], ends[section.stop - 1])
            tiny = ends[group[-1].stop - 1] - starts[group[0].first] < sizes.max_chars // (2 * _TAIL_SHARE)
            if (fits and (below or tiny)) or (bare and below):
                group.append(section)
                bare = bare and section.is_bare
                continue
        titles: list[_Section] = []
        # A heading that has nothing but this section under it goes with it.
        while groups and len(groups[-1]) > 1 and groups[-1][-1].is_bare and groups[-1][-1].level < section.level:
            titles.insert(0, groups[-1].pop())
        groups.append([*titles, section])
        bare = section.is_bare
    last = groups[-1]
    if len(groups) > 1 and bare and sizes.fits(starts[groups[-2][0].first], ends[last[-1].stop - 1]):
        groups[-2].extend(groups.pop())
    return groups


class _Text:
    """A document as the cutter sees it."""

    def __init__(self, source: SourceText, markdown: bool) -> None:
        self.document = source.canonical
        self._widths: dict[int, int] = {}
        self._markdown = markdown and "|" in source.canonical.text

    @cached_property
    def tables(self) -> list[_Table]:
        """Tables, in order."""
        document = self.document
        text, starts, lines = document.text, document.starts, document.lines
        tables: list[_Table] = []
        if not self._markdown:
            return tables
        position = text.find("|-")
        position = min((found for found in (position, text.find("| -"), text.find("-|"), text.find("|:"), text.find("| :"))
                        if found >= 0), default=-1)  # fmt: skip
        if position < 0:
            return tables
        paragraph = max(bisect_right(starts, position) - 1, 1)
        while paragraph < len(starts):
            if self._is_delimiter(paragraph):
                stop = paragraph + 1
                while stop < len(starts) and lines[stop] == lines[stop - 1] + 1 and "|" in self.line(stop):
                    stop += 1
                tables.append(_Table(paragraph - 1, paragraph + 1, stop))
                paragraph = stop
            paragraph += 1
        return tables

    @cached_property
    def _table_starts(self) -> list[int]:
        return [table.header for table in self.tables]

    def line(self, paragraph: int) -> str:
        return self.document.text[self.document.starts[paragraph] : self.document.ends[paragraph]]

    def _is_delimiter(self, paragraph: int) -> bool:
        document = self.document
        start = document.starts[paragraph]
        if document.text[start] not in "|:-" or document.lines[paragraph] != document.lines[paragraph - 1] + 1:
            return False
        return (
            _DELIMITER_ROW.match(document.text, start) is not None
            and "|" in self.line(paragraph)
            and "|" in self.line(paragraph - 1)
        )

    def _width(self, number: int) -> int:
        """Return the length of the longest of the lines around some lines, which tells where the page is full."""
        width = self._widths.get(number)
        if width is None:
            near = slice(max(number - 1, 0) * _WIDTH_LINES, (number + 2) * _WIDTH_LINES)
            width = self._widths[number] = max(map(sub, self.document.ends[near], self.document.starts[near]))
        return width

    def table_at(self, paragraph: int) -> _Table | None:
        """Return the table a paragraph is a row of."""
        if not self.tables:
            return None
        number = bisect_right(self._table_starts, paragraph) - 1
        return self.tables[number] if number >= 0 and paragraph < self.tables[number].stop else None

    def ends_block(self, paragraph: int, stop: int) -> bool:
        """Tell whether a block ends behind a paragraph: an empty line, a list item, a table."""
        following = paragraph + 1
        if following >= stop:
            return True
        document = self.document
        if document.lines[following] > document.lines[paragraph] + 1:
            return True
        item = _LIST_ITEM.match(document.text, document.starts[following])
        # A number may have come to the beginning of a line only because the line before it was full.
        return item is not None and (not item[0][0].isdigit() or self.is_short(paragraph))

    def ends_line(self, paragraph: int, stop: int) -> bool:
        """Tell whether the line after a paragraph was broken by who wrote it, and not where the page was full."""
        following = paragraph + 1
        if following >= stop:
            return True
        table = self.table_at(paragraph)
        if table is not None:
            # Between header and rows nothing is cut.
            return paragraph >= table.first_row
        return not self.document.text[self.document.starts[following]].islower() and self.is_short(paragraph)

    def is_short(self, paragraph: int) -> bool:
        """Tell whether the first word of the next line would have found room on a line."""
        text, starts, ends = self.document.text, self.document.starts, self.document.ends
        start, end = starts[paragraph + 1], ends[paragraph + 1]
        width = self._width(paragraph // _WIDTH_LINES)
        word = _SPACE.search(text, start, min(end, start + _LONG_WORD))
        first_word = (word.start() if word else min(end, start + _LONG_WORD)) - start
        length = ends[paragraph] - starts[paragraph]
        return width < _LONG_ENOUGH_TO_WRAP or length + 1 + first_word < width * _FULL_SHARE


def _cut(text: _Text, first: int, stop: int, headings: set[int], sizes: _Sizes) -> list[tuple[int, int]]:
    """Return the chunks of the paragraphs from ``first`` up to ``stop``, as offsets."""
    document = text.document
    end = document.ends[stop - 1]
    start = document.starts[first]
    spans: list[tuple[int, int]] = []
    while start < end:
        if sizes.fits(start, end):
            spans.append((start, end))
            break
        limit = min(sizes.limit(start), end)
        tail = max((limit - start) // _TAIL_SHARE, 1)
        if end - limit < tail:
            limit = max(end - tail, start + 1)
        last = _end_of_chunk(text, start, limit, stop, headings)
        spans.append((start, last))
        start = last
        # Between two chunks lies nothing but what no chunk needs.
        while start < end and document.text[start].isspace():
            start += 1
    return spans


def _end_of_chunk(text: _Text, start: int, limit: int, stop: int, headings: set[int]) -> int:
    """Return where a chunk that begins at ``start`` ends best, at most at ``limit``."""
    document = text.document
    starts, ends = document.starts, document.ends
    first = bisect_right(starts, start) - 1
    last = bisect_right(ends, limit, first, stop) - 1
    shortest = start + max(int((limit - start) * _SHORTEST_SHARE), 1)
    block_from = start + max(int((limit - start) * _BLOCK_SHARE), 1)
    line_end = any_line = 0
    paragraph = last
    while paragraph >= first and ends[paragraph] > start:
        end = ends[paragraph]
        if paragraph not in headings:
            any_line = any_line or end
            if end >= block_from and text.ends_block(paragraph, stop):
                return end
            if not line_end and end >= shortest and text.ends_line(paragraph, stop):
                line_end = end
                if text.table_at(paragraph) is not None:
                    return end
        if end < shortest:
            break
        paragraph -= 1
    sentence = _last_sentence_end(document.text, start, shortest, limit, headings, starts)
    if sentence:
        return sentence
    if line_end:
        return line_end
    earlier = _last_sentence_end(document.text, start, start + max((limit - start) // 8, 1), shortest, headings, starts)
    if earlier:
        return earlier
    return (
        _last(_CLAUSE, document.text, shortest, limit)
        or _last_space(document.text, shortest, limit)
        or (any_line if any_line > start else 0)
        or _last_space(document.text, start + 1, shortest)
        or limit
    )


def _last_sentence_end(
    text: str, start: int, shortest: int, limit: int, headings: set[int], starts: Sequence[int]
) -> int:
    """Return the last end of a sentence from ``shortest`` to ``limit``, 0 if there is none."""
    for end in reversed(sentence_ends(text, max(start, shortest - 2), limit)):
        if end < shortest:
            break
        if not headings or bisect_right(starts, end - 1) - 1 not in headings:
            return end
    return 0


def _last(pattern: re.Pattern[str], text: str, start: int, limit: int) -> int:
    end = 0
    for match in pattern.finditer(text, start, limit):
        end = match.end()
    return end


def _last_space(text: str, start: int, limit: int) -> int:
    # The chunk ends before the space, unless it is full there.
    for position in range(limit if limit < len(text) else len(text) - 1, start - 1, -1):
        if text[position].isspace():
            return position
    return 0


def _add(cuts: Cuts, text: _Text, group: Sequence[_Section], number: int, spans: Sequence[tuple[int, int]]) -> None:
    document = text.document
    starts = document.starts
    firsts = [section.first for section in group]
    for start, end in spans:
        first = bisect_right(starts, start) - 1
        last = bisect_right(starts, end - 1) - 1
        cuts.starts.append(start)
        cuts.ends.append(end)
        cuts.para_starts.append(first + 1)
        cuts.para_ends.append(last + 1)
        cuts.sections.append(number)
        held = group[bisect_right(firsts, first) - 1 : bisect_right(firsts, last)]
        # A heading without a text of its own says nothing about what the chunk is about.
        held = [section for section in held if not section.is_bare] or held[-1:]
        cuts.headings.append(held[0].heading)
        cuts.heading_paths.append(_common_path(held))
        table = text.table_at(first)
        if table is not None and first >= table.first_row and start == starts[first]:
            cuts.windows.append(len(cuts.window_starts))
            cuts.window_starts.append(start)
            cuts.window_ends.append(end)
            cuts.window_head_starts.append(starts[table.header])
            cuts.window_head_ends.append(document.ends[table.first_row - 1])
            cuts.window_para_starts.append(table.header + 1)
            cuts.window_para_ends.append(last + 1)
        else:
            cuts.windows.append(-1)


def _common_path(sections: Sequence[_Section]) -> tuple[str, ...]:
    """Return the headings that all of some sections stand under."""
    path = sections[0].path
    for section in sections[1:]:
        same = sum(1 for _ in _while_equal(path, section.path))
        path = path[:same]
    return path


def _while_equal(one: Sequence[str], other: Sequence[str]) -> list[str]:
    equal: list[str] = []
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        equal.append(left)
    return equal


def _tokenizer(name: str) -> Tokenizer:
    """Load a tokenizer from a file or by name.

    Raises:
        ValueError: the library is missing, or there is no such tokenizer.
    """
    try:
        return _loaded(name)
    except ImportError:
        message = "max_tokens needs the library tokenizers: install the extra [tokens]"
    except BaseException as error:
        if is_cancel(error):
            raise
        # The library raises plain exceptions, for a file and for a hub that cannot be reached; it is native, and panics.
        message = f"there is no tokenizer {name!r}: name the file tokenizer.json of one"
    raise ValueError(message)


@cache
def _loaded(name: str) -> Tokenizer:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(name) if os.path.isfile(name) else Tokenizer.from_pretrained(name)
