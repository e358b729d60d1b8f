"""The locator format, written once (SPEC 2.1).

A locator names paragraphs of a document: ``{prefix}#para{n}`` or ``{prefix}#para{a}-{b}``, counted from 1, both ends
included. A prefix may itself contain ``#para3``: only the last mark counts.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LOCATOR = re.compile(r"(?P<prefix>.+)#para(?P<start>[1-9][0-9]*)(?:-(?P<end>[1-9][0-9]*))?", re.DOTALL)


class Locator(NamedTuple):
    """The parts of a locator: what it begins with, its first and its last paragraph (from 1, inclusive)."""

    prefix: str
    para_start: int
    para_end: int


def locator(prefix: str, para_start: int, para_end: int) -> str:
    """Return the locator of the paragraphs ``para_start`` to ``para_end``, from 1 and inclusive (SPEC 2.1)."""
    if para_start == para_end:
        return f"{prefix}#para{para_start}"
    return f"{prefix}#para{para_start}-{para_end}"


def parse_locator(text: str) -> Locator:
    """Return the parts of a locator; the inverse of `locator`.

    Raises:
        ValueError: if ``text`` is not a locator of at least one paragraph.
    """
    found = _LOCATOR.fullmatch(text)
    if found is None:
        message = "not a locator: expected {prefix}#para{n} or {prefix}#para{a}-{b}"
        raise ValueError(message)
    start = int(found["start"])
    end = int(found["end"] or start)
    if end < start:
        message = f"not a locator: its last paragraph {end} lies before its first {start}"
        raise ValueError(message)
    return Locator(found["prefix"], start, end)
