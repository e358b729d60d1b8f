"""An embedding that needs no model: letters in threes, hashed. It finds words in other forms and with typing errors."""

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class HashedTrigrams:
    """Counts each three neighbouring letters in one of ``size`` places.

    Attributes:
        size: length of a vector.
    """

    size: int = 512

    def embed_texts(self, texts: list[str]) -> NDArray[np.float32]:
        """Return one row per text, float32, of shape ``(len(texts), size)``; they are scaled by whoever asks."""
        vectors = np.zeros((len(texts), self.size), dtype=np.float32)
        for row, text in enumerate(texts):
            padded = f"  {text.casefold()}  "
            for start in range(len(padded) - 2):
                vectors[row, zlib.crc32(padded[start : start + 3].encode()) % self.size] += 1
        return vectors
