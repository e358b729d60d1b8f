"""Word documents: what a reader of the printed file sees, in its order (SPEC 1.4, 1.12).

The parts are read as they are, by lxml: the libraries that write Markdown lose references, tabs, notes and the numbers
Word makes itself, and python-docx knows none of these either. Tracked changes are taken as accepted. Comments, hidden
and deleted passages, headers and footers are no part of the running text; they are counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ragspine_assets.documents.markdown import escape, heading, join_blocks, paragraph, table
from ragspine_assets.documents.reading import ExtractionLimits, Reading

from .charts import chart_blocks, diagram_blocks
from .formulas import linear
from .numbering import BULLET, Numbering, spell_number
from .package import (
    CHART,
    COMPATIBILITY,
    DIAGRAM,
    DRAWING,
    MATH,
    RELATION,
    VML,
    WORD,
    Element,
    Package,
    alternative,
    child,
    is_on,
)
from .symbols import is_symbol_font, shown, symbol

_W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_VAL = f"{WORD}val"
_MAX_SPAN = 1000
_FORM_BOXES = {True: "☒", False: "☐"}


def read(data: bytes, mime: str, limits: ExtractionLimits) -> Reading:  # noqa: ARG001
    """Read a docx file."""
    package = Package(data)
    document = _Document(package)
    text = join_blocks(document.body())
    return Reading(text, package.title(), document.left_out)


@dataclass(slots=True)
class _Style:
    based_on: str = ""
    outline: int = -1
    number_id: str = ""
    number_level: int = -1
    hidden: bool | None = None
    font: str = ""


@dataclass(slots=True)
class _Line:
    """What has been read of one paragraph."""

    pieces: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)  # blocks that are anchored in it
    notes: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class _Field:
    result: bool = False
    form: str = ""
    empty: bool = True


class _Document:
    """One Word document while it is read."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._main = package.main_part()
        self._part = self._main
        self._relations = package.relations(self._main)
        self.left_out: Counter[str] = Counter()
        self._styles = self._read_styles()
        number_styles = {name: style.number_id for name, style in self._styles.items() if style.number_id}
        self._numbering = Numbering(self._related_tree("numbering"), number_styles)
        self._fields: list[_Field] = []
        self._carried = ""  # text of a paragraph whose end is deleted, or of a large first letter
        self._cells = 0  # how many cells the paragraph that is read stands in
        self._behind_table: list[str] = []
        self._notes = {kind: self._read_notes(kind) for kind in ("footnote", "endnote")}
        self._counted: Counter[str] = Counter()
        self._note_format = self._read_note_formats()
        self._endnotes: list[tuple[str, str]] = []
        self._count_parts()

    # --- what surrounds the text ---

    def _related_tree(self, kind: str) -> Element | None:
        names = [relation.target for relation in self._relations.values() if relation.kind == kind]
        return self._package.tree(names[0]) if names else None

    def _read_styles(self) -> dict[str, _Style]:
        root = self._related_tree("styles")
        styles: dict[str, _Style] = {}
        self._default_style = ""
        for entry in root.iter(f"{WORD}style") if root is not None else ():
            name = entry.get(f"{WORD}styleId", "")
            style = _Style(_text_of(entry, "basedOn"))
            properties = child(entry, f"{WORD}pPr")
            if properties is not None:
                style.outline = _outline(properties)
                style.number_id, style.number_level = _number_of(properties)
            printed = _text_of(entry, "name").lower()
            found = re.fullmatch(r"heading ([1-9])", printed)
            if found and style.outline < 0:
                style.outline = int(found.group(1)) - 1
            elif printed == "title" and entry.get(f"{WORD}type") == "paragraph" and style.outline < 0:
                style.outline = 0
            characters = child(entry, f"{WORD}rPr")
            if characters is not None:
                hidden = child(characters, f"{WORD}vanish")
                style.hidden = None if hidden is None else is_on(hidden, _VAL)
                style.font = _font(characters)
            styles[name] = style
            if entry.get(f"{WORD}type") == "paragraph" and entry.get(f"{WORD}default") in {"1", "true", "on"}:
                self._default_style = name
        return styles

    def _chain(self, name: str) -> Iterator[_Style]:
        seen: set[str] = set()
        while name and name not in seen and name in self._styles:
            seen.add(name)
            style = self._styles[name]
            yield style
            name = style.based_on

    def _read_notes(self, kind: str) -> dict[str, Element]:
        root = self._related_tree(f"{kind}s")
        # Separators have a type; every other note is one, whatever its number.
        return {
            entry.get(f"{WORD}id", ""): entry
            for entry in (root if root is not None else ())
            if entry.get(f"{WORD}type", "normal") == "normal"
        }

    def _read_note_formats(self) -> dict[str, str]:
        formats = {"footnote": "decimal", "endnote": "lowerRoman"}
        settings, body = self._related_tree("settings"), self._package.tree(self._main)
        for root in (settings, body):
            for kind in formats:
                for properties in root.iter(f"{WORD}{kind}Pr") if root is not None else ():
                    number = child(properties, f"{WORD}numFmt")
                    if number is not None:
                        formats[kind] = number.get(_VAL, "decimal")
        return formats

    def _count_parts(self) -> None:
        for relation in self._relations.values():
            if relation.kind in {"header", "footer"}:
                root = self._package.tree(relation.target)
                if root is not None and any((piece.text or "").strip() for piece in root.iter(f"{WORD}t")):
                    self.left_out["headers and footers"] += 1
            elif relation.kind == "comments":
                root = self._package.tree(relation.target)
                self.left_out["comments"] += len(root.findall(f"{WORD}comment")) if root is not None else 0
            elif relation.kind == "aFChunk":
                self.left_out["embedded documents"] += 1

    # --- blocks ---

    def body(self) -> Iterator[str]:
        """Blocks of the document, notes behind the block that refers to them."""
        root = self._package.tree(self._main)
        for body in root.findall(f"{WORD}body") if root is not None else ():
            yield from self._blocks(body, top=True)
        if self._carried:
            yield paragraph(self._carried)
        for label, text in self._endnotes:
            yield f"[^{label}]: {text}"

    def _blocks(self, container: Element, *, top: bool = False) -> Iterator[str]:
        """Blocks of a body, a cell, a note or a text box."""
        for element in container:
            tag = element.tag
            if tag == f"{WORD}p":
                yield from self._paragraph(element)
            elif tag == f"{WORD}tbl":
                yield from self._table(element)
            elif tag in {f"{WORD}sdt", f"{WORD}customXml", f"{WORD}ins", f"{WORD}moveTo"}:
                content = child(element, f"{WORD}sdtContent") if tag == f"{WORD}sdt" else element
                if content is not None:
                    yield from self._blocks(content, top=top)
            elif tag == f"{COMPATIBILITY}AlternateContent":
                branch = alternative(element)
                if branch is not None:
                    yield from self._blocks(branch, top=top)
            elif tag in {f"{MATH}oMathPara", f"{MATH}oMath"}:
                yield paragraph(linear(element))

    def _paragraph(self, element: Element) -> Iterator[str]:
        properties = child(element, f"{WORD}pPr")
        style = self._default_style
        if properties is not None:
            style = _text_of(properties, "pStyle") or style
        line = self._line(element, style)
        text = "".join(line.pieces)
        if properties is not None and _is_joined(properties):
            self._carried += text
            text = ""
        elif self._carried:
            text, self._carried = self._carried + text, ""
        label = self._label(properties, style) if text.strip() or not _is_unseen(properties) else ""
        level = self._heading_level(properties, style)
        words = text if label in {"", BULLET} else f"{label} {text.strip()}"
        if self._cells:
            yield escape(" ".join(words.split()), first=False)
        elif label == BULLET:
            yield self._list_item(properties, style, text)
        else:
            yield heading(level + 1, words) if level >= 0 and text.strip() else paragraph(words)
        yield from line.behind
        if line.notes:
            notes = [f"[^{name}]: {note}" for name, note in line.notes]
            if self._cells:
                self._behind_table += notes
            else:
                yield from notes

    def _list_item(self, properties: Element | None, style: str, text: str) -> str:
        _, place = self._numbers(properties, style)
        lines = paragraph(text).split("\n")
        indent = "  " * min(place, 8)
        return "\n".join(f"{indent}{'- ' if number == 0 else '  '}{words}" for number, words in enumerate(lines))

    def _heading_level(self, properties: Element | None, style: str) -> int:
        own = _outline(properties) if properties is not None else -1
        if own == -1:
            own = next((known.outline for known in self._chain(style) if known.outline != -1), -1)
        return own if 0 <= own < 9 else -1

    def _numbers(self, properties: Element | None, style: str) -> tuple[str, int]:
        """List and level of a paragraph, its own or those of its style."""
        number_id, place = _number_of(properties) if properties is not None else ("", -1)
        for known in self._chain(style):
            if not number_id and known.number_id:
                number_id = known.number_id
                if place < 0:
                    place = known.number_level if known.number_level > 0 else self._level_by_style(number_id, style)
        return number_id, max(place, 0)

    def _level_by_style(self, number_id: str, style: str) -> int:
        return self._numbering.level_of_style(number_id, style)

    def _label(self, properties: Element | None, style: str) -> str:
        number_id, place = self._numbers(properties, style)
        return self._numbering.next_label(number_id, place) if number_id not in {"", "0"} else ""

    # --- tables ---

    def _table(self, element: Element) -> Iterator[str]:
        rows: list[list[str]] = []
        framed = self._framed(element)
        if framed is not None:
            yield from self._blocks(framed)
            return
        outer, self._behind_table = self._behind_table, []
        for row in _through(element, f"{WORD}tr"):
            properties = child(row, f"{WORD}trPr")
            if properties is not None:
                if child(properties, f"{WORD}del") is not None:
                    self.left_out["deleted passages"] += 1
                    continue
                if is_on(child(properties, f"{WORD}hidden"), _VAL):
                    self.left_out["hidden passages"] += 1
                    continue
            cells = [""] * _span(properties, "gridBefore", 0)
            for cell in _through(row, f"{WORD}tc"):
                own = child(cell, f"{WORD}tcPr")
                merged = child(own, f"{WORD}vMerge") if own is not None else None
                continued = merged is not None and merged.get(_VAL, "continue") == "continue"
                self._cells += 1
                text = " ".join(filter(None, self._blocks(cell)))
                self._cells -= 1
                cells += ["" if continued else text, *[""] * (_span(own, "gridSpan", 1) - 1)]
            rows.append(cells)
        behind, self._behind_table = self._behind_table, outer
        blocks = [table(rows, written=True), *behind]
        if self._cells:
            # A table in a cell keeps its rows: it follows the table around it.
            self._behind_table += blocks
        else:
            yield from blocks

    def _framed(self, element: Element) -> Element | None:
        """The only cell of a table that is a frame around a text."""
        rows = list(_through(element, f"{WORD}tr"))
        cells = list(_through(rows[0], f"{WORD}tc")) if len(rows) == 1 else []
        return cells[0] if len(cells) == 1 and not self._cells else None

    # --- runs ---

    def _line(self, element: Element, style: str) -> _Line:
        line = _Line()
        hidden = next((known.hidden for known in self._chain(style) if known.hidden is not None), False)
        self._inline(element, line, hidden)
        # A field that has no result by the end of its paragraph has none; a damaged one must not swallow the rest.
        self._fields = [known for known in self._fields if known.result]
        return line

    def _inline(self, container: Element, line: _Line, hidden: bool) -> None:
        for element in container:
            tag = element.tag
            if tag == f"{WORD}r":
                self._run(element, line, hidden)
            elif tag in {f"{WORD}del", f"{WORD}moveFrom"}:
                self.left_out["deleted passages"] += 1
            elif tag == f"{WORD}sdt":
                content = child(element, f"{WORD}sdtContent")
                if content is not None:
                    self._inline(content, line, hidden)
            elif tag in _CONTAINERS:
                self._inline(element, line, hidden)
            elif tag == f"{MATH}oMath":
                line.pieces.append(linear(element))
            elif tag == f"{MATH}oMathPara":
                line.pieces.append("\n".join(linear(formula) for formula in element.iter(f"{MATH}oMath")))
            elif tag == f"{COMPATIBILITY}AlternateContent":
                branch = alternative(element)
                if branch is not None:
                    self._inline(branch, line, hidden)

    def _run(self, run: Element, line: _Line, hidden: bool) -> None:
        font = ""
        for properties in run.iterchildren(f"{WORD}rPr"):
            for entry in properties.iterchildren(f"{WORD}rStyle", f"{WORD}rFonts", f"{WORD}vanish"):
                if entry.tag == f"{WORD}rStyle":
                    for known in self._chain(entry.get(_VAL, "")):
                        if known.hidden is not None:
                            hidden = known.hidden
                            break
                    font = next((known.font for known in self._chain(entry.get(_VAL, "")) if known.font), "")
                elif entry.tag == f"{WORD}rFonts":
                    font = _font_name(entry) or font
                else:
                    hidden = is_on(entry, _VAL)
        self._run_content(run, line, hidden, font)

    def _run_content(self, run: Element, line: _Line, hidden: bool, font: str) -> None:
        start = len(line.pieces)
        for element in run:
            tag = element.tag
            if tag == f"{WORD}t":
                text = element.text or ""
                self._add(line, shown(text, font) if font and is_symbol_font(font) else text)
            elif tag in _SIGNS:
                self._add(line, _SIGNS[tag])
            elif tag == f"{WORD}sym":
                code = element.get(f"{WORD}char", "")
                if re.fullmatch(r"[0-9A-Fa-f]{1,6}", code):
                    self._add(line, symbol(int(code, 16), element.get(f"{WORD}font", "")))
            elif tag == f"{WORD}fldChar":
                self._field(element, line)
            elif tag in {f"{WORD}footnoteReference", f"{WORD}endnoteReference"}:
                self._refer(element, line, "footnote" if tag == f"{WORD}footnoteReference" else "endnote", run)
            elif tag == f"{WORD}ruby":
                self._ruby(element, line, hidden)
            elif tag == f"{COMPATIBILITY}AlternateContent":
                branch = alternative(element)
                if branch is not None:
                    self._run_content(branch, line, hidden, font)
            elif tag in {f"{WORD}drawing", f"{WORD}pict", f"{WORD}object"} and not hidden:
                self._drawing(element, line)
        if hidden and len(line.pieces) > start:
            if any(piece.strip() for piece in line.pieces[start:]):
                self.left_out["hidden passages"] += 1
            del line.pieces[start:]

    def _add(self, line: _Line, text: str) -> None:
        if self._fields:
            if not all(known.result for known in self._fields):
                return
            self._fields[-1].empty = False
        line.pieces.append(text)

    def _field(self, mark: Element, line: _Line) -> None:
        kind = mark.get(f"{WORD}fldCharType")
        if kind == "begin":
            self._fields.append(_Field(form=_form_value(mark)))
        elif kind == "separate" and self._fields:
            self._fields[-1].result = True
        elif kind == "end" and self._fields:
            done = self._fields.pop()
            # A box or a list of choices shows its value although it has no result.
            if done.form and done.empty and all(known.result for known in self._fields):
                line.pieces.append(done.form)

    def _ruby(self, ruby: Element, line: _Line, hidden: bool) -> None:
        base, above = child(ruby, f"{WORD}rubyBase"), child(ruby, f"{WORD}rt")
        if base is not None:
            self._inline(base, line, hidden)
        if above is not None:
            reading = _Line()
            self._inline(above, reading, hidden)
            if words := "".join(reading.pieces).strip():
                line.pieces.append(f"({words})")

    def _refer(self, reference: Element, line: _Line, kind: str, run: Element) -> None:
        note = self._notes[kind].get(reference.get(f"{WORD}id", ""))
        if note is None or (self._fields and not all(known.result for known in self._fields)):
            return
        if is_on(reference, f"{WORD}customMarkFollows") and reference.get(f"{WORD}customMarkFollows"):
            label = "".join(piece.text or "" for piece in run.iter(f"{WORD}t")).strip()
        else:
            self._counted[kind] += 1
            label = spell_number(self._counted[kind], self._note_format[kind])
            line.pieces.append(f"[^{label}]")
        fields, self._fields = self._fields, []
        carried, self._carried = self._carried, ""
        part, relations = self._part, self._relations
        text = "\n".join(block for block in self._blocks(note) if block.strip())
        self._part, self._relations = part, relations
        self._fields, self._carried = fields, carried
        (line.notes if kind == "footnote" else self._endnotes).append((label, text))

    def _drawing(self, drawing: Element, line: _Line) -> None:
        """Blocks of what is drawn: text boxes, charts, diagrams, lettering. Pictures are counted."""
        pending = [drawing]
        while pending:
            element = pending.pop()
            tag = element.tag
            if tag == f"{WORD}txbxContent":
                fields, self._fields = self._fields, []
                carried, self._carried = self._carried, ""
                line.behind += [block for block in self._blocks(element) if block.strip()]
                self._fields, self._carried = fields, carried
            elif tag == f"{CHART}chart":
                line.behind += chart_blocks(self._package, self._target(element.get(f"{RELATION}id")))
            elif tag == f"{DIAGRAM}relIds":
                line.behind += diagram_blocks(self._package, self._target(element.get(f"{RELATION}dm")))
            elif tag == f"{VML}textpath":
                line.behind.append(paragraph(element.get("string", "")))
            elif tag == f"{COMPATIBILITY}AlternateContent":
                branch = alternative(element)
                if branch is not None:
                    pending.append(branch)
            else:
                if tag in {f"{DRAWING}blip", f"{VML}imagedata"}:
                    self.left_out["pictures"] += 1
                pending.extend(reversed(list(element)))

    def _target(self, reference: str | None) -> str:
        relation = self._relations.get(reference or "")
        return relation.target if relation else ""


_CONTAINERS = frozenset(
    f"{WORD}{name}" for name in ("hyperlink", "ins", "moveTo", "smartTag", "customXml", "fldSimple", "dir", "bdo")
)
_SIGNS = {
    f"{WORD}tab": "\t",
    f"{WORD}ptab": "\t",
    f"{WORD}br": "\n",
    f"{WORD}cr": "\n",
    f"{WORD}noBreakHyphen": "\u2011",
    f"{WORD}softHyphen": "\u00ad",
}


def _through(container: Element, wanted: str) -> Iterator[Element]:
    """Children of a kind, through the frames that content controls and changes put around them."""
    for element in container:
        if element.tag == wanted:
            yield element
        elif element.tag == f"{WORD}sdt":
            content = child(element, f"{WORD}sdtContent")
            if content is not None:
                yield from _through(content, wanted)
        elif element.tag in {f"{WORD}customXml", f"{WORD}ins", f"{WORD}moveTo"}:
            yield from _through(element, wanted)


def _text_of(element: Element, name: str) -> str:
    found = child(element, f"{WORD}{name}")
    return "" if found is None else found.get(_VAL, "")


def _font(properties: Element) -> str:
    fonts = child(properties, f"{WORD}rFonts")
    return "" if fonts is None else _font_name(fonts)


def _font_name(fonts: Element) -> str:
    return fonts.get(f"{WORD}ascii") or fonts.get(f"{WORD}hAnsi") or ""


def _outline(properties: Element) -> int:
    value = _text_of(properties, "outlineLvl")
    return int(value) if value.isdecimal() else -1


def _number_of(properties: Element) -> tuple[str, int]:
    numbers = child(properties, f"{WORD}numPr")
    if numbers is None:
        return "", -1
    level = _text_of(numbers, "ilvl")
    return _text_of(numbers, "numId"), int(level) if level.isdecimal() else -1


def _is_joined(properties: Element) -> bool:
    """Tell whether a paragraph goes on in the next: its end is deleted, or it is a large first letter."""
    if properties.find(f"{WORD}rPr/{WORD}del") is not None:
        return True
    frame = child(properties, f"{WORD}framePr")
    return frame is not None and frame.get(f"{WORD}dropCap", "none") != "none"


def _is_unseen(properties: Element | None) -> bool:
    """Tell whether the end of a paragraph is hidden or deleted; without text it is not seen then, nor counted."""
    marks = child(properties, f"{WORD}rPr") if properties is not None else None
    return marks is not None and (is_on(child(marks, f"{WORD}vanish"), _VAL) or child(marks, f"{WORD}del") is not None)


def _span(properties: Element | None, name: str, default: int) -> int:
    value = _text_of(properties, name) if properties is not None else ""
    return min(int(value), _MAX_SPAN) if value.isdecimal() and len(value) < 6 else default


def _form_value(mark: Element) -> str:
    """Return what a form field of the old kind shows when it has no result of its own."""
    box = mark.find(f"{WORD}ffData/{WORD}checkBox")
    if box is not None:
        state = child(box, f"{WORD}checked")
        state = state if state is not None else child(box, f"{WORD}default")
        return _FORM_BOXES[is_on(state, _VAL)]
    choices = mark.find(f"{WORD}ffData/{WORD}ddList")
    if choices is not None:
        entries = [entry.get(_VAL, "") for entry in choices.findall(f"{WORD}listEntry")]
        chosen = _text_of(choices, "result") or _text_of(choices, "default") or "0"
        return entries[int(chosen)] if chosen.isdecimal() and int(chosen) < len(entries) else ""
    return ""
