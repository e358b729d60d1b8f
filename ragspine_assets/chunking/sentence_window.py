"""One sentence per chunk, with its neighbours as the window (SPEC 2.7)."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from ragspine_assets.chunking.chunk import DocumentMeta
from ragspine_assets.chunking.default import paragraph_pieces
from ragspine_assets.chunking.spans import CutChunker, Cuts, SourceText
from ragspine_assets.documents.normalise import BLANK, CanonicalText

DEFAULT_WINDOW_SIZE = 3
"""Sentences before and after that a window shows by default."""

_LATIN = "A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0370-\u03ff\u0400-\u052f\u1e00-\u1fff"
_ENDERS = "。！？；!?;؟۔।॥។။።"
_CLOSERS = "\"'”’»›」』】〉》〕）)］\\]｝}"
# A full stop ends no sentence behind a single letter (J. Smith, e.g.) nor where a word, a number or a clause goes on
# at once (3.14, v1.2, example.org, etc., and so on). What was read is judged looking back, since a pattern that
# begins with a set of characters is searched for ten times faster than one that begins with a condition.
_NOT_A_FULL_STOP = r"(?<!\.)"
_FULL_STOP = rf"(?<!\.\.)(?<!\b[{_LATIN}]\.)\.*+(?![{_LATIN}0-9_,:/\\@&=%$-])"
_SENTENCE_END = re.compile(
    rf"[\n.{_ENDERS}](?:(?<=\n)|((?:{_NOT_A_FULL_STOP}|{_FULL_STOP})"
    rf"[.{_ENDERS}]*+(?:[{_CLOSERS}]++[.{_ENDERS}]*+)*+)[{re.escape(BLANK)}]*+)"
)
# A line may end in the middle of a sentence here; white space behind the sentence is no part of it.
_SENTENCE_END_ACROSS_LINES = re.compile(
    rf"[.{_ENDERS}](?:(?:{_NOT_A_FULL_STOP}|{_FULL_STOP})[.{_ENDERS}]*+(?:[{_CLOSERS}]++[.{_ENDERS}]*+)*+)"
)
_ENUMERATOR_CHARS = 4
# Behind the end of a sentence so many code points may decide whether it is one.
_BEHIND_AN_END = 64


@dataclass(frozen=True, slots=True)
class SentenceWindowChunker(CutChunker):
    """Makes each sentence a chunk whose window shows the sentences around it (SPEC 2.7).

    A sentence longer than ``max_chars`` is cut as `chunk_document` cuts it, and its pieces count as sentences.

    Attributes:
        window_size: how many sentences a window has before and after its own; 0 shows the sentence alone.
    """

    window_size: int = DEFAULT_WINDOW_SIZE

    def __post_init__(self) -> None:
        """Refuse a negative size."""
        if self.window_size < 0:
            message = f"window_size must be at least 0, not {self.window_size}"
            raise ValueError(message)

    def cuts(self, source: SourceText, meta: DocumentMeta, max_chars: int, overlap_chars: int) -> Cuts:
        """Return where to cut, see `CutChunker.cuts`."""
        del meta, overlap_chars
        document = source.canonical
        starts, ends, paragraphs = _sentences(document, max_chars)
        count = len(starts)
        size = min(self.window_size, count)
        return Cuts(
            starts,
            ends,
            paragraphs,
            paragraphs,
            windows=list(range(count)),
            window_starts=starts[:1] * size + starts[: count - size],
            window_ends=ends[size:] + ends[-1:] * size,
            window_para_starts=paragraphs[:1] * size + paragraphs[: count - size],
            window_para_ends=paragraphs[size:] + paragraphs[-1:] * size,
        )


def _sentences(document: CanonicalText, max_chars: int) -> tuple[list[int], list[int], list[int]]:
    """Return start, end and paragraph (from 1) of every sentence, longer ones in pieces."""
    text = document.text
    starts: list[int] = []
    ends: list[int] = []
    paragraphs: list[int] = []
    paragraph = 1
    paragraph_end = document.ends[0] if document.ends else 0
    start = 0
    quotes = _QuoteCount(document)

    def add(end: int) -> None:
        nonlocal paragraph, paragraph_end
        while start >= paragraph_end:
            paragraph_end = document.ends[paragraph]
            paragraph += 1
        if end - start <= max_chars:
            starts.append(start)
            ends.append(end)
            paragraphs.append(paragraph)
            return
        pieces = paragraph_pieces(text, start, end, max_chars)
        starts.extend((start, *pieces[:-1]))
        ends.extend(pieces)
        paragraphs.extend([paragraph] * len(pieces))

    for match in _SENTENCE_END.finditer(text):
        end = match.end(1)
        following = match.end()
        if end < 0:
            end = match.start()
        elif end - start <= _ENUMERATOR_CHARS and following > end and _is_enumerator(text, start, end, following):
            continue
        elif '"' in match[1]:
            quote = match.start(1) + match[1].index('"')
            # A quote that is the last of its paragraph opens nothing, whatever stands before it.
            ends_paragraph = match.end() == len(text) or "\n" in text[quote : match.end()]
            if not ends_paragraph and quotes.opens(quote):
                end = following = quote
        if start < end:
            add(end)
        start = following
    if start < len(text):
        add(len(text))
    return starts, ends, paragraphs


def sentence_ends(text: str, start: int, limit: int) -> list[int]:
    """Return the offsets behind the sentences that end from ``start`` to ``limit``, lines being no ends (SPEC 2.7, 2.10)."""
    found: list[int] = []
    for match in _SENTENCE_END_ACROSS_LINES.finditer(text, start, limit + _BEHIND_AN_END):
        end = match.end()
        if end > limit:
            break
        line = text.rfind("\n", max(end - _ENUMERATOR_CHARS - 1, 0), match.start()) + 1
        begins_near = line > 0 or match.start() <= _ENUMERATOR_CHARS
        # "1." at the beginning of a line numbers what follows.
        if not (begins_near and text[end - 1] == "." and text[line : end - 1].isdecimal()):
            found.append(end)
    return found


def _is_enumerator(text: str, start: int, end: int, following: int) -> bool:
    """Tell whether a paragraph begins with this number and goes on: "1. First" is one sentence."""
    begins = start == 0 or text[start - 1] == "\n"
    return begins and text[end - 1] == "." and text[start : end - 1].isdecimal() and "\n" not in text[end:following]


class _QuoteCount:
    """Counts the straight quotes of a paragraph as far as asked, reading nothing twice."""

    def __init__(self, document: CanonicalText) -> None:
        self._document = document
        self._position = 0
        self._count = 0

    def opens(self, position: int) -> bool:
        """Tell whether the straight quote at ``position`` opens a quotation: an even number stand before it."""
        starts = self._document.starts
        paragraph_start = starts[bisect_right(starts, position) - 1]
        if self._position < paragraph_start:
            self._position, self._count = paragraph_start, 0
        self._count += self._document.text.count('"', self._position, position)
        self._position = position
        return self._count % 2 == 0
