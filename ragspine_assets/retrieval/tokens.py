"""The one tokeniser: what a chunk and a query are compared by (SPEC 4.2)."""

from __future__ import annotations

import operator
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache

import regex

_UNSPACED = (
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    # The prolonged sound mark and the voicing marks are shared by both kana and belong to neither script.
    "\u30fc\u3099\u309a]"
)
_RUN = regex.compile(rf"(?V1)([{_UNSPACED}&&[\p{{L}}\p{{N}}\p{{M}}]]+)")
_MAY_HOLD_RUN = re.compile("[\u0e00-\u1fff\u2e80-\U0010ffff]")

_ASCII_WORD = re.compile(r"c\+\+|[cf]#(?![a-z])|[a-z0-9]+|(?<![a-z0-9])\.net(?![a-z0-9])")
_WORD = regex.compile(
    r"(?V1)c\+\+|[cf]#(?![\p{L}\p{M}])|[\p{L}\p{N}\p{M}]+|(?<![\p{L}\p{N}\p{M}])\.net(?![\p{L}\p{N}\p{M}])"
)

# Format characters and variation selectors are invisible: a soft hyphen must not cut a word in two.
_INVISIBLE = regex.compile(r"(?V1)[\p{Cf}\p{Variation_Selector}\u034f\u115f\u1160\u3164\uffa0]+")
# Marks of scripts that can be read without them. Vowel signs of Indic scripts are letters in all but name and stay.
_ACCENT = regex.compile(
    r"(?V1)[\p{Mn}&&[\p{Inherited}\p{Latin}\p{Greek}\p{Cyrillic}\p{Coptic}\p{Arabic}\p{Hebrew}\p{Syriac}]]+"
)

WordTerms = Callable[[list[str]], Iterable[str]]
"""Makes index terms of words: folded in width and case, but with their accents."""


@lru_cache(maxsize=1 << 16)
def without_accents(word: str) -> str:
    """Return a word without its accents and vowel points; signs that carry a vowel of their own stay."""
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", word)))


def plain_terms(words: list[str]) -> Iterable[str]:
    """Return words without their accents."""
    return [word if word.isascii() else without_accents(word) for word in words]


def tokens_by(text: str, terms: WordTerms) -> list[str]:
    """Return the tokens of a text in reading order, its words turned into terms by ``terms`` (SPEC 4.2).

    Characters and pairs of scripts without spaces are tokens as they are. A word of which nothing is left is none.
    """
    if text.isascii():
        return list(filter(None, terms(_ASCII_WORD.findall(text.lower()))))
    folded = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
    # Case folding can take a composed letter apart again.
    folded = unicodedata.normalize("NFC", folded)
    if not _MAY_HOLD_RUN.search(folded):
        return list(filter(None, terms(_WORD.findall(folded))))
    tokens: list[str] = []
    # Split on a capturing pattern alternates: text between runs, a run, text between runs, ...
    for position, part in enumerate(_RUN.split(folded)):
        if position % 2:
            tokens += part
            tokens += map(operator.add, part, part[1:])
        elif part:
            words = _ASCII_WORD.findall(part) if part.isascii() else _WORD.findall(part)
            tokens += filter(None, terms(words))
    return tokens


def tokenize(text: str) -> list[str]:
    """Return the tokens of a text in reading order (SPEC 4.2).

    The text is folded by NFKC and case. Runs of letters and digits are words, without accents; ``c++``, ``c#``,
    ``f#`` and ``.net`` are words too. A run of Han, kana, Hangul, Thai, Lao, Khmer or Burmese, which put no spaces
    between words, gives its single characters and then its pairs of neighbours.
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return tokens_by(text, plain_terms)
