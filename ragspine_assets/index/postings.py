"""Which documents hold a term and how often, gathered block by block and merged term by term (SPEC 4.3).

An index is made of counts alone, so that the terms of a text that did not change need not be found again: its entries
are taken from an earlier index. A block holds the entries of some documents, those of one term together; blocks can lie
in a file. What is merged comes out in ranges of terms, so that no more than a block and a range is in memory at once,
however large the corpus is.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from ragspine_assets.index.tokens import Tokens, run_token

Numbers = NDArray[np.int32]
Offsets = NDArray[np.int64]
Counts = NDArray[np.integer]

_TOKENS = 2_000_000
"""Tokens of a block."""

_DOCUMENTS = 1 << 20
"""Documents of a block."""

# A token of a block is one number: which term it is, then which document of the block it is in.
_SHIFT = np.uint64(21)
_WORD = 1 << 42
"""Terms of a block that are words are numbered from here; below are characters and pairs."""

_ENTRIES = 2_000_000
"""Entries of a range, unless one term has more."""

_TERMS = 1 << 16
"""Terms of a range: their numbers in it take two bytes, and such numbers are sorted in linear time."""


class Entries(Protocol):
    """A column of entries, in memory or in a file."""

    def __getitem__(self, part: slice, /) -> NDArray[np.integer]: ...


@dataclass(frozen=True, slots=True)
class PostingsBlock:
    """The entries of some documents, by term and then by document.

    Attributes:
        terms: numbers of the terms that occur; ascending, once these are numbers of their order.
        starts: where each term's entries begin; one more than there are terms.
        documents: position of each entry's document, ascending within a term.
        counts: how often each entry's term is there.
    """

    terms: Numbers
    starts: Offsets
    documents: Entries
    counts: Entries


@dataclass(frozen=True, slots=True)
class Range:
    """All entries of some terms that follow one another.

    Attributes:
        first: number of the first term.
        frequencies: how many documents hold each term.
        documents: position of each entry's document, by term, then ascending.
        counts: how often each entry's term is there.
    """

    first: int
    frequencies: Offsets
    documents: Numbers
    counts: Counts


class _Filed:
    """A column of entries that lies in a file."""

    __slots__ = ("_file", "_kind", "_start")

    def __init__(self, file: BinaryIO, values: NDArray[np.integer]) -> None:
        self._file = file
        self._start = file.seek(0, 2)
        self._kind = values.dtype
        file.write(values.data)

    def __getitem__(self, part: slice, /) -> NDArray[np.integer]:
        self._file.seek(self._start + part.start * self._kind.itemsize)
        wanted = (part.stop - part.start) * self._kind.itemsize
        return np.frombuffer(self._file.read(wanted), self._kind)


class Mapped:
    """A column of entries in a memory map. What was read does not stay in memory.

    Args:
        values: the column, as `numpy.load` maps it or a view of that.
        pages: the map.
    """

    __slots__ = ("_pages", "_values")

    def __init__(self, values: NDArray[np.integer], pages: mmap.mmap) -> None:
        self._values = values
        self._pages = pages

    def __getitem__(self, part: slice, /) -> NDArray[np.integer]:
        values = self._values[part].copy()
        self._pages.madvise(mmap.MADV_DONTNEED)
        return values


@dataclass(frozen=True, slots=True)
class PreviousIndex:
    """Entries of an earlier index that stay.

    Attributes:
        terms: every term of that index, in order of code points.
        block: its entries; each term has some.
        places: for each of its documents the new position, -1 for one that is gone. The order of those that stay is
            the same as before.
    """

    terms: Sequence[str]
    block: PostingsBlock
    places: Numbers


class PostingsBuilder:
    """Counts the tokens of documents.

    Args:
        file: where blocks are kept; in memory if there is none.
    """

    def __init__(self, file: BinaryIO | None = None) -> None:
        self._file = file
        # A term that is met for the first time gets the next number.
        self._vocabulary: defaultdict[str, int] = defaultdict(count().__next__)
        self._keys: list[NDArray[np.uint64]] = []
        self._documents: list[Numbers] = []
        self._in_block = 0
        self._pending = 0
        self._blocks: list[PostingsBlock] = []
        self._frequencies = np.zeros(0, np.int64)
        self._most = 0

    def add(self, positions: NDArray[np.integer], tokens: Tokens) -> None:
        """Count the tokens of the documents at some positions, which ascend.

        A token is among the words of all documents or among the characters of all, not here so and there so.
        """
        numbers = np.fromiter(map(self._vocabulary.__getitem__, tokens.words), np.int64, len(tokens.words))
        for terms, within in ((numbers + _WORD, tokens.words_in), (tokens.characters, tokens.characters_in)):
            self._keys.append(terms.astype(np.uint64) << _SHIFT | (within + self._in_block).astype(np.uint64))
            self._pending += len(terms)
        self._documents.append(positions.astype(np.int32))
        self._in_block += len(positions)
        if self._pending >= _TOKENS or self._in_block >= _DOCUMENTS:
            self._close_block()

    def _close_block(self) -> None:
        held, within, pending = self._keys, self._documents, self._pending
        self._keys, self._documents, self._in_block, self._pending = [], [], 0, 0
        if not pending:
            return
        keys, positions = np.concatenate(held), np.concatenate(within)
        keys, times = np.unique(keys, return_counts=True)
        of_term = (keys >> _SHIFT).astype(np.int64)
        begins = np.flatnonzero(np.diff(of_term, prepend=-1))
        terms = self._numbers(of_term[begins])
        starts = np.append(begins, len(keys)).astype(np.int64)
        frequencies = np.zeros(len(self._vocabulary), np.int64)
        frequencies[: len(self._frequencies)] = self._frequencies
        frequencies[terms] += np.diff(starts)
        self._frequencies = frequencies
        self._most = max(self._most, int(times.max()))
        documents = positions[(keys & np.uint64((1 << int(_SHIFT)) - 1)).astype(np.int64)]
        self._blocks.append(self._kept(terms, starts, documents, times.astype(np.uint32)))

    def _numbers(self, terms: NDArray[np.int64]) -> Numbers:
        """Return the numbers of the terms of a block, which are characters and pairs, then words."""
        first = int(np.searchsorted(terms, _WORD))
        characters = map(self._vocabulary.__getitem__, map(run_token, terms[:first].tolist()))
        return np.append(np.fromiter(characters, np.int32, first), (terms[first:] - _WORD).astype(np.int32))

    def _kept(self, terms: Numbers, starts: Offsets, documents: NDArray[np.integer], times: Counts) -> PostingsBlock:
        if self._file is None:
            return PostingsBlock(terms, starts, documents, times)
        return PostingsBlock(terms, starts, _Filed(self._file, documents), _Filed(self._file, times))

    def merged(self, earlier: PreviousIndex | None = None) -> Merged:
        """Return all entries by term, with those that stay of an earlier index; nothing can be added after this."""
        self._close_block()
        met = list(self._vocabulary)
        order = sorted(range(len(met)), key=met.__getitem__)
        terms = [met[one] for one in order]
        frequencies = self._frequencies[order]
        old, ranks = None, np.arange(len(terms), dtype=np.int64)
        most = self._most
        if earlier is not None:
            staying, most_staying = _frequencies(earlier)
            most = max(most, most_staying)
            used = np.flatnonzero(staying)
            known = list(earlier.terms)
            if len(used) < len(known):
                known = [known[one] for one in used.tolist()]
            terms, places, ranks = _united(known, terms)
            united = np.zeros(len(terms), np.int64)
            united[places] += staying[used]
            united[ranks] += frequencies
            frequencies = united
            old = _Staying(earlier, used, places.astype(np.int32), staying)
        rank = np.empty(len(met), np.int32)
        rank[order] = ranks
        self._blocks = [self._ranked(block, rank) for block in self._blocks]
        return Merged(terms, frequencies, most, self._blocks, old)

    def _ranked(self, block: PostingsBlock, rank: Numbers) -> PostingsBlock:
        """Return a block with its terms numbered by their order."""
        terms = rank[block.terms]
        order = np.argsort(terms)
        sizes = np.diff(block.starts)[order]
        starts = np.zeros(len(order) + 1, np.int64)
        np.cumsum(sizes, out=starts[1:])
        entries = np.repeat(block.starts[:-1][order] - starts[:-1], sizes) + np.arange(starts[-1])
        whole = slice(0, int(starts[-1]))
        return self._kept(terms[order], starts, block.documents[whole][entries], block.counts[whole][entries])


@dataclass(frozen=True, slots=True)
class _Staying:
    """What stays of an earlier index, in the numbering of the new one."""

    earlier: PreviousIndex
    used: Offsets
    terms: Numbers
    frequencies: Offsets

    def entries(self, first: int, behind: int) -> tuple[Offsets, Numbers, Counts]:
        """Return the entries of some terms, and where those of each begin."""
        low, high = np.searchsorted(self.terms, (first, behind)).tolist()
        if low == high:
            return np.zeros(behind - first + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.uint32)
        numbers = self.used[low:high]
        block = self.earlier.block
        part = slice(block.starts.item(numbers[0]), block.starts.item(numbers[-1] + 1))
        documents = self.earlier.places[block.documents[part]]
        counts = block.counts[part]
        if (gone := documents < 0).any():
            documents, counts = documents[~gone], counts[~gone]
        starts = np.zeros(behind - first + 1, np.int64)
        starts[self.terms[low:high] - first + 1] = self.frequencies[numbers]
        return np.cumsum(starts, out=starts), documents, counts


def _frequencies(earlier: PreviousIndex) -> tuple[Offsets, int]:
    """Return how many documents that stay hold each term of an earlier index, and the highest count among them."""
    starts = earlier.block.starts
    frequencies = np.diff(starts)
    is_gone = earlier.places < 0
    most = 0
    for low, high in _ranges(starts):
        part = slice(starts.item(low), starts.item(high))
        counts = earlier.block.counts[part]
        gone = np.flatnonzero(is_gone[earlier.block.documents[part]])
        if len(gone):
            terms = np.searchsorted(starts[low : high + 1], gone + part.start, "right") - 1
            frequencies[low:high] -= np.bincount(terms, minlength=high - low)
            counts = np.delete(counts, gone)
        most = max(most, int(counts.max(initial=0)))
    return frequencies, most


def _united(known: list[str], met: list[str]) -> tuple[list[str], Offsets, Offsets]:
    """Return two sorted lists as one without repetitions, and where the elements of each are in it."""
    places = [bisect_left(known, term) for term in met]
    new = [place == len(known) or known[place] != term for place, term in zip(places, met, strict=True)]
    is_new, before = np.array(new, np.bool_), np.array(places, np.int64)
    # A known term moves by the new ones before it, and a term that was met by those and its own place.
    moved = np.arange(len(known)) + np.searchsorted(before[is_new], np.arange(len(known)), "right")
    ranks = before + np.cumsum(is_new) - is_new
    united = [""] * (len(known) + int(is_new.sum()))
    for rank, term in zip(moved.tolist(), known, strict=True):
        united[rank] = term
    for rank, term in zip(ranks.tolist(), met, strict=True):
        united[rank] = term
    return united, moved.astype(np.int64), ranks


def _ranges(starts: Offsets) -> Iterator[tuple[int, int]]:
    """Yield ranges of terms with a bounded number of entries, given where the entries of each begin."""
    low = 0
    while low < len(starts) - 1:
        high = int(np.searchsorted(starts, starts[low] + _ENTRIES, "right")) - 1
        high = min(max(high, low + 1), low + _TERMS, len(starts) - 1)
        yield low, high
        low = high


@dataclass(frozen=True, slots=True)
class Merged:
    """The entries of all documents.

    Attributes:
        terms: every term that occurs, in order of code points.
        frequencies: how many documents hold each.
        most: the highest count.
    """

    terms: Sequence[str]
    frequencies: Offsets
    most: int
    _blocks: Sequence[PostingsBlock]
    _staying: _Staying | None

    @property
    def starts(self) -> Offsets:
        """Where each term's entries begin; one more than there are terms."""
        starts = np.zeros(len(self.terms) + 1, np.int64)
        np.cumsum(self.frequencies, out=starts[1:])
        return starts

    def ranges(self) -> Iterator[Range]:
        """Yield the entries, some terms at a time, in their order."""
        kind = smallest_type(self.most)
        for low, high in _ranges(self.starts):
            documents, counts = self._entries(low, high)
            yield Range(low, self.frequencies[low:high], documents, counts.astype(kind, copy=False))

    def _entries(self, first: int, behind: int) -> tuple[Numbers, Counts]:
        places, documents, counts = self._fresh(first, behind)
        if self._staying is None:
            return documents, counts
        starts, old_documents, old_counts = self._staying.entries(first, behind)
        if not len(places):
            return old_documents, old_counts
        where = _among(old_documents, starts, places, documents)
        wider = np.result_type(old_counts, counts)
        return (
            np.insert(old_documents, where, documents),
            np.insert(old_counts.astype(wider, copy=False), where, counts),
        )

    def _fresh(self, first: int, behind: int) -> tuple[NDArray[np.uint16], Numbers, Counts]:
        places, documents, counts = [], [], []
        for block in self._blocks:
            low, high = np.searchsorted(block.terms, (first, behind)).tolist()
            if low < high:
                part = slice(block.starts.item(low), block.starts.item(high))
                documents.append(block.documents[part])
                counts.append(block.counts[part])
                local = (block.terms[low:high] - first).astype(np.uint16)
                places.append(np.repeat(local, np.diff(block.starts[low : high + 1])))
        if not places:
            return np.empty(0, np.uint16), np.empty(0, np.int32), np.empty(0, np.uint32)
        together = np.concatenate(places), np.concatenate(documents), np.concatenate(counts)
        if len(places) == 1:
            return together
        # Blocks follow one another in the order of documents, so a stable sort by term leaves these in order.
        order = np.argsort(together[0], kind="stable")
        return together[0][order], together[1][order], together[2][order]


def _among(entries: Numbers, starts: Offsets, terms: NDArray[np.uint16], documents: Numbers) -> Offsets:
    """Return where documents belong among the entries of their terms, which ascend and begin at ``starts``."""
    low, high = starts[terms], starts[terms.astype(np.int64) + 1]
    # All are searched for at once, each among the entries of its term.
    while (open_ := low < high).any():
        middle = (low + high) // 2
        before = open_ & (entries[np.minimum(middle, len(entries) - 1)] < documents)
        low = np.where(before, middle + 1, low)
        high = np.where(open_ & ~before, middle, high)
    return low


def smallest_type(highest: int) -> np.dtype[np.unsignedinteger]:
    """Return the smallest type of counts up to ``highest``, which depends on nothing else."""
    return np.min_scalar_type(highest) if highest < 2**32 else np.dtype(np.uint64)
