"""The lexical index that serves queries: BM25 scores, computed ahead, kept as bm25s keeps them (SPEC 4.3, 6.6).

It knows tokens and positions, not chunks: whoever builds it decides which documents exist, and in which order they
tie. bm25s brings the method, the files and their memory map. The scores are computed here, from counts that can be kept:
the terms of a text that did not change need not be found again, and an index that was made from an earlier one is the
same, byte for byte, as one made anew.
"""

from __future__ import annotations

import json
import math
import mmap
import tempfile
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self, overload

import bm25s
import numpy as np
from numpy.typing import NDArray

from ragspine_assets.index.bm25 import K1, B
from ragspine_assets.index.postings import (
    Counts,
    Entries,
    Mapped,
    Numbers,
    Offsets,
    PostingsBlock,
    PostingsBuilder,
    PreviousIndex,
    Range,
    smallest_type,
)
from ragspine_assets.index.query import QueryTerm
from ragspine_assets.index.snapshot_index import ReleaseRows
from ragspine_assets.index.tokens import Tokens

Scores = NDArray[np.float64]
"""One score per document, in the order of the index."""

Mask = NDArray[np.bool_]
"""Which documents may be found, in the order of the index."""

_MANIFEST = "lexical.json"
_FORMAT = 4
_TERMS = 4096
_PIECE = 1 << 15
_BATCH = 512
_ARRAYS = ("data", "indices", "indptr")
_FILE_OF = {name: f"{name}.csc.index.npy" for name in _ARRAYS}
_NONE = np.empty(0, np.int32)


class Texts(Sequence[str]):
    """Strings that stay where they are, end to end in one buffer, and are made only when asked for.

    Args:
        data: the UTF-8 bytes of all of them.
        offsets: where each begins; one more than there are strings.
    """

    def __init__(self, data: memoryview, offsets: NDArray[np.integer]) -> None:
        self._data = data
        self._offsets = offsets

    @classmethod
    def of(cls, strings: Iterable[str]) -> Texts:
        """Return the strings in a buffer of their own."""
        strings = list(strings)
        data = "".join(strings).encode("utf-8", "surrogatepass")
        offsets = np.zeros(len(strings) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)), out=offsets[1:])
        if offsets[-1] < len(data):
            # Where each code point begins, and where the last one ends.
            offsets = np.append(np.flatnonzero(_begins(data)), len(data))[offsets]
        return cls(memoryview(data), offsets)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> list[str]: ...
    def __getitem__(self, position: int | slice) -> str | list[str]:
        if isinstance(position, slice):
            first, behind, step = position.indices(len(self))
            return self._together(first, max(first, behind))[::step] if step > 0 else list(self)[position]
        if position < 0:
            raise IndexError(position)
        place = self._offsets.item
        return str(self._data[place(position) : place(position + 1)], "utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _TERMS):
            yield from self._together(first, min(first + _TERMS, len(self)))

    def _together(self, first: int, behind: int) -> list[str]:
        """Return neighbouring strings: decoded at once and then cut, several times faster than one by one."""
        data = self.span(first, behind)
        together = str(data, "utf-8", "surrogatepass")
        places = self._offsets[first : behind + 1] - self._offsets[first]
        if len(together) < len(data):
            places = np.append(0, np.cumsum(_begins(data)))[places]
        return list(map(together.__getitem__, map(slice, places[:-1].tolist(), places[1:].tolist())))

    def span(self, first: int, behind: int) -> bytes:
        """Return the UTF-8 bytes of neighbouring strings, end to end."""
        return bytes(self._data[self._offsets.item(first) : self._offsets.item(behind)])

    @property
    def data(self) -> memoryview:
        """The UTF-8 bytes of all of them."""
        return self._data

    @property
    def offsets(self) -> NDArray[np.integer]:
        """Where each begins; one more than there are strings."""
        return self._offsets


def _batches(documents: Iterable[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    rest = iter(documents)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def _begins(data: bytes) -> NDArray[np.bool_]:
    """Return at which bytes of UTF-8 a code point begins."""
    return np.frombuffer(data, np.uint8) & 0xC0 != 0x80


class LexicalIndex:
    """BM25 over token lists; the formula is that of `bm25_scores`, to a relative 1e-9.

    bm25s keeps a rounded score per entry, which is enough to tell which documents can be among the best; their scores are
    then computed exactly, so that documents that tie do tie.

    Args:
        documents: the tokens of each document. All of them count for N, df and avgdl.
    """

    name: ClassVar[str] = "lexical"

    def __init__(self, documents: Iterable[Sequence[str]] = ()) -> None:
        self._make(Tokens.of(part) for part in _batches(documents))

    @classmethod
    def of_tokens(cls, documents: Iterable[Tokens]) -> LexicalIndex:
        """Return the index of documents whose tokens come counted, some documents at a time."""
        index = cls.__new__(cls)
        index._make(documents)
        return index

    def _make(self, documents: Iterable[Tokens]) -> None:
        gathering = PostingsBuilder()
        lengths = [np.empty(0, np.int32)]
        self._size = 0
        for tokens in documents:
            lengths.append(tokens.lengths().astype(np.int32))
            gathering.add(np.arange(self._size, self._size + tokens.size), tokens)
            self._size += tokens.size
        self._lengths: NDArray[np.integer] = np.concatenate(lengths)
        self._prefixes: NDArray[np.integer] | None = None
        self._bm25: bm25s.BM25 | None = None
        self._rough: list[NDArray[np.float32]] = []
        merged = gathering.merged()
        self._terms: Sequence[str] = merged.terms
        self._counts: Counts = np.empty(0, smallest_type(merged.most))
        if len(merged.terms):
            parts = list(merged.ranges())
            self._counts = np.concatenate([part.counts for part in parts])
            self._bm25 = _engine(self._size)
            self._bm25.scores = {
                "data": np.concatenate([_rounded(part, self._norms, self._size) for part in parts]),
                "indices": np.concatenate([part.documents for part in parts]),
                "indptr": merged.starts,
                "num_docs": self._size,
            }

    def __len__(self) -> int:
        return self._size

    @property
    def terms(self) -> Sequence[str]:
        """Every term of the index, in order of code points."""
        return self._terms

    @cached_property
    def _norms(self) -> Scores:
        return _norms(self._lengths)

    def _exact(self, idf: float, entries: NDArray[np.integer] | slice) -> Scores:
        """Return the scores of some entries of a term that weighs ``idf``."""
        assert self._bm25 is not None
        tf = self._counts[entries].astype(np.float64)
        documents = self._bm25.scores["indices"][entries]
        return idf * tf * (K1 + 1) / (tf + self._norms[documents])

    def _entries(self, query: Iterable[str | QueryTerm]) -> list[tuple[str, int, int, float]]:
        """Return each term that the index knows, where its entries begin and end, and what it weighs."""
        if self._bm25 is None:
            return []
        found: list[tuple[str, int, int, float]] = []
        for asked in query:
            if isinstance(asked, str):
                if (span := self._span(asked)) is not None:
                    found.append((asked, *span, _idf(self._size, span[1] - span[0])))
                continue
            spans = [(term, *span) for term in asked.terms if (span := self._span(term)) is not None]
            idf = _idf(self._size, min(sum(end - begin for _, begin, end in spans), self._size))
            found += [(*span, idf) for span in spans]
            for term, weight in asked.variants:
                if term not in asked.terms and (span := self._span(term)) is not None:
                    found.append((term, *span, weight * min(idf, _idf(self._size, span[1] - span[0]))))
        return found

    def _span(self, term: str) -> tuple[int, int] | None:
        """Return where the entries of a term begin and end."""
        number = self._number(term)
        if number is None or self._bm25 is None:
            return None
        starts = self._bm25.scores["indptr"]
        return starts.item(number), starts.item(number + 1)

    def scores(self, query: Iterable[str | QueryTerm]) -> Scores:
        """Return the score of every document for a query; 0 is no hit. A repeated term counts again.

        Args:
            query: terms, or what stands for several of them; a term alone is a `QueryTerm` of one.
        """
        total = np.zeros(self._size)
        for _, begin, end, idf in self._entries(query):
            assert self._bm25 is not None
            np.add.at(total, self._bm25.scores["indices"][begin:end], self._exact(idf, slice(begin, end)))
        return total

    def explain(self, query: Iterable[str | QueryTerm], position: int) -> dict[str, tuple[int, float]]:
        """Return the terms that a document is found by, how often a query asks for each, and what that adds to its score."""
        found: dict[str, tuple[int, float]] = {}
        for term, begin, end, idf in self._entries(query):
            assert self._bm25 is not None
            place = begin + int(np.searchsorted(self._bm25.scores["indices"][begin:end], position))
            if place < end and self._bm25.scores["indices"][place] == position:
                times, score = found.get(term, (0, 0.0))
                found[term] = times + 1, score + self._exact(idf, slice(place, place + 1)).item()
        return found

    def rank(
        self, query: Iterable[str | QueryTerm], top_k: int, allowed: NDArray[np.integer] | None = None
    ) -> tuple[NDArray[np.intp], Scores]:
        """Return the positions of the best documents and their scores, best first; equal scores by position.

        The answer is the beginning of what `best` gives for `scores`.

        Args:
            query: terms, or what stands for several of them.
            top_k: how many at most.
            allowed: positions, ascending, of the documents that may be among them; None for all.
        """
        entries = self._entries(query)
        if not entries or top_k <= 0 or self._bm25 is None:
            return np.empty(0, np.intp), np.empty(0)
        data, documents = self._bm25.scores["data"], self._bm25.scores["indices"]
        # An array is used again: to ask the system for memory takes longer than the search. Other threads get others.
        try:
            rough = self._rough.pop()
            rough.fill(0.0)
        except IndexError:
            rough = np.zeros(self._size, np.float32)
        for _, begin, end, idf in entries:
            own = _idf(self._size, end - begin)
            scores = data[begin:end]
            np.add.at(rough, documents[begin:end], scores if idf == own else scores * np.float32(idf / own))
        seen = rough if allowed is None else rough[allowed]
        # Sums of rounded scores are wrong by less than this, so nobody who belongs to the best is left out.
        lowest = _lower_bound(seen, top_k) * (1 - (len(entries) + 8) * 2.0**-22)
        found = np.flatnonzero(seen >= lowest) if lowest > 0 else np.flatnonzero(seen)
        self._rough.append(rough)
        candidates = found if allowed is None else allowed[found]
        exact = np.zeros(len(candidates))
        for _, begin, end, idf in entries:
            place = np.searchsorted(documents[begin:end], candidates.astype(np.int32))
            place[place == end - begin] = 0
            holds = documents[begin:end][place] == candidates
            exact[holds] += self._exact(idf, begin + place[holds])
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

    def staying(self, places: Numbers) -> PreviousIndex:
        """Return the entries of those documents that stay in another index, see `PreviousIndex`."""
        if self._bm25 is None:
            nothing = PostingsBlock(
                np.empty(0, np.int32), np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8)
            )
            return PreviousIndex([], nothing, places)
        scores = self._bm25.scores
        numbers = np.arange(len(self._terms), dtype=np.int32)
        documents, counts = _entries(scores["indices"]), _entries(self._counts)
        return PreviousIndex(self._terms, PostingsBlock(numbers, scores["indptr"], documents, counts), places)

    def release(self) -> None:
        """Let go of what was read of the files: it stays no part of this process's memory, and is read again if needed.

        For those who look into the whole of a large index once.
        """
        arrays = [*self._bm25.scores.values(), self._counts, self._lengths] if self._bm25 is not None else []
        for array in arrays:
            if (pages := _pages(array)) is not None:
                pages.madvise(mmap.MADV_DONTNEED)

    def save(self, folder: Path) -> None:
        """Write the index into a folder, which is created."""
        frequencies = np.diff(self._bm25.scores["indptr"]) if self._bm25 is not None else np.empty(0, np.int64)
        whole = Range(0, frequencies, self._bm25.scores["indices"] if self._bm25 is not None else _NONE, self._counts)
        _write(folder, self._terms, self._lengths, frequencies, self._counts.dtype, [whole])

    @classmethod
    def build(cls, folder: Path, rows: ReleaseRows, former: Self | None) -> None:
        """Write the index of the rows of a release, see `SnapshotIndex` and `write_index`."""
        tokens = rows.tokens(rows.fresh())
        write_index(folder, tokens, size=len(rows), earlier=former, places=rows.places)

    @classmethod
    def open(cls, folder: Path) -> Self:
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
            index._lengths = np.zeros(index._size, np.int32)
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


def _prefixes(terms: Texts) -> NDArray[np.uint64]:
    """Return `_prefix` of each term."""
    data, starts = np.frombuffer(terms.data, np.uint8), np.asarray(terms.offsets)
    numbers = np.zeros(len(terms), np.uint64)
    for place in range(8):
        here = starts[:-1] + place
        there = here < starts[1:]
        numbers[there] |= data[here[there]].astype(np.uint64) << np.uint64(56 - 8 * place)
    return numbers


def _pages(array: object) -> mmap.mmap | None:
    """Return the memory map that an array lies in, if it does."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, mmap.mmap) else None


def _entries(column: NDArray[np.integer]) -> Entries:
    pages = _pages(column)
    return column if pages is None else Mapped(column, pages)


def _mapped(path: Path) -> NDArray[np.integer]:
    """Return the array of a file, memory-mapped; it stays readable when the file is deleted."""
    return np.asarray(np.load(path, mmap_mode="r"))


def write_index(
    folder: Path,
    documents: Iterable[Tokens],
    *,
    size: int,
    earlier: LexicalIndex | None = None,
    places: Numbers | None = None,
) -> None:
    """Write the index of some documents, holding a bounded part of it in memory.

    The files are those that `LexicalIndex.save` writes, byte for byte, whatever is taken from an earlier index.

    Args:
        folder: where to write; created. What is kept there in between is gone at the end.
        documents: tokens of the documents that are new, in order of their positions, some documents at a time.
        size: how many documents there are.
        earlier: an index that some of the documents are taken from.
        places: for each document of ``earlier`` its position, -1 if it is gone; those that stay keep their order. All
            other positions are those of ``documents``.

    Raises:
        ValueError: there are not as many ``documents`` as positions for them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lengths = np.zeros(size, np.int32)
    fresh = np.ones(size, np.bool_)
    if earlier is not None and places is not None:
        stays = places >= 0
        fresh[places[stays]] = False
        lengths[places[stays]] = earlier.lengths()[stays]
    with tempfile.TemporaryFile(dir=folder) as file:
        gathering = PostingsBuilder(file)
        rest = np.flatnonzero(fresh)
        for tokens in documents:
            positions, rest = rest[: tokens.size], rest[tokens.size :]
            if len(positions) < tokens.size:
                raise ValueError(f"{tokens.size - len(positions)} documents have no position")
            lengths[positions] = tokens.lengths()
            gathering.add(positions, tokens)
        if len(rest):
            raise ValueError(f"{len(rest)} positions have no document")
        merged = gathering.merged(None if earlier is None or places is None else earlier.staying(places))
        kind = smallest_type(merged.most)
        _write(folder, merged.terms, lengths, merged.frequencies, kind, merged.ranges())


def _write(
    folder: Path,
    terms: Sequence[str],
    lengths: NDArray[np.integer],
    frequencies: Offsets,
    count_type: np.dtype[np.integer],
    ranges: Iterable[Range],
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    size = len(lengths)
    if len(terms):
        _engine(size).save(folder, show_progress=False)
        # Our own vocabulary is searched where it lies; a dictionary would have to be read and built at each start.
        (folder / "vocab.index.json").unlink()
        texts = Texts.of(terms)
        np.save(folder / "terms.npy", np.frombuffer(texts.data, np.uint8))
        np.save(folder / "term_offsets.npy", texts.offsets)
        np.save(folder / "term_prefixes.npy", _prefixes(texts))
        np.save(folder / "lengths.npy", lengths)
        starts = np.zeros(len(terms) + 1, np.int64)
        np.cumsum(frequencies, out=starts[1:])
        np.save(folder / _FILE_OF["indptr"], starts)
        entries = starts.item(-1)
        norms = _norms(lengths)
        with (
            _npy(folder / _FILE_OF["data"], np.dtype(np.float32), entries) as data,
            _npy(folder / _FILE_OF["indices"], np.dtype(np.int32), entries) as documents,
            _npy(folder / "counts.npy", count_type, entries) as counts,
        ):
            for part in ranges:
                data.write(_rounded(part, norms, size).data)
                documents.write(np.ascontiguousarray(part.documents).data)
                counts.write(np.ascontiguousarray(part.counts).data)
    manifest = {"format": _FORMAT, "bm25s": bm25s.__version__, "documents": size, "empty": not len(terms)}
    (folder / _MANIFEST).write_text(json.dumps(manifest, sort_keys=True), encoding="utf-8")


@contextmanager
def _npy(path: Path, kind: np.dtype[Any], size: int) -> Iterator[BinaryIO]:
    """Open a file of one array whose values are written bit by bit, as `numpy.save` writes it at once."""
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (size,)}
        np.lib.format.write_array_header_1_0(file, header)
        yield file


def _norms(lengths: NDArray[np.integer]) -> Scores:
    """Return what stands beside tf in the divisor of each document's scores."""
    return K1 * (1 - B + B * lengths.astype(np.float64) / (int(lengths.sum()) / max(len(lengths), 1)))


def _idf(size: int, frequency: int) -> float:
    return math.log(1 + (size - frequency + 0.5) / (frequency + 0.5))


def _rounded(part: Range, norms: Scores, size: int) -> NDArray[np.float32]:
    """Return the score of each entry of some terms, rounded."""
    data = np.empty(len(part.documents), np.float32)
    frequencies, which = np.unique(part.frequencies, return_inverse=True)
    idf = np.array([_idf(size, one) for one in frequencies.tolist()])[which]
    starts = np.zeros(len(idf) + 1, np.int64)
    np.cumsum(part.frequencies, out=starts[1:])
    # In pieces that stay in the processor's cache.
    first = 0
    while first < len(idf):
        behind = max(first + 1, int(np.searchsorted(starts, starts[first] + _PIECE, "right")) - 1)
        begin, end = starts.item(first), starts.item(behind)
        tf = part.counts[begin:end].astype(np.float64)
        factor = np.repeat(idf[first:behind], part.frequencies[first:behind])
        data[begin:end] = factor * tf * (K1 + 1) / (tf + norms[part.documents[begin:end]])
        first = behind
    return data


def _engine(size: int) -> bm25s.BM25:
    """Return bm25s without entries."""
    # The term factor of SPEC 4.3 is what bm25s calls "atire", its idf "lucene".
    index = bm25s.BM25(k1=K1, b=B, method="atire", idf_method="lucene", backend="numpy", csc_backend="numpy")
    index.scores = {
        "data": np.empty(0, np.float32),
        "indices": np.empty(0, np.int32),
        "indptr": np.zeros(1, np.int64),
        "num_docs": size,
    }
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
