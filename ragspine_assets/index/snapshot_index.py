"""What every index of a release can do: be built, opened, asked and proved (SPEC 6.6).

An index more is a class that follows `SnapshotIndex`, a place in `INDEXES` of `serving/indexes.py`, and a proof under its
name in `audit/serving.py`; publishing, opening and proving go through all there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragspine_assets.index.analysis import Analyzer
from ragspine_assets.index.tokens import Tokens, in_batches

_TEXTS = 64

Asked = TypeVar("Asked", contravariant=True)
"""What an index is asked with: terms, a vector."""


@dataclass(frozen=True)
class ReleaseRows:
    """The rows of a release, in its order, as indexes are built from them. Nothing that may not be published is here.

    Attributes:
        texts: of each row its text.
        languages: by which languages' rules the rows are read.
        language_codes: of each row the number of its language.
        analyzer: how texts become terms.
        places: of each row of the former release the position of the same text now, -1 where there is none; None where
            there is no former release, or nothing of it can be used again.
    """

    texts: Sequence[str]
    languages: Sequence[str]
    language_codes: NDArray[np.int32]
    analyzer: Analyzer
    places: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.language_codes)

    def fresh(self) -> NDArray[np.intp]:
        """Return the positions of the rows whose text was not in the former release, ascending."""
        fresh = np.ones(len(self), np.bool_)
        if self.places is not None:
            fresh[self.places[self.places >= 0]] = False
        return np.flatnonzero(fresh)

    def tokens(self, positions: NDArray[np.intp]) -> Iterator[Tokens]:
        """Yield the tokens of the texts at some positions, of neighbours that one language's rules read together."""
        codes = self.language_codes
        ends = np.flatnonzero((np.diff(positions) != 1) | (np.diff(codes[positions]) != 0)) + 1
        for run in np.split(positions, ends) if len(positions) else []:
            stop = run.item(-1) + 1
            read = (self.texts[first : min(first + _TEXTS, stop)] for first in range(run.item(0), stop, _TEXTS))
            for batch in in_batches(chain.from_iterable(read)):
                yield self.analyzer.tokens(batch, self.languages[codes.item(run.item(0))])


class SnapshotIndex(Protocol[Asked]):
    """An index of a release, in a folder of its own.

    What proves it stands in the audit, written apart: a class here knows nothing of it.
    """

    name: ClassVar[str]
    """Its folder in the release, and what its proof is called by."""

    @classmethod
    def build(cls, folder: Path, rows: ReleaseRows, former: Self | None) -> None:
        """Write the index of some rows; of those that stayed, what ``former`` knows may be used again.

        The same rows give the same bytes, whatever was used again. Memory does not grow with the rows.
        """
        ...

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open what was built; it stays readable when its files are deleted.

        Raises:
            ValueError: the folder holds no such index.
        """
        ...

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def rank(
        self, asked: Asked, top_k: int, allowed: NDArray[np.integer] | None = None, /
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the positions of the best rows and their scores, best first; equal scores by position.

        Args:
            asked: what is looked for.
            top_k: how many at most.
            allowed: positions, ascending, of the rows that may be among them; None for all.
        """
        ...
