"""What a query asks an index for: each word once, in every spelling it may have (SPEC 4.3, 10.3)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """One word of a query, or one form of it.

    A document scores ``idf(df) * sum of tf factors`` of the ``terms`` it holds, where ``df`` is the sum of how many
    documents hold each of them, at most N: which language's rules made the term of a word does not matter to how rare
    the word is. A variant adds ``weight * min(idf(df), its own idf) * tf factor``: it changes no score of a document
    that is spelled as the query is.

    Attributes:
        terms: terms that stand for the word, one for each way the languages there are read it; each once.
        variants: terms of other spellings, and what each is worth, from 0 to 1.
        word: the word as it was typed, folded; ``''`` for a form that the word only has beside others, which is
            neither completed nor corrected.
    """

    terms: tuple[str, ...]
    variants: tuple[tuple[str, float], ...] = ()
    word: str = ""
