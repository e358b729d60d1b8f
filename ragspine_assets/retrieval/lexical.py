"""The lexical index that serves queries: BM25 scores, computed ahead, kept as bm25s keeps them (SPEC 4.3, 6.6).

It knows tokens and positions, not chunks: whoever builds it decides which documents exist, and in which order they
tie. bm25s brings the method, the files and their memory map. The scores are computed here, from counts that can be kept:
the terms of a text that did not change need not be found again, and an index that was made from an earlier one is the
same, byte for byte, as one made anew.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, islice
from pathlib import Path
from typing import overload

import bm25s
import numpy as np
from numpy.typing import NDArray

from ragspine_assets.retrieval.bm25 import K1, B

Scores = NDArray[np.float64]
"""One score per document, in the order of the index."""

Mask = NDArray[np.bool_]
"""Which documents may be found, in the order of the index."""

_MANIFEST = "lexical.json"
_FORMAT = 3
_DIGITS = re.compile("([0-9]+)")
# A text of Han characters has as many tokens as a chunk has letters, twice: they are not kept for long.
_BATCH = 512
_TERMS = 4096
_DOCUMENTS = 4096
_ARRAYS = ("data", "indices", "indptr")

Numbers = NDArray[np.int32]
Offsets = NDArray[np.int64]
Counts = NDArray[np.integer]


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key that puts ``c2`` before ``c10``: runs of digits compare as numbers (SPEC 4.3)."""
    # Digits are compared by length, then text: an id may hold more of them than a number is read from.
    parts = _DIGITS.split(name)
    runs = [(len(part.lstrip("0")), part.lstrip("0")) if odd % 2 else (0, part) for odd, part in enumerate(parts)]
    return (*runs, (0, name))


class Texts(Sequence[str]):
    """Strings that stay where they are, end to end in one buffer, and are made only when asked for.

    Args:
        data: the UTF-8 bytes of all of them.
        offsets: where each begins; one more than there are strings.
    """

    __slots__ = ("_data", "_offsets")

    def __init__(self, data: memoryview, offsets: NDArray[np.integer]) -> None:
        self._data = data
        self._offsets = offsets

    @classmethod
    def of(cls, strings: Iterable[str]) -> Texts:
        """Return the strings in a buffer of their own."""
        encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(string) for string in encoded], out=offsets[1:])
        return cls(memoryview(b"".join(encoded)), offsets)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> list[str]: ...
    def __getitem__(self, position: int | slice) -> str | list[str]:
        if isinstance(position, slice):
            return [self[one] for one in range(*position.indices(len(self)))]
        if position < 0:
            raise IndexError(position)
        place = self._offsets.item
        return str(self._data[place(position) : place(position + 1)], "utf-8", "surrogatepass")

    @property
    def data(self) -> memoryview:
        """The UTF-8 bytes of all of them."""
        return self._data

    @property
    def offsets(self) -> NDArray[np.integer]:
        """Where each begins; one more than there are strings."""
        return self._offsets


@dataclass(frozen=True, slots=True)
class TermCounts:
    """How often each term stands in each document: all that BM25 needs to know of texts.

    Attributes:
        terms: every term that occurs, in order of code points.
        starts: where each document's entries begin; one more than there are documents.
        numbers: the entries' terms, by position in ``terms``, ascending within a document.
        counts: how often each entry's term is there.
    """

    terms: Sequence[str]
    starts: Offsets
    numbers: Numbers
    counts: Counts

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, documents: Iterable[Sequence[str]]) -> TermCounts:
        """Count the tokens of documents, which may come from a stream."""
        # A term that is met for the first time gets the next number.
        vocabulary: defaultdict[str, int] = defaultdict(count().__next__)
        number = vocabulary.__getitem__
        remaining = iter(documents)
        keys, counts, sizes = [], [], []
        while batch := list(islice(remaining, _BATCH)):
            ids = np.fromiter(
                chain.from_iterable(map(number, tokens) for tokens in batch),
                np.int64,
                sum(map(len, batch)),
            )
            documents_of = np.repeat(np.arange(len(batch), dtype=np.int64), [len(tokens) for tokens in batch])
            key, times = np.unique(documents_of << 32 | ids, return_counts=True)
            sizes.append(np.bincount(key >> 32, minlength=len(batch)))
            keys.append((key & 0xFFFFFFFF).astype(np.int32))
            counts.append(_small(times))
        starts = np.zeros(sum(map(len, sizes)) + 1, np.int64)
        if len(starts) > 1:
            np.cumsum(np.concatenate(sizes), out=starts[1:])
        numbers = np.concatenate(keys) if keys else np.empty(0, np.int32)
        return _in_order(list(vocabulary), starts, numbers, np.concatenate(counts) if counts else np.empty(0, np.uint8))

    @classmethod
    def gathered(cls, parts: Sequence[TermCounts], part: Numbers, position: Offsets) -> TermCounts:
        """Return the counts of documents that are found at ``position`` of one of some ``parts``, in that order.

        Terms that none of them has any more are gone from the result.
        """
        if sum(map(len, parts)) == len(position):
            # All documents of one part, in their order, are that part: nothing has to be moved.
            whole = [one for one in parts if len(one) == len(position)]
            if whole and np.array_equal(position, np.arange(len(position))):
                return whole[0]
        first = np.cumsum([0, *(len(one) for one in parts)])
        lines = first[part] + position
        sizes = np.concatenate([np.diff(one.starts) for one in parts])
        offsets = np.cumsum([0, *(len(one.numbers) for one in parts)])
        begins = np.concatenate([one.starts[:-1] + base for one, base in zip(parts, offsets, strict=False)])
        vocabulary: dict[str, int] = {}
        number = vocabulary.setdefault
        renumbered = []
        for one in parts:
            new = np.fromiter((number(term, len(vocabulary)) for term in one.terms), np.int32, len(one.terms))
            renumbered.append(new[one.numbers])
        starts = np.zeros(len(lines) + 1, np.int64)
        np.cumsum(sizes[lines], out=starts[1:])
        all_numbers, all_counts = np.concatenate(renumbered), np.concatenate([one.counts for one in parts])
        del renumbered
        numbers, counts = np.empty(starts[-1], np.int32), np.empty(starts[-1], all_counts.dtype)
        for low, high, begin, end in _blocks(starts):
            shift = begins[lines[low:high]] - starts[low:high]
            entries = np.repeat(shift, sizes[lines[low:high]]) + np.arange(begin, end)
            numbers[begin:end], counts[begin:end] = all_numbers[entries], all_counts[entries]
        del all_numbers, all_counts
        return _in_order(list(vocabulary), starts, numbers, counts)


def _in_order(terms: list[str], starts: Offsets, numbers: Numbers, counts: Counts) -> TermCounts:
    """Return counts with the terms that occur in their order, and the entries of each document in that order."""
    used = np.flatnonzero(np.bincount(numbers, minlength=len(terms)))
    present = [terms[one] for one in used.tolist()]
    order = sorted(range(len(present)), key=present.__getitem__)
    place = np.zeros(len(terms), np.int32)
    place[used[order]] = np.arange(len(order), dtype=np.int32)
    numbers = place[numbers]
    for low, high, begin, end in _blocks(starts):
        documents = np.repeat(np.arange(high - low, dtype=np.int64), np.diff(starts[low : high + 1]))
        entries = np.argsort(documents << 32 | numbers[begin:end], kind="stable")
        numbers[begin:end], counts[begin:end] = numbers[begin:end][entries], counts[begin:end][entries]
    return TermCounts([present[one] for one in order], starts, numbers, _small(counts))


def _blocks(starts: Offsets) -> Iterator[tuple[int, int, int, int]]:
    """Yield runs of documents, and where their entries begin and end: arrays over all entries at once take gigabytes."""
    for low in range(0, len(starts) - 1, _DOCUMENTS):
        high = min(low + _DOCUMENTS, len(starts) - 1)
        yield low, high, starts.item(low), starts.item(high)


def _small(counts: NDArray[np.integer]) -> Counts:
    """Return counts in the smallest type that holds them all, which depends on nothing but them."""
    kind = np.min_scalar_type(int(counts.max(initial=0)))
    return counts.astype(kind if kind.itemsize < 8 else np.uint32)


class LexicalIndex:
    """BM25 over token lists; the formula is that of `bm25_scores`, to a relative 1e-9.

    bm25s keeps a rounded score per entry, which is enough to tell which documents can be among the best; their scores are
    then computed exactly, so that documents that tie do tie.

    Args:
        documents: the tokens of each document, or their counts. All of them count for N, df and avgdl.
    """

    def __init__(self, documents: Iterable[Sequence[str]] | TermCounts = ()) -> None:
        counts = documents if isinstance(documents, TermCounts) else TermCounts.of(documents)
        self._size = len(counts)
        self._terms: Sequence[str] = counts.terms
        self._prefixes: NDArray[np.integer] | None = None
        self._counts: Counts = counts.counts
        self._lengths: NDArray[np.integer] = _lengths(counts)
        self._bm25: bm25s.BM25 | None = None
        self._rough: list[NDArray[np.float32]] = []
        if len(counts.terms):
            order = np.argsort(counts.numbers, kind="stable")
            self._counts = counts.counts[order]
            documents_of = np.repeat(np.arange(len(counts), dtype=np.int32), np.diff(counts.starts))[order]
            self._bm25 = _engine(len(counts), documents_of, counts)
            self._round_scores()

    def __len__(self) -> int:
        return self._size

    @property
    def terms(self) -> Sequence[str]:
        """Every term of the index, in order of code points."""
        return self._terms

    @cached_property
    def _norms(self) -> Scores:
        return K1 * (1 - B + B * self._lengths.astype(np.float64) / (int(self._lengths.sum()) / max(self._size, 1)))

    def _idf(self, df: int) -> float:
        return math.log(1 + (self._size - df + 0.5) / (df + 0.5))

    def _exact(self, begin: int, end: int, entries: NDArray[np.integer] | slice) -> Scores:
        """Return the scores of some entries of the term whose entries are from ``begin`` to ``end``."""
        assert self._bm25 is not None
        tf = self._counts[entries].astype(np.float64)
        documents = self._bm25.scores["indices"][entries]
        return self._idf(end - begin) * tf * (K1 + 1) / (tf + self._norms[documents])

    def _entries(self, query_tokens: Iterable[str]) -> list[tuple[int, int]]:
        """Return where the entries of each token begin and end, for those that the index knows."""
        if self._bm25 is None:
            return []
        starts = self._bm25.scores["indptr"]
        numbers = [number for token in query_tokens if (number := self._number(token)) is not None]
        return [(starts.item(number), starts.item(number + 1)) for number in numbers]

    def _round_scores(self) -> None:
        """Fill in the score of each entry, rounded."""
        assert self._bm25 is not None
        documents, starts = self._bm25.scores["indices"], self._bm25.scores["indptr"]
        df = np.diff(starts)
        frequencies, which = np.unique(df, return_inverse=True)
        idf = np.array([self._idf(one) for one in frequencies.tolist()])[which]
        data = np.empty(len(documents), np.float32)
        # In pieces: the exact scores of all entries would take twice the memory of the index.
        for first in range(0, len(df), _TERMS):
            begin, end = starts.item(first), starts.item(min(first + _TERMS, len(df)))
            tf = self._counts[begin:end].astype(np.float64)
            factor = np.repeat(idf[first : first + _TERMS], df[first : first + _TERMS])
            data[begin:end] = factor * tf * (K1 + 1) / (tf + self._norms[documents[begin:end]])
        self._bm25.scores["data"] = data

    def scores(self, query_tokens: Iterable[str]) -> Scores:
        """Return the score of every document for a query; 0 is no hit. A repeated token counts again."""
        total = np.zeros(self._size)
        for begin, end in self._entries(query_tokens):
            assert self._bm25 is not None
            np.add.at(total, self._bm25.scores["indices"][begin:end], self._exact(begin, end, slice(begin, end)))
        return total

    def search(
        self, query_tokens: Iterable[str], top_k: int, allowed: NDArray[np.integer] | None = None
    ) -> tuple[NDArray[np.intp], Scores]:
        """Return the positions of the best documents and their scores, best first; equal scores by position.

        The answer is the beginning of what `best` gives for `scores`.

        Args:
            query_tokens: tokens of the query.
            top_k: how many at most.
            allowed: positions, ascending, of the documents that may be among them; None for all.
        """
        entries = self._entries(query_tokens)
        if not entries or top_k <= 0 or self._bm25 is None:
            return np.empty(0, np.intp), np.empty(0)
        data, documents = self._bm25.scores["data"], self._bm25.scores["indices"]
        # An array is used again: to ask the system for memory takes longer than the search. Other threads get others.
        try:
            rough = self._rough.pop()
            rough.fill(0.0)
        except IndexError:
            rough = np.zeros(self._size, np.float32)
        for begin, end in entries:
            np.add.at(rough, documents[begin:end], data[begin:end])
        seen = rough if allowed is None else rough[allowed]
        # Sums of rounded scores are wrong by less than this, so nobody who belongs to the best is left out.
        lowest = _lower_bound(seen, top_k) * (1 - (len(entries) + 8) * 2.0**-22)
        found = np.flatnonzero(seen >= lowest) if lowest > 0 else np.flatnonzero(seen)
        self._rough.append(rough)
        candidates = found if allowed is None else allowed[found]
        exact = np.zeros(len(candidates))
        for begin, end in entries:
            place = np.searchsorted(documents[begin:end], candidates.astype(np.int32))
            place[place == end - begin] = 0
            holds = documents[begin:end][place] == candidates
            exact[holds] += self._exact(begin, end, begin + place[holds])
        order = np.argsort(-exact, kind="stable")[:top_k]
        return candidates[order].astype(np.intp), exact[order]

    def _number(self, token: str) -> int | None:
        # Few terms share their first bytes, so hardly any has to be read.
        begin, end = 0, len(self._terms)
        if self._prefixes is not None:
            prefix = _prefix(token.encode("utf-8", "surrogatepass"))
            begin = int(np.searchsorted(self._prefixes, prefix))
            end = int(np.searchsorted(self._prefixes[begin:], prefix, "right")) + begin
        place = bisect_left(self._terms, token, begin, end)
        return place if place < end and self._terms[place] == token else None

    def lengths(self) -> NDArray[np.integer]:
        """Return how many tokens each document has."""
        return self._lengths

    def documents_with(self, token: str) -> Numbers:
        """Return the positions of the documents that hold a token, ascending."""
        number = self._number(token)
        if self._bm25 is None or number is None:
            return np.empty(0, np.int32)
        begin, end = self._bm25.scores["indptr"][number : number + 2]
        return self._bm25.scores["indices"][begin:end]

    def counts(self) -> TermCounts:
        """Return what the index was made from."""
        if self._bm25 is None:
            return TermCounts([], np.zeros(self._size + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8))
        documents = self._bm25.scores["indices"]
        df = np.diff(self._bm25.scores["indptr"])
        numbers = np.repeat(np.arange(len(df), dtype=np.int32), df)
        order = np.argsort(documents, kind="stable")
        starts = np.zeros(self._size + 1, np.int64)
        np.cumsum(np.bincount(documents, minlength=self._size), out=starts[1:])
        return TermCounts(self._terms, starts, numbers[order], self._counts[order])

    def save(self, folder: Path) -> None:
        """Write the index into a folder, which is created."""
        folder.mkdir(parents=True, exist_ok=True)
        if self._bm25 is not None:
            self._bm25.save(folder, show_progress=False)
            # Our own vocabulary is searched where it lies; a dictionary would have to be read and built at each start.
            (folder / "vocab.index.json").unlink()
            texts = Texts.of(self._terms)
            np.save(folder / "terms.npy", np.frombuffer(texts.data, np.uint8))
            np.save(folder / "term_offsets.npy", texts.offsets)
            prefixes = [_prefix(term.encode("utf-8", "surrogatepass")) for term in self._terms]
            np.save(folder / "term_prefixes.npy", np.array(prefixes))
            np.save(folder / "counts.npy", self._counts)
            np.save(folder / "lengths.npy", self._lengths)
        manifest = {"format": _FORMAT, "bm25s": bm25s.__version__, "documents": self._size, "empty": self._bm25 is None}
        (folder / _MANIFEST).write_text(json.dumps(manifest, sort_keys=True), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> LexicalIndex:
        """Open a saved index; its arrays are memory-mapped, not read, and stay readable when the files are deleted.

        Raises:
            ValueError: the folder holds no index, or one in a format this code does not know.
        """
        try:
            manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            if manifest["format"] != _FORMAT:
                message = f"{folder}: lexical index in format {manifest['format']}, expected {_FORMAT}; build it again"
                raise ValueError(message)
            index = cls()
            index._size = int(manifest["documents"])
            if not manifest["empty"]:
                index._bm25 = bm25s.BM25.load(folder, mmap=True, show_progress=False, load_vocab=False)
                # Plain views: a slice of a memory map would be a memory map, which costs more than the slice.
                index._bm25.scores |= {name: np.asarray(index._bm25.scores[name]) for name in _ARRAYS}
                index._counts = _mapped(folder / "counts.npy")
                index._lengths = _mapped(folder / "lengths.npy")
                index._prefixes = _mapped(folder / "term_prefixes.npy")
                index._terms = Texts(_mapped(folder / "terms.npy").data, _mapped(folder / "term_offsets.npy"))
        except (OSError, KeyError, TypeError, json.JSONDecodeError) as error:
            message = f"{folder}: no complete lexical index here ({type(error).__name__}); build it again"
            raise ValueError(message) from None
        return index


def _prefix(term: bytes) -> np.uint64:
    """Return the first bytes of a term as a number; the numbers are in the order of the terms."""
    return np.uint64(int.from_bytes(term[:8].ljust(8, b"\0"), "big"))


def _mapped(path: Path) -> NDArray[np.integer]:
    """Return the array of a file, memory-mapped; it stays readable when the file is deleted."""
    return np.asarray(np.load(path, mmap_mode="r"))


def _lengths(counts: TermCounts) -> NDArray[np.int32]:
    """Return how many tokens each document has."""
    lengths = np.zeros(len(counts), np.int32)
    filled = np.diff(counts.starts) > 0
    if filled.any():
        lengths[filled] = np.add.reduceat(counts.counts, counts.starts[:-1][filled], dtype=np.int64)
    return lengths


def _engine(size: int, documents: Numbers, counts: TermCounts) -> bm25s.BM25:
    """Return bm25s with every entry in place and no scores yet; ``documents`` are those of the entries, by term."""
    starts = np.zeros(len(counts.terms) + 1, np.int64)
    np.cumsum(np.bincount(counts.numbers, minlength=len(counts.terms)), out=starts[1:])
    # The term factor of SPEC 4.3 is what bm25s calls "atire", its idf "lucene".
    index = bm25s.BM25(k1=K1, b=B, method="atire", idf_method="lucene", backend="numpy", csc_backend="numpy")
    index.scores = {"data": np.empty(0, np.float32), "indices": documents, "indptr": starts, "num_docs": size}
    index.vocab_dict = {}
    index.nonoccurrence_array = None
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
    if top_k is not None and top_k <= 0:
        return np.empty(0, dtype=np.intp)
    if allowed is not None:
        positions = np.flatnonzero(allowed)
        return positions[best(scores[positions], top_k)]
    lowest = 0.0 if top_k is None else _lower_bound(scores, top_k)
    # Whatever ties with the last one is kept until the ties are broken.
    hits = np.flatnonzero(scores >= lowest) if lowest > 0 else np.flatnonzero(scores)
    return hits[np.argsort(-scores[hits], kind="stable")][:top_k]


def _lower_bound(scores: NDArray[np.floating], top_k: int) -> float:
    """Return a score that at least ``top_k`` documents reach and few others, 0 if there are not as many documents.

    The best scores of blocks of documents are themselves scores of as many documents, and far fewer to select from.
    """
    block = max(1, min(64, len(scores) // (4 * top_k)))
    blocks = len(scores) // block
    if blocks < top_k:
        return 0.0
    # Which documents make a block does not matter; along this axis the maximum is found many at a time.
    highest = scores[: blocks * block].reshape(block, blocks).max(axis=0)
    return float(np.partition(highest, blocks - top_k)[blocks - top_k])
