"""The lexical index that serves queries: BM25 scores, precomputed by bm25s and memory-mapped (SPEC 4.3, 6.6).

It knows tokens and positions, not chunks: whoever builds it decides which documents exist, and in which order they
tie.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import bm25s
import numpy as np
from numpy.typing import NDArray

from ragspine_assets.retrieval.bm25 import K1, B

Scores = NDArray[np.float64]
"""One score per document, in the order of the index."""

Mask = NDArray[np.bool_]
"""Which documents may be found, in the order of the index."""

_MANIFEST = "lexical.json"
_FORMAT = 1
_DIGITS = re.compile("([0-9]+)")


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key that puts ``c2`` before ``c10``: runs of digits compare as numbers (SPEC 4.3)."""
    # Digits are compared by length, then text: an id may hold more of them than a number is read from.
    parts = _DIGITS.split(name)
    runs = [(len(part.lstrip("0")), part.lstrip("0")) if odd % 2 else (0, part) for odd, part in enumerate(parts)]
    return (*runs, (0, name))


class LexicalIndex:
    """BM25 over token lists; the formula is that of `bm25_scores`, to a relative 1e-9.

    Args:
        documents: the tokens of each document. All of them count for N, df and avgdl.
    """

    def __init__(self, documents: Iterable[Sequence[str]]) -> None:
        vocabulary: dict[str, int] = {}
        number = vocabulary.setdefault
        ids = [[number(token, len(vocabulary)) for token in tokens] for tokens in documents]
        self._size = len(ids)
        self._bm25: bm25s.BM25 | None = None
        if vocabulary:
            # Double precision: documents that tie must tie exactly. The term factor of SPEC 4.3 is what bm25s calls
            # "atire", its idf "lucene".
            self._bm25 = bm25s.BM25(
                k1=K1, b=B, method="atire", idf_method="lucene", dtype="float64", backend="numpy", csc_backend="numpy"
            )
            self._bm25.index((ids, vocabulary), create_empty_token=False, show_progress=False)

    def __len__(self) -> int:
        return self._size

    def scores(self, query_tokens: Iterable[str]) -> Scores:
        """Return the score of every document for a query; 0 is no hit. A repeated token counts again."""
        if self._bm25 is None:
            return np.zeros(self._size)
        vocabulary = self._bm25.vocab_dict
        known = [number for token in query_tokens if (number := vocabulary.get(token)) is not None]
        return self._bm25.get_scores_from_ids(known)

    def save(self, folder: Path) -> None:
        """Write the index into a folder, which is created."""
        folder.mkdir(parents=True, exist_ok=True)
        if self._bm25 is not None:
            self._bm25.save(folder, show_progress=False)
        manifest = {"format": _FORMAT, "bm25s": bm25s.__version__, "documents": self._size, "empty": self._bm25 is None}
        (folder / _MANIFEST).write_text(json.dumps(manifest, sort_keys=True), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> LexicalIndex:
        """Open a saved index; its arrays are memory-mapped, not read.

        Raises:
            ValueError: the folder holds no index, or one in a format this code does not know.
        """
        try:
            manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            if manifest["format"] != _FORMAT:
                message = f"{folder}: lexical index in format {manifest['format']}, expected {_FORMAT}; build it again"
                raise ValueError(message)
            index = cls(())
            index._size = int(manifest["documents"])
            index._bm25 = None if manifest["empty"] else bm25s.BM25.load(folder, mmap=True, show_progress=False)
        except (OSError, KeyError, TypeError, json.JSONDecodeError) as error:
            message = f"{folder}: no complete lexical index here ({type(error).__name__}); build it again"
            raise ValueError(message) from None
        return index


def best(scores: Scores, top_k: int | None = None, allowed: Mask | None = None) -> NDArray[np.intp]:
    """Return the positions of the best documents, best first; equal scores by position.

    Documents that score 0 are no hits, so there may be fewer than ``top_k``. The answer for a smaller ``top_k`` is a
    prefix of that for a larger one.

    Args:
        scores: one score per document, none negative.
        top_k: how many at most; None for all.
        allowed: which documents may be among them; None for all.
    """
    if allowed is not None:
        scores = np.where(allowed, scores, 0.0)
    if top_k is not None and top_k <= 0:
        return np.empty(0, dtype=np.intp)
    lowest = 0.0 if top_k is None else _lower_bound(scores, top_k)
    # Whatever ties with the last one is kept until the ties are broken.
    hits = np.flatnonzero(scores >= lowest) if lowest > 0 else np.flatnonzero(scores)
    return hits[np.argsort(-scores[hits], kind="stable")][:top_k]


def _lower_bound(scores: Scores, top_k: int) -> float:
    """Return a score that at least ``top_k`` documents reach and few others, 0 if there are not as many documents.

    The best scores of blocks of documents are themselves scores of as many documents, and far fewer to select from.
    """
    block = max(1, min(64, len(scores) // (4 * top_k)))
    blocks = len(scores) // block
    if blocks < top_k:
        return 0.0
    highest = scores[: blocks * block].reshape(blocks, block).max(axis=1)
    return float(np.partition(highest, blocks - top_k)[blocks - top_k])
