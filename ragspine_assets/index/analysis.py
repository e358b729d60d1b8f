"""How texts become index terms: plain tokens, or stems by each document's language (SPEC 4.2; stemming is opt-in)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from ragspine_assets.index.tokens import Tokens, WordTerms, tokenize, tokens_by, tokens_of, without_accents

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier
    from Stemmer import Stemmer

AnalyzerName = Literal["default", "stemmed"]
"""``default``: tokens as they are. ``stemmed``: word endings removed by the rules of the document's language."""

_MISSING = "analyzer='stemmed' needs PyStemmer and py3langid; install ragspine_assets[stemming]"
# Enough to tell a language, and a bound on the time a long document takes.
_SAMPLE_CHARS = 4_000
# Snowball has one set of rules for both written forms of Norwegian.
_RULES_OF = {"nb": "no", "nn": "no"}


class Analyzer(Protocol):
    """Turns documents and queries into terms that match when the words do."""

    def language(self, given: str, texts: Iterable[str]) -> str:
        """Return by which language's rules a document is read, ``''`` for none.

        Args:
            given: language by the document's metadata, ``''`` if unknown.
            texts: the document's text, in pieces, read only as far as needed.
        """
        ...

    def terms(self, text: str, language: str) -> list[str]:
        """Return the terms of a text of a document in that language, or of a query to such documents."""
        ...

    def tokens(self, texts: Sequence[str], language: str) -> Tokens:
        """Return the terms of many texts in that language, to be counted: those that `terms` gives, faster."""
        ...


class PlainAnalyzer:
    """Tokens of SPEC 4.2, whatever the language."""

    def language(self, given: str, texts: Iterable[str]) -> str:
        """Return ``''``: no language matters here."""
        del given, texts
        return ""

    def terms(self, text: str, language: str) -> list[str]:
        """Return the tokens of a text."""
        del language
        return tokenize(text)

    def tokens(self, texts: Sequence[str], language: str) -> Tokens:
        """Return the tokens of many texts."""
        del language
        return tokens_of(texts)


class StemmingAnalyzer:
    """Tokens without their endings, by the Snowball rules of the document's language.

    The language is that of the metadata, else detected on the document's text. A query is read by the rules of each
    document it is compared with, since a few words are too little to detect a language by. Languages without such
    rules, and scripts without spaces, keep their tokens.

    Raises:
        ImportError: the extra ``stemming`` is not installed.
    """

    def __init__(self) -> None:
        if find_spec("py3langid") is None or find_spec("Stemmer") is None:
            raise ImportError(_MISSING)

    def language(self, given: str, texts: Iterable[str]) -> str:
        """Return the code of the document's language, ``''`` if nothing can be stemmed by it."""
        code = given.strip().casefold().replace("_", "-").partition("-")[0]
        if not code:
            sample = ""
            for text in texts:
                sample += text[: _SAMPLE_CHARS - len(sample)] + "\n"
                if len(sample) >= _SAMPLE_CHARS:
                    break
            code = _identifier().classify(sample)[0] if sample.strip() else ""
        code = _RULES_OF.get(code, code)
        return code if _stemmer(code) is not None else ""

    def terms(self, text: str, language: str) -> list[str]:
        """Return the stems of a text."""
        return tokens_by(text, _stems(language))

    def tokens(self, texts: Sequence[str], language: str) -> Tokens:
        """Return the stems of many texts."""
        return tokens_of(texts, _stems(language))


def _stems(language: str) -> WordTerms:
    stemmer = _stemmer(language)
    return lambda words: (_stem(word, stemmer) for word in words)


def _stem(word: str, stemmer: Stemmer | None) -> str:
    folded = word if word.isascii() else without_accents(word)
    if stemmer is None:
        return folded
    # In Latin script people leave accents out, so a stem must not depend on them; elsewhere a mark can make another
    # letter, which the rules need to see.
    return stemmer.stemWord(folded) if folded.isascii() else without_accents(stemmer.stemWord(word))


@cache
def _stemmer(code: str) -> Stemmer | None:
    from Stemmer import Stemmer

    try:
        return Stemmer(code)
    except KeyError:
        return None


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)


def make_analyzer(name: AnalyzerName) -> Analyzer:
    """Return the analyzer of that name.

    Raises:
        ValueError: there is none of that name; the message lists them.
        ImportError: ``stemmed`` without the extra ``stemming``.
    """
    if name == "default":
        return PlainAnalyzer()
    if name == "stemmed":
        return StemmingAnalyzer()
    message = f"unknown analyzer {name!r}; there are: {', '.join(get_args(AnalyzerName))}"
    raise ValueError(message)
