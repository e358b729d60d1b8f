"""Presentations: the shapes of each slide in their reading order, notes behind them (SPEC 1.4, 1.12).

The title of a slide comes first, its other shapes from top to bottom and left to right. Hidden slides and shapes, comments, and the numbers, dates and footers of slides are left out and counted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from ragspine_assets.documents.markdown import heading, join_blocks, paragraph, table
from ragspine_assets.documents.reading import ExtractionLimits, Reading

from .charts import chart_blocks, diagram_blocks, drawn_text
from .formulas import linear
from .numbering import spell_number
from .package import (
    CHART,
    COMPATIBILITY,
    DIAGRAM,
    DRAWING,
    MATH,
    RELATION,
    SLIDE,
    Element,
    Package,
    alternative,
    child,
    is_on,
)

_BAND = 228_600  # a quarter of an inch
_UNPLACED = frozenset({f"{SLIDE}nvGrpSpPr", f"{SLIDE}grpSpPr", f"{SLIDE}extLst"})
_FURNITURE = frozenset({"sldNum", "dt", "ftr", "hdr"})
_TITLES = frozenset({"title", "ctrTitle"})
_NUMBERS = {
    "arabic": "decimal",
    "alphaLc": "lowerLetter",
    "alphaUc": "upperLetter",
    "romanLc": "lowerRoman",
    "romanUc": "upperRoman",
    "ea1Chs": "chineseCountingThousand",
    "ea1Cht": "taiwaneseCounting",
    "ea1JpnKor": "japaneseCounting",
    "circleNum": "decimalEnclosedCircle",
}
_ENDINGS = {"Period": "{}.", "ParenR": "{})", "ParenBoth": "({})", "Plain": "{}"}


def read(data: bytes, mime: str, limits: ExtractionLimits) -> Reading:  # noqa: ARG001
    """Read a pptx file."""
    package = Package(data)
    main = package.main_part()
    root = package.tree(main)
    relations = package.relations(main)
    left_out: Counter[str] = Counter()
    pages: list[str] = []
    seen: set[str] = set()
    for entry in root.iter(f"{SLIDE}sldId") if root is not None else ():
        relation = relations.get(entry.get(f"{RELATION}id", ""))
        if relation is None or relation.kind != "slide" or relation.target in seen:
            continue
        seen.add(relation.target)
        slide = package.tree(relation.target)
        if slide is None:
            pages.append("")
        elif not is_on(slide, "show"):
            left_out["hidden slides"] += 1
            pages.append("")
        else:
            pages.append(join_blocks(_Slide(package, relation.target, left_out).blocks(slide)))
        package.forget(relation.target)
    return Reading(tuple(pages), package.title(), left_out)


class _Slide:
    """One slide while it is read."""

    def __init__(self, package: Package, name: str, left_out: Counter[str]) -> None:
        self._package = package
        self._relations = package.relations(name)
        self._left_out = left_out

    def blocks(self, slide: Element) -> Iterator[str]:
        shapes = slide.find(f"{SLIDE}cSld/{SLIDE}spTree")
        if shapes is not None:
            for shape in self._in_order(list(shapes)):
                yield from self._shape(shape)
        for relation in self._relations.values():
            if relation.kind == "notesSlide":
                yield from self._notes(relation.target)
            elif relation.kind == "comments":
                comments = self._package.tree(relation.target)
                self._left_out["comments"] += len(comments) if comments is not None else 0

    def _in_order(self, shapes: list[Element]) -> list[Element]:
        """Titles, then the shapes from top to bottom and left to right; as they are stored where places are unknown."""
        layout = next((relation.target for relation in self._relations.values() if relation.kind == "slideLayout"), "")
        known = _places(self._package.tree(layout)) if layout else {}
        if layout:
            for master in self._package.related(layout, "slideMaster"):
                known = _places(self._package.tree(master)) | known
        titles = [shape for shape in shapes if _place(shape) in _TITLES]
        others = [shape for shape in shapes if _place(shape) not in _TITLES]
        places = [
            _position(shape) or known.get(_slot(shape)) or known.get(_slot(shape, by_kind=True)) for shape in others
        ]
        drawn = [(shape, place) for shape, place in zip(others, places, strict=True) if shape.tag not in _UNPLACED]
        if all(place is not None for _, place in drawn):
            # Shapes whose tops are nearly level stand beside each other.
            drawn.sort(key=lambda entry: (entry[1][0] // _BAND, entry[1][1]) if entry[1] else (0, 0))
        return [*titles, *(shape for shape, _ in drawn)]

    def _notes(self, name: str) -> Iterator[str]:
        root = self._package.tree(name)
        for shape in root.iter(f"{SLIDE}sp") if root is not None else ():
            # The other shapes are the picture of the slide, its number, the date.
            if _place(shape) == "body":
                body = shape.find(f"{SLIDE}txBody")
                for lines in body.iterchildren(f"{DRAWING}p") if body is not None else ():
                    yield from (paragraph(line) for line in drawn_text(lines).split("\n"))

    def _shape(self, shape: Element) -> Iterator[str]:
        tag = shape.tag
        if tag == f"{COMPATIBILITY}AlternateContent":
            branch = alternative(shape)
            for inner in branch if branch is not None else ():
                yield from self._shape(inner)
            return
        if _is_hidden(shape):
            self._left_out["hidden shapes"] += 1
            return
        if tag == f"{SLIDE}grpSp":
            for inner in shape:
                yield from self._shape(inner)
        elif tag == f"{SLIDE}pic":
            self._left_out["pictures"] += 1
        elif tag == f"{SLIDE}graphicFrame":
            yield from self._graphic(shape)
        elif tag == f"{SLIDE}sp":
            place = _place(shape)
            if place in _FURNITURE:
                self._left_out["numbers, dates and footers of slides"] += 1
                return
            body = child(shape, f"{SLIDE}txBody")
            if body is None:
                return
            if place in _TITLES:
                yield heading(2, " ".join(_text(lines) for lines in body.iterchildren(f"{DRAWING}p")))
            else:
                yield from _paragraphs(body)

    def _graphic(self, frame: Element) -> Iterator[str]:
        for element in frame.iter(f"{DRAWING}tbl", f"{CHART}chart", f"{DIAGRAM}relIds"):
            if element.tag == f"{DRAWING}tbl":
                yield table(_rows(element))
            elif element.tag == f"{CHART}chart":
                yield from chart_blocks(self._package, self._target(element.get(f"{RELATION}id", "")))
            else:
                yield from diagram_blocks(self._package, self._target(element.get(f"{RELATION}dm", "")))

    def _target(self, reference: str) -> str:
        relation = self._relations.get(reference)
        return relation.target if relation else ""


def _place(shape: Element) -> str:
    """Kind of the placeholder a shape fills; '' if it fills none."""
    for properties in shape.iterchildren(f"{SLIDE}nvSpPr"):
        for found in properties.iter(f"{SLIDE}ph"):
            return found.get("type", "obj")
    return ""


def _position(shape: Element) -> tuple[int, int] | None:
    """Top and left of a shape as it states them; None if it takes them from its layout."""
    found = next(shape.iter(f"{DRAWING}off", f"{SLIDE}txBody"), None)
    if found is None or found.tag != f"{DRAWING}off":
        return None
    x, y = found.get("x", ""), found.get("y", "")
    return (int(y), int(x)) if re.fullmatch(r"-?\d{1,12}", x) and re.fullmatch(r"-?\d{1,12}", y) else None


def _slot(shape: Element, *, by_kind: bool = False) -> str:
    """Which placeholder of its layout a shape fills."""
    found = next(shape.iter(f"{SLIDE}ph"), None)
    if found is None:
        return ""
    return found.get("type", "obj") if by_kind else f"#{found.get('idx', '0')}"


def _places(root: Element | None) -> dict[str, tuple[int, int]]:
    places: dict[str, tuple[int, int]] = {}
    for shape in root.iter(f"{SLIDE}sp", f"{SLIDE}pic", f"{SLIDE}graphicFrame") if root is not None else ():
        position = _position(shape)
        if position is not None and _slot(shape):
            places.setdefault(_slot(shape), position)
            places.setdefault(_slot(shape, by_kind=True), position)
    return places


def _is_hidden(shape: Element) -> bool:
    for properties in shape:
        if properties.tag.rpartition("}")[2].startswith("nv"):
            own = child(properties, f"{SLIDE}cNvPr")
            return own is not None and own.get("hidden", "0") in {"1", "true"}
    return False


def _text(lines: Element) -> str:
    """Text of a paragraph, formulas in their place."""
    pieces: list[str] = []
    for element in lines:
        if element.tag in {f"{DRAWING}r", f"{DRAWING}fld"}:
            pieces.append((element.findtext(f"{DRAWING}t") or "").replace("\x0b", "\n").replace("_x000B_", "\n"))
        elif element.tag == f"{DRAWING}br":
            pieces.append("\n")
        elif element.tag == f"{COMPATIBILITY}AlternateContent":
            branch = alternative(element)
            pieces += [linear(formula) for formula in branch.iter(f"{MATH}oMath")] if branch is not None else []
        elif element.tag.endswith("}m"):
            pieces += [linear(formula) for formula in element.iter(f"{MATH}oMath")]
    return "".join(pieces)


def _paragraphs(body: Element) -> Iterator[str]:
    counters: defaultdict[int, int] = defaultdict(int)
    for lines in body.iterchildren(f"{DRAWING}p"):
        text = _text(lines)
        properties = child(lines, f"{DRAWING}pPr")
        depth = properties.get("lvl", "0") if properties is not None else "0"
        level = int(depth) if depth.isdecimal() else 0
        numbers = child(properties, f"{DRAWING}buAutoNum") if properties is not None else None
        for deeper in [known for known in counters if known > level or (known == level and numbers is None)]:
            if text.strip():
                del counters[deeper]
        if numbers is not None and text.strip():
            start = numbers.get("startAt", "1")
            first = int(start) if start.isdecimal() else 1
            counters[level] = counters[level] + 1 if level in counters else first
            text = f"{_number(counters[level], numbers.get('type', 'arabicPeriod'))} {text.strip()}"
        yield paragraph(text)


def _number(number: int, kind: str) -> str:
    for ending, form in _ENDINGS.items():
        if kind.endswith(ending):
            stem = kind.removesuffix(ending)
            return form.format(spell_number(number, _NUMBERS.get(stem, "decimal")))
    return spell_number(number, next((name for stem, name in _NUMBERS.items() if kind.startswith(stem)), "decimal"))


def _rows(grid: Element) -> Iterator[list[str]]:
    for row in grid.iterchildren(f"{DRAWING}tr"):
        cells: list[str] = []
        for entry in row.iterchildren(f"{DRAWING}tc"):
            covered = entry.get("hMerge", "0") in {"1", "true"} or entry.get("vMerge", "0") in {"1", "true"}
            body = child(entry, f"{DRAWING}txBody")
            words = "\n".join(_text(lines) for lines in body.iterchildren(f"{DRAWING}p")) if body is not None else ""
            cells.append("" if covered else words)
        yield cells
