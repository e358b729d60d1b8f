"""What is wrong with the header of a table that a person wrote (SPEC 1.7, 6.1).

A table without a header has its first row there, and whatever a cell holds may be secret: a column is named by its number
and by the known name it is nearest to, never by what stands in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches


def header_problems(found: Sequence[str], known: Sequence[str], optional: Collection[str] = ()) -> list[str]:
    """Return what is wrong with a header, each a part of a sentence; empty for a good one.

    Args:
        found: the cells of the header, stripped.
        known: every column there may be.
        optional: those of them that may be left out.
    """
    missing = [name for name in known if name not in found and name not in optional]
    unknown = [(number, cell) for number, cell in enumerate(found, 1) if cell not in known]
    if found and len(unknown) == len(found):
        return [f"none of the {len(found)} cells of its first line is a known column: does it have a header?"]
    problems = [f"column {number} is unknown{_meant(cell, known)}" for number, cell in unknown]
    problems += [f"column {name!r} is missing" for name in missing]
    problems += [f"column {name!r} is there twice" for name in known if found.count(name) > 1]
    return problems


def _meant(cell: str, known: Sequence[str]) -> str:
    near = get_close_matches(cell[:40].casefold(), known, n=1, cutoff=0.7)
    return f" (is {near[0]!r} meant?)" if near else ""
