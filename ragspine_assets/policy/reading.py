"""A text as its reader sees it: Markdown's and the parser's marks taken off, for matching only (SPEC 1.11).

A phrase that is cut by bold, a link, a tag, an escape, a quote mark, a list, a table cell or a line end is the same
phrase to whoever reads it. Marks inside a line may or may not part two words, so there are two readings: with nothing in
their place and with a space. Marks that part blocks (quotes, lists, headings, cells, block tags) are a line end in both.

What is looked for is compared with a squeezed text first, its letters and digits alone: most texts hold none of it and
are done. Everything here is linear in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property
from html import unescape

import ahocorasick_rs
import numpy as np
from numpy.typing import NDArray

from ragspine_assets.policy.folding import fold_text

VERSION = "reading 3"
"""Part of what depends on these rules: raised whenever another text would be read."""

_BLOCK = 1 << 20

# --- squeezed: letters and digits alone ---------------------------------------------------------------------------


class _LettersOnly(dict[int, str | None]):
    """A table for `str.translate` that learns which characters are letters, marks or digits."""

    def __missing__(self, code: int) -> str | None:
        char = chr(code)
        kept = self[code] = char if unicodedata.category(char)[0] in "LMN" else None
        return kept


_LETTERS = _LettersOnly()
_ASCII_NOT_LETTERS = bytes(code for code in range(128) if not chr(code).isalnum())
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
_ASCII_LOWER = bytes(ord(chr(code).lower()) for code in range(128)) + bytes(range(128, 256))


def squeeze(text: str) -> str:
    """Return the folded letters and digits of a text, without anything between them."""
    if text.isascii():
        return text.encode("ascii").translate(_ASCII_LOWER, _ASCII_NOT_LETTERS).decode("ascii")
    utf8 = fold_text(text).encode("utf-8", "surrogatepass").translate(None, _ASCII_NOT_LETTERS)
    # In UTF-8 no other character has a byte in common with ASCII, so most of a European text is done.
    return _NOT_ASCII.sub(lambda run: run.group().translate(_LETTERS), utf8.decode("utf-8", "surrogatepass"))


# --- marks --------------------------------------------------------------------------------------------------------

# Tags that part two words even where no white space stands beside them.
_BLOCK_TAGS = (
    "address|article|aside|blockquote|body|br|button|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|fieldset|"
    "figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hgroup|hr|html|iframe|img|input|legend|li|link|main|"
    "menu|meta|nav|noframes|noscript|object|ol|optgroup|option|p|param|picture|pre|script|search|section|select|source|"
    "style|summary|svg|table|tbody|td|template|textarea|tfoot|th|thead|title|tr|ul|video|audio|canvas|embed|track|area|map"
)
_INLINE_TAGS = (
    "a|abbr|acronym|b|bdi|bdo|big|blink|cite|code|data|datalist|del|dfn|em|font|i|ins|kbd|label|mark|marquee|math|meter|nobr|"
    "output|progress|q|rb|rp|rt|rtc|ruby|s|samp|slot|small|span|strike|strong|sub|sup|time|tt|u|var|wbr"
)
# The rest of a tag: a quote that is not closed soon is a mistake, and nothing reaches over the next bracket.
_REST = r"""(?:[\s/](?:[^<>"']|"[^"<>]{0,2000}"|'[^'<>]{0,2000}'|["'])*+)?>"""
# Each pattern begins with one character that is rare, which is what makes looking for it fast.
_BLOCK_TAG = re.compile(rf"<(?:/?(?:{_BLOCK_TAGS}){_REST}|!--|!\[CDATA\[|[?!][^<>]{{0,2000}}>)", re.IGNORECASE)
_INLINE_TAG = re.compile(rf"</?(?:{_INLINE_TAGS}){_REST}", re.IGNORECASE)
_ENDS = ("--!>", "-->", "]]>")
# Where a link leads is no part of the sentence; it is read by itself in the text as it is.
_TARGET = re.compile(r"\](?:\((?:[^()\n\\]|\\.|\([^()\n]*+\)){0,2000}+\)|\[[^\[\]\n]{0,400}\])")
_FOOTNOTE = re.compile(r"\[\^[^\[\]\n]{1,40}\]")
_RST_ROLE = re.compile(r":[A-Za-z][\w.+-]{0,40}:(?=`)")
_RST_TARGET = re.compile(r"\s?<[^<>`\n]{1,2000}>(?=`)")
_HYPHEN = re.compile("[-\u2010\u00ad]\n[ \t>|]*(?=\\w)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_HARD_BREAK = re.compile(r"\\$", re.MULTILINE)
# What numbers the items of a list: letters and digits between two lines of a phrase.
_NUMBERING = re.compile(r"\n[ \t>|]*+(?:[-+*]?[ \t]*+\(?(?:\d{1,9}|[A-Za-z])[.)](?=[ \t]|$)[ \t]*+)+")
# Signs that are no mark of any kind: no reading of a text is without them.
_OWN_SIGN = re.compile(r"[&@%$/!?\u00a7\u20ac]")
# What begins a line of a quote, a list, a heading, a directive; and lines that are nothing but a rule or an underline.
_LEADING = re.compile(
    r"^(?:[ \t]*+(?:>|(?:[-+*:\u2022\u00b7\u25cf\u25aa\u2013\u2014]|#{1,6}|\.\.|\(?\d{1,9}[.)]|\(?[A-Za-z][.)]|\[[ xX]\])(?=[ \t]|$)))+",
    re.MULTILINE,
)
_RULE = re.compile(r"""^[-=~^+*#'"_.:|` \t]{3,}+$""", re.MULTILINE)
_CELL = re.compile(r"\|")
# Underscores inside a word are letters of it: Markdown does not read them as marks either.
_INLINE = re.compile(r"(?:[*`~^\[\]\\<>{}]|={2,}|\+{2,}|(?<![^\W_])_+|_+(?![^\W_]))+")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ue000-\uf8ff]+"
)
_SUSPECT = re.compile(r"[\\*_~`<>&\[\]|#^={}+\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ue000-\uf8ff]|^[ \t]*(?:[-:\u2022\u00b7\u25cf\u25aa\u2013\u2014.(]|\d|[A-Za-z][.)])|[-\u2010]\n", re.MULTILINE)  # fmt: skip


def _entities(text: str) -> str:
    return unescape(text) if "&" in text else text


def unescaped(text: str) -> str:
    """Return a text with entities and backslash escapes read, and its marks left."""
    text = _entities(text)
    return _ESCAPE.sub(r"\1", text) if "\\" in text else text


def _targets_off(text: str, fill: str) -> str:
    """Return a text without what stands between the letters of a phrase and has letters itself."""
    if "<" in text:
        text = _INLINE_TAG.sub(fill, _BLOCK_TAG.sub("\n", text))
    for end in _ENDS:
        text = text.replace(end, "\n")
    if "](" in text or "][" in text:
        text = _TARGET.sub(fill, text)
    if "[^" in text:
        text = _FOOTNOTE.sub(fill, text)
    if ":`" in text:
        text = _RST_ROLE.sub("", text)
    if ">`" in text:
        text = _RST_TARGET.sub("", text)
    return _entities(text)


def reading(text: str, fill: str) -> str:
    """Return a text with its marks taken off, ``fill`` (nothing or a space) in place of those inside a line.

    Line ends stay, and every mark that parts blocks or cells is one.
    """
    if not _SUSPECT.search(text):
        return text
    text = _targets_off(text, fill)
    text = _LEADING.sub("", _RULE.sub("", text))
    if "-\n" in text or "\u2010\n" in text or "\u00ad\n" in text:
        text = _HYPHEN.sub("-" if fill else "", text)
    if not fill:
        # In reStructuredText an escaped space joins what stands beside it.
        text = text.replace("\\ ", "")
    text = _CELL.sub("\n", _HARD_BREAK.sub("", text))
    text = _INLINE.sub(fill, _ESCAPE.sub(r"\1", text))
    # Signs that do not show join two words or part them, as one likes.
    return _INVISIBLE.sub(fill, text)


def readings(text: str) -> tuple[str, ...]:
    """Return the different readings of a text: with marks as nothing, and as a space."""
    joined, parted = reading(text, ""), reading(text, " ")
    return (joined,) if joined == parted else (joined, parted)


def is_plain(phrase: str) -> bool:
    """Tell whether a phrase has no marks of its own, so that it is found in readings of a text."""
    return reading(phrase, "") == phrase


# --- a fast way to know that a text holds none of some phrases ---------------------------------------------------------

_LAST = 0xFFFF
_NOTHING, _OTHER, _SPELT_OUT, _UNKNOWN = 0, 252, 253, 254
_HANGUL = range(0xAC00, 0xD7A4)
_JAMO = (range(0x1100, 0x1200), range(0xA960, 0xA980), range(0xD7B0, 0xD800))
_BEYOND = re.compile("[\U00010000-\U0010ffff]")
# It stands for all characters beyond the basic plane that fold to none of it.
_FAR = "\ufdd0"
_FEW_LETTERS = 4


class _Letters:
    """Phrases as bytes, a number for each letter; texts are compared with them after the same translation.

    Args:
        phrases: what is looked for.
        signs: signs that count as letters.
    """

    def __init__(self, phrases: Iterable[str], signs: str) -> None:
        self._signs = signs
        spelled = sorted({self._spell(phrase) for phrase in phrases})
        letters = sorted(set("".join(spelled)))
        # Letters that share a number are taken for one: that finds more, never less.
        self._number = {letter: 1 + index % (_OTHER - 1) for index, letter in enumerate(letters)}
        self._longest = max(map(len, spelled))
        self._automaton = ahocorasick_rs.BytesAhoCorasick(
            [bytes(self._number[letter] for letter in phrase) for phrase in spelled]
        )
        self._table = np.full(1 << 16, _UNKNOWN, np.uint8)
        for codes in (range(0xD800, 0xE000), *_JAMO):
            self._table[codes.start : codes.stop] = _SPELT_OUT
        self._table[ord(_FAR)] = self._number.get(_FAR, _OTHER)
        self._spelt: dict[str, str] = {}
        self._learn(range(128))
        self._ascii = bytes(self._table[:128]) + bytes(128)

    def _spell(self, text: str) -> str:
        """Return what is compared of a text: folded letters without any mark that may be lost beside others."""
        kept: list[str] = []
        for char in fold_text(text):
            if char in self._signs or unicodedata.category(char)[0] in "LMN":
                parts = char if ord(char) in _HANGUL else unicodedata.normalize("NFD", char)
                kept += [part if ord(part) <= _LAST else _FAR for part in parts if unicodedata.category(part)[0] != "M"]
        return "".join(kept)

    def _learn(self, codes: Iterable[int]) -> None:
        for code in codes:
            if self._table[code] != _UNKNOWN:
                continue
            letters = self._spell(chr(code))
            if len(letters) > 1:
                self._table[code] = _SPELT_OUT
                self._spelt[chr(code)] = letters
                self._learn(map(ord, letters))
            else:
                self._table[code] = self._number.get(letters, _OTHER) if letters else _NOTHING

    def may_be_in(self, text: str) -> bool:
        """Tell whether the letters of a phrase follow each other anywhere in a text."""
        numbers = self._numbered(text)
        return any(
            # Block by block: the automaton lists every match, and a text may consist of them.
            self._automaton.find_matches_as_indexes(numbers[start : start + _BLOCK + self._longest])
            for start in range(0, len(numbers), _BLOCK)
        )

    def _numbered(self, text: str) -> bytes:
        if text.isascii():
            return text.encode("ascii").translate(self._ascii, self._ascii_nothing)
        codes = _codes(text)
        numbers = self._table[codes]
        if numbers.max() > _OTHER:
            text = self._spelt_out(text, np.unique(codes[numbers > _OTHER]).tolist())
            numbers = np.minimum(self._table[_codes(text)], _OTHER)
        return numbers.tobytes().translate(None, b"\0")

    @cached_property
    def _ascii_nothing(self) -> bytes:
        return bytes(code for code in range(128) if self._table[code] == _NOTHING)

    def _spelt_out(self, text: str, codes: Iterable[int]) -> str:
        """Write out characters that are several letters, or a part of one."""
        codes = list(codes)
        self._learn(codes)
        if any(code in jamo for code in codes for jamo in _JAMO):
            text = unicodedata.normalize("NFC", text)
            self._learn(set(map(ord, text)) - set(range(_LAST + 1, 0x110000)))
        if any(0xD800 <= code < 0xE000 for code in codes):
            text = _BEYOND.sub(lambda char: self._spell(char[0]), text)
            self._learn(set(map(ord, text)))
        for char, letters in self._spelt.items():
            if char in text:
                text = text.replace(char, letters)
        return text


def _codes(text: str) -> NDArray[np.uint16]:
    return np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16)


class Squeezed:
    """Phrases looked for by their letters and digits alone: a fast way to know that a text holds none of them.

    Phrases of few letters are looked for with the signs that they have inside (``M&A``), or nearly every text would hold
    them.

    Args:
        phrases: what is looked for; one without a letter or digit is believed to be everywhere.
    """

    def __init__(self, phrases: Sequence[str]) -> None:
        by_signs: dict[str, list[str]] = {}
        for phrase in phrases:
            signs = (
                "".join(sorted(set(_OWN_SIGN.findall(fold_text(phrase)))))
                if len(squeeze(phrase)) < _FEW_LETTERS
                else ""
            )
            by_signs.setdefault(signs, []).append(phrase)
        self._always = not all(map(squeeze, phrases))
        self._searches = [] if self._always else [_Letters(some, signs) for signs, some in sorted(by_signs.items())]

    def may_hold(self, text: str) -> bool:
        """Tell whether a text, or a reading of it, may hold one of the phrases. Never wrong when it says no."""
        if self._always:
            return True
        if any(search.may_be_in(text) for search in self._searches):
            return True
        without = _NUMBERING.sub("\n", _targets_off(text, ""))
        return without != text and any(search.may_be_in(without) for search in self._searches)
