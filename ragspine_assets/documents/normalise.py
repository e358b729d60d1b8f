"""The one normaliser and the one rule for paragraphs (SPEC 1.5).

Three texts follow from one another: the *normalised text* (newlines unified, control characters gone, otherwise as it
was), its *paragraphs* (lines, stripped, not empty) and the *canonical text* (paragraphs joined by a newline). Every
offset in the project counts code points of the canonical text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate

_ZERO_WIDTH = "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
_WHITE_SPACE = "\t\n\x0b\x0c\r \x1c\x1d\x1e\x1f\x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + (
    "\u2028\u2029\u202f\u205f\u3000"
)

BLANK = _WHITE_SPACE + _ZERO_WIDTH
"""Characters that count as blank: Unicode white space and zero-width characters."""

_REMOVED = re.compile("[\x00-\x08\x0e-\x1f\ufeff]")
_NEWLINES = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def _join_pair(pair: re.Match[str]) -> str:
    high, low = pair.group()
    return chr(0x10000 + ((ord(high) - 0xD800) << 10) + (ord(low) - 0xDC00))


def normalise_text(text: str) -> str:
    r"""Return ``text`` with unified newlines and without control characters; nothing else is changed.

    CRLF, CR, VT, FF, NEL, U+2028 and U+2029 become ``\n``; BOM and C0 controls except tab go; surrogate pairs are
    joined and lone surrogates become U+FFFD. Idempotent. Used for files and for text handed to the API alike
    (SPEC 1.5).
    """
    if _REMOVED.search(text):
        text = _REMOVED.sub("", text)
    if _NEWLINES.search(text):
        text = _NEWLINES.sub("\n", text)
    if _SURROGATES.search(text):
        text = _SURROGATES.sub("\ufffd", _SURROGATE_PAIR.sub(_join_pair, text))
    return text


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text: its lines, stripped of blank characters, that are not empty (SPEC 1.5).

    The text is normalised first, so that any spelling of a line end gives the same paragraphs. Paragraph ``n`` of a
    locator is element ``n - 1``.
    """
    return [line for raw in normalise_text(text).split("\n") if (line := raw.strip(BLANK))]


@dataclass(frozen=True, slots=True)
class CanonicalText:
    """The paragraphs of one document, joined by newlines, with the offset of each.

    Attributes:
        text: the canonical text.
        starts: offset in ``text`` of the first code point of each paragraph, ascending.
        ends: offset behind the last code point of each paragraph; ``ends[i] + 1 == starts[i + 1]``.
        lines: for each paragraph the 0-based line of the normalised text it came from.
    """

    text: str
    starts: list[int]
    ends: list[int]
    lines: list[int]


def canonical_text(text: str) -> CanonicalText:
    """Return the canonical form of a text, normalising it first (SPEC 1.5)."""
    found = [
        (number, line) for number, raw in enumerate(normalise_text(text).split("\n")) if (line := raw.strip(BLANK))
    ]
    if not found:
        return CanonicalText("", [], [], [])
    lines, texts = (list(column) for column in zip(*found, strict=True))
    starts = list(accumulate((len(line) + 1 for line in texts[:-1]), initial=0))
    ends = [start + len(line) for start, line in zip(starts, texts, strict=True)]
    return CanonicalText("\n".join(texts), starts, ends, lines)
