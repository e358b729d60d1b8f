"""Grids that the rules of a page draw (SPEC 1.12)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

_NEAR = 2.5  # points within which two rules are one, or meet
_SHORT = 4.0
_MOST = 1500


@dataclass(slots=True)
class Rules:
    """Horizontal rules as (y, from x, to x), vertical ones as (x, from y, to y), in points from the lower left."""

    horizontal: list[tuple[float, float, float]] = field(default_factory=list)
    vertical: list[tuple[float, float, float]] = field(default_factory=list)

    def add(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """Add a drawn line, if it is a rule."""
        if abs(y1 - y0) <= 1 and abs(x1 - x0) > _SHORT:
            self.horizontal.append(((y0 + y1) / 2, min(x0, x1), max(x0, x1)))
        elif abs(x1 - x0) <= 1 and abs(y1 - y0) > _SHORT:
            self.vertical.append(((x0 + x1) / 2, min(y0, y1), max(y0, y1)))


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: where its rules stand, from left to right and from top to bottom, and which cells are one."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]
    owners: dict[tuple[int, int], tuple[int, int]]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.ys) - 1

    @property
    def columns(self) -> int:
        """How many columns it has."""
        return len(self.xs) - 1

    @property
    def left(self) -> float:
        """Its left edge."""
        return self.xs[0]

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.xs[-1]

    @property
    def top(self) -> float:
        """Its upper edge."""
        return self.ys[0]

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.ys[-1]

    def cell(self, x: float, y: float) -> tuple[int, int] | None:
        """Row and column, from 0, of the cell a point lies in; None outside of the table."""
        if not (self.xs[0] <= x <= self.xs[-1] and self.ys[-1] <= y <= self.ys[0]):
            return None
        column = min(bisect_right(self.xs, x), self.columns) - 1
        row = min(bisect_right([-place for place in self.ys], -y), self.rows) - 1
        return self.owners.get((max(row, 0), max(column, 0)))


def find_grids(rules: Rules, width: float, height: float) -> list[Grid]:
    """Return the grids of two rows and two columns or more, from top to bottom.

    Args:
        rules: the rules of a page.
        width: of the page, points.
        height: of the page, points.
    """
    horizontal = _merged([rule for rule in rules.horizontal if -1 <= rule[0] <= height + 1])
    vertical = _merged([rule for rule in rules.vertical if -1 <= rule[0] <= width + 1])
    if len(horizontal) < 3 or len(vertical) < 3 or len(horizontal) > _MOST or len(vertical) > _MOST:
        return []
    parent = list(range(len(horizontal) + len(vertical)))

    def root(entry: int) -> int:
        while parent[entry] != entry:
            parent[entry] = parent[parent[entry]]
            entry = parent[entry]
        return entry

    for number, (y, x0, x1) in enumerate(horizontal):
        for other, (x, y0, y1) in enumerate(vertical):
            if x0 - _NEAR <= x <= x1 + _NEAR and y0 - _NEAR <= y <= y1 + _NEAR:
                parent[root(number)] = root(len(horizontal) + other)
    parts: dict[int, tuple[list[tuple[float, float, float]], list[tuple[float, float, float]]]] = defaultdict(
        lambda: ([], [])
    )
    for number, rule in enumerate(horizontal):
        parts[root(number)][0].append(rule)
    for other, rule in enumerate(vertical):
        parts[root(len(horizontal) + other)][1].append(rule)
    grids = [grid for across, down in parts.values() if (grid := _grid(across, down)) is not None]
    return sorted(grids, key=lambda grid: (-grid.top, grid.left))


def _merged(rules: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Rules that lie on each other or go on where another ends, as one."""
    merged: list[tuple[float, float, float]] = []
    lanes: list[list[tuple[float, float, float]]] = []
    for rule in sorted(rules):
        if lanes and rule[0] - lanes[-1][0][0] <= _NEAR:
            lanes[-1].append(rule)
        else:
            lanes.append([rule])
    for lane in lanes:
        place = sum(rule[0] for rule in lane) / len(lane)
        start, end = None, 0.0
        for _, low, high in sorted(lane, key=lambda rule: rule[1]):
            if start is None:
                start, end = low, high
            elif low <= end + _NEAR:
                end = max(end, high)
            else:
                merged.append((place, start, end))
                start, end = low, high
        if start is not None:
            merged.append((place, start, end))
    return merged


def _grid(across: list[tuple[float, float, float]], down: list[tuple[float, float, float]]) -> Grid | None:
    xs, ys = sorted({x for x, _, _ in down}), sorted({y for y, _, _ in across}, reverse=True)
    if len(xs) < 3 or len(ys) < 3 or len(xs) * len(ys) > 50_000:
        return None
    owners: dict[tuple[int, int], tuple[int, int]] = {}
    for row in range(len(ys) - 1):
        middle = (ys[row] + ys[row + 1]) / 2
        walls = {x for x, low, high in down if low - _NEAR <= middle <= high + _NEAR}
        for column in range(len(xs) - 1):
            centre = (xs[column] + xs[column + 1]) / 2
            left_open = column > 0 and xs[column] not in walls
            top_open = row > 0 and not any(
                y == ys[row] and low - _NEAR <= centre <= high + _NEAR for y, low, high in across
            )
            if left_open:
                owners[row, column] = owners[row, column - 1]
            elif top_open:
                owners[row, column] = owners[row - 1, column]
            else:
                owners[row, column] = (row, column)
    if len({row for row, _ in owners.values()}) < 2 or len({column for _, column in owners.values()}) < 2:
        return None
    return Grid(tuple(xs), tuple(ys), owners)
