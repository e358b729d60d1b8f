"""Variants of a query: the same question in the other words a profile knows for the same thing (SPEC 4.4)."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import regex

from ragspine_assets.errors import is_cancel

if TYPE_CHECKING:
    from ragspine_assets.policy.profile import DomainProfile

_logger = logging.getLogger(__name__)

_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")


@runtime_checkable
class QueryRewriter(Protocol):
    """Gives other wordings of a query; each is searched, and the rankings are fused."""

    def rewrite(self, query: str) -> list[str]:
        """Return variants of a query; the query itself is searched whether it is among them or not."""
        ...


def rewritten(rewriter: QueryRewriter | None, query: str) -> list[str]:
    """Return the variants a rewriter gives; none where there is no rewriter, or where it fails: an answer is owed."""
    if rewriter is None:
        return []
    try:
        return [variant for variant in rewriter.rewrite(query) if isinstance(variant, str)]
    except BaseException as error:
        if is_cancel(error):
            raise
        _logger.warning("the rewriter %s failed (%s); the query stays", type(rewriter).__name__, type(error).__name__)
        return []


class SynonymRewriter:
    """Replaces a name in a query by the other names of the same entity, metric or other controlled value.

    Names are the synonyms, labels and codes of a profile. In scripts with spaces only whole words are names.

    Args:
        profile: where the names come from.
        max_variants: how many queries to give at most, the original included.
    """

    def __init__(self, profile: DomainProfile, *, max_variants: int = 5) -> None:
        self._max_variants = max_variants
        self._names: dict[str, list[str]] = {}
        for group in _groups(profile):
            for name in group:
                # A name of two things belongs to the first of them.
                self._names.setdefault(_fold(name), group)
        longest_first = sorted(filter(None, self._names), key=lambda name: (-len(name), name))
        self._pattern = regex.compile("|".join(map(_whole, longest_first))) if longest_first else None

    def rewrite(self, query: str) -> list[str]:
        """Return the query and its variants, in each of which one name is replaced."""
        if self._pattern is None:
            return [query]
        folded = _fold(query)
        per_name = [
            [folded[: found.start()] + other + folded[found.end() :] for other in self._others(found.group())]
            for found in self._pattern.finditer(folded)
        ]
        # In turns, so that a name with many synonyms leaves room for the next.
        variants = (variant for turn in zip_longest(*per_name) for variant in turn if variant is not None)
        return list(dict.fromkeys(islice(_prepend(query, variants), max(self._max_variants, 1))))

    def _others(self, name: str) -> list[str]:
        return [other for other in self._names[name] if _fold(other) != name]


def _groups(profile: DomainProfile) -> Iterator[list[str]]:
    yield from _grouped([*profile.synonym_entities().items()], [*profile.home_entity_labels.items()])
    for spec in profile.dimensions:
        yield from _grouped([*spec.synonyms.items()], [*spec.labels.items()])


def _grouped(synonyms: Iterable[tuple[str, str]], labels: Iterable[tuple[str, str]]) -> Iterator[list[str]]:
    """Yield the different names of each value: synonyms in the profile's order, then its label, then its code."""
    groups: dict[str, dict[str, str]] = {}
    named = [*synonyms, *((label, code) for code, label in labels)]
    for name, code in [*named, *((code, code) for _, code in named)]:
        groups.setdefault(code, {}).setdefault(_fold(name), name)
    return (list(group.values()) for group in groups.values())


def _fold(text: str) -> str:
    return regex.sub(r"\s+", " ", unicodedata.normalize("NFKC", text).casefold()).strip()


def _whole(name: str) -> str:
    before = "" if _UNSPACED.match(name[0]) else r"(?<![\p{L}\p{M}\p{N}])"
    behind = "" if _UNSPACED.match(name[-1]) else r"(?![\p{L}\p{M}\p{N}])"
    return before + regex.escape(name) + behind


def _prepend(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest
