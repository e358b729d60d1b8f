"""A word of a query that nothing is found by, corrected by one edit to words that something is found by (SPEC 10.3).

Only the words of the index can come of it, so it tells nobody of a word that no document he may see holds. An index keeps
stems, not words: what is edited is the word as it was typed, and each word it might have been is read as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ragspine_assets.index.query import QueryTerm

CORRECTED = 0.6
"""What a corrected word is worth."""

_SHORTEST, _LONGEST = 4, 24
_SURE = 6
"""Code points from which on the first one may be wrong too; shorter words become others too easily."""

_WORDS = 4
"""Words of one query that are corrected at most; a question with more of them is in another language, or no question."""

_MEANT = 3
"""Words that one may have been meant as, at most."""

_ALPHABETS = tuple(
    "".join(map(chr, range(ord(first), ord(last) + 1)))
    for first, last in (
        "az",
        "\u0430\u045f",
        "\u03b1\u03c9",
        "\u0561\u0586",
        "\u05d0\u05ea",
        "\u0621\u064a",
        "\u10d0\u10f0",
    )
)

Words = Callable[[Sequence[str]], Sequence[tuple[str, ...]]]
"""Gives the terms that stand for single words."""

Frequency = Callable[[str], int]
"""Gives how many documents that may be seen hold a term."""


def corrected(
    query: Sequence[QueryTerm], words: Words, frequency: Frequency
) -> tuple[list[QueryTerm], Mapping[str, tuple[str, ...]]]:
    """Return a query with variants for its words that find nothing, and what each of these was read as.

    A word that is found in any spelling, or together with its neighbour, stays as it is; so do words with digits, where
    another one is another thing, and words without a `QueryTerm.word`.

    Args:
        query: what was asked for.
        words: reads words as the index was read.
        frequency: how many documents hold a term, of those that whoever asks may see.
    """
    lost = [one for one in query if one.word and not any(map(frequency, _terms(one)))]
    if not lost:
        return list(query), {}
    joined = [(pair, terms) for pair, terms in _joined(query, words) if any(map(frequency, terms))]
    found_together = {word for pair, _ in joined for word in pair}
    meant: dict[str, tuple[tuple[str, str], ...]] = {}
    for word in dict.fromkeys(one.word for one in lost):
        if len(meant) < _WORDS and word not in found_together:
            meant[word] = _meant(word, words, frequency)
    asked = [
        replace(one, variants=(*one.variants, *((term, CORRECTED) for _, term in meant.get(one.word, ()))))
        for one in query
    ]
    return asked, {word: tuple(dict.fromkeys(other for other, _ in found)) for word, found in meant.items() if found}


def _terms(one: QueryTerm) -> Iterator[str]:
    yield from one.terms
    for term, _ in one.variants:
        yield term


def _joined(query: Sequence[QueryTerm], words: Words) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    pairs = list(pairwise(one.word for one in query if one.word))
    yield from zip(pairs, words(["".join(pair) for pair in pairs]), strict=True)


def _meant(word: str, words: Words, frequency: Frequency) -> tuple[tuple[str, str], ...]:
    """Return the words that one may have been meant as, each with the term it is found by; the likeliest first."""
    edits = list(one_edit(word))
    best: dict[str, tuple[tuple[bool, int, int], str]] = {}
    for place, (other, terms) in enumerate(zip(edits, words(edits), strict=True)):
        for term in terms:
            if term not in best and (held := frequency(term)):
                best[term] = (other[0] != word[0], -held, place), other
    likeliest = sorted(best, key=lambda term: best[term][0])[:_MEANT]
    return tuple((best[term][1], term) for term in likeliest)


def one_edit(word: str) -> Iterator[str]:
    """Yield each word that is one edit from a word: two letters exchanged, one too many, another one, one missing.

    Nothing for words that are no letters of one alphabet, or too short or too long to be guessed.
    """
    if not (_SHORTEST <= len(word) <= _LONGEST and word.isalpha()):
        return
    alphabet = next((letters for letters in _ALPHABETS if word[-1] in letters), "")
    if not alphabet:
        return
    seen = {word}
    first = 0 if len(word) >= _SURE else 1
    for other in _edits(word, alphabet, first):
        if other not in seen:
            seen.add(other)
            yield other


def _edits(word: str, alphabet: str, first: int) -> Iterator[str]:
    for place in range(len(word) - 1):
        yield word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    for place in range(first, len(word)):
        yield word[:place] + word[place + 1 :]
    for place in range(first, len(word)):
        yield from (word[:place] + letter + word[place + 1 :] for letter in alphabet)
    for place in range(first, len(word) + 1):
        yield from (word[:place] + letter + word[place:] for letter in alphabet)
