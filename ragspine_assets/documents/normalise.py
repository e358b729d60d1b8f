"""The one normaliser and the one rule for paragraphs (SPEC 1.5).

Three texts follow from one another: the *normalised text* (newlines unified, control characters gone, otherwise as it
was), its *paragraphs* (lines, stripped, not empty) and the *canonical text* (paragraphs joined by a newline). Every
offset in the project counts code points of the canonical text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate, compress
from operator import add

ZERO_WIDTH = "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
_WHITE_SPACE = (
    "\t\n\x0b\x0c\r \x1c\x1d\x1e\x1f\x85\xa0\u1680"
    + "".join(map(chr, range(0x2000, 0x200B)))
    + ("\u2028\u2029\u202f\u205f\u3000")
)

BLANK = _WHITE_SPACE + ZERO_WIDTH
"""Characters that count as blank: Unicode white space and zero-width characters."""

_REMOVED = "".join(map(chr, (*range(9), *range(0x0E, 0x20), 0xFEFF)))
_REMOVED_RUNS = re.compile(f"[{re.escape(_REMOVED)}]+")
_NEWLINES = ("\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")
_SURROGATES = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


_LINES_AT_ONCE = 1 << 16
"""About how many code points of a text are split into lines at once."""


def _join_pair(pair: re.Match[str]) -> str:
    high, low = pair.group()
    return chr(0x10000 + ((ord(high) - 0xD800) << 10) + (ord(low) - 0xDC00))


def _is_encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _stripped_lines(text: str) -> list[str]:
    # Without zero-width characters, what `str.strip` takes off is what counts as blank here.
    if any(map(text.__contains__, ZERO_WIDTH)):
        return [line.strip(BLANK) for line in text.split("\n")]
    return list(map(str.strip, text.split("\n")))


def normalise_text(text: str) -> str:
    r"""Return ``text`` with unified newlines and without control characters; nothing else is changed.

    CRLF, CR, VT, FF, NEL, U+2028 and U+2029 become ``\n``; BOM and C0 controls except tab go; surrogate pairs are
    joined and lone surrogates become U+FFFD. Idempotent. Used for files and for text handed to the API alike
    (SPEC 1.5).
    """
    # Asking for one character after the other is a memory scan each, ten times faster than one character class.
    if any(map(text.__contains__, _REMOVED)):
        text = _REMOVED_RUNS.sub("", text)
    for newline in _NEWLINES:
        text = text.replace(newline, "\n")
    if not _is_encodable(text):
        text = _SURROGATES.sub("\ufffd", _SURROGATE_PAIR.sub(_join_pair, text))
    return text


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text: its lines, stripped of blank characters, that are not empty (SPEC 1.5).

    The text is normalised first, so that any spelling of a line end gives the same paragraphs. Paragraph ``n`` of a
    locator is element ``n - 1``.
    """
    return list(filter(None, _stripped_lines(normalise_text(text))))


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
    return canonical_of_normalised(normalise_text(text))


def canonical_of_normalised(normalised: str) -> CanonicalText:
    """Return the canonical form of what `normalise_text` returned."""
    parts: list[str] = []
    lengths: list[int] = []
    numbers: list[int] = []
    line = position = 0
    # Some lines at a time, so that a large text is not also held as a string per line, all over the memory.
    while position <= len(normalised):
        end = normalised.find("\n", position + _LINES_AT_ONCE)
        end = len(normalised) if end < 0 else end
        stripped = _stripped_lines(normalised[position:end])
        texts = list(filter(None, stripped))
        if texts:
            parts.append("\n".join(texts))
            lengths.extend(map(len, texts))
            numbers.extend(compress(range(line, line + len(stripped)), stripped))
        line += len(stripped)
        position = end + 1
    count = len(lengths)
    sums = list(accumulate(lengths, initial=0))
    return CanonicalText(
        text="\n".join(parts),
        starts=list(map(add, sums[:-1], range(count))),
        ends=list(map(add, sums[1:], range(count))),
        lines=numbers,
    )
