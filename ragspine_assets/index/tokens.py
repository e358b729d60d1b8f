"""The one tokeniser: what a chunk and a query are compared by (SPEC 4.2)."""

from __future__ import annotations

import operator
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import regex
from numpy.typing import NDArray

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


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
    # Case folding can take a composed letter apart again.
    return unicodedata.normalize("NFC", folded)


def tokens_by(text: str, terms: WordTerms) -> list[str]:
    """Return the tokens of a text in reading order, its words turned into terms by ``terms`` (SPEC 4.2).

    Characters and pairs of scripts without spaces are tokens as they are. A word of which nothing is left is none.
    """
    if text.isascii():
        return list(filter(None, terms(_ASCII_WORD.findall(text.lower()))))
    folded = _folded(text)
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


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of several texts, to be counted: in which order a text has them is not kept.

    Attributes:
        size: how many texts there are.
        words: tokens that are words.
        words_in: for each word the text it is in, from 0.
        characters: tokens of runs without spaces, as numbers that `run_token` reads: characters, and pairs of them.
        characters_in: likewise for each of them.
        beside: so many of the words, the last ones, are further forms of others: they count for no length.
    """

    size: int
    words: Sequence[str]
    words_in: NDArray[np.int32]
    characters: NDArray[np.int64]
    characters_in: NDArray[np.int32]
    beside: int = 0

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]]) -> Tokens:
        """Return tokens that were found already, those of each text."""
        words = [token for tokens in texts for token in tokens]
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        words_in = np.repeat(np.arange(len(texts), dtype=np.int32), sizes)
        return cls(len(texts), words, words_in, np.empty(0, np.int64), np.empty(0, np.int32))

    def lengths(self) -> NDArray[np.integer]:
        """Return how many tokens each text has, without further forms."""
        own = self.words_in[: len(self.words_in) - self.beside]
        return np.bincount(own, minlength=self.size) + np.bincount(self.characters_in, minlength=self.size)


_BITS = 21
"""A code point takes so many."""


def run_token(number: int) -> str:
    """Return the character, or the pair, that a number in `Tokens.characters` stands for."""
    first, second = number >> _BITS, chr(number & ((1 << _BITS) - 1))
    return chr(first - 1) + second if first else second


_TOGETHER = 1 << 18
"""Code points of the texts whose tokens are found at once: what is kept of each meanwhile takes some 50 bytes."""

_IN_WORD, _IN_RUN, _UNKNOWN = 1, 2, 255
_PAGE = 256
# What each code point is, found page by page when it is met first.
_kinds = np.full(0x110000, _UNKNOWN, np.uint8)
_LETTER = regex.compile(r"(?V1)[\p{L}\p{N}\p{M}]")

# Stands between two texts: it is part of no token, and folding neither changes it nor reaches across it.
_BETWEEN = "\0"

# The names of `_WORD`, where a run without spaces is the end of what is looked at.
_NOT_RUN = f"--{_UNSPACED}]"
_NAME = regex.compile(
    rf"(?V1)(?<![[\p{{L}}\p{{N}}\p{{M}}]{_NOT_RUN})"
    rf"(?:c\+\+|[cf]#(?![[\p{{L}}\p{{M}}]{_NOT_RUN})|\.net(?![[\p{{L}}\p{{N}}\p{{M}}]{_NOT_RUN}))"
)


def in_batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts some at a time, as many as are worth being given to `tokens_of` at once."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text) + 1
        if size >= _TOGETHER:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _kinds_of(points: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return for each code point whether it belongs to a word, to a run without spaces, or to neither."""
    kinds = _kinds[points]
    if (unknown := kinds == _UNKNOWN).any():
        for page in np.unique(points[unknown] // _PAGE).tolist():
            for point in range(page * _PAGE, (page + 1) * _PAGE):
                character = chr(point)
                in_run = _RUN.match(character)
                _kinds[point] = _IN_RUN if in_run else _IN_WORD if _LETTER.match(character) else 0
        kinds = _kinds[points]
    return kinds


def tokens_of(texts: Sequence[str], terms: WordTerms = plain_terms) -> Tokens:
    """Return the tokens of many texts, those that `tokens_by` gives for each of them, several times faster.

    All texts are looked through at once; characters and pairs are counted as numbers and never become strings.
    """
    if not texts:
        return Tokens.of([])
    folded = _BETWEEN.join(map(_folded, texts))
    if folded.count(_BETWEEN) != len(texts) - 1:
        folded = _BETWEEN.join(_folded(text).replace(_BETWEEN, " ") for text in texts)
    points = np.frombuffer(folded.encode("utf-32-le", "surrogatepass"), np.uint32)
    ends = np.append(np.flatnonzero(points == ord(_BETWEEN)), len(points))
    text_of = np.repeat(np.arange(len(texts), dtype=np.int32), np.diff(ends, prepend=-1))
    kinds = _kinds_of(points)

    in_run = kinds == _IN_RUN
    both = np.flatnonzero(in_run[:-1] & in_run[1:])
    pairs = (points[both].astype(np.int64) + 1) << _BITS | points[both + 1]
    alone = np.flatnonzero(in_run)
    characters = np.concatenate([points[alone].astype(np.int64), pairs])
    characters_in = np.concatenate([text_of[alone], text_of[both]])

    in_word = kinds == _IN_WORD
    names = _names(folded, points)
    for start, name in names:
        # Its letters are no word of their own.
        in_word[start : start + len(name)] = False
    found = np.where(in_word, points, ord(" ")).tobytes().decode("utf-32-le").split()
    begins = np.flatnonzero(in_word & ~np.append(False, in_word[:-1]))
    words_in = text_of[np.append(begins, np.array([start for start, _ in names], np.int64))]
    words = list(terms([*found, *(name for _, name in names)]))
    if "" in words:
        words_in = words_in[np.fromiter(map(bool, words), np.bool_, len(words))]
        words = list(filter(None, words))
    return Tokens(len(texts), words, words_in, characters, characters_in)


def is_unspaced(character: str) -> bool:
    """Tell whether a character belongs to a script that puts no spaces between words."""
    return _RUN.match(character) is not None


def _names(folded: str, points: NDArray[np.uint32]) -> list[tuple[int, str]]:
    """Return where names of programming languages are, and which."""
    if len(points) < 2:
        return []
    here, behind = points[:-1], points[1:]
    may_be = (here == ord(".")) & (behind == ord("n"))
    may_be |= ((here == ord("c")) | (here == ord("f"))) & (behind == ord("#"))
    may_be |= (here == ord("c")) & (behind == ord("+"))
    found = (_NAME.match(folded, start) for start in np.flatnonzero(may_be).tolist())
    return [(name.start(), name.group()) for name in found if name]
