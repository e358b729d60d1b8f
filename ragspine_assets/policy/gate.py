"""The security gate: is an outsider named here? (SPEC 5.7)

Deterministic, always on, not pluggable, and it asks no model. A name is looked for by its letters alone, whatever stands
between them, so a disguise has to give up looking like the name. Where the letters of a name are found, the text as it
was written decides: whether a word begins and ends there, whether what parts the letters is a disguise or a sentence,
and whether each odd character can pass for the letter in whose place it stands. A text is searched as it is, as it is
shown once markup and escapes are read, and as a screen shows it when a right-to-left override turns a part of it round.

Which disguises are promised is listed in `docs/threat-model.md`; `benchmarks/gate.py` measures them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import ahocorasick_rs
import numpy as np

from ragspine_assets.policy.common_words import COMMON_WORDS
from ragspine_assets.policy.folding import fold_text
from ragspine_assets.policy.skeleton import (
    INVISIBLE,
    KINDS,
    LETTERS,
    LOWER,
    PROSE,
    SHAPES,
    SHAPES_OF_LETTERS,
    SPACE,
    UNSPACED,
    UPPER,
    VOICING,
    VOWEL_SIGNS,
    WORD,
    WRITTEN_FOR,
    Skeleton,
    letters_of,
    passes_for,
)
from ragspine_assets.policy.unwrapped import unwrapped

ALLOW = "allow"
OUT_OF_SCOPE = "out_of_scope_entity"

# Letters that are words.
_ONE_LETTER_WORDS = frozenset("aeioyu")
# A cut where these stand and nothing else may be the end of a word: of an elision, of a choice, of a list.
_PARTING = re.compile(r"[/;:'\u2019\u02bc]")
_LINE_END_HYPHEN = re.compile("[-\u2010\u2011\u00ad\u00ac][ \t]*(?:\r\n?|[\n\u2028\u2029\x85])\\s*")
_HYPHEN = "-\u2010\u2011"

# A name of so many letters is told by them alone, one of so few only as it is written.
_LONG, _SHORT = 7, 3
# A name of so many letters is recognised although its first letter is a small l for a capital I.
_LONG_FOR_L = 5
# A name of so many letters may be written in digits or have an ending.
_FOUR = 4
# So few matches are looked at one by one.
_FEW = 32
# How far behind the last kana of a name its mark may have been moved, code points.
_MARK_REACH = 6
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa\uff66-\uff9d]")
_HIRAGANA, _KATAKANA = re.compile("[\u3041-\u3096]"), re.compile("[\u30a1-\u30fa\uff66-\uff9d]")
# What may stand on either side of a Japanese name in the kana of the sentence around it.
_BEFORE_A_NAME = frozenset("はがをにのともでへやらてた")
_BEHIND_A_NAME = frozenset("はがをにのともでへやかさしだなまよね")
_KANA_NAME = 4
_SIBILANT, _MAYBE_SIBILANT = ("s", "x", "z", "sh"), ("ch", "o")

_OVERRIDE = "\u202e"
_OVERRIDDEN = re.compile("\u202e([^\u202c\u2069]*)")
_WRITTEN_FOR_LETTERS = re.compile("[@$!|+]")
_ACCENTED = re.compile("[\u00e0-\u00f6\u00f9-\u00fd]")
_SIGNIFICANT = re.compile("[&+@#]")

_NO_GAP, _TIGHT, _SPACED, _HARD = range(4)


@dataclass(frozen=True, slots=True)
class Detection:
    """What `SecurityGate.detect` found.

    Attributes:
        external_entity: the name, as the profile shows it, of the first outsider named; None if there is none.
        masked_text: the text with every code point of every outsider's name replaced by a space; same length.
        folding: what it took to recognise the first one: ``exact``, ``case``, ``width``, ``format``, ``combining``,
            ``spacing``, ``confusable``, ``markup`` or ``bidi``, the furthest one needed; '' if there is none.
    """

    external_entity: str | None
    masked_text: str
    folding: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a question may be answered.

    Attributes:
        decision: ``allow`` or ``out_of_scope_entity``.
        entity: the outsider that was named, None if allowed.
        message: why it is refused, '' if allowed.
        suggestion: what may be asked instead, '' if allowed.
    """

    decision: str
    entity: str | None = None
    message: str = ""
    suggestion: str = ""


@dataclass(frozen=True, slots=True)
class _Alias:
    """A name that is looked for.

    Attributes:
        text: as the profile writes it.
        entity: the name to show.
        letters: its letters, see `ragspine_assets.policy.skeleton`.
        cased: its letters in the case they are written in, where they have the same number.
        gaps: for each letter behind which something stands in the name, the signs that have to stand there.
        behind: the signs that have to stand behind the last letter.
        folded: the name folded, vowel signs included, for scripts in which these make the word.
        voicing: for each letter that is a kana, its voicing mark.
    """

    text: str
    entity: str
    letters: str
    cased: str
    gaps: Mapping[int, str]
    behind: str
    folded: str
    voicing: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class _View:
    """A text to search, and where in the one that was asked about its characters stand; None if it is that one."""

    text: str
    places: Sequence[int] | None
    name: str


@dataclass(frozen=True, slots=True)
class _Hit:
    start: int
    end: int
    alias: _Alias
    view: str


class SecurityGate:
    """Finds the names of external entities in a text, however they are spelt (SPEC 5.7).

    Latin, Greek, Cyrillic and other scripts with spaces match whole words only, a plural or a possessive ending and the
    words of a CamelCase name aside; Han, kana, Hangul and South-East Asian scripts anywhere. Linear in the text.
    """

    def __init__(self, external_entities: Mapping[str, str], home_company_name: str = "") -> None:
        """Prepare the aliases.

        Args:
            external_entities: alias to the name to show.
            home_company_name: the company that may be asked about; named in suggestions.

        Raises:
            ValueError: if an alias has no letter or digit left after folding.
        """
        self._home = home_company_name
        aliases = [_alias(text, entity) for text, entity in external_entities.items()]
        # Longest first, then by name: the order of the profile's lines decides nothing.
        aliases.sort(key=lambda alias: (-len(alias.letters), alias.letters, alias.entity, alias.text))
        aliases = _first_of_each(aliases)
        self._by_letters = _Patterns(aliases, LETTERS)
        self._by_shapes = _Patterns(aliases, SHAPES_OF_LETTERS)

    def detect(self, text: str) -> Detection:
        """Find every external entity in a text; see `Detection`."""
        hits = self._hits(text)
        if not hits:
            return Detection(None, text)
        order = {"": 0, "markup": 1, "bidi": 2}
        first = min(hits, key=lambda hit: (hit.start, -hit.end, order[hit.view], -len(hit.alias.letters)))
        masked: list[str] = []
        done = 0
        for hit in sorted(hits, key=lambda hit: (hit.start, hit.end)):
            start = max(hit.start, done)
            if hit.end > start:
                masked += text[done:start], " " * (hit.end - start)
                done = hit.end
        masked.append(text[done:])
        folding = first.view or _folding(text[first.start : first.end], first.alias)
        return Detection(first.alias.entity, "".join(masked), folding)

    def screen(self, *, raw_question: str, metric: str | None = None) -> Verdict:
        """Decide whether a question may be answered: not if it, or the metric it asks for, names an outsider.

        Args:
            raw_question: the question as it came.
            metric: the metric that was understood, if any; named in the suggestion.
        """
        for text in (raw_question, metric or ""):
            entity = self.detect(text).external_entity
            if entity is not None:
                home = self._home or "the home company"
                subject = (
                    f"the metric {metric} of {home}" if metric and text is not metric else f"the figures of {home}"
                )
                return Verdict(
                    OUT_OF_SCOPE,
                    entity,
                    f"{entity} is outside the scope of {home} and is not answered about",
                    f"Ask about {subject} instead",
                )
        return Verdict(ALLOW)

    def _hits(self, text: str) -> list[_Hit]:
        if not self._by_letters.aliases or not text:
            return []
        hits: dict[tuple[int, int, str], _Hit] = {}
        for view in _views(text):
            for first, last, alias in self._search(view.text):
                if view.places is None:
                    start, end = first, last + 1
                else:
                    sources = view.places[first : last + 1]
                    start, end = min(sources), max(sources) + 1
                hits.setdefault((start, end, alias.letters), _Hit(start, end, alias, view.name))
        return list(hits.values())

    def _search(self, text: str) -> Iterator[tuple[int, int, _Alias]]:
        """Yield first and last code point of each name in a text, and whose it is."""
        words = _Words(text)
        looked_at: set[tuple[int, int, int]] = set()
        strict = SHAPES_OF_LETTERS.of(text)
        if text.isascii() and not _WRITTEN_FOR_LETTERS.search(text) and not self._by_shapes.may_hold(strict):
            # Of ASCII, what has no match by its shapes has none by its letters.
            return
        for alias, places in self._by_letters.candidates(LETTERS.of(text), LETTERS, words):
            looked_at.add((places[0], places[-1], id(alias)))
            if words.names(places, alias):
                yield places[0], places[-1], alias
        shapes = SHAPES.of(text)
        readings = [(shapes, SHAPES)] if strict == shapes else [(shapes, SHAPES), (strict, SHAPES_OF_LETTERS)]
        for skeleton, how in readings:
            for alias, places in self._by_shapes.candidates(skeleton, how, words):
                key = places[0], places[-1], id(alias)
                if key not in looked_at and words.passes(places, alias) and words.names(places, alias):
                    yield places[0], places[-1], alias


class _Patterns:
    """The aliases by one skeleton of theirs."""

    def __init__(self, aliases: list[_Alias], how: Skeleton) -> None:
        self.aliases = aliases
        by_skeleton: dict[str, list[_Alias]] = {}
        for alias in aliases:
            by_skeleton.setdefault(how.of(alias.letters), []).append(alias)
            if len(alias.letters) >= _FOUR and alias.letters.endswith("y") and alias.letters.isascii():
                # The plural of a name in -y; what is found ends before its ending, as every name does.
                by_skeleton.setdefault(how.of(f"{alias.letters[:-1]}ie"), []).append(alias)
        self._named = list(by_skeleton.values())
        self._automaton = ahocorasick_rs.AhoCorasick(list(by_skeleton))

    def may_hold(self, skeleton: str) -> bool:
        """Tell whether there is any match to look at."""
        return bool(self._automaton.find_matches_as_indexes(skeleton))

    def candidates(self, skeleton: str, how: Skeleton, words: _Words) -> Iterator[tuple[_Alias, list[int]]]:
        """Yield alias and the code points of its letters for each match that a word may begin and end at."""
        found = self._automaton.find_matches_as_indexes(skeleton, overlapping=True)
        if not found:
            return
        sources = how.sources(words.codes)
        if len(found) <= _FEW:
            places = sources.tolist()
            for number, start, end in found:
                if (start and places[start - 1] == places[start]) or (
                    end < len(places) and places[end] == places[end - 1]
                ):
                    continue
                for alias in self._named[number]:
                    yield alias, places[start:end]
            return
        numbers, starts, ends = np.array(found, dtype=np.int64).T
        firsts, lasts = sources[starts], sources[ends - 1]
        # Neither begins nor ends inside what one character stands for.
        before, after = sources[np.maximum(starts - 1, 0)], sources[np.minimum(ends, len(sources) - 1)]
        whole = ((starts == 0) | (before != firsts)) & ((ends == len(sources)) | (after != lasts))
        whole &= words.may_be_whole(firsts, lasts)
        for index in np.flatnonzero(whole).tolist():
            places = sources[starts[index] : ends[index]].tolist()
            for alias in self._named[int(numbers[index])]:
                yield alias, places


class _Words:
    """A text in its words: where they begin and end, and what parts their letters."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._gaps: dict[tuple[int, int], int] = {}
        self._codes: np.ndarray | None = None

    @property
    def codes(self) -> np.ndarray:
        """The code points."""
        if self._codes is None:
            self._codes = np.frombuffer(self._text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        return self._codes

    def may_be_whole(self, firsts: np.ndarray, lasts: np.ndarray) -> np.ndarray:
        """Tell of pieces of the text, quickly, which of them are not in the middle of a word."""
        codes = self.codes
        first, last = codes[firsts], codes[lasts]
        before = np.where(firsts > 0, codes[np.maximum(firsts - 1, 0)], 32)
        stop = len(codes) - 1
        after = np.where(lasts < stop, codes[np.minimum(lasts + 1, stop)], 32)
        lower_first, lower_before = _kinds(first) & LOWER, _kinds(before)
        inside = ((lower_first != 0) & ((lower_before & WORD) != 0)) | (
            ((_kinds(last) & WORD) != 0)
            & ((_kinds(after) & LOWER) != 0)
            & ~np.isin(after, np.array([ord("s"), ord("e"), ord("S"), ord("E")], dtype=np.uint32))
            & (after < 0x250)
        )
        return ~inside

    # -- whole words -----------------------------------------------------------------------------------------------

    def names(self, places: list[int], alias: _Alias) -> bool:
        """Tell whether the letters of an alias at these places are its name."""
        return (
            self._begins(places, alias)
            and self._ends(places, alias)
            and self._sounds(places, alias)
            and self._is_one(places, alias)
            and not self._is_accented(places, alias)
        )

    def _begins(self, places: list[int], alias: _Alias) -> bool:
        text, first = self._text, places[0]
        at = first - 1
        while at >= 0 and KINDS[text[at]] == INVISIBLE:
            at -= 1
        kind, own = (KINDS[text[at]] if at >= 0 else SPACE), KINDS[text[first]]
        if not (kind & WORD and own & WORD):
            return True
        # A word of a CamelCase name: "theOkeandrift", and "XMLOkeandrift", but never behind a single letter.
        if not own & UPPER or not at or not KINDS[text[at - 1]] & WORD or not _same_script(text[at], text[first]):
            return False
        if kind & LOWER or text[at].isdecimal():
            return self._as_written(places, alias)
        return bool(len(places) > 1 and KINDS[text[places[1]]] & LOWER) and self._as_written(places, alias)

    def _ends(self, places: list[int], alias: _Alias) -> bool:
        text, last = self._text, places[-1]
        at = self._next(last)
        if alias.behind and not fold_text(text[last + 1 : last + 1 + 4 * len(alias.behind)]).startswith(alias.behind):
            return False
        if at < len(text) and "\u1160" <= text[at] <= "\u11ff":
            return False
        kind, own = (KINDS[text[at]] if at < len(text) else SPACE), KINDS[text[last]]
        if len(places) > len(alias.letters):
            # "Nokies" of "Noky": what is looked for in its place is no name by itself.
            return self._ending(at) == "s"
        if not (kind & WORD and own & WORD):
            return True
        if self._has_ending(last, at, alias):
            return True
        if not kind & UPPER or not _same_script(text[last], text[at]) or not self._as_written(places, alias):
            return False
        return bool(own & LOWER or (self._next(at) < len(text) and KINDS[text[self._next(at)]] & LOWER))

    def _next(self, place: int) -> int:
        """Return where the next character that can be seen stands."""
        text, at = self._text, place + 1
        while at < len(text) and KINDS[text[at]] == INVISIBLE:
            at += 1
        return at

    def _has_ending(self, last: int, at: int, alias: _Alias) -> bool:
        """Tell whether a plural ends a word behind a name."""
        text = self._text
        if not letters_of(text[last]).isalpha() or not alias.letters.isascii():
            return False
        ending = self._ending(at)
        if len(alias.letters) < _FOUR:
            return ending == "s" and text[at] == "s" and bool(KINDS[text[last]] & UPPER)
        return (ending == "es" and alias.letters.endswith((*_SIBILANT, *_MAYBE_SIBILANT))) or (
            ending == "s" and not alias.letters.endswith(_SIBILANT)
        )

    def _ending(self, at: int) -> str:
        """Return the rest of a word, in lower case; no more of it than an ending may have and one letter."""
        ending = ""
        while at < len(self._text) and len(ending) < _SHORT and KINDS[self._text[at]] & WORD:
            ending += self._text[at]
            at = self._next(at)
        return ending.lower()

    def _as_written(self, places: list[int], alias: _Alias) -> bool:
        """Tell whether a name inside a CamelCase name is written as names are there: a short one as itself."""
        written = "".join(self._text[place] for place in places)
        if len(alias.letters) < _FOUR:
            return written == alias.cased
        return bool(KINDS[written[0]] & UPPER)

    # -- letters -----------------------------------------------------------------------------------------------

    def _sounds(self, places: list[int], alias: _Alias) -> bool:
        """Tell whether vowel signs and voicing marks, which are no letters of their own, are those of the name."""
        text = self._text
        if alias.folded:
            end = places[-1] + 1
            while end < len(text) and unicodedata.category(text[end])[0] == "M":
                end += 1
            return _with_vowels(text[places[0] : end]) == alias.folded
        if not alias.voicing:
            return True
        for index, mark in alias.voicing.items():
            if index >= len(places):
                return False
            place = places[index]
            if _KANA.match(text[place]) and _voicing(text, place) != mark:
                return False
        return self._is_of_its_kind(places, alias)

    def _is_accented(self, places: list[int], alias: _Alias) -> bool:
        """Tell whether a match is a short word in small letters with an accent of its own: "über" is not Uber."""
        if len(alias.letters) >= _LONG or not alias.cased[:1].isupper() or not alias.cased.isascii():
            return False
        written = self._text[places[0] : places[-1] + 1]
        word = unicodedata.normalize("NFC", written)
        accented = [char for char in word if not char.isascii()]
        return (
            word.islower()
            and len(word) == len(alias.letters)
            and len(accented) == 1
            and bool(_ACCENTED.match(accented[0]))
        )

    def _is_of_its_kind(self, places: list[int], alias: _Alias) -> bool:
        """Tell whether a short name in the other kana than its own stands apart from the kana around it."""
        written = "".join(self._text[place] for place in places)
        for own, other in ((_KATAKANA, _HIRAGANA), (_HIRAGANA, _KATAKANA)):
            if len(written) > _KANA_NAME or not all(map(other.match, written)) or not any(map(own.match, alias.cased)):
                continue
            before = self._text[places[0] - 1 : places[0]]
            after = self._text[places[-1] + 1 : places[-1] + 2]
            if other is _KATAKANA:
                return not _KATAKANA.match(before) and not _KATAKANA.match(after)
            return (not other.match(before) or before in _BEFORE_A_NAME) and (
                not other.match(after) or after in _BEHIND_A_NAME
            )
        return True

    def passes(self, places: list[int], alias: _Alias) -> bool:
        """Tell whether the characters of a match of shapes can pass for an alias' letters where they stand.

        ``lng`` is no ING, though ``l`` and ``I`` look the same, since a small ``l`` between small letters is read as
        such; ``GIobex`` is Globex. Digits pass for letters where letters are left, so that no number is a name.
        """
        text, letters = self._text, alias.letters
        if len(places) != len(letters):
            return False
        plain = alike = digits = 0
        foreign = False
        previous = -1
        for index, (place, letter) in enumerate(zip(places, letters, strict=True)):
            char = text[place]
            if place == previous or letters_of(char) == letter:
                plain += char.isascii() and char.isalpha()
                alike += not (char.isascii() and char.isalpha())
                previous = place
                continue
            previous = place
            bare = char if char.isascii() else unicodedata.normalize("NFKD", char)
            if bare == letter:
                alike += 1
            elif char.isascii() or (len(bare) == 1 and bare.isascii() and not bare.isalpha()):
                around = text[max(place - 1, 0) : place] + text[place + 1 : place + 2]
                if char == "I" and letter == "l":
                    passes = any(other.islower() for other in around)
                    alike += passes
                elif char == "l" and letter == "i":
                    passes = (any(map(str.isupper, around)) and not any(map(str.islower, around))) or (
                        index == 0 and len(letters) >= _LONG_FOR_L
                    )
                    alike += passes
                else:
                    passes = self._written_for(bare, letter, alias) and not (
                        bare in "!|+" and index in {0, len(letters) - 1} and len(letters) < _LONG
                    )
                    digits += passes
                if not passes:
                    return False
            elif not passes_for(char, letter):
                return False
            else:
                alike += 1
                foreign = foreign or unicodedata.category(char) not in {"Lu", "Ll"}
        if digits:
            # A number in base 16 has a digit in front as often as not: "6e7a" is not Beta, "m37a" is Meta.
            many = len(letters) > _FOUR or (len(letters) == _FOUR and text[places[0]].isalpha())
            return plain + alike > 1 and 2 * digits <= len(letters) and (digits == 1 or many)
        return not foreign or plain > 0 or len(letters) >= _FOUR

    def _written_for(self, char: str, letter: str, alias: _Alias) -> bool:
        if len(alias.letters) < _SHORT:
            return False
        if len(alias.letters) == _SHORT and char not in "01|":
            return False
        return letter in WRITTEN_FOR.get(char, "") or (
            letter.isdecimal() and len(alias.letters) >= _FOUR and char.lower() in WRITTEN_FOR[letter]
        )

    # -- what parts the letters ------------------------------------------------------------------------------------

    def _gap(self, before: int, after: int) -> int:
        """Return what parts two letters: nothing that can be seen, signs, white space, or the end of a sentence."""
        key = before, after
        if key not in self._gaps:
            between = self._text[before + 1 : after]
            seen = 0
            for char in set(between) if len(between) > _LONG else between:
                seen |= KINDS[char]
            if not seen & ~INVISIBLE:
                gap = _NO_GAP
            elif not seen & SPACE or _LINE_END_HYPHEN.fullmatch(between):
                gap = _TIGHT
            elif seen & PROSE or between[0] == ".":
                gap = _HARD
            else:
                gap = _SPACED
            self._gaps[key] = gap
        return self._gaps[key]

    def _is_one(self, places: list[int], alias: _Alias) -> bool:
        """Tell whether what parts the letters of a name leaves it one."""
        if places[-1] - places[0] + 1 == len(places) and not any(alias.gaps.values()):
            return True
        text = self._text
        pieces: list[str] = []
        start, cut, widest = 0, False, _NO_GAP
        gaps: set[str] = set()
        hard = False
        for index in range(1, len(places)):
            before, after = places[index - 1], places[index]
            signs = alias.gaps.get(index - 1)
            gap = self._gap(before, after) if after > before + 1 else _NO_GAP
            if signs and not all(sign in text[before + 1 : after] for sign in signs):
                return False
            if gap == _NO_GAP:
                continue
            if signs is None:
                gaps.add(text[before + 1 : after])
            pieces.append(alias.letters[start:index])
            start = index
            if signs is None:
                cut = True
                widest = max(widest, gap)
            if gap == _HARD and not (text[before + 1] == "." and (signs is not None or len(pieces[-1]) == 1)):
                hard = True
        pieces.append(alias.letters[start:])
        size = len(alias.letters)
        single = all(len(piece) == 1 for piece in pieces)
        if hard:
            return single and size >= _FOUR and len(gaps) == 1
        if not cut or bool(UNSPACED.match(text[places[0]])):
            return True
        written = "".join(text[place] for place in places)
        exact = written == alias.cased
        if size <= _SHORT:
            return (exact and written.isalpha() and (single or not _are_words(pieces))) or (
                single and size == _SHORT and widest == _TIGHT and len(gaps) == 1 and not _are_words(pieces)
            )
        if single:
            return True
        parting = any(_PARTING.search(gap) for gap in gaps)
        if widest == _TIGHT and not parting:
            # "vis-à-vis" is a word of three, and its first two are not Visa.
            around = text[places[0] - 1 : places[0]], text[places[-1] + 1 : places[-1] + 2]
            return not (any(char and char in _HYPHEN for char in around) and _are_words(pieces))
        return not self._are_ordinary(places, pieces, alias)

    def _are_ordinary(self, places: list[int], pieces: list[str], alias: _Alias) -> bool:
        """Tell whether the pieces of a name that is cut are but words in a row."""
        written = unicodedata.normalize("NFKD", "".join(self._text[place] for place in places))
        if not all(char.isascii() or unicodedata.category(char)[0] == "M" for char in written):
            return False
        if _are_words(pieces):
            return not self._stands_out(places)
        if len(alias.letters) >= _LONG or any(char.isupper() for char in written):
            return False
        # One that is no word of ours among words of ours may be one, if nothing is written as a name is.
        unknown = [piece for piece in pieces if not _is_word(piece)]
        return len(unknown) < len(pieces) and all(len(piece) <= _SHORT for piece in unknown)

    def _stands_out(self, places: list[int]) -> bool:
        """Tell whether one of some words is written as a name is where no sentence begins: "we saw Met a there"."""
        text = self._text
        if not KINDS[text[places[0]]] & UPPER or any(KINDS[text[place]] & UPPER for place in places[1:]):
            return False
        first = places[0]
        return first > 1 and text[first - 1] == " " and bool(KINDS[text[first - 2]] & LOWER)


def _kinds(codes: np.ndarray) -> np.ndarray:
    """Return the kinds of code points; those that are not known yet are learnt."""
    kinds = _KIND_TABLE[codes]
    unknown = codes[kinds == 0]
    if unknown.size:
        for code in set(unknown.tolist()):
            _KIND_TABLE[code] = KINDS[chr(code)]
        kinds = _KIND_TABLE[codes]
    return kinds


_KIND_TABLE = np.zeros(0x110000, np.uint8)


def _is_word(piece: str) -> bool:
    return piece in _ONE_LETTER_WORDS if len(piece) == 1 else piece in COMMON_WORDS


def _are_words(pieces: list[str]) -> bool:
    """Tell whether each piece is a common word, or the letter that one leaves before an apostrophe."""
    return any(len(piece) > 1 for piece in pieces) and all(piece in COMMON_WORDS for piece in pieces)


def _same_script(left: str, right: str) -> bool:
    return unicodedata.name(left, "").split(" ")[0] == unicodedata.name(right, "").split(" ")[0] or left.isdecimal()


def _voicing(text: str, place: int) -> str:
    """Return the voicing mark of a kana, its own or one that stands behind it; '' for none or one it cannot have."""
    parts = unicodedata.normalize("NFKD", text[place])
    if len(parts) > 1:
        return parts[1]
    for char in text[place + 1 : place + 1 + _MARK_REACH]:
        if char in VOICING:
            mark = unicodedata.normalize("NFKD", char).strip()
            return mark if len(unicodedata.normalize("NFC", parts + mark)) == 1 else ""
        if letters_of(char):
            break
    return ""


def _with_vowels(text: str) -> str:
    """Return the letters of a folded text with its combining characters, which in some scripts are vowels."""
    return "".join(char for char in fold_text(text) if char.isalnum() or unicodedata.category(char)[0] == "M")


def _alias(text: str, entity: str) -> _Alias:
    letters = LETTERS.of(text)
    folded = fold_text(text)
    if not letters and any(char.isalnum() for char in folded):
        # A name of nothing but marks that otherwise stand beside one.
        letters = LETTERS.of(folded)
    if not letters:
        message = f"external entity alias {text!r} has no letter or digit"
        raise ValueError(message)
    sources = [index for index, char in enumerate(text) for _ in letters_of(char)]
    same = len(sources) == len(letters)
    gaps: dict[int, str] = {}
    behind = ""
    voicing: dict[int, str] = {}
    if same:
        for index, (before, after) in enumerate(pairwise(sources)):
            between = text[before + 1 : after]
            if any(KINDS[char] != INVISIBLE for char in between):
                gaps[index] = "".join(_SIGNIFICANT.findall(between))
        if len(letters) < _FOUR:
            behind = "".join(_SIGNIFICANT.findall(text[sources[-1] + 1 :]))
        voicing = {index: _voicing(text, place) for index, place in enumerate(sources) if _KANA.match(text[place])}
    cased = "".join(text[place] for place in sources) if same else letters
    return _Alias(
        text, entity, letters, cased, gaps, behind, _with_vowels(text) if VOWEL_SIGNS.search(folded) else "", voicing
    )


def _first_of_each(aliases: list[_Alias]) -> list[_Alias]:
    """Keep one alias of those that are the same name."""
    kept: dict[tuple[str, ...], _Alias] = {}
    for alias in aliases:
        signs = "".join(f"{index}{signs}" for index, signs in alias.gaps.items() if signs) + alias.behind
        voicing = "".join(f"{index}{mark}" for index, mark in alias.voicing.items() if mark)
        kept.setdefault((alias.letters, signs, alias.folded, voicing), alias)
    return list(kept.values())


def _views(text: str) -> Iterator[_View]:
    """Yield a text as it is, and as it is shown."""
    yield _View(text, None, "")
    if shown := unwrapped(text):
        yield _View(*shown, "markup")
    if _OVERRIDE in text:
        turned, origin = _as_shown(text)
        yield _View(turned, origin, "bidi")


def _as_shown(text: str) -> tuple[str, list[int]]:
    """Return a text with what right-to-left overrides turn round in the order shown, and each character's origin."""
    origin: list[int] = []
    done = 0
    for run in _OVERRIDDEN.finditer(text):
        origin.extend(range(done, run.start(1)))
        origin.extend(range(run.end(1) - 1, run.start(1) - 1, -1))
        done = run.end(1)
    origin.extend(range(done, len(text)))
    return "".join([text[index] for index in origin]), origin


def _folding(matched: str, alias: _Alias) -> str:
    """Name the furthest folding that it takes to recognise an alias."""

    def case(text: str) -> str:
        return text.casefold()

    def width(text: str) -> str:
        return unicodedata.normalize("NFKC", text).casefold()

    def without_format(text: str) -> str:
        return "".join(char for char in width(text) if unicodedata.category(char) not in {"Cf", "Cc"})

    def without_marks(text: str) -> str:
        decomposed = unicodedata.normalize("NFKD", without_format(text))
        return "".join(char for char in decomposed if unicodedata.category(char)[0] != "M")

    def without_separators(text: str) -> str:
        return "".join(char for char in without_marks(text) if char.isalnum())

    if matched == alias.text:
        return "exact"
    steps = {
        "case": case,
        "width": width,
        "format": without_format,
        "combining": without_marks,
        "spacing": without_separators,
    }
    return next((name for name, step in steps.items() if step(matched) == step(alias.text)), "confusable")
