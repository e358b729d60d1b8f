"""A fast way to know that a text holds none of some phrases: letters and digits alone, as bytes (SPEC 1.8, 6.3).

Most texts hold none of what is looked for. Folding them whole for that would cost more than reading them, so each character
is mapped to one byte: the number of its folded letter among the letters of the phrases, or "another letter". What stands
between letters is left out, and the phrases are looked for in what remains.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

import ahocorasick_rs
import numpy as np

from ragspine_assets.policy import fold_text

_NOTHING, _OTHER, _UNKNOWN, _SEVERAL = 0, 252, 253, 254
_LAST = 0xFFFF
_ELSEWHERE = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]+")
_BLOCK = 1 << 22


def squeeze(text: str, signs: str = "") -> str:
    """Return the folded letters and digits of a text, and these signs, without anything between them."""
    return "".join(
        [char for char in fold_text(text) if char.isalnum() or char in signs or unicodedata.category(char)[0] in "LMN"]
    )


class LetterSearch:
    """Phrases looked for by their letters alone; never wrong when it says that there is none.

    Args:
        phrases: what is looked for. One without a letter, or more different letters than a byte has room for, make every
            text one that may hold a phrase.
        signs: signs that count as letters.
    """

    def __init__(self, phrases: Iterable[str], signs: str = "") -> None:
        self._signs = signs
        squeezed = {squeeze(phrase, signs) for phrase in phrases}
        letters = sorted(set("".join(squeezed)))
        self._always = "" in squeezed or len(letters) >= _OTHER or any(ord(letter) > _LAST for letter in letters)
        if self._always:
            return
        self._number = {letter: number for number, letter in enumerate(letters, start=1)}
        self._longest = max(map(len, squeezed), default=0)
        patterns = [bytes(self._number[letter] for letter in phrase) for phrase in sorted(squeezed)]
        self._automaton = ahocorasick_rs.BytesAhoCorasick(patterns) if patterns else None
        self._table = np.full(1 << 16, _UNKNOWN, np.uint8)
        # Halves of characters beyond the first plane: these are written out first.
        self._table[0xD800:0xE000] = _SEVERAL
        self._spelt: dict[str, str] = {}
        for code in range(128):
            self._learn(chr(code))
        self._ascii = bytes(self._table[:128]) + bytes(128)
        self._ascii_nothing = bytes(code for code in range(128) if self._table[code] == _NOTHING)

    def may_hold(self, text: str) -> bool:
        """Tell whether the letters of a phrase follow each other anywhere in a text."""
        if self._always:
            return True
        if self._automaton is None:
            return False
        letters = self._numbered(text)
        return any(
            self._automaton.find_matches_as_indexes(letters[start : start + _BLOCK + self._longest])
            for start in range(0, len(letters), _BLOCK)
        )

    def _numbered(self, text: str) -> bytes:
        if text.isascii():
            return text.encode("ascii").translate(self._ascii, self._ascii_nothing)
        numbers = self._table[codes := _codes(text)]
        if numbers.max() <= _OTHER:
            return numbers.tobytes().translate(None, b"\0")
        unknown = np.unique(codes[numbers == _UNKNOWN])
        if unknown.size:
            for code in unknown.tolist():
                self._learn(chr(code))
            numbers = self._table[codes]
        if (numbers == _SEVERAL).any():
            for char in set(text):
                if ord(char) > _LAST:
                    self._spelt.setdefault(char, squeeze(char, self._signs))
                if char in self._spelt:
                    text = text.replace(char, self._spelt[char])
            # What is left of the other planes, and halves of characters, is no letter of a phrase.
            text = _ELSEWHERE.sub("", text)
            return self._numbered(text)
        return numbers.tobytes().translate(None, b"\0")

    def _learn(self, char: str) -> None:
        code = ord(char)
        if code > _LAST or self._table[code] != _UNKNOWN:
            return
        letters = squeeze(char, self._signs)
        if len(letters) > 1 and letters != char:
            self._spelt[char] = letters
            self._table[code] = _SEVERAL
        else:
            self._table[code] = self._number.get(letters, _OTHER) if letters else _NOTHING


def _codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16)
