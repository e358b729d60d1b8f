"""BM25 by its definition, for a handful of texts (SPEC 4.3).

The formula is here once in its plain form. `ragspine_assets.index.lexical` serves queries and must agree with it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

K1 = 1.5
"""Saturation of term frequency."""

B = 0.75
"""Weight of a document's length, from 0 (none) to 1 (full)."""


def bm25_scores(
    query_tokens: Sequence[str],
    docs_tokens: Sequence[Sequence[str]],
    k1: float = K1,
    b: float = B,
    *,
    lengths: Sequence[int] | None = None,
) -> list[float]:
    """Return the BM25 score of each document for a query, in the documents' order (SPEC 4.3).

    ``idf = ln(1 + (N - df + 0.5) / (df + 0.5))`` and the term factor is
    ``tf (k1 + 1) / (tf + k1 (1 - b + b dl / avgdl))``. A query term counts as often as it is there. No documents give
    no scores; an empty query, and a document without tokens, score 0.

    Args:
        query_tokens: tokens of the query.
        docs_tokens: tokens of each document; all of them count for N, df and avgdl.
        k1: saturation of term frequency, at least 0.
        b: weight of a document's length, from 0 to 1.
        lengths: how long each document counts as; without it, as many tokens as it has.
    """
    scores = [0.0] * len(docs_tokens)
    lengths = list(map(len, docs_tokens)) if lengths is None else lengths
    total = sum(lengths)
    if not total:
        return scores
    average = total / len(docs_tokens)
    terms = Counter(query_tokens)
    counts = [Counter(token for token in tokens if token in terms) for tokens in docs_tokens]
    for term, repeats in terms.items():
        df = sum(term in count for count in counts)
        idf = math.log(1 + (len(docs_tokens) - df + 0.5) / (df + 0.5))
        for position, count in enumerate(counts):
            if tf := count[term]:
                norm = 1 - b + b * lengths[position] / average
                scores[position] += repeats * idf * tf * (k1 + 1) / (tf + k1 * norm)
    return scores
