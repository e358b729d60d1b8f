"""PDF files: the characters pdfium reads, put into lines, tables and paragraphs by where they stand (SPEC 1.4, 1.12).

pdfium gives the characters of a page in the order they are drawn, which is the order they are read in, with word spaces
and the logical order of right-to-left lines. What is done here: cells of ruled tables, lines that wrap are joined,
headings by the outline of the file or else by the size of their letters, values of form fields in their place. Nothing
near an edge is cut away; what is printed alike at the same place of three pages or more is kept the first time.
"""

from __future__ import annotations

import ctypes
import re
import threading
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pypdfium2 as pdfium
import pypdfium2.raw as c

from ragspine_assets.documents.markdown import heading, join_blocks, paragraph, table
from ragspine_assets.documents.reading import DAMAGED, ENCRYPTED, ExtractionError, ExtractionLimits, Reading, one_line

from .rules import Grid, Rules, find_grids

_LOCK = threading.Lock()  # pdfium may be used by one thread at a time
_MAX_PATHS = 20_000
_MAX_SEGMENTS = 400
_MAX_DEPTH = 5
_UNREADABLE_SHARE = 0.3
_REPEATED = 3
_EDGE = 0.12
_COMBINING = {
    "´": "\u0301", "`": "\u0300", "¨": "\u0308", "ˆ": "\u0302", "^": "\u0302", "˜": "\u0303", "~": "\u0303",
    "¸": "\u0327", "ˇ": "\u030c", "˚": "\u030a", "¯": "\u0304", "˘": "\u0306", "˙": "\u0307", "˝": "\u030b",
    "˛": "\u0328",
}  # fmt: skip
_DOTLESS = {"ı": "i", "ȷ": "j"}
_HYPHEN = "\x02"
_WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\u303f\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff9f\U00020000-\U0003ffff]"
)
_BULLET = re.compile(r"(?:[•‣◦▪▫■□●○–—*·∙➢✓-]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)])\s")
_SECTION_NUMBER = re.compile(r"\s*(?:\w+\s)?(?:\d{1,3}|[A-Z])(?:\.\d{1,3}){0,5}\.?\s+")
_LEADERS = re.compile(r"(?:\s?\.){5,}")


def _no_fonts() -> object:
    """Have pdfium look for no fonts on this machine: their widths would decide where it sees words and lines."""
    info = c.FPDF_SYSFONTINFO()
    info.version = 1
    for entry in info._fields_:
        if entry[0] != "version":
            setattr(info, entry[0], entry[1]())
    info.MapFont = type(info.MapFont)(lambda *_: None)
    c.FPDF_SetSystemFontInfo(ctypes.byref(info))
    return info


_FONTS = _no_fonts()


def read(data: bytes, mime: str, limits: ExtractionLimits) -> Reading:  # noqa: ARG001
    """Read a PDF file."""
    with _LOCK:
        try:
            document = pdfium.PdfDocument(data)
        except pdfium.PdfiumError as problem:
            words = str(problem).lower()
            raise ExtractionError(ENCRYPTED if "password" in words or "security" in words else DAMAGED) from None
        try:
            return _Document(document).reading()
        finally:
            document.close()


@dataclass(slots=True)
class _Line:
    """Characters that stand on one line, with the left and right end of each."""

    text: str
    lefts: list[float]
    rights: list[float]
    bottom: float
    top: float
    size: float

    @property
    def left(self) -> float:
        return min(self.lefts)

    @property
    def right(self) -> float:
        return max(self.rights)


@dataclass(slots=True)
class _Block:
    """Lines that belong together, or a table."""

    lines: list[_Line] = field(default_factory=list)
    rows: list[list[str]] | None = None
    text: str = ""


@dataclass(slots=True)
class _Page:
    width: float
    height: float
    lines: list[_Line] = field(default_factory=list)
    tables: list[tuple[int, list[list[str]]]] = field(default_factory=list)  # before which line
    unreadable: bool = False


class _Document:
    """One PDF while it is read."""

    def __init__(self, document: pdfium.PdfDocument) -> None:
        self._document = document
        self.left_out: Counter[str] = Counter()
        self._forms = None
        self._words: Counter[str] = Counter()

    def reading(self) -> Reading:
        if self._document.get_formtype():
            self._document.init_forms()
        pages = [self._page(number) for number in range(len(self._document))]
        sizes: Counter[int] = Counter()
        for page in pages:
            for line in page.lines:
                sizes[round(2 * line.size)] += len(line.text)
                self._words.update(re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", line.text))
        body = max(sizes.items(), key=lambda entry: (entry[1], -entry[0]))[0] / 2 if sizes else 0.0
        self._drop_repeated(pages, body)
        headings = self._outline()
        levels = self._levels(pages, body) if not headings else {}
        texts = [
            "" if page.unreadable else join_blocks(self._blocks(page, headings.get(number, {}), levels, body))
            for number, page in enumerate(pages)
        ]
        metadata = self._document.get_metadata_dict(skip_empty=True)
        unreadable = tuple(number for number, page in enumerate(pages, 1) if page.unreadable)
        return Reading(tuple(texts), one_line(metadata.get("Title", "")), self.left_out, unreadable)

    # --- characters ---

    def _page(self, number: int) -> _Page:
        try:
            page = self._document[number]
        except pdfium.PdfiumError:
            self.left_out["damaged pages"] += 1
            return _Page(0, 0)
        try:
            width, height = page.get_size()
            turned = _Turn(page.get_rotation(), width, height, page.get_bbox())
            found = _Page(width, height)
            textpage = c.FPDFText_LoadPage(page)
            if textpage:
                try:
                    lines, errors, total = _lines(textpage, turned)
                finally:
                    c.FPDFText_ClosePage(textpage)
                if errors > _UNREADABLE_SHARE * total:
                    found.unreadable = total > 0
                    lines = []
                found.lines = lines
            rules = Rules()
            self._collect(page, rules, turned)
            self._fill_in(page, found, turned)
            for grid in find_grids(rules, width, height):
                _take_table(found, grid)
            return found
        finally:
            page.close()

    def _collect(self, page: pdfium.PdfPage, rules: Rules, turned: _Turn) -> None:
        budget = _MAX_PATHS
        try:
            for entry in page.get_objects(filter=[c.FPDF_PAGEOBJ_PATH, c.FPDF_PAGEOBJ_IMAGE], max_depth=_MAX_DEPTH):
                if c.FPDFPageObj_GetType(entry.raw) == c.FPDF_PAGEOBJ_IMAGE:
                    self.left_out["pictures"] += 1
                    continue
                budget -= 1
                if budget < 0:
                    return
                _add_path(entry, rules, turned)
        except pdfium.PdfiumError:
            return

    def _fill_in(self, page: pdfium.PdfPage, found: _Page, turned: _Turn) -> None:
        """Put the values of form fields and free texts where they are printed; count remarks."""
        count = c.FPDFPage_GetAnnotCount(page)
        for index in range(min(count, 20_000)):
            annotation = c.FPDFPage_GetAnnot(page, index)
            if not annotation:
                continue
            try:
                if c.FPDFAnnot_GetFlags(annotation) & c.FPDF_ANNOT_FLAG_HIDDEN:
                    self.left_out["hidden annotations"] += 1
                    continue
                kind = c.FPDFAnnot_GetSubtype(annotation)
                text = ""
                if kind == c.FPDF_ANNOT_WIDGET and self._document.formenv is not None:
                    text = _field_value(self._document.formenv.raw, annotation)
                elif kind == c.FPDF_ANNOT_FREETEXT:
                    text = _string(annotation, b"Contents")
                elif kind not in {c.FPDF_ANNOT_LINK, c.FPDF_ANNOT_POPUP, c.FPDF_ANNOT_WIDGET} and _string(
                    annotation, b"Contents"
                ):
                    self.left_out["comments"] += 1
                rect = c.FS_RECTF()
                if text.strip() and c.FPDFAnnot_GetRect(annotation, ctypes.byref(rect)):
                    _place(found, text, turned.box(rect.left, rect.bottom, rect.right, rect.top))
            finally:
                c.FPDFPage_CloseAnnot(annotation)

    # --- what repeats, what heads ---

    def _drop_repeated(self, pages: Sequence[_Page], body: float) -> None:
        """Keep what is printed alike at the same place of three pages or more the first time only (SPEC 1.12)."""
        places: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        edges = [_at_the_edges(page) for page in pages]
        for number, (page, indexes) in enumerate(zip(pages, edges, strict=True)):
            for index in {*indexes[0], *indexes[1]}:
                line = page.lines[index]
                if line.size >= 1.09 * body:
                    continue  # a title that stands on top of each of its pages
                places[_without_page_number(line.text, number + 1), round(line.bottom / 4)].append((number, index))
        repeated: dict[int, set[int]] = defaultdict(set)
        first: set[tuple[int, int]] = set()
        for (words, _), found in places.items():
            if len({number for number, _ in found}) >= _REPEATED:
                if words.strip("# -–—/|.0123456789"):
                    first.add(found[0])
                for number, index in found:
                    repeated[number].add(index)
        gone: dict[int, set[int]] = {}
        for number, indexes in repeated.items():
            # Only what nothing else stands outside of is a head or a foot.
            outermost: set[int] = set()
            for edge in edges[number]:
                for index in edge:
                    if index not in indexes:
                        break
                    outermost.add(index)
            gone[number] = {index for index in outermost if (number, index) not in first}
        for number, indexes in gone.items():
            page = pages[number]
            if not indexes:
                continue
            self.left_out["running heads and page numbers"] += len(indexes)
            before = [sum(1 for index in indexes if index < place) for place, _ in page.tables]
            page.tables = [(place - less, rows) for (place, rows), less in zip(page.tables, before, strict=True)]
            page.lines = [line for index, line in enumerate(page.lines) if index not in indexes]

    def _outline(self) -> dict[int, dict[str, int]]:
        """Headings of each page, from 0, that the outline of the file names: letters and level."""
        headings: dict[int, dict[str, int]] = defaultdict(dict)
        try:
            for count, bookmark in enumerate(self._document.get_toc(max_depth=6)):
                if count > 20_000:
                    break
                destination = bookmark.get_dest()
                page = destination.get_index() if destination else None
                letters = _letters(bookmark.get_title())
                if page is not None and letters:
                    headings[page].setdefault(letters, min(bookmark.level + 1, 6))
        except (pdfium.PdfiumError, ValueError, RecursionError):
            return headings
        return headings

    def _levels(self, pages: Sequence[_Page], body: float) -> dict[int, int]:
        """Level of the sizes of letters that only headings have: larger than the text, and seldom."""
        sizes: Counter[int] = Counter()
        total = 0
        for page in pages:
            for line in page.lines:
                total += len(line.text)
                if line.size >= 1.09 * body:
                    sizes[round(2 * line.size)] += len(line.text)
        large = sorted((size for size, letters in sizes.items() if letters < 0.1 * total), reverse=True)
        return {size: min(level, 6) for level, size in enumerate(large, 1)}

    # --- paragraphs ---

    def _blocks(self, page: _Page, headings: dict[str, int], levels: dict[int, int], body: float) -> Iterator[str]:
        start = 0
        for place, rows in sorted(page.tables, key=lambda entry: entry[0]):
            yield from self._text_blocks(page.lines[start:place], headings, levels, body)
            yield table(rows)
            start = max(start, place)
        yield from self._text_blocks(page.lines[start:], headings, levels, body)

    def _text_blocks(
        self, lines: Sequence[_Line], headings: dict[str, int], levels: dict[int, int], body: float
    ) -> Iterator[str]:
        for group in _groups(lines, headings):
            level = _named("".join(line.text for line in group), headings)
            words = self._joined(group)
            if not level and levels and len(words) <= 160 and len(group) <= 3 and re.search(r"[^\W\d_]", words):
                level = levels.get(round(2 * group[0].size), 0)
                # A sentence in slightly larger letters is no heading.
                ends = words.rstrip().endswith((",", ";", ".", "。", "，"))
                if (ends and group[0].size < 1.3 * body) or _LEADERS.search(words):
                    level = 0
            yield heading(level, words) if level else paragraph(words)

    def _joined(self, group: Sequence[_Line]) -> str:
        """Text of lines: a line that was wrapped goes on in the next, another begins a line of its own."""
        right = max(line.right for line in group)
        text = group[0].text.strip()
        for before, line in pairwise(group):
            following = line.text.strip()
            if not following:
                continue
            if text.endswith(_HYPHEN):
                text = self._without_hyphen(text[:-1], following)
            elif not _is_wrapped(before, line, right):
                text = f"{text}\n{following}"
            elif _WIDE.match(text[-1:] or " ") and _WIDE.match(following[0]):
                text += following
            elif re.search(r"[^\W\d_]-$", text) and following[:1].islower():
                text = self._without_hyphen(text[:-1], following)
            else:
                text = f"{text} {following}"
        return text.replace(_HYPHEN, "-")

    def _without_hyphen(self, text: str, following: str) -> str:
        """Join a divided word as the document writes it elsewhere; without its hyphen if it is nowhere else."""
        head, tail = re.search(r"[^\W\d_]*$", text), re.match(r"[^\W\d_]*", following)
        first, second = (head.group() if head else ""), (tail.group() if tail else "")
        divided = self._words[first + second]
        compound = self._words[f"{first}-{second}"] > divided or (
            not divided and len(first) > 2 and len(second) > 2 and self._words[first] > 0 and self._words[second] > 0
        )
        return f"{text}-{following}" if compound or not first or not second[:1].islower() else text + following


@dataclass(frozen=True, slots=True)
class _Turn:
    """How a page is turned before it is shown."""

    rotation: int
    width: float
    height: float
    box_: tuple[float, float, float, float]

    def box(self, left: float, bottom: float, right: float, top: float) -> tuple[float, float, float, float]:
        x, y = self.box_[0], self.box_[1]
        left, right, bottom, top = left - x, right - x, bottom - y, top - y
        if self.rotation == 90:
            return bottom, self.height - right, top, self.height - left
        if self.rotation == 180:
            return self.width - right, self.height - top, self.width - left, self.height - bottom
        if self.rotation == 270:
            return self.width - top, left, self.width - bottom, right
        return left, bottom, right, top


def _lines(textpage: object, turned: _Turn) -> tuple[list[_Line], int, int]:
    """Lines of a page as pdfium ends them, how many characters have no meaning, and how many there are."""
    unicode_of, box_of, generated = c.FPDFText_GetUnicode, c.FPDFText_GetLooseCharBox, c.FPDFText_IsGenerated
    rect = c.FS_RECTF()
    where = ctypes.byref(rect)
    plain = turned.rotation == 0 and turned.box_[0] == 0 and turned.box_[1] == 0
    lines: list[_Line] = []
    errors = total = 0
    chars: list[str] = []
    lefts: list[float] = []
    rights: list[float] = []
    bottom, top, size = 1e9, -1e9, 0.0

    def end() -> None:
        nonlocal bottom, top, size
        if any(not char.isspace() for char in chars):
            lines.append(_composed(chars, lefts, rights, bottom, top, size))
        chars.clear()
        lefts.clear()
        rights.clear()
        bottom, top, size = 1e9, -1e9, 0.0

    for index in range(c.FPDFText_CountChars(textpage)):
        code = unicode_of(textpage, index)
        if code in (10, 13):
            if chars:
                end()
            continue
        if code == 32 and generated(textpage, index):
            # Boxes of spaces that are not drawn mean nothing.
            at = rights[-1] if rights else 0.0
            chars.append(" ")
            lefts.append(at)
            rights.append(at)
            continue
        if not box_of(textpage, index, where):
            continue
        left, low, right, high = rect.left, rect.bottom, rect.right, rect.top
        if not plain:
            left, low, right, high = turned.box(left, low, right, high)
        char = chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else ""
        if code != 32:
            total += 1
            if (
                not char
                or char == "\ufffd"
                or "\ue000" <= char <= "\uf8ff"
                or c.FPDFText_HasUnicodeMapError(textpage, index) == 1
            ):
                errors += 1
            if low < bottom:
                bottom = low
            if high > top:
                top = high
            if not size:
                size = c.FPDFText_GetFontSize(textpage, index)
                size = (high - low) if size <= 1 else size
        if not char:
            continue
        chars.append(char)
        lefts.append(left)
        rights.append(right)
        if code == 2:
            end()
    end()
    return lines, errors, total


def _composed(
    chars: list[str], lefts: list[float], rights: list[float], bottom: float, top: float, size: float
) -> _Line:
    """A line whose accents stand on their letters, without spaces nobody drew between Han or kana."""
    out: list[str] = []
    out_lefts: list[float] = []
    out_rights: list[float] = []
    index = 0
    count = len(chars)
    while index < count:
        char = chars[index]
        mark = _COMBINING.get(char)
        if mark:
            other = index + 1
            while other < count and chars[other] == " " and lefts[other] == rights[other]:
                other += 1
            middle = (lefts[index] + rights[index]) / 2
            if other < count and chars[other].isalpha() and lefts[other] < middle < rights[other]:
                letter = _DOTLESS.get(chars[other], chars[other])
                joined = unicodedata.normalize("NFC", letter + mark)
                if len(joined) == 1:
                    if (
                        out
                        and out[-1] == " "
                        and out_lefts[-1] == out_rights[-1]
                        and len(out) > 1
                        and out[-2].isalpha()
                        and lefts[other] - out_rights[-2] < 0.15 * size
                    ):
                        del out[-1], out_lefts[-1], out_rights[-1]
                    out.append(joined)
                    out_lefts.append(lefts[other])
                    out_rights.append(rights[other])
                    index = other + 1
                    continue
            under = next(
                (
                    place
                    for place in range(len(out) - 1, max(len(out) - 8, -1), -1)
                    if out[place].isalpha() and out_lefts[place] < middle < out_rights[place]
                ),
                -1,
            )
            if under >= 0:
                joined = unicodedata.normalize("NFC", _DOTLESS.get(out[under], out[under]) + mark)
                if len(joined) == 1:
                    out[under] = joined
                    index += 1
                    if out[-1] == " " and out_lefts[-1] == out_rights[-1] and index < count:
                        del out[-1], out_lefts[-1], out_rights[-1]
                    continue
        if char == " " and lefts[index] == rights[index] and out and index + 1 < count:
            following = chars[index + 1]
            if _WIDE.match(out[-1]) and _WIDE.match(following) and lefts[index + 1] - out_rights[-1] < size:
                index += 1
                continue
        out.append(char)
        out_lefts.append(lefts[index])
        out_rights.append(rights[index])
        index += 1
    return _Line("".join(out), out_lefts, out_rights, bottom, top, size)


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text)).casefold()


def _named(text: str, headings: dict[str, int]) -> int:
    """Level of the heading that a text is, with or without the number before it; 0 if the outline has none."""
    if not headings or len(text) > 400:
        return 0
    return headings.get(_letters(text), 0) or headings.get(_letters(_SECTION_NUMBER.sub("", text, count=1)), 0)


def _without_page_number(text: str, page: int) -> str:
    """A line of a margin with the number of its page taken out, with how far it is from the place of the page."""

    def number(found: re.Match[str]) -> str:
        return f"#{int(found.group()) - page}#"

    return re.sub(r"(?<![^\s|/–—-])(?<!\d[-–/])[1-9]\d{0,3}(?![^\s|/–—-])(?![-–/]\d)", number, text.strip(), count=0)


def _at_the_edges(page: _Page) -> tuple[list[int], list[int]]:
    """Lines near the upper and the lower edge of a page, from the edge inwards."""
    upper = [index for index, line in enumerate(page.lines) if line.bottom > (1 - _EDGE) * page.height]
    lower = [index for index, line in enumerate(page.lines) if line.top < _EDGE * page.height]
    upper.sort(key=lambda index: -page.lines[index].top)
    lower.sort(key=lambda index: page.lines[index].bottom)
    return upper, lower


def _is_wrapped(before: _Line, line: _Line, right: float) -> bool:
    """Tell whether a line ended because the first word of the next did not fit in."""
    if _LEADERS.search(before.text):
        return False
    text = line.text
    start = len(text) - len(text.lstrip())
    if _BULLET.match(text[start:]):
        return False
    if _WIDE.match(text[start : start + 1]):
        end = start + 1
    else:
        space = text.find(" ", start)
        end = len(text) if space < 0 else space
    word = line.rights[end - 1] - line.lefts[start]
    room = right - before.right
    return room < abs(word) + 0.35 * line.size


def _groups(lines: Sequence[_Line], headings: dict[str, int]) -> Iterator[list[_Line]]:
    """Lines that follow each other as the lines of one paragraph do."""
    group: list[_Line] = []
    gap = 0.0
    for line in lines:
        if group:
            before = group[-1]
            step = before.bottom - line.bottom
            high = max(before.top - before.bottom, 1.0)
            together = (
                0.2 * high < step < 1.75 * high
                and (not gap or step < 1.3 * gap + 0.5)
                and abs(line.size - before.size) <= 0.08 * before.size
                and line.left < before.right
                and before.left < line.right
            )
            low = min(high, max(line.top - line.bottom, 1.0))
            overlap = min(line.top, before.top) - max(line.bottom, before.bottom)
            same_line = overlap > 0.5 * low and line.left > before.right - 1
            if same_line:
                # What stands beside it belongs to the line, as the page number of an entry does.
                group[-1] = _Line(
                    f"{before.text.rstrip()}{' ' if line.left - before.right > 0.12 * before.size else ''}{line.text.lstrip()}",
                    [
                        *before.lefts[: len(before.text.rstrip())],
                        line.left,
                        *line.lefts[len(line.text) - len(line.text.lstrip()) :],
                    ],
                    [
                        *before.rights[: len(before.text.rstrip())],
                        line.left,
                        *line.rights[len(line.text) - len(line.text.lstrip()) :],
                    ],
                    min(before.bottom, line.bottom),
                    max(before.top, line.top),
                    before.size,
                )
                continue
            if headings and (_named(line.text, headings) or _named("".join(x.text for x in group), headings)):
                together = False
            if together:
                gap = step if not gap else min(gap, step)
                group.append(line)
                continue
            yield group
        group, gap = [line], 0.0
    if group:
        yield group


# --- annotations ---


def _utf16(call: object, *arguments: object) -> str:
    length = call(*arguments, None, 0)  # pyright: ignore[reportCallIssue]
    if length <= 2 or length > 1_000_000:
        return ""
    buffer = ctypes.create_string_buffer(length)
    call(*arguments, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), length)  # pyright: ignore[reportCallIssue]
    return buffer.raw[: length - 2].decode("utf-16-le", "replace")


def _string(annotation: object, key: bytes) -> str:
    return _utf16(c.FPDFAnnot_GetStringValue, annotation, key)


def _field_value(form: object, annotation: object) -> str:
    kind = c.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in {c.FPDF_FORMFIELD_CHECKBOX, c.FPDF_FORMFIELD_RADIOBUTTON}:
        return "☒" if c.FPDFAnnot_IsChecked(form, annotation) else "☐"
    if kind in {c.FPDF_FORMFIELD_TEXTFIELD, c.FPDF_FORMFIELD_COMBOBOX, c.FPDF_FORMFIELD_LISTBOX}:
        if c.FPDFAnnot_GetFormFieldFlags(form, annotation) & (1 << 13) and kind == c.FPDF_FORMFIELD_TEXTFIELD:
            return ""  # a password
        return _utf16(c.FPDFAnnot_GetFormFieldValue, form, annotation)
    return ""


def _place(page: _Page, text: str, box: tuple[float, float, float, float]) -> None:
    """Put a value behind the words it is printed beside, else before the first line below it."""
    left, bottom, right, top = box
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()]
    middle = (bottom + top) / 2
    beside = [
        index
        for index, line in enumerate(page.lines)
        if line.left < left
        and min(line.top, top) - max(line.bottom, bottom) > 0.4 * min(line.top - line.bottom, top - bottom)
    ]
    if beside and len(lines) == 1:
        index = max(
            beside,
            key=lambda place: (
                page.lines[place].right if page.lines[place].right <= left + 2 else page.lines[place].left
            ),
        )
        line = page.lines[index]
        # Words on both sides of it: it stands between them.
        cut = bisect_right(line.lefts, left) if line.lefts == sorted(line.lefts) else len(line.text)
        value = f" {lines[0].strip()} "
        step = (right - left) / max(len(value), 1)
        page.lines[index] = _Line(
            (line.text[:cut].rstrip() + value + line.text[cut:].lstrip()).strip(),
            [],
            [],
            line.bottom,
            line.top,
            line.size,
        )
        head, tail = len(line.text[:cut].rstrip()), len(line.text) - len(line.text[cut:].lstrip())
        new = page.lines[index]
        new.lefts = [*line.lefts[:head], *(left + step * n for n in range(len(value))), *line.lefts[tail:]][
            : len(new.text)
        ]
        new.rights = [*line.rights[:head], *(left + step * (n + 1) for n in range(len(value))), *line.rights[tail:]][
            : len(new.text)
        ]
        return
    index = next((place for place, line in enumerate(page.lines) if line.top < middle), len(page.lines))
    height = (top - bottom) / max(len(lines), 1)
    made = []
    for number, words in enumerate(lines):
        high = top - number * height
        step = (right - left) / max(len(words), 1)
        made.append(
            _Line(
                words,
                [left + step * n for n in range(len(words))],
                [left + step * (n + 1) for n in range(len(words))],
                high - height,
                high,
                page.lines[0].size if page.lines else 10.0,
            )
        )
    page.lines[index:index] = made


# --- ruled tables ---


def _add_path(entry: pdfium.PdfObject, rules: Rules, turned: _Turn) -> None:
    raw = entry.raw
    count = c.FPDFPath_CountSegments(raw)
    if count < 2 or count > _MAX_SEGMENTS:
        return
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    c.FPDFPath_GetDrawMode(raw, ctypes.byref(fill), ctypes.byref(stroke))
    if not fill.value and not stroke.value:
        return
    try:
        a, b, d, e, f, g = entry.get_matrix().get()
        outer = entry.container.get_matrix().get() if entry.container is not None else None
    except (pdfium.PdfiumError, AttributeError):
        return
    x, y = ctypes.c_float(), ctypes.c_float()
    points: list[tuple[float, float, int]] = []
    for index in range(count):
        segment = c.FPDFPath_GetPathSegment(raw, index)
        if not segment or not c.FPDFPathSegment_GetPoint(segment, ctypes.byref(x), ctypes.byref(y)):
            return
        kind = c.FPDFPathSegment_GetType(segment)
        if kind == c.FPDF_SEGMENT_BEZIERTO:
            return
        px, py = a * x.value + d * y.value + f, b * x.value + e * y.value + g
        if outer:
            px, py = outer[0] * px + outer[2] * py + outer[4], outer[1] * px + outer[3] * py + outer[5]
        px, py, _, _ = turned.box(px, py, px, py)
        points.append((px, py, kind))
        if c.FPDFPathSegment_GetClose(segment):
            first = (
                next(p for p in reversed(points) if p[2] == c.FPDF_SEGMENT_MOVETO)
                if any(p[2] == c.FPDF_SEGMENT_MOVETO for p in points)
                else points[0]
            )
            points.append((first[0], first[1], c.FPDF_SEGMENT_LINETO))
    if not stroke.value:
        # A rule may be a filled rectangle; a larger one is the ground of a cell.
        xs, ys = [p[0] for p in points], [p[1] for p in points]
        width, height = max(xs) - min(xs), max(ys) - min(ys)
        if height <= 3 < width:
            rules.add(min(xs), (min(ys) + max(ys)) / 2, max(xs), (min(ys) + max(ys)) / 2)
        elif width <= 3 < height:
            rules.add((min(xs) + max(xs)) / 2, min(ys), (min(xs) + max(xs)) / 2, max(ys))
        return
    for before, point in pairwise(points):
        if point[2] == c.FPDF_SEGMENT_LINETO:
            rules.add(before[0], before[1], point[0], point[1])


def _take_table(page: _Page, grid: Grid) -> None:
    """Move the characters inside a grid from the lines of the page into its cells."""
    cells: dict[tuple[int, int], list[tuple[float, str]]] = defaultdict(list)
    kept: list[_Line] = []
    first = -1
    for line in page.lines:
        middle = (line.bottom + line.top) / 2
        if not (grid.bottom <= middle <= grid.top) or line.right < grid.left or line.left > grid.right:
            kept.append(line)
            continue
        outside: list[int] = []
        pieces: dict[tuple[int, int], list[int]] = {}
        latest: tuple[int, int] | None = None
        for index, char in enumerate(line.text):
            if char.isspace() and line.lefts[index] == line.rights[index]:
                if latest is not None:
                    pieces[latest].append(index)
                elif outside:
                    outside.append(index)
                continue
            place = grid.cell((line.lefts[index] + line.rights[index]) / 2, middle)
            if place is None:
                outside.append(index)
                latest = None
            else:
                pieces.setdefault(place, []).append(index)
                latest = place
        for place, indexes in pieces.items():
            cells[place].append((middle, "".join(line.text[index] for index in indexes).strip()))
        if pieces and first < 0:
            first = len(kept)
        if any(not line.text[index].isspace() for index in outside):
            kept.append(
                _Line(
                    "".join(line.text[index] for index in outside).strip("\n"),
                    [line.lefts[index] for index in outside],
                    [line.rights[index] for index in outside],
                    line.bottom,
                    line.top,
                    line.size,
                )
            )
    if len(cells) < 2:
        return
    page.tables = [
        (place if place <= first else place - (len(page.lines) - len(kept)), rows) for place, rows in page.tables
    ]
    page.lines = kept
    page.tables.append((max(first, 0), _rows(cells, grid)))


def _rows(cells: dict[tuple[int, int], list[tuple[float, str]]], grid: Grid) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in range(grid.rows):
        texts = {
            column: [text for _, text in cells[(row, column)] if text]
            for column in range(grid.columns)
            if (row, column) in cells
        }
        heights = {column: [high for high, text in cells[(row, column)] if text] for column in texts}
        counts = {len(found) for found in texts.values()}
        many = max(counts, default=0)
        several = [column for column, found in texts.items() if len(found) == many]
        if (
            many > 1
            and counts <= {1, many}
            and len(several) > 1
            and 2 * len(several) > len(texts)
            and (many > 2 or len(several) > 3)
            and _level([heights[column] for column in several])
        ):
            # Lines of the cells stand beside each other: rows without a rule between them.
            rows += [["".join(texts.get(column, [])[n : n + 1]) for column in range(grid.columns)] for n in range(many)]
            continue
        rows.append([_cell(texts.get(column, [])) for column in range(grid.columns)])
    letters = "".join(text for row in rows for text in row)
    if 2 * sum(unicodedata.bidirectional(char) in {"R", "AL"} for char in letters) > sum(map(str.isalpha, letters)):
        # The first column of a table in a script from right to left is the rightmost.
        rows = [row[::-1] for row in rows]
    return rows


def _level(heights: list[list[float]]) -> bool:
    return all(abs(mine - other) < 2 for column in heights[1:] for mine, other in zip(heights[0], column, strict=True))


def _cell(lines: list[str]) -> str:
    text = ""
    for line in lines:
        glued = not text or (_WIDE.match(text[-1]) and _WIDE.match(line[0])) or text.endswith(_HYPHEN)
        text = text.removesuffix(_HYPHEN) + line if glued else f"{text} {line}"
    return text.replace(_HYPHEN, "-")
