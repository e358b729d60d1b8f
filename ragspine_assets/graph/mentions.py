"""Finding the profile's entities in text: aliases by Aho-Corasick on folded text (SPEC 5.2).

An alias in a script that separates words is found as a whole word; in Han, kana, Thai, Lao, Khmer and Burmese there is
no such boundary, so anywhere. The leftmost and longest alias wins, and the aliases of external entities take part: what
is inside a competitor's name does not name an entity of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256

import ahocorasick_rs
import regex

from ragspine_assets.graph.values import ENTITY, EXTERNAL_ENTITY, METRIC
from ragspine_assets.policy import DomainProfile, SecurityGate, fold_text
from ragspine_assets.policy.reading import VERSION as READING_VERSION
from ragspine_assets.policy.reading import Squeezed, is_plain, readings, unescaped

# Part of the vocabulary's digest: a change of the rules below makes every document be scanned again.
_RULES = f"mentions 2, {READING_VERSION}"

_UNSPACED = regex.compile(
    r"[\p{Han}\p{scx=Hiragana}\p{scx=Katakana}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]", regex.VERSION1
)
_HANGUL = regex.compile(r"\p{Hangul}")
# What Korean writes onto the end of a noun; anything else there makes it another word.
_PARTICLES = (
    "은 는 이 가 을 를 의 에 와 과 도 로 으로 에서 에게 에는 에도 께서 만 까지 부터 처럼 보다 이나 나 "
    "라는 이라는 측 측은 에서는 에서도 으로는 로는 와의 과의 이다 입니다"
)


@cache
def _particles() -> frozenset[str]:
    return frozenset(fold_text(_PARTICLES).split(" "))


@cache
def _particle_run() -> regex.Pattern[str]:
    """Return what matches the Hangul behind a name, one more than the longest particle has at most."""
    return regex.compile(rf"\p{{Hangul}}{{0,{max(map(len, _particles())) + 1}}}")


@dataclass(frozen=True)
class _Alias:
    text: str
    # Code of our entity, or empty: the alias is an external entity's, or ambiguous, and only covers text.
    code: str


class Vocabulary:
    """The names a profile knows, ready to be found in text and to canonicalise what metadata and facts say.

    Attributes:
        digest: sha256 of the aliases and the rules; equal digests find equal mentions in equal text.
        ambiguous: how many aliases, once folded, stand for two things; such an alias names neither.
    """

    def __init__(self, profile: DomainProfile) -> None:
        self._entities = frozenset(profile.entity_codes())
        self._externals = frozenset(name for name in profile.external_entities.values() if name)
        metrics = profile.dimension(METRIC)
        self._metric_codes = frozenset((*metrics.synonyms.values(), *metrics.labels)) if metrics else frozenset()
        home, clashes = _folded(profile.synonym_entities())
        external, external_clashes = _folded({**{name: name for name in self._externals}, **profile.external_entities})
        self._metrics, metric_clashes = _folded(metrics.synonyms if metrics else {})
        both = home.keys() & external.keys()
        self.ambiguous = len(clashes | external_clashes | both) + len(metric_clashes)
        self._home = {alias: code for alias, code in home.items() if alias not in both}
        self._external = external
        covering = external.keys() | clashes | external_clashes
        found = {**self._home, **dict.fromkeys(covering, "")}
        self._aliases = [_Alias(text, code) for text, code in sorted(found.items())]
        self._automaton = _automaton([alias.text for alias in self._aliases])
        self._squeezed = Squeezed([alias.text for alias in self._aliases])
        # A name with marks of its own is found where they stand, and only there.
        self._marked = frozenset(number for number, alias in enumerate(self._aliases) if not is_plain(alias.text))
        self._profile = profile
        self.digest = sha256(
            repr((_RULES, [(alias.text, alias.code) for alias in self._aliases])).encode("utf-8", "surrogatepass")
        ).hexdigest()

    def entities_in(self, text: str) -> tuple[str, ...]:
        """Return the codes of our entities that a text names, sorted, each once. Linear in the text.

        Marks are taken off first, once as nothing and once as a space: a name in bold is the whole name, and half of it
        in bold is no other one.
        """
        if self._automaton is None or not self._squeezed.may_hold(text):
            return ()
        views = readings(text)
        codes = {code for view in views for code in self._codes_in(view, marked=view == text)}
        if self._marked and views != (text,):
            codes.update(self._codes_in(unescaped(text), marked=True, plain=False))
        return tuple(sorted(codes))

    def _codes_in(self, text: str, *, marked: bool, plain: bool = True) -> set[str]:
        assert self._automaton is not None
        folded = fold_text(text)
        codes = set()
        behind = 0
        for start, negative_end, number in sorted(
            (start, -end, number)
            for number, start, end in self._automaton.find_matches_as_indexes(folded, overlapping=True)
            if (marked or number not in self._marked) and is_whole(folded, self._aliases[number].text, start, end)
        ):
            if start >= behind:
                behind = -negative_end
                if plain or number in self._marked:
                    codes.add(self._aliases[number].code)
        codes.discard("")
        return codes

    def is_alias(self, folded: str) -> bool:
        """Tell whether a folded name is one that `entities_in` looks for."""
        return any(alias.text == folded for alias in self._aliases)

    def names_external(self, name: str) -> bool:
        """Tell whether the security gate finds an external entity in a name, in any disguise it knows (SPEC 5.7)."""
        return self._gate.detect(name).external_entity is not None

    @cached_property
    def _gate(self) -> SecurityGate:
        # The name shown is a name too, whether or not the profile lists it among the aliases.
        names = {name: name for name in self._externals}
        return SecurityGate({**names, **self._profile.external_entities}, self._profile.home_company_name)

    def resolve_entity(self, name: str) -> tuple[str, str]:
        """Return type and id of the node that a name in metadata or in a fact stands for; id empty for no name.

        A code of the profile or the display name of an external entity is itself; a synonym of either is resolved;
        any other name is an entity of its own, under the name as given.
        """
        name = name.strip()
        if name in self._entities:
            return ENTITY, name
        if name in self._externals:
            return EXTERNAL_ENTITY, name
        folded = fold_text(name).strip()
        if folded in self._home:
            return ENTITY, self._home[folded]
        if folded in self._external:
            return EXTERNAL_ENTITY, self._external[folded]
        return ENTITY, name

    def known_entity(self, name: str) -> str:
        """Return the code of the profile's entity that a name stands for; empty if it stands for none of them."""
        kind, code = self.resolve_entity(name)
        return code if kind == ENTITY and code in self._entities else ""

    def known_metric(self, name: str) -> str:
        """Return the code of the profile's metric that a name stands for; empty if it stands for none of them."""
        code = self.resolve_metric(name)[1]
        return code if code in self._metric_codes else ""

    def resolve_metric(self, name: str) -> tuple[str, str]:
        """Return type and id of the node that a metric in a fact stands for, as `resolve_entity` does."""
        name = name.strip()
        if name in self._metric_codes:
            return METRIC, name
        return METRIC, self._metrics.get(fold_text(name).strip(), name)


def _folded(synonyms: Mapping[str, str]) -> tuple[dict[str, str], set[str]]:
    """Return the synonyms by their folded text, and apart the folded texts that stand for more than one code."""
    codes: dict[str, set[str]] = {}
    for alias, code in synonyms.items():
        text = fold_text(alias).strip()
        if text and code:
            codes.setdefault(text, set()).add(code)
    clear = {text: next(iter(found)) for text, found in codes.items() if len(found) == 1}
    return clear, codes.keys() - clear.keys()


def _automaton(patterns: Iterable[str]) -> ahocorasick_rs.AhoCorasick | None:
    patterns = list(patterns)
    return ahocorasick_rs.AhoCorasick(patterns, store_patterns=False) if patterns else None


def is_whole(folded: str, alias: str, start: int, end: int) -> bool:
    """Tell whether an alias stands for itself there, and is not a piece of a longer word."""
    if start and _joins(folded[start - 1], alias[0]):
        return False
    if end == len(folded) or not _joins(alias[-1], folded[end]):
        return True
    if not _HANGUL.match(alias[-1]):
        return False
    run = _particle_run().match(folded, end)
    return run is not None and run.group() in _particles()


def _joins(left: str, right: str) -> bool:
    """Tell whether two neighbouring characters belong to one word: letters or digits, in scripts that space words."""
    if not (left.isalnum() and right.isalnum()) or _UNSPACED.match(left) or _UNSPACED.match(right):
        return False
    # A change between Hangul and another alphabet ends a word: Korean writes particles onto foreign names.
    return bool(_HANGUL.match(left)) == bool(_HANGUL.match(right))
