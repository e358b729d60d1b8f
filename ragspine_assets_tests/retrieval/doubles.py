"""Stand-ins for what people plug into retrieval, and a short way to make a chunk."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragspine_assets.retrieval import RetrievalResult, tokenize
from ragspine_assets.store import StoredChunk


def chunk(
    text: str, doc_id: str = "doc", seq: int = 0, *, sensitivity: str = "INTERNAL", version: int = 1, **fields: str
) -> StoredChunk:
    """Return a stored chunk with the ids and the locator that its place gives it."""
    return StoredChunk(
        chunk_id=f"{doc_id}#c{seq}",
        doc_id=doc_id,
        seq=seq,
        text=text,
        source_locator=f"{doc_id}#para{seq + 1}",
        para_start=seq + 1,
        para_end=seq + 1,
        sensitivity=sensitivity,
        version=version,
        **fields,
    )


def hit(found: StoredChunk, score: float = 1.0) -> RetrievalResult:
    """Return a hit on a chunk."""
    return RetrievalResult(found, score, 0.0, score)


def ids(results: Sequence[RetrievalResult]) -> list[str]:
    """Return the chunk ids of hits, in order."""
    return [result.chunk.chunk_id for result in results]


class RecordingJudge:
    """Gives a fixed answer (the order as it is, when there is none) and remembers what it was shown."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.seen: list[str] = []
        self.calls = 0

    def judge(self, query: str, candidates: list[str]) -> list[int]:
        """Return the answer, sensible or not."""
        self.calls += 1
        self.seen += [query, *candidates]
        return list(range(len(candidates))) if self.answer is None else self.answer  # pyright: ignore[reportReturnType]


class RaisingJudge:
    """Fails, and quotes what it was shown."""

    def judge(self, query: str, candidates: list[str]) -> list[int]:
        """Fail."""
        raise RuntimeError(f"could not order {query}: {candidates}")


class HashingBackend:
    """Embeds a text as counts of its tokens, hashed; texts with the same words point the same way."""

    def __init__(self, dimensions: int = 64) -> None:
        self.dimensions = dimensions
        self.requests: list[list[str]] = []

    def embed_texts(self, texts: list[str]) -> NDArray[np.float32]:
        """Return a row per text."""
        self.requests.append(list(texts))
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for token in tokenize(text):
                row[zlib.crc32(token.encode()) % self.dimensions] += 1
        return rows

    @property
    def seen(self) -> str:
        """Everything that was ever embedded."""
        return "\n".join(text for request in self.requests for text in request)


class LeakingIndex:
    """An index that hands out all it has, RESTRICTED or not, in the given order."""

    def __init__(self, chunks: Sequence[StoredChunk]) -> None:
        self.chunks = list(chunks)
        self.asked: list[int] = []

    def retrieve(self, query: str, *, top_k: int = 50, **filters: object) -> list[RetrievalResult]:
        """Return the first ``top_k`` chunks that have the values asked for."""
        del query
        self.asked.append(top_k)
        found = [c for c in self.chunks if all(getattr(c, key) == value for key, value in filters.items())]
        return [hit(c) for c in found[:top_k]]
