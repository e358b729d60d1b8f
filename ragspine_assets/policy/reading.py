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
from collections.abc import Sequence
from html import unescape

import ahocorasick_rs

from ragspine_assets.policy.folding import fold_text

VERSION = "reading 2"
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
_RST_TARGET = re.compile(r":[A-Za-z][\w.+-]{0,40}:(?=`)|\s?<[^<>`\n]{1,2000}>(?=`)")
_HYPHEN = re.compile("[-\u2010\u00ad]\n[ \t>|]*(?=\\w)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_HARD_BREAK = re.compile(r"\\$", re.MULTILINE)
# What begins a line of a quote, a list, a heading, a directive; and lines that are nothing but a rule or an underline.
_LEADING = re.compile(
    r"^(?:[ \t]*+(?:>|(?:[-+*:\u2022\u00b7\u25cf\u25aa\u2013\u2014]|#{1,6}|\.\.|\(?\d{1,9}[.)]|\(?[A-Za-z][.)]|\[[ xX]\])(?=[ \t]|$)))+",
    re.MULTILINE,
)
_RULE = re.compile(r"""^[ \t]*[-=~^+*#'"_.:|` \t]{3,}$""", re.MULTILINE)
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
    if "`" in text:
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


_EAST_ASIAN = re.compile("[\u3005-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")


class Squeezed:
    """Phrases looked for by their letters and digits alone: a fast way to know that a text holds none of them.

    Args:
        phrases: what is looked for; one without a letter or digit is believed to be everywhere.
    """

    def __init__(self, phrases: Sequence[str]) -> None:
        squeezed = {squeeze(phrase) for phrase in phrases}
        self._always = "" in squeezed
        squeezed.discard("")
        self._longest = max(map(len, squeezed), default=0)
        self._ascii = all(map(str.isascii, squeezed))
        self._automaton = ahocorasick_rs.AhoCorasick(sorted(squeezed), store_patterns=False) if squeezed else None

    def may_hold(self, text: str) -> bool:
        """Tell whether a text, or a reading of it, may hold one of the phrases. Never wrong when it says no."""
        if self._always:
            return True
        if self._automaton is None:
            return False
        if self._ascii and not text.isascii():
            # Not one of these letters folds to an ASCII one, and they are slow to fold.
            text = _EAST_ASIAN.sub("", text)
        if self._holds(squeeze(text)):
            return True
        without = _targets_off(text, "")
        return without != text and self._holds(squeeze(without))

    def _holds(self, squeezed: str) -> bool:
        assert self._automaton is not None
        # Block by block: the automaton lists every match, and a text may consist of them.
        return any(
            self._automaton.find_matches_as_indexes(squeezed[start : start + _BLOCK + self._longest])
            for start in range(0, len(squeezed), _BLOCK)
        )
