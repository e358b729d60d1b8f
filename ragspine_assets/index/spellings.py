"""Spellings of one thing that people use side by side, brought to one form (SPEC 4.2, 10.3).

A text is indexed under its words, and under the forms found here beside them: parts of a word, ``chunk`` and ``store`` for
``ChunkStore``; and the whole of several words, ``l2231`` for ``L-2231`` and ``1000000`` for ``1,000,000``, which carry a mark,
since who asks for neighbouring words must not find them twice. What is spelled as it is asked for shares its words and its
forms with the query, what is spelled otherwise some of them: so the exact spelling comes first.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import regex
from numpy.typing import NDArray

from ragspine_assets.index.tokens import is_unspaced

if TYPE_CHECKING:
    from opencc import OpenCC

# Words in a chain: their signs say what the chain is.
_CHAIN = regex.compile(
    r"(?V1)(?<![\p{L}\p{N}\p{M}])[\p{L}\p{N}\p{M}]+(?:(?:[-\u2010\u2011_.,:/'\u2019&]|-[ \t]*\n[ \t]*)[\p{L}\p{N}\p{M}]+)+"
)
_MOST_PARTS = 5
"""Parts of a word; what has more is no word: a key, a hash."""

_HYPHENS = regex.compile(r"-\s*\n\s*|[-\u2010\u2011_]")
_INITIALS = regex.compile(r"\p{L}(?:\.\p{L})+")
_GROUPED = regex.compile(
    r"(?<![\p{L}\d.,'\u2019])\d{1,3}(?:([.,'\u2019 \u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d+)?(?![\d])"
)
_DECIMAL = regex.compile(r"(\d+)[.,](\d+)")
_VERSION = regex.compile(r"\p{L}?\d+(?:\.\d+){2,}")
_YEAR_FIRST = regex.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})")
_YEAR_LAST = regex.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})")
_CONTRACTION = regex.compile(r"(?V1)(?:o['\u2019]\p{L}+|\p{L}+['\u2019](?:s|t|d|m|re|ve|ll))", regex.IGNORECASE)
_CAMEL = regex.compile(r"(?V1)[\p{L}\p{N}]*(?:[\p{Ll}\p{N}]\p{Lu}|\p{Lu}{2}\p{Ll}{2})[\p{L}\p{N}]*")
_CAMEL_PARTS = regex.compile(r"\p{Lu}+(?!\p{Ll})|\p{Lu}?\p{Ll}+|\p{N}+")
_MIXED = regex.compile(
    r"(?V1)(?<![\p{L}\p{N}\p{M}])(?:[A-Za-z]+[0-9][A-Za-z0-9]*|[0-9]+[A-Za-z][A-Za-z0-9]*)(?![\p{L}\p{N}\p{M}])"
)
_MIXED_PARTS = regex.compile(r"[0-9]+|[a-z]+")
_UNITS = (
    "nm µm μm um mm cm dm m km ft yd mi mg kg g t lb oz ml cl dl l mw w kw gw kwh mwh gwh va kva v mv kv ma ah mah hz khz "
    "mhz ghz b kb mb gb tb bit kbit mbit gbit bar mbar pa hpa kpa mpa psi n kn nm j kj mj cal kcal ms ns s min h rpm db "
    "ppm ppb c f k lm lx hp ps mol px pt eur usd chf gbp"
)
_QUANTITY = regex.compile(
    rf"(?<![\p{{L}}\p{{N}}])\d+(?:[.,]\d+)?[ \u00a0\u202f](?:{'|'.join(_UNITS.split())})(?![\p{{L}}\p{{N}}])",
    regex.IGNORECASE,
)
_CODE = regex.compile(r"(?<![\p{L}\p{N}])\p{Lu}{1,5}[ \u00a0]\d+(?:[.-]\d+)*(?![\p{L}\p{N}])")
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janvier gennaio enero janeiro januari",
            "february feb februar février febbraio febrero fevereiro februari",
            "march mar märz maerz mars marzo março maart",
            "april apr avril aprile abril",
            "may mai maggio mayo maio mei",
            "june jun juni juin giugno junio junho",
            "july jul juli juillet luglio julio julho",
            "august aug août agosto augustus",
            "september sep sept septembre settembre septiembre setembro",
            "october oct oktober okt octobre ottobre octubre outubro",
            "november nov novembre noviembre novembro",
            "december dec dezember dez décembre dicembre diciembre dezembro",
        ),
        start=1,
    )
    for name in names.split()
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DAY_MONTH = regex.compile(
    rf"(?<![\p{{L}}\p{{N}}])(\d{{1,2}})(?:\.|st|nd|rd|th|er|º)?[ \u00a0](?:of |de |di |do )?({_MONTH})\.?,?(?: de)?[ \u00a0](\d{{4}})(?!\d)",
    regex.IGNORECASE,
)
_MONTH_DAY = regex.compile(
    rf"(?<![\p{{L}}\p{{N}}])({_MONTH})\.?[ \u00a0](\d{{1,2}})(?:st|nd|rd|th)?,?[ \u00a0](\d{{4}})(?!\d)",
    regex.IGNORECASE,
)
_HAN_DATE = regex.compile(r"(\d{4})年(\d{1,2})月(\d{1,2})[日号號]")
_LONGEST = 120
"""Code points of what is looked into; longer are addresses and encoded data."""


_OTHER, _LOWER, _UPPER, _DIGIT, _SIGN, _SPACE, _BREAK, _PICTURE, _UNSPACED = range(9)
_UNKNOWN = 255
_PAGE = 256
# What each code point is, found page by page when it is met first.
_kinds = np.full(0x110000, _UNKNOWN, np.uint8)
_KINDS = (
    (regex.compile(r"\p{Lu}"), _UPPER),
    (regex.compile(r"\p{Nd}"), _DIGIT),
    (regex.compile(r"[\p{L}\p{N}\p{M}]"), _LOWER),
    (regex.compile("[-\u2010\u2011_.,:/'\u2019&]"), _SIGN),
    (regex.compile("[ \u00a0\u202f]"), _SPACE),
    (regex.compile("\n"), _BREAK),
    (regex.compile(r"(?V1)[\p{Extended_Pictographic}--[\p{N}#*\u00a9\u00ae\u2122]]"), _PICTURE),
)


WHOLE = "="
"""Begins a form that stands for several words together; no word begins so."""


def _kinds_of(points: NDArray[np.uint32]) -> NDArray[np.uint8]:
    kinds = _kinds[points]
    if len(kinds) and kinds.max() == _UNKNOWN:
        for page in np.unique(points[kinds == _UNKNOWN] // _PAGE).tolist():
            for point in range(page * _PAGE, (page + 1) * _PAGE):
                character = chr(point)
                kind = next((kind for pattern, kind in _KINDS if pattern.match(character)), _OTHER)
                _kinds[point] = _UNSPACED if is_unspaced(character) else kind
        kinds = _kinds[points]
    return kinds


def _of_kinds(*kinds: int) -> NDArray[np.bool_]:
    """Return of each kind whether it is among these."""
    return np.isin(np.arange(9), kinds)


def _pairs(*pairs: tuple[int, int]) -> NDArray[np.bool_]:
    """Return of each number of a pair of neighbours whether it is among these."""
    return np.isin(np.arange(81), [9 * first + second for first, second in pairs])


_IS_WORD = _of_kinds(_LOWER, _UPPER, _DIGIT)
_IS_OUTSIDE = ~_of_kinds(_LOWER, _UPPER, _DIGIT, _SIGN)
_LETTER_AND_DIGIT = _pairs((_LOWER, _DIGIT), (_UPPER, _DIGIT), (_DIGIT, _LOWER), (_DIGIT, _UPPER), (_LOWER, _UPPER))
_LAST_CAPITAL = _pairs((_UPPER, _LOWER))
_SIGN_BEFORE = _pairs((_SIGN, _LOWER), (_SIGN, _UPPER), (_SIGN, _DIGIT))
_BEFORE_NUMBER = _pairs((_SPACE, _DIGIT))
_AFTER_NUMBER = _pairs((_DIGIT, _SPACE))
_AFTER_SIGN = _pairs((_SIGN, _SPACE))
_AT_BREAK = _pairs((_SIGN, _BREAK))
_LOOKED_INTO = np.logical_or.reduce(
    [_LETTER_AND_DIGIT, _LAST_CAPITAL, _SIGN_BEFORE, _BEFORE_NUMBER, _AFTER_NUMBER, _AFTER_SIGN, _AT_BREAK]
)


def forms(text: str) -> Iterator[tuple[int, str]]:
    """Yield further forms of what a text says, in lower case, and where about in it each is.

    A whole of several words is marked by `WHOLE`. Most words have none. Which may have some is told for all characters at once, and only these are looked into.

    Args:
        text: in NFKC, its case as it was written: where a word begins inside another, only case tells.
    """
    if not text.isascii():
        for match in _HAN_DATE.finditer(text):
            yield from ((match.start(), WHOLE + form) for form in _date(*match.groups()))
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = _kinds_of(points)
    if not text.isascii():
        for place in np.flatnonzero(kinds == _PICTURE).tolist():
            yield place, text[place]
    for first, behind in _segments(points, kinds):
        for form in _forms_of(text[first:behind]):
            yield first, form


def _segments(points: NDArray[np.uint32], kinds: NDArray[np.uint8]) -> Iterator[tuple[int, int]]:
    """Yield where words, and words beside one another, are that may have further forms."""
    pairs = kinds[:-1] * np.uint8(9) + kinds[1:]
    # Places are those of the second of two neighbours.
    places = np.flatnonzero(_LOOKED_INTO[pairs]) + 1
    if not len(places):
        return
    pairs = pairs[places - 1]
    before = kinds[np.maximum(places - 2, 0)]
    before[places < 2] = _OTHER
    after = kinds[np.minimum(places + 1, len(kinds) - 1)]
    after[places + 1 >= len(kinds)] = _OTHER
    word_before, word_after = _IS_WORD[before], _IS_WORD[after]
    telling = (
        _LETTER_AND_DIGIT[pairs] | (_LAST_CAPITAL[pairs] & (before == _UPPER)) | (_SIGN_BEFORE[pairs] & word_before)
    )
    # What stands between a number and its unit, a code and its number, a day and its month, the parts of a broken word.
    leading = places[_BEFORE_NUMBER[pairs] & word_before] - 1
    trailing = places[
        word_after
        & (
            _AFTER_NUMBER[pairs]
            | (_AFTER_SIGN[pairs] & (before == _DIGIT))
            | (_AT_BREAK[pairs] & word_before & (points[places - 1] == ord("-")))
        )
    ]
    bridges = np.union1d(leading, trailing)
    outside = np.setdiff1d(np.flatnonzero(_IS_OUTSIDE[kinds]), bridges, assume_unique=True)
    held = np.unique(np.searchsorted(outside, np.union1d(places[telling], bridges)))
    bounds = np.concatenate([[-1], outside, [len(kinds)]])
    begins, ends = bounds[held] + 1, bounds[held + 1]
    short = ends - begins <= _LONGEST
    yield from zip(begins[short].tolist(), ends[short].tolist(), strict=True)


@lru_cache(maxsize=1 << 17)
def _forms_of(segment: str) -> tuple[str, ...]:
    found: list[str] = []
    for pattern, read, mark in _READERS:
        for match in pattern.finditer(segment):
            found += (mark + form for form in read(match))
    return tuple(dict.fromkeys(found))


def _of_chain(match: regex.Match[str]) -> Iterator[str]:
    chain = match.group()
    if _INITIALS.fullmatch(chain):
        yield chain.replace(".", "").casefold()
    elif dates := list(_dates(chain)):
        yield from dates
    elif chain[0].isdigit() and (number := _DECIMAL.fullmatch(chain)):
        yield f"{number.group(1)}.{number.group(2)}"
    elif _VERSION.fullmatch(chain):
        yield chain.lstrip("vV").casefold()
    elif _CONTRACTION.fullmatch(chain):
        yield regex.sub(r"['\u2019]", "", chain).casefold()
    else:
        for part in regex.split(r"[.,:/'\u2019&]", chain):
            if _HYPHENS.search(part):
                yield _HYPHENS.sub("", part).casefold()


def _dates(chain: str) -> Iterator[str]:
    if found := _YEAR_FIRST.fullmatch(chain):
        yield from _date(found.group(1), found.group(3), found.group(4))
    elif found := _YEAR_LAST.fullmatch(chain):
        first, sign, second, year = found.groups()
        yield from _date(year, second, first)
        # With points the day is first everywhere; otherwise it depends on who wrote it.
        if sign != "." and first != second:
            yield from _date(year, first, second)


def _date(year: str, month: str | int, day: str) -> Iterator[str]:
    if 1 <= int(month) <= 12 and 1 <= int(day) <= 31:
        yield f"{year}-{int(month):02}-{int(day):02}"


def _of_grouped(match: regex.Match[str]) -> Iterator[str]:
    whole, rest = match.group(), ""
    decimals = regex.search(r"[.,]\d+\Z", whole)
    if decimals is not None and decimals.group()[0] != match.group(1):
        whole, rest = whole[: decimals.start()], "." + decimals.group()[1:]
    yield regex.sub(r"\D", "", whole) + rest


def _of_camel(match: regex.Match[str]) -> Iterator[str]:
    parts = _CAMEL_PARTS.findall(match.group())
    if 1 < len(parts) <= _MOST_PARTS:
        yield from (part.casefold() for part in parts)


def _of_mixed(match: regex.Match[str]) -> Iterator[str]:
    parts = _MIXED_PARTS.findall(match.group().lower())
    if len(parts) <= _MOST_PARTS:
        yield from parts


def _of_quantity(match: regex.Match[str]) -> Iterator[str]:
    yield regex.sub(r"\s", "", match.group()).replace(",", ".").casefold()


_READERS = (
    (_CHAIN, _of_chain, WHOLE),
    (_GROUPED, _of_grouped, WHOLE),
    (_CAMEL, _of_camel, ""),
    (_MIXED, _of_mixed, ""),
    (_QUANTITY, _of_quantity, WHOLE),
    (_CODE, lambda match: iter([regex.sub(r"[\s.-]", "", match.group()).casefold()]), WHOLE),
    (_DAY_MONTH, lambda match: _date(match.group(3), _MONTHS[match.group(2).lower()], match.group(1)), WHOLE),
    (_MONTH_DAY, lambda match: _date(match.group(3), _MONTHS[match.group(1).lower()], match.group(2)), WHOLE),
)


_DIGRAPHS = regex.compile("ae|oe|ue|aa")
_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa"}
_LETTERS = str.maketrans({"ı": "i", "ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th", "ħ": "h"})


def plain_letters(word: str) -> str:
    """Return a word with letters that have no accent to take off, but are often typed without what they have more."""
    return word.translate(_LETTERS)


def other_spellings(word: str) -> list[str]:
    """Return how a word is spelled where its umlauts cannot be typed, or where they can: ``maerz`` for ``märz``."""
    spelled = word
    for letter, digraph in _UMLAUTS.items():
        spelled = spelled.replace(letter, digraph)
    if spelled != word:
        return [spelled]
    if len(word) > 3 and _DIGRAPHS.search(word):
        # Without the sign above it, since that is how an accent is indexed.
        return [_DIGRAPHS.sub(lambda found: found.group()[0], word)]
    return []


_HIRAGANA, _KATAKANA = range(0x3041, 0x3097), range(0x30A1, 0x30F7)
_OTHER_KANA = dict(zip(_HIRAGANA, _KATAKANA, strict=True)) | dict(zip(_KATAKANA, _HIRAGANA, strict=True))
_HAN = regex.compile(r"\p{Han}")
_VARIANTS = ("s2t", "t2s", "jp2t", "t2jp")


@lru_cache(maxsize=1 << 12)
def other_characters(run: str) -> list[str]:
    """Return a run without spaces in the other kana, in simplified, traditional and Japanese characters; each once.

    All are as long as the run: a character stands for a character.
    """
    others = [run.translate(_OTHER_KANA)]
    if _HAN.search(run):
        others += [converter.convert(run) for converter in _converters()]
    return [other for other in dict.fromkeys(others) if other != run and len(other) == len(run)]


@lru_cache(maxsize=1)
def _converters() -> list[OpenCC]:
    from opencc import OpenCC

    return [OpenCC(name) for name in _VARIANTS]


def folded_width(text: str) -> str:
    """Return a text in NFKC, as `forms` reads it."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)
