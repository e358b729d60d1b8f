"""What can be found: the servable chunks, their lexical index and their metadata as columns (SPEC 4.1, 4.3).

RESTRICTED chunks are left out here, before anything is counted, indexed or embedded. What is not in a corpus has no
part in any score, rank or number of results, and cannot be handed out by mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from ragspine_assets.chunking.chunk import FILTERS, Chunk
from ragspine_assets.index.analysis import Analyzer
from ragspine_assets.index.corrections import corrected
from ragspine_assets.index.languages import ReadDocument
from ragspine_assets.index.lexical import LexicalIndex, Mask, Scores
from ragspine_assets.index.query import QueryTerm
from ragspine_assets.index.tokens import Tokens, in_batches
from ragspine_assets.natural_order import natural_key
from ragspine_assets.policy.lattice import Sensitivity, is_restricted, read_label
from ragspine_assets.store.chunk_store import StoredChunk

FILTER_KEYS = tuple(name for name in FILTERS if name != "doc_id")
"""Metadata by which candidates can be restricted."""

_REMEMBERED = 32
_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Column:
    """One metadata field of all chunks: a number per different value, and each chunk's number."""

    numbers: Mapping[str, int]
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, values: Iterable[str]) -> Column:
        """Return the column that holds ``values``."""
        numbers: dict[str, int] = {}
        codes = np.fromiter((numbers.setdefault(value, len(numbers)) for value in values), dtype=np.int32)
        return cls(numbers, codes)

    def among(self, values: Sequence[str]) -> Mask:
        """Return where the field has exactly one of these values."""
        wanted = [number for value in values if (number := self.numbers.get(value)) is not None]
        return self.codes == (wanted[0] if wanted else -1) if len(wanted) < 2 else np.isin(self.codes, wanted)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Servable chunks and all that is known about them, position by position.

    Attributes:
        chunks: in natural order of ``chunk_id``, which is how equal scores are ordered. None of them RESTRICTED.
        lexical: index of their texts.
        languages: by which language's rules each text was read, see `Analyzer`.
        columns: the fields of `FILTER_KEYS`.
        ranks: rank of each chunk's label in the lattice.
        parent_numbers: what `parents` returns, where it is known already.
        filtered: positions that recent filters left, since the same filters come again.
    """

    chunks: Sequence[Chunk]
    lexical: LexicalIndex
    languages: Column
    columns: Mapping[str, Column]
    ranks: NDArray[np.int8]
    parent_numbers: NDArray[np.int64] | None = None
    filtered: dict[tuple[object, ...], NDArray[np.int32]] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.chunks)

    def scores(self, query: str, analyzer: Analyzer) -> Scores:
        """Return each chunk's BM25 score for a query that anything may be found by, see `read`."""
        return self.lexical.scores(self.read(query, analyzer)[0])

    def read(
        self,
        query: str,
        analyzer: Analyzer,
        filters: Mapping[str, tuple[str, ...]] | None = None,
        max_label: Sensitivity = Sensitivity.CONFIDENTIAL,
    ) -> tuple[list[QueryTerm], Mapping[str, tuple[str, ...]]]:
        """Return what a query asks for, and which words were put in the place of those that nothing is found by.

        Only chunks that have all the values, and no label above ``max_label``, are looked at: a word that stands elsewhere
        keeps no word from being corrected, and none is corrected to it.
        """
        languages = sorted(self.languages.numbers)
        positions = self._positions(filters or {}, max_label)

        def frequency(term: str) -> int:
            held = self.lexical.documents_with(term)
            return len(held) if positions is None else _among(held, positions)

        return corrected(analyzer.query(query, languages), lambda words: analyzer.words(words, languages), frequency)

    def search(
        self, query: Sequence[QueryTerm], top_k: int, filters: Mapping[str, tuple[str, ...]], max_label: Sensitivity
    ) -> tuple[NDArray[np.intp], Scores]:
        """Return the positions of the best chunks for a query and their scores, best first; equal scores by position.

        Args:
            query: the question as it was read.
            top_k: how many at most.
            filters: for each field the values one of which it must have.
            max_label: highest label a chunk may have.
        """
        return self.lexical.rank(query, top_k, self._positions(filters, max_label))

    def _positions(self, filters: Mapping[str, tuple[str, ...]], max_label: Sensitivity) -> NDArray[np.int32] | None:
        key = (max_label, *sorted(filters.items()))
        found = self.filtered.get(key)
        if found is None and (mask := self.allowed(filters, max_label)) is not None:
            found = np.flatnonzero(mask).astype(np.int32)
            if len(self.filtered) >= _REMEMBERED:
                self.filtered.clear()
            self.filtered[key] = found
        return found

    def allowed(self, filters: Mapping[str, tuple[str, ...]], max_label: Sensitivity) -> Mask | None:
        """Return which chunks have one of the values of each field and no label above ``max_label``; None if all do."""
        masks = [self.columns[name].among(values) for name, values in filters.items()]
        if max_label < Sensitivity.CONFIDENTIAL:
            masks.append(self.ranks <= max_label.rank)
        return np.logical_and.reduce(masks) if masks else None

    def parents(self) -> NDArray[np.int64]:
        """Return a number per parent: chunks with the same one are children of one section of one version.

        A chunk without a parent is its own.
        """
        if self.parent_numbers is not None:
            return self.parent_numbers
        numbers: dict[tuple[str, int, str], int] = {}
        codes = np.arange(len(self.chunks), dtype=np.int64)
        for position, chunk in enumerate(self.chunks):
            if chunk.parent_id:
                # A parent's id alone could be another document's, or that of an older text.
                codes[position] = numbers.setdefault((chunk.doc_id, version_of(chunk), chunk.parent_id), position)
        return codes


def _among(held: NDArray[np.integer], positions: NDArray[np.int32]) -> int:
    """Return how many of some documents are among others, both ascending; 0 if none, else no more than a block has."""
    if not len(positions):
        return 0
    for first in range(0, len(held), _BLOCK):
        block = held[first : first + _BLOCK]
        places = np.minimum(np.searchsorted(positions, block), len(positions) - 1)
        if found := int((positions[places] == block).sum()):
            return found
    return 0


def version_of(chunk: Chunk) -> int:
    """Return the version of the document a chunk belongs to; 1 for a chunk that was never stored."""
    return chunk.version if isinstance(chunk, StoredChunk) else 1


def is_active(chunk: Chunk) -> bool:
    """Tell whether a chunk is of the version that counts now; one that was never stored is."""
    return not isinstance(chunk, StoredChunk) or chunk.active


def build_corpus(chunks: Iterable[Chunk], analyzer: Analyzer) -> Corpus:
    """Return the corpus of the servable ones among some chunks, in whatever order they come.

    Of two active chunks with one id the later counts. A document has the highest label of its chunks, as in the graph:
    the window of an open chunk could show what a closed one says.
    """
    latest = {chunk.chunk_id: chunk for chunk in chunks if is_active(chunk)}
    labels: dict[str, Sensitivity] = {}
    for chunk in latest.values():
        label = read_label(chunk.sensitivity)
        labels[chunk.doc_id] = max(labels.get(chunk.doc_id, label), label)
    servable = sorted(
        (
            chunk if read_label(chunk.sensitivity) is label else replace(chunk, sensitivity=label.value)
            for chunk in latest.values()
            if not is_restricted(label := labels[chunk.doc_id])
        ),
        key=lambda chunk: natural_key(chunk.chunk_id),
    )
    texts: dict[str, list[Chunk]] = {}
    for chunk in servable:
        texts.setdefault(chunk.doc_id, []).append(chunk)
    languages = dict(zip(texts, analyzer.languages(read_documents(texts)), strict=True))
    return Corpus(
        chunks=servable,
        lexical=LexicalIndex.of_tokens(_tokens(servable, languages, analyzer)),
        languages=Column.of(languages[chunk.doc_id] for chunk in servable),
        columns={name: Column.of(getattr(chunk, name) for chunk in servable) for name in FILTER_KEYS},
        ranks=np.fromiter((read_label(chunk.sensitivity).rank for chunk in servable), dtype=np.int8),
    )


def read_documents(texts: Mapping[str, Sequence[Chunk]]) -> Iterator[ReadDocument]:
    """Yield what the language of each document is told by."""
    for doc_id, parts in texts.items():
        rank = read_label(parts[0].sensitivity).rank
        yield ReadDocument(doc_id.rpartition("/")[0], parts[0].language, (part.text for part in parts), rank)


def _tokens(chunks: Sequence[Chunk], languages: Mapping[str, str], analyzer: Analyzer) -> Iterator[Tokens]:
    for language, group in groupby(chunks, lambda chunk: languages[chunk.doc_id]):
        for texts in in_batches(chunk.text for chunk in group):
            yield analyzer.tokens(texts, language)
