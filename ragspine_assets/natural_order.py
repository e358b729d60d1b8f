"""Natural order of names, in Python and in SQL: ``c2`` comes before ``c10`` (SPEC 4.3, 5.3).

Runs of ASCII digits compare as numbers, however long they are; every other digit is a character like any other.
"""

from __future__ import annotations

import re

_DIGITS = re.compile("([0-9]+)")


def natural_key(name: str) -> tuple[tuple[tuple[int, str], ...], str]:
    """Return a sort key that puts ``c2`` before ``c10``; the name itself decides between ``02`` and ``2``."""
    # Digits are compared by length, then text: an id may hold more of them than a number is read from.
    parts = _DIGITS.split(name)
    runs = tuple((len(part.lstrip("0")), part.lstrip("0")) if odd % 2 else (0, part) for odd, part in enumerate(parts))
    return runs, name


def natural_key_sql(column: str) -> str:
    """Return SQL for a list that sorts as `natural_key` does; such lists may be concatenated to sort by several columns.

    Args:
        column: SQL for a text that is not null.
    """
    # A run of digits comes before any other: its mark is the smaller one.
    return f"""[list_transform(regexp_extract_all({column}, '[0-9]+|[^0-9]+'), lambda run:
        CASE WHEN run[1] BETWEEN '0' AND '9'
        THEN chr(1) || lpad(length(ltrim(run, '0'))::VARCHAR, 10, '0') || ltrim(run, '0')
        ELSE chr(2) || run END), [{column}]]"""
