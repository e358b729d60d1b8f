"""The texts of charts and diagrams in Office files, as Markdown blocks."""

from __future__ import annotations

from collections.abc import Iterator

from ragspine_assets.documents.markdown import paragraph, table

from .package import CHART, DIAGRAM, DRAWING, Element, Package

_MAX_POINT = 100_000


def drawn_text(paragraph_element: Element) -> str:
    """Text of one DrawingML paragraph; a line break is a newline, a formula its plain characters."""
    pieces: list[str] = []
    for element in paragraph_element.iter(f"{DRAWING}t", f"{DRAWING}br", f"{DRAWING}tab"):
        if element.tag == f"{DRAWING}t":
            pieces.append(element.text or "")
        else:
            pieces.append("\n" if element.tag == f"{DRAWING}br" else "\t")
    # A line break inside a title is written as a vertical tab by some programs.
    return "".join(pieces).replace("\x0b", "\n").replace("_x000B_", "\n")


def chart_blocks(package: Package, name: str) -> Iterator[str]:
    """Titles of a chart and its values, one row for each category (SPEC 1.12)."""
    root = package.tree(name)
    if root is None:
        return
    for title in root.iter(f"{CHART}title"):
        words = "\n".join(drawn_text(lines) for lines in title.iter(f"{DRAWING}p"))
        if not words.strip():
            words = " ".join(value.text or "" for value in title.iter(f"{CHART}v"))
        yield paragraph(words)
    rows: dict[int, list[str]] = {}
    heads: list[str] = []
    labels: dict[int, str] = {}
    series = list(root.iter(f"{CHART}ser"))
    for number, entry in enumerate(series):
        text = entry.find(f"{CHART}tx")
        heads.append(" ".join(value.text or "" for value in text.iter(f"{CHART}v")) if text is not None else "")
        for kind in ("cat", "xVal"):
            for position, value in _points(entry.find(f"{CHART}{kind}")):
                known = labels.get(position)
                labels[position] = value if known is None else known
        for kind in ("val", "yVal", "bubbleSize"):
            for position, value in _points(entry.find(f"{CHART}{kind}")):
                row = rows.setdefault(position, [""] * len(series))
                row[number] = f"{row[number]} {value}".strip()
    body = [[labels.get(position, ""), *rows.get(position, [])] for position in sorted({*labels, *rows})]
    if body or any(heads):
        yield table([["", *heads], *body])


def _points(data: Element | None) -> Iterator[tuple[int, str]]:
    if data is None:
        return
    levels = list(data.iter(f"{CHART}lvl"))
    if len(levels) > 1:
        # Levels of a category stand from the innermost to the outermost, an outer one only where it begins.
        found: dict[int, str] = {}
        inner = dict(_cached(levels[0]))
        outer = [dict(_cached(level)) for level in reversed(levels[1:])]
        latest = [""] * len(outer)
        for position in sorted(inner):
            latest = [level.get(position, before) for level, before in zip(outer, latest, strict=True)]
            found[position] = " ".join(filter(None, [*latest, inner[position]]))
        yield from found.items()
        return
    yield from _cached(data)


def _cached(data: Element) -> Iterator[tuple[int, str]]:
    for point in data.iter(f"{CHART}pt"):
        position = point.get("idx", "")
        value = point.findtext(f"{CHART}v") or ""
        if position.isdecimal() and int(position) < _MAX_POINT and value:
            yield int(position), value


def diagram_blocks(package: Package, name: str) -> Iterator[str]:
    """Texts of the points of a diagram (SmartArt), in the order they are stored."""
    root = package.tree(name)
    if root is None:
        return
    for point in root.iter(f"{DIAGRAM}pt"):
        if point.get("type") in {None, "node", "asst", "doc"}:
            text = point.find(f"{DIAGRAM}t")
            for lines in text.iter(f"{DRAWING}p") if text is not None else ():
                yield paragraph(drawn_text(lines))
