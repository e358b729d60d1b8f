"""The security gate: is an outsider named here? (SPEC 5.7)

Deterministic, always on, not pluggable, and it asks no model. A name is looked for in folded text with the spaces,
hyphens, dots and underscores inside it ignored, so a disguise has to give up looking like the name. Three readings are
searched: the text as folded, the text as a screen shows it when a right-to-left override turns a part of it round, and
the text by the shape of its letters, where a match has to prove that its odd characters can pass for the name's.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import ahocorasick_rs
import numpy as np

from ragspine_assets.policy.folding import fold_text, fold_with_offsets, may_look_like, shape_text, shape_with_offsets

ALLOW = "allow"
OUT_OF_SCOPE = "out_of_scope_entity"

_SEPARATORS = " -._\u00b7\u2022\u2027\u2219\u22c5\u30fb"
_WITHOUT_SEPARATORS = dict.fromkeys(map(ord, _SEPARATORS))
_SEPARATOR_CODES = np.array([ord(char) for char in _SEPARATORS], dtype=np.uint32)
_SEPARATOR_RUN = re.compile(f"[{re.escape(_SEPARATORS)}]+")

# Scripts that do not separate words: a name there is found inside a longer run, and does not end a Latin word.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3031-\u318f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)

# Words so common that two of them side by side are themselves and not a name cut in two: Italian "e nel" is not Enel,
# English "as us" is not Asus. Only for a name cut by spaces into nothing but such words.
_FUNCTION_WORD_LIST = """
a ad al alla as at au be but by che chi ci col con da dal de del der des di die do du e ed el en et for from
go gli has he i if il in io is it la las le lei les li lo los ma me mi my ne nei nel no non not o od of on or
per qui se she si so su sul ta te the ti to tra tu un una und up us va vi was we what who y you
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())

# A name of so many letters is recognised although its first letter is a small l for a capital I.
_LONG_NAME = 5
_KANA = re.compile("[\u3041-\u30fe\uff66-\uff9d]")
_VOICING_MARKS = "\u3099\u309a\u309b\u309c\uff9e\uff9f"
# How far behind the last kana of a name its mark may have been moved, code points.
_MARK_REACH = 6

_OVERRIDE = "\u202e"
_OVERRIDDEN = re.compile("\u202e([^\u202c\u2069]*)")


@dataclass(frozen=True, slots=True)
class _Reading:
    name: str
    fold: Callable[[str], str]
    fold_with_offsets: Callable[[str], tuple[str, list[int]]]


_FOLDED = _Reading("folded", fold_text, fold_with_offsets)
_SHAPED = _Reading("shape", shape_text, shape_with_offsets)


@dataclass(frozen=True, slots=True)
class Detection:
    """What `SecurityGate.detect` found.

    Attributes:
        external_entity: the name, as the profile shows it, of the first outsider named; None if there is none.
        masked_text: the text with every code point of every outsider's name replaced by a space; same length.
        folding: what it took to recognise the first one: ``exact``, ``case``, ``width``, ``format``, ``combining``,
            ``spacing``, ``confusable`` or ``bidi``, the furthest one needed; '' if there is none.
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
    text: str
    entity: str
    folded: str
    letters: str


@dataclass(frozen=True, slots=True)
class _Hit:
    start: int
    end: int
    alias: _Alias
    reading: str


class SecurityGate:
    """Finds the names of external entities in a text, however they are spelt (SPEC 5.7).

    Latin, Greek, Cyrillic and other scripts with spaces match whole words only; Han, kana, Hangul and South-East Asian
    scripts anywhere. Linear in the text.
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
        aliases: list[_Alias] = []
        for text, entity in external_entities.items():
            folded = fold_text(text)
            letters = folded.translate(_WITHOUT_SEPARATORS)
            if not any(char.isalnum() for char in letters):
                message = f"external entity alias {text!r} has no letter or digit"
                raise ValueError(message)
            aliases.append(_Alias(text, entity, folded, letters))
        # Longest first, then by name: the order of the profile's lines decides nothing.
        aliases.sort(key=lambda alias: (-len(alias.letters), alias.letters, alias.entity, alias.text))
        self._aliases = _first_of_each(aliases)
        self._shapes = [shape_text(alias.text).translate(_WITHOUT_SEPARATORS) for alias in self._aliases]
        self._by_letters = _automaton([alias.letters for alias in self._aliases])
        self._by_shape = _automaton(self._shapes)

    def detect(self, text: str) -> Detection:
        """Find every external entity in a text; see `Detection`."""
        hits = list(self._hits(text))
        if not hits:
            return Detection(None, text)
        order = {"folded": 0, "bidi": 1, "shape": 2}
        first = min(hits, key=lambda hit: (hit.start, -hit.end, order[hit.reading], -len(hit.alias.letters)))
        masked = list(text)
        done = 0
        for hit in sorted(hits, key=lambda hit: (hit.start, hit.end)):
            start = max(hit.start, done)
            if hit.end > start:
                masked[start : hit.end] = " " * (hit.end - start)
                done = hit.end
        folding = "bidi" if first.reading == "bidi" else _folding(text[first.start : first.end], first.alias)
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

    def _hits(self, text: str) -> Iterator[_Hit]:
        if not self._aliases or not text:
            return
        yield from self._search(text, _FOLDED, self._by_letters)
        yield from self._search(text, _SHAPED, self._by_shape)
        if _OVERRIDE in text:
            shown, origin = _as_shown(text)
            for reading, automaton in ((_FOLDED, self._by_letters), (_SHAPED, self._by_shape)):
                for hit in self._search(shown, reading, automaton):
                    sources = origin[hit.start : hit.end]
                    yield _Hit(min(sources), max(sources) + 1, hit.alias, "bidi")

    def _search(self, text: str, reading: _Reading, automaton: ahocorasick_rs.AhoCorasick) -> Iterator[_Hit]:
        candidates = list(self._candidates(reading.fold(text), automaton))
        if not candidates:
            return
        # Only now, since finding where each folded character came from takes ten times as long as folding.
        folded, offsets = reading.fold_with_offsets(text)
        for alias, first, last in candidates:
            sources = [offsets[index] for index in range(first, last + 1) if folded[index] not in _SEPARATORS]
            if reading is _SHAPED and not _passes_for(text, sources, alias.letters):
                continue
            yield _Hit(sources[0], max(offsets[last + 1], sources[-1] + 1), alias, reading.name)

    def _candidates(self, folded: str, automaton: ahocorasick_rs.AhoCorasick) -> Iterator[tuple[_Alias, int, int]]:
        """Yield alias, first and last character of each match in a folded text that is a name of its own there."""
        found = automaton.find_matches_as_indexes(folded.translate(_WITHOUT_SEPARATORS), overlapping=True)
        if not found:
            return
        codes = np.frombuffer(folded.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        places = np.flatnonzero(~np.isin(codes, _SEPARATOR_CODES))
        for number, start, end in found:
            first, last = int(places[start]), int(places[end - 1])
            alias = self._aliases[number]
            if _whole(folded, first, last + 1) and not _ordinary(folded[first : last + 1], alias.folded):
                yield alias, first, last


def _first_of_each(aliases: list[_Alias]) -> list[_Alias]:
    """Keep one alias of those that fold to the same letters."""
    kept: dict[str, _Alias] = {}
    for alias in aliases:
        kept.setdefault(alias.letters, alias)
    return list(kept.values())


def _automaton(patterns: list[str]) -> ahocorasick_rs.AhoCorasick:
    return ahocorasick_rs.AhoCorasick(patterns)


@lru_cache(maxsize=4096)
def _is_word(char: str) -> bool:
    """Tell whether a folded character belongs to a word of a script that separates its words."""
    return (char.isalnum() or unicodedata.category(char)[0] == "M") and not _UNSPACED.match(char)


def _whole(folded: str, start: int, end: int) -> bool:
    """Tell whether a match begins and ends where words do; ends in scripts without spaces always do."""
    if start and _is_word(folded[start]) and _is_word(folded[start - 1]):
        return False
    return not (end < len(folded) and _is_word(folded[end - 1]) and _is_word(folded[end]))


def _ordinary(matched: str, alias: str) -> bool:
    """Tell whether a match is but some common words in a row."""
    if " " not in matched or matched == alias:
        return False
    pieces = _SEPARATOR_RUN.split(matched)
    return any(len(piece) > 1 for piece in pieces) and all(piece in _FUNCTION_WORDS for piece in pieces)


def _passes_for(text: str, sources: list[int], letters: str) -> bool:
    """Tell whether the characters of a match by shape can pass for an alias' letters where they stand.

    ``lng`` is no ING, though ``l`` and ``I`` look the same, since a small ``l`` between small letters is read as
    such; ``GIobex`` is Globex.
    """
    if len(sources) != len(letters):
        return False
    plain = 0
    foreign = False
    for index, (source, letter) in enumerate(zip(sources, letters, strict=True)):
        char = text[source]
        if fold_text(char) == letter:
            plain += char.isascii() and char.isalpha()
            continue
        if not char.isascii():
            if _KANA.match(char):
                between = text[source + 1 : sources[index + 1] if index + 1 < len(sources) else source + _MARK_REACH]
                if not any(mark in between for mark in _VOICING_MARKS):
                    return False
            elif not may_look_like(char, letter):
                return False
            else:
                foreign = foreign or unicodedata.category(char) not in {"Lu", "Ll"}
            continue
        around = text[max(source - 1, 0) : source] + text[source + 1 : source + 2]
        if char == "I" and letter == "l":
            alike = any(other.islower() for other in around)
        elif char == "l" and letter == "i":
            alike = any(other.isupper() for other in around) or (index == 0 and len(letters) >= _LONG_NAME)
        else:
            # Digits and bars inside a word; letters inside a number that is a name.
            alike = (char in "01|" and letter in "oil") or (letter in "01" and char in "oOIl|")
            foreign = True
        if not alike:
            return False
    return not foreign or plain > 0


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
        return _SEPARATOR_RUN.sub("", " ".join(without_marks(text).split()))

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
