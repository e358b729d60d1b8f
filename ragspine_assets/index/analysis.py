"""How texts become index terms, and what a query asks for: tokens as they are, or stems and spellings (SPEC 4.2, 10.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Literal, Protocol, get_args

import numpy as np
import regex

from ragspine_assets.index.irregular import BASE_OF
from ragspine_assets.index.languages import ReadDocument, languages_of, stemmer
from ragspine_assets.index.query import QueryTerm
from ragspine_assets.index.spellings import WHOLE, folded_width, forms, other_characters, other_spellings, plain_letters
from ragspine_assets.index.tokens import Tokens, WordTerms, is_unspaced, tokenize, tokens_by, tokens_of, without_accents

AnalyzerName = Literal["default", "stemmed", "plain"]
"""``plain``: tokens as they are (SPEC 4.2). ``stemmed``: word endings removed by the rules of the document's language, and
the spellings of a thing brought together. ``default``: the recommended one of them, which is ``stemmed``."""

_BETWEEN = "\0"
_VARIANT = 0.6
"""What a spelling is worth that may be another word."""

_JOINED, _TOGETHER, _PART = 0.8, 0.3, 0.5
"""What words written as one are worth; words that stand together, beside what each is worth; a part of a word."""

_SHORT = 3
"""Code points of a word that may be one with its neighbour; shorter ones make other words by chance."""

_NEIGHBOURS = 64
"""Words of a query that are also read together with the next; longer queries are texts."""

# Words of these scripts are read by the rules of the language that most texts in them have, whatever the document's.
_OF_SCRIPT = {
    "Cyrillic": "ru",
    "Greek": "el",
    "Arabic": "ar",
    "Devanagari": "hi",
    "Armenian": "hy",
    "Tamil": "ta",
}
_SCRIPT = regex.compile("|".join(rf"(?P<{name}>\p{{{name}}})" for name in _OF_SCRIPT))


class Analyzer(Protocol):
    """Turns documents and queries into terms that match when the words do."""

    def languages(self, documents: Iterable[ReadDocument]) -> list[str]:
        """Return by which language's rules each document is read, ``''`` for none."""
        ...

    def terms(self, text: str, language: str) -> list[str]:
        """Return the terms of a text of a document in that language: as many as the text is long."""
        ...

    def forms(self, text: str, language: str) -> list[str]:
        """Return the terms that the text is found by besides; they count for no length."""
        ...

    def tokens(self, texts: Sequence[str], language: str) -> Tokens:
        """Return the terms and forms of many texts in that language, to be counted, faster than one by one."""
        ...

    def query(self, text: str, languages: Sequence[str]) -> list[QueryTerm]:
        """Return what a query asks for of documents in some languages, each of its words once for every time it is there."""
        ...

    def words(self, words: Sequence[str], languages: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the terms that stand for single words, folded, in some languages."""
        ...


class PlainAnalyzer:
    """Tokens of SPEC 4.2, whatever the language."""

    def languages(self, documents: Iterable[ReadDocument]) -> list[str]:
        """Return ``''`` for each: no language matters here."""
        return [""] * sum(1 for _ in documents)

    def terms(self, text: str, language: str) -> list[str]:
        """Return the tokens of a text."""
        del language
        return tokenize(text)

    def forms(self, text: str, language: str) -> list[str]:
        """Return nothing: a token has no other form."""
        del text, language
        return []

    def tokens(self, texts: Sequence[str], language: str) -> Tokens:
        """Return the tokens of many texts."""
        del language
        return tokens_of(texts)

    def query(self, text: str, languages: Sequence[str]) -> list[QueryTerm]:
        """Return the tokens of a query."""
        del languages
        return [QueryTerm((token,)) for token in tokenize(text)]

    def words(self, words: Sequence[str], languages: Sequence[str]) -> list[tuple[str, ...]]:
        """Return each word."""
        del languages
        return [(word,) for word in words]


class StemmingAnalyzer:
    """Words without their endings, by the Snowball rules of the document's language, and the forms of `spellings`.

    A query is read by the rules of every language there is, since a few words are too little to tell one by; languages
    without such rules, and scripts without spaces, keep their tokens.
    """

    def languages(self, documents: Iterable[ReadDocument]) -> list[str]:
        """Return by which language's rules each document is read, see `languages_of`."""
        return languages_of(documents)

    def terms(self, text: str, language: str) -> list[str]:
        """Return the stems of a text."""
        return tokens_by(text, _all_of(_stems(language)))

    def forms(self, text: str, language: str) -> list[str]:
        """Return the further forms of a text, see `spellings`."""
        stems = _stems(language)
        return [_form(form, stems) for _, form in forms(folded_width(text))]

    def tokens(self, texts: Sequence[str], language: str) -> Tokens:
        """Return the stems and the further forms of many texts."""
        stems = _stems(language)
        tokens = tokens_of(texts, _all_of(stems))
        together = _BETWEEN.join(folded_width(text).replace(_BETWEEN, " ") for text in texts)
        found = list(forms(together))
        if not found:
            return tokens
        ends = np.cumsum([len(folded_width(text)) + 1 for text in texts])
        places = np.fromiter((place for place, _ in found), np.int64, len(found))
        return Tokens(
            tokens.size,
            [*tokens.words, *(_form(form, stems) for _, form in found)],
            np.append(tokens.words_in, np.searchsorted(ends, places, "right").astype(np.int32)),
            tokens.characters,
            tokens.characters_in,
            len(found),
        )

    def query(self, text: str, languages: Sequence[str]) -> list[QueryTerm]:
        """Return what a query asks for, see `Analyzer`."""
        words: list[str] = []
        tokens_by(text, lambda found: words.extend(found) or found)
        asked = [
            _asked(word, terms, languages)
            for word, terms in zip(words, self.words(words, languages), strict=True)
            if terms
        ]
        known = set(words)
        for form in dict.fromkeys(form for _, form in forms(folded_width(text))):
            whole = form.removeprefix(WHOLE)
            if whole != form:
                # Its words are asked for too: this tells those that stand together from those that do not.
                variants = [(_marked(whole, languages), _TOGETHER), (_read(whole, languages), _JOINED)]
            else:
                variants = [(_read(form, languages), _PART)]
            if form not in known:
                asked.append(QueryTerm((), tuple((term, weight) for terms, weight in variants for term in terms)))
        for first, second in pairwise(words[:_NEIGHBOURS]):
            number = first.isdecimal() or second.isdecimal()
            if number or min(len(first), len(second)) >= _SHORT:
                variants = [(term, _JOINED) for term in _read(first + second, languages)]
                variants += [(term, _TOGETHER) for term in _marked(first + second, languages) if number]
                asked.append(QueryTerm((), tuple(variants)))
        if not text.isascii():
            asked += _characters(text)
        return asked

    def words(self, words: Sequence[str], languages: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the stems that stand for single words, folded, in some languages."""
        return [_read(word, languages) for word in words]


def _form(form: str, stems: _Stems) -> str:
    """Return the term of a form."""
    return WHOLE + stems[form[1:]] if form.startswith(WHOLE) else stems[form]


def _asked(word: str, terms: tuple[str, ...], languages: Sequence[str]) -> QueryTerm:
    variants = [(term, _JOINED) for term in _marked(word, languages)]
    variants += [(term, _VARIANT) for other in other_spellings(word) for term in _read(other, languages)]
    return QueryTerm(terms, tuple(variants), word)


def _marked(whole: str, languages: Sequence[str]) -> tuple[str, ...]:
    return tuple(WHOLE + term for term in _read(whole, languages))


def _characters(text: str) -> Iterable[QueryTerm]:
    """Yield the characters and pairs of a query that stand in runs without spaces."""
    words: list[str] = []
    tokens = tokens_by(text, lambda found: words.extend(found) or ())
    for token in tokens:
        yield QueryTerm((token,), tuple((other, _VARIANT) for other in other_characters(token)))


def _read(word: str, languages: Sequence[str]) -> tuple[str, ...]:
    """Return the different terms of a word by the rules of some languages."""
    terms = (_stems(language)[word] for language in languages or ("",))
    return tuple(filter(None, dict.fromkeys(terms)))


class _Stems(dict[str, str]):
    """The term of each word by one language's rules, found when it is asked for first."""

    def __init__(self, language: str) -> None:
        self._language = language

    def __missing__(self, word: str) -> str:
        if len(self) >= _REMEMBERED:
            self.clear()
        term = self[word] = _stem(word, self._language)
        return term


_REMEMBERED = 1 << 18


@cache
def _stems(language: str) -> _Stems:
    return _Stems(language)


def _all_of(stems: _Stems) -> WordTerms:
    return lambda words: list(map(stems.__getitem__, words))


def _stem(word: str, language: str) -> str:
    if not word.isascii():
        script = _SCRIPT.search(word)
        if script is not None and script.lastgroup is not None:
            own = _OF_SCRIPT[script.lastgroup]
            language = language if _writes(language, script.lastgroup) else own
        elif is_unspaced(word[0]):
            return word
    rules = stemmer(language)
    folded = word if word.isascii() else plain_letters(without_accents(word))
    if rules is None:
        return folded
    if language == "en":
        folded = BASE_OF.get(folded, folded)
    # In Latin script people leave accents out, so a stem must not depend on them; elsewhere a mark can make another
    # letter, which the rules need to see.
    if folded.isascii():
        return rules.stemWord(folded)
    try:
        return without_accents(rules.stemWord(word))
    except UnicodeEncodeError:
        # Half of a surrogate pair, which no text has and any asker may send.
        return folded


_WRITTEN_IN = {
    "Cyrillic": {"ru", "sr"},
    "Greek": {"el"},
    "Arabic": {"ar", "fa"},
    "Devanagari": {"hi", "ne"},
    "Armenian": {"hy"},
    "Tamil": {"ta"},
}


def _writes(language: str, script: str) -> bool:
    return language in _WRITTEN_IN[script]


def make_analyzer(name: AnalyzerName) -> Analyzer:
    """Return the analyzer of that name.

    Raises:
        ValueError: there is none of that name; the message lists them.
    """
    if name == "plain":
        return PlainAnalyzer()
    if name in {"default", "stemmed"}:
        return StemmingAnalyzer()
    message = f"unknown analyzer {name!r}; there are: {', '.join(get_args(AnalyzerName))}"
    raise ValueError(message)
