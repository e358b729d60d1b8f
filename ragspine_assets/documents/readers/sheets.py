"""Workbooks: what their sheets display, one table each (SPEC 1.4, 1.12).

Formulas show the values they had when the file was saved. Rows, columns and sheets that are hidden, comments, headers and
footers are left out and counted. A merged range shows its value in each of its cells, so that each row says all it says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ragspine_assets.documents.markdown import heading, join_blocks, paragraph, table
from ragspine_assets.documents.reading import ExtractionError, ExtractionLimits, Reading

from .charts import chart_blocks, drawn_text
from .displayed import BUILT_IN, displayed, general
from .package import CHART, DRAWING, RELATION, SHEET, Element, Package, child

_REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_DRAWN = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_LAST_COLUMN = 16_384
_MOST_REPEATED = 10_000
# A table with so many times as many places as values is no table.
_SPARSE = 200


def read(data: bytes, mime: str, limits: ExtractionLimits) -> Reading:  # noqa: ARG001
    """Read an xlsx file."""
    package = Package(data)
    book = _Workbook(package, limits)
    return Reading(join_blocks(book.blocks()), package.title(), book.left_out)


class _Workbook:
    """A workbook while it is read."""

    def __init__(self, package: Package, limits: ExtractionLimits) -> None:
        self._package = package
        self._limits = limits
        self._main = package.main_part()
        self._relations = package.relations(self._main)
        self.left_out: Counter[str] = Counter()
        root = package.tree(self._main)
        properties = root.find(f"{SHEET}workbookPr") if root is not None else None
        self._from_1904 = properties is not None and properties.get("date1904", "0") in {"1", "true"}
        self._strings = list(self._read_strings())
        self._formats = self._read_formats()

    def _parts(self, kind: str) -> Iterator[Element]:
        for relation in self._relations.values():
            root = self._package.tree(relation.target) if relation.kind == kind else None
            if root is not None:
                yield root

    def _read_strings(self) -> Iterator[str]:
        for root in self._parts("sharedStrings"):
            for entry in root.iterchildren(f"{SHEET}si"):
                yield _string(entry)

    def _read_formats(self) -> list[str]:
        """Number format of each cell style."""
        for root in self._parts("styles"):
            codes = dict(BUILT_IN)
            for entry in root.iter(f"{SHEET}numFmt"):
                number = entry.get("numFmtId", "")
                if number.isdecimal():
                    codes[int(number)] = entry.get("formatCode", "General")
            cells = root.find(f"{SHEET}cellXfs")
            numbers = (entry.get("numFmtId", "0") for entry in (cells if cells is not None else ()))
            return [codes.get(int(number) if number.isdecimal() else 0, "General") for number in numbers]
        return []

    def blocks(self) -> Iterator[str]:
        """Blocks of all sheets in their order, each headed by its name."""
        root = self._package.tree(self._main)
        for entry in root.iter(f"{SHEET}sheet") if root is not None else ():
            relation = self._relations.get(entry.get(f"{RELATION}id", ""))
            if relation is None:
                continue
            if entry.get("state", "visible") != "visible":
                self.left_out["hidden sheets"] += 1
                continue
            inner = [block for block in self._sheet(relation.target) if block]
            if inner:
                yield heading(2, entry.get("name", ""))
                yield from inner

    def _sheet(self, name: str) -> Iterator[str]:
        root = self._package.tree(name)
        if root is None:
            return
        hidden = self._hidden_columns(root)
        rows: dict[int, dict[int, str]] = {}
        hidden_rows: set[int] = set()
        hidden_columns: set[int] = set()
        number = 0
        for row in root.iter(f"{SHEET}row"):
            given = row.get("r", "")
            number = int(given) if given.isdecimal() else number + 1
            cells = dict(self._cells(row))
            if row.get("hidden", "0") in {"1", "true"} and cells:
                hidden_rows.add(number)
                continue
            hidden_columns |= {column for column in cells if column in hidden}
            if shown := {column: text for column, text in cells.items() if column not in hidden}:
                rows[number] = shown
        self.left_out["hidden rows"] += len(hidden_rows)
        self.left_out["hidden columns"] += len(hidden_columns)
        for merged in root.iter(f"{SHEET}mergeCell"):
            self._repeat(merged.get("ref", ""), rows, hidden_rows, hidden)
        around = child(root, f"{SHEET}headerFooter")
        if around is not None:
            self.left_out["headers and footers"] += sum(1 for part in around if (part.text or "").strip())
        self._package.forget(name)
        yield self._table(rows)
        for relation in self._package.relations(name).values():
            if relation.kind in {"comments", "threadedComment"}:
                comments = self._package.tree(relation.target)
                kinds = (f"{SHEET}comment",) if relation.kind == "comments" else ()
                self.left_out["comments"] += (
                    sum(1 for _ in comments.iter(*kinds)) if comments is not None and kinds else 0
                )
            elif relation.kind == "drawing":
                yield from self._drawing(relation.target)
            elif relation.kind == "chart":
                yield from chart_blocks(self._package, relation.target)

    def _hidden_columns(self, root: Element) -> frozenset[int]:
        hidden: set[int] = set()
        for entry in root.iter(f"{SHEET}col"):
            first, last = entry.get("min", ""), entry.get("max", "")
            if entry.get("hidden", "0") in {"1", "true"} and first.isdecimal() and last.isdecimal():
                hidden.update(range(int(first), min(int(last), _LAST_COLUMN) + 1))
        return frozenset(hidden)

    def _cells(self, row: Element) -> Iterator[tuple[int, str]]:
        column = 0
        for entry in row.iterchildren(f"{SHEET}c"):
            found = _REFERENCE.match(entry.get("r", ""))
            column = _column(found.group(1)) if found else column + 1
            if text := self._value(entry).strip():
                yield column, text

    def _value(self, entry: Element) -> str:
        kind = entry.get("t", "n")
        if kind == "inlineStr":
            inline = child(entry, f"{SHEET}is")
            return _string(inline) if inline is not None else ""
        stored = child(entry, f"{SHEET}v")
        value = stored.text or "" if stored is not None else ""
        if not value:
            return ""
        if kind == "s":
            return self._strings[int(value)] if value.isdecimal() and int(value) < len(self._strings) else ""
        if kind == "b":
            return "TRUE" if value.strip() in {"1", "true"} else "FALSE"
        if kind == "d":
            return value
        if kind in {"str", "e"}:
            return _unescaped(value)
        style = entry.get("s", "0")
        code = self._formats[int(style)] if style.isdecimal() and int(style) < len(self._formats) else "General"
        return (
            displayed(value.strip(), code, from_1904=self._from_1904) if code != "General" else general(value.strip())
        )

    def _repeat(
        self, reference: str, rows: dict[int, dict[int, str]], hidden_rows: set[int], hidden: frozenset[int]
    ) -> None:
        ends = [(int(found.group(2)), _column(found.group(1))) for found in _REFERENCE.finditer(reference)]
        if len(ends) != 2:
            return
        (top, left), (bottom, right) = ends
        text = rows.get(top, {}).get(left, "")
        if not text or (bottom - top + 1) * (right - left + 1) > _MOST_REPEATED:
            return
        for number in range(top, bottom + 1):
            # A row or column with nothing else in it is not made by repeating.
            if number in hidden_rows or number not in rows:
                continue
            for column in range(left, right + 1):
                if column not in hidden:
                    rows[number].setdefault(column, text)

    def _table(self, rows: dict[int, dict[int, str]]) -> str:
        columns = sorted({column for row in rows.values() for column in row})
        values = sum(map(len, rows.values()))
        if len(columns) * len(rows) > _SPARSE * values + 1_000_000:
            return "\n\n".join(paragraph(" ".join(rows[number].values())) for number in sorted(rows))
        if 3 * len(columns) * len(rows) > self._limits.max_characters:
            raise ExtractionError(f"its text is longer than {self._limits.max_characters} characters")
        # Columns and rows without any value hold nothing apart.
        return table([rows[number].get(column, "") for column in columns] for number in sorted(rows))

    def _drawing(self, name: str) -> Iterator[str]:
        root = self._package.tree(name)
        relations = self._package.relations(name)
        for element in root.iter(f"{_DRAWN}txBody", f"{CHART}chart", f"{DRAWING}blip") if root is not None else ():
            if element.tag == f"{_DRAWN}txBody":
                for lines in element.iterchildren(f"{DRAWING}p"):
                    yield paragraph(drawn_text(lines))
            elif element.tag == f"{CHART}chart":
                relation = relations.get(element.get(f"{RELATION}id", ""))
                if relation is not None:
                    yield from chart_blocks(self._package, relation.target)
            else:
                self.left_out["pictures"] += 1


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), text) if "_x" in text else text


def _string(entry: Element) -> str:
    """Text of a string, its runs joined; readings above it are another string."""
    pieces: list[str] = []
    for part in entry:
        if part.tag == f"{SHEET}t":
            pieces.append(part.text or "")
        elif part.tag == f"{SHEET}r":
            pieces += [text.text or "" for text in part.iterchildren(f"{SHEET}t")]
    return _unescaped("".join(pieces))
