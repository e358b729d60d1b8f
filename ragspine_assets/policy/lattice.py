"""The sensitivity lattice, written once (SPEC 1.8).

PUBLIC < INTERNAL < CONFIDENTIAL < RESTRICTED. Whatever is not one of the three lower labels is RESTRICTED: an empty
cell, a word from another vocabulary, a value of another type. There is no way to read a label that fails open.
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum

_ZERO_WIDTH = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u2060-\u2064\ufeff]")


class Sensitivity(StrEnum):
    """A label of the lattice; its value is what is stored. Labels are ordered by rank, not by spelling."""

    PUBLIC = "PUBLIC"
    INTERNAL = "INTERNAL"
    CONFIDENTIAL = "CONFIDENTIAL"
    RESTRICTED = "RESTRICTED"

    @property
    def rank(self) -> int:
        """Position in the lattice, from 0 (PUBLIC) to 3 (RESTRICTED)."""
        return _RANKS[self._value_]

    # A StrEnum would compare by spelling, where CONFIDENTIAL < PUBLIC. A plain string is read as a label first.
    def __lt__(self, other: str) -> bool:
        return self.rank < read_label(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= read_label(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > read_label(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= read_label(other).rank


_RANKS = {"PUBLIC": 0, "INTERNAL": 1, "CONFIDENTIAL": 2, "RESTRICTED": 3}
_BY_NAME = {label.value: label for label in Sensitivity}
_BY_FOLDED_NAME = {label.value.casefold(): label for label in Sensitivity}


def _known(raw: object) -> Sensitivity | None:
    if not isinstance(raw, str):
        return None
    exact = _BY_NAME.get(raw)
    if exact is not None:
        return exact
    # Zero-width characters go on both sides of NFKC: some stand between a letter and its compatibility form.
    plain = _ZERO_WIDTH.sub("", unicodedata.normalize("NFKC", _ZERO_WIDTH.sub("", raw)))
    return _BY_FOLDED_NAME.get(plain.strip().casefold())


def read_label(raw: object) -> Sensitivity:
    """Return the label that ``raw`` spells, RESTRICTED if it spells none (SPEC 1.8, fail closed).

    A label is read after NFKC, removal of zero-width characters, strip and casefold. Values that are not strings,
    ``None`` and not-a-number among them, are RESTRICTED.
    """
    return _known(raw) or Sensitivity.RESTRICTED


def is_known_label(raw: object) -> bool:
    """Tell whether ``raw`` spells a label of the lattice; if not, it is RESTRICTED and to be reported."""
    return _known(raw) is not None


def is_restricted(raw: object) -> bool:
    """Tell whether ``raw`` is anything but a known lower label (SPEC 1.8)."""
    return read_label(raw) is Sensitivity.RESTRICTED


def most_restricted(*labels: object) -> Sensitivity:
    """Return the highest of some labels, each read as `read_label` does; of no labels at all, RESTRICTED."""
    return max((read_label(label) for label in labels), key=lambda label: label.rank, default=Sensitivity.RESTRICTED)
