"""Dense scores: the seam for an embedding backend, and cosine similarity by numpy (SPEC 4.4, 7).

No backend lives here. RESTRICTED text never reaches one: the corpus that is embedded does not hold any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragspine_assets.errors import RagspineError, is_cancel

BATCH = 256
"""Texts per request, so that neither a request nor its answer grows with the corpus."""


class EmbeddingError(RagspineError, ValueError):
    """A backend failed; the message names it and the type of what it raised, and quotes nothing."""


@runtime_checkable
class EmbeddingBackend(Protocol):
    """Turns texts into vectors; texts of like meaning get vectors of like direction."""

    def embed_texts(self, texts: list[str]) -> NDArray[np.float32]:
        """Return one row per text, float32, of shape ``(len(texts), d)``."""
        ...


def _vectors(backend: EmbeddingBackend, texts: list[str]) -> NDArray[np.float32]:
    try:
        return np.asarray(backend.embed_texts(texts), dtype=np.float32)
    except BaseException as error:
        if is_cancel(error):
            raise
        failure = f"{type(backend).__name__}.embed_texts raised {type(error).__name__}"
    # Raised out here, so that the foreign exception, which may quote the texts, is not this one's context.
    raise EmbeddingError(failure)


def unit_vectors(backend: EmbeddingBackend, texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed texts, in batches, and scale each vector to length 1; a zero vector stays zero.

    Args:
        backend: what embeds.
        texts: at least one text, none of them RESTRICTED.

    Returns:
        float32 array of shape ``(len(texts), d)``.

    Raises:
        ValueError: the backend raised, answered another shape, or numbers that are not finite.
    """
    batches: list[NDArray[np.float32]] = []
    for start in range(0, len(texts), BATCH):
        batch = list(texts[start : start + BATCH])
        vectors = _vectors(backend, batch)
        if vectors.ndim != 2 or len(vectors) != len(batch) or (batches and vectors.shape[1] != batches[0].shape[1]):
            message = (
                f"{type(backend).__name__}.embed_texts gave an array of shape {vectors.shape} for {len(batch)} texts; "
                "it must give one row of the same length per text"
            )
            raise ValueError(message)
        if not np.isfinite(vectors).all():
            message = f"{type(backend).__name__}.embed_texts gave numbers that are not finite"
            raise ValueError(message)
        batches.append(vectors)
    matrix = np.concatenate(batches)
    # In double precision, so that a length neither overflows nor vanishes.
    lengths = np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
    return np.divide(matrix, lengths, out=np.zeros(matrix.shape), where=lengths > 0).astype(np.float32)
