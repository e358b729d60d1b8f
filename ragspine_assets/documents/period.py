"""The period that a file name states (SPEC 1.7)."""

from __future__ import annotations

import re
import unicodedata

# A period is a whole word: no letter or digit touches it, and its parts are joined by at most one separator each.
_EDGE_LEFT = r"(?<![a-z0-9])"
_EDGE_RIGHT = r"(?![a-z0-9])"
_YEAR = r"((?:19|20)\d\d)"
_JOIN = r"[ _.\-]?"
_NO_RANGE = r"(?!-\d\d(?:\d\d)?(?!\d))"
# In a look-ahead, so that overlapping readings (Q1-2024-Q2) are all found and contradict each other.
_PERIOD = re.compile(
    f"{_EDGE_LEFT}(?=((?:fy{_JOIN})?{_YEAR}{_JOIN}(?:h([12])|q([1-4])){_EDGE_RIGHT}|{_YEAR}{_JOIN}fy{_EDGE_RIGHT}"
    f"|fy{_JOIN}{_YEAR}{_NO_RANGE}{_EDGE_RIGHT}"
    f"|(?:h([12])|q([1-4])){_JOIN}(?:fy{_JOIN})?{_YEAR}{_NO_RANGE}{_EDGE_RIGHT}))"
)
_PART_OF_YEAR = re.compile(f"{_EDGE_LEFT}(?:h[12]|q[1-4]){_EDGE_RIGHT}")


def period_from_filename(name: str) -> str:
    """Return the period that a file name states: ``FY2024``, ``2024H1``, ``2025Q3``; '' if it states none.

    Only explicit forms count, in either order, case and width, with at most one space, hyphen, dot or underscore
    inside: ``fy-2024``, ``2024_H1``, ``Q3 2025``; a year with its half or quarter is one form, ``FY2024 Q3`` and
    ``Q3 FY2024`` are ``2024Q3``. Two different periods mean none, so does a range (``FY2023-24``), a
    bare year is none, and so is anything that is a part of a longer word or number. Of a path only the last part is
    read (SPEC 1.7).
    """
    base = unicodedata.normalize("NFKC", name.rsplit("/", 1)[-1]).casefold()
    found: list[tuple[int, int, str]] = []
    for match in _PERIOD.finditer(base):
        form, year, half, quarter, year_first, fiscal, half_first, quarter_first, year_last = match.groups()
        start = match.start()
        if half or half_first:
            period = f"{year or year_last}H{half or half_first}"
        elif quarter or quarter_first:
            period = f"{year or year_last}Q{quarter or quarter_first}"
        else:
            period = f"FY{fiscal or year_first}"
        found.append((start, start + len(form), period))
    # The year of a half or quarter is no period of its own beside it.
    periods = {
        period
        for start, end, period in found
        if not any(first <= start and end <= last and last - first > end - start for first, last, _ in found)
    }
    if len(periods) != 1:
        return ""
    period = periods.pop()
    # 2024Q1-Q2: a second half or quarter without a year is a second period.
    others = {part.upper() for part in _PART_OF_YEAR.findall(base)} - {period[4:]}
    return "" if others else period
