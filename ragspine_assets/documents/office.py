"""Packed Office files: safe to unpack, and repaired where the parser would read them wrongly (SPEC 1.4, 1.6).

What kreuzberg 4.10 does with sound files, tried: of a Word paragraph with a text box it keeps the box and drops the
paragraph; it keeps text that was moved away and table rows that were deleted under change tracking; it numbers slides
by the names of their parts and not by the order of the presentation, reads slides that were deleted from it, and drops
the notes. Each repair below changes the package before it is parsed, and leaves it alone when there is nothing to do.
"""

from __future__ import annotations

import io
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree as ET

from ragspine_assets.errors import RagspineError

MAX_ENTRIES = 20_000
"""Entries a package may have."""

_ROOM = 1 << 20
_LOCAL_HEADER = struct.Struct("<4s22xHH")

_WORD = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_RELATION_IDS = (
    "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id",
    "{http://purl.oclc.org/ooxml/officeDocument/relationships}id",
)


class UnsafePackage(RagspineError):
    """A packed file that must not be unpacked; the message is a reason for ``failed``."""


def check_package(data: bytes, max_unpacked_bytes: int) -> None:
    """Refuse a packed file that is damaged, encrypted, or unpacks to more than it may.

    The sizes its directory declares are added up first, then every entry is unpacked into nothing to see whether the
    directory tells the truth: parsers believe it, or do not look.

    Raises:
        UnsafePackage: with the reason.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            entries = package.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, UnicodeError, struct.error):
        raise UnsafePackage("it is damaged: its table of contents cannot be read; it may be cut off") from None
    if len(entries) > MAX_ENTRIES:
        raise UnsafePackage(f"it is a packed file of more than {MAX_ENTRIES} parts")
    if any(entry.flag_bits & 1 for entry in entries):
        raise UnsafePackage("it needs a password: store a copy without one")
    declared = sum(entry.file_size for entry in entries)
    if declared > max_unpacked_bytes:
        raise UnsafePackage(f"it unpacks to more than {max_unpacked_bytes} bytes")
    for entry in entries:
        if entry.compress_type == zipfile.ZIP_DEFLATED and _unpacked_size(data, entry) != entry.file_size:
            raise UnsafePackage("it is damaged: what it unpacks to is not what its table of contents says")


def _unpacked_size(data: bytes, entry: zipfile.ZipInfo) -> int:
    """Bytes an entry unpacks to, or some number behind its declared size if it is more; -1 if it is damaged."""
    header = data[entry.header_offset : entry.header_offset + _LOCAL_HEADER.size]
    if len(header) < _LOCAL_HEADER.size:
        return -1
    magic, name_size, extra_size = _LOCAL_HEADER.unpack(header)
    start = entry.header_offset + _LOCAL_HEADER.size + name_size + extra_size
    packed = memoryview(data)[start : start + entry.compress_size]
    if magic != b"PK\x03\x04" or len(packed) < entry.compress_size:
        return -1
    unpacker = zlib.decompressobj(-15)
    size = 0
    try:
        piece = unpacker.decompress(packed, _ROOM)
        while piece and size <= entry.file_size:
            size += len(piece)
            piece = unpacker.decompress(unpacker.unconsumed_tail, _ROOM)
    except zlib.error:
        return -1
    return size


class _Package:
    """The parts of a package, as they are or as they have been changed."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.parts: dict[str, bytes] = {}
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            for entry in package.infolist():
                try:
                    self.parts[entry.filename] = package.read(entry)
                except (
                    zipfile.BadZipFile,
                    zlib.error,
                    NotImplementedError,
                    RuntimeError,
                    ValueError,
                    EOFError,
                    OSError,
                ):
                    # A picture may be damaged without harm to the text.
                    if entry.filename.endswith((".xml", ".rels")):
                        raise UnsafePackage("it is damaged: a part of it cannot be unpacked") from None
        self._changed = False

    def tree(self, name: str) -> ET.Element | None:
        """The root of an XML part; None where there is none that can be read."""
        part = self.parts.get(name)
        if part is None or b"<!DOCTYPE" in part:
            return None
        try:
            # Without a document type there are no entities, and no attack by them.
            for _, (prefix, address) in ET.iterparse(io.BytesIO(part), ["start-ns"]):  # noqa: S314
                # Readers look for the usual prefixes; without this they would be called ns0, ns1, ...
                if prefix and not re.fullmatch(r"ns\d+", prefix):
                    ET.register_namespace(prefix, address)
            return ET.fromstring(part)  # noqa: S314
        except (ET.ParseError, ValueError):
            return None

    def put(self, name: str, root: ET.Element) -> None:
        self.parts[name] = ET.tostring(root, encoding="utf-8", xml_declaration=True)
        self._changed = True

    def replace(self, parts: Mapping[str, bytes]) -> None:
        self.parts = dict(parts)
        self._changed = True

    def relations(self, name: str) -> dict[str, tuple[str, str]]:
        """Relations of a part: id to the last word of its type and the part it leads to."""
        folder, base = posixpath.split(name)
        root = self.tree(posixpath.join(folder, "_rels", f"{base}.rels"))
        if root is None:
            return {}
        return {
            relation.get("Id", ""): (
                relation.get("Type", "").rsplit("/", 1)[-1],
                posixpath.normpath(posixpath.join(folder, relation.get("Target", ""))).lstrip("/"),
            )
            for relation in root
        }

    def pack(self) -> bytes:
        if not self._changed:
            return self._data
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as package:
            for name, part in self.parts.items():
                package.writestr(zipfile.ZipInfo(name), part)
        return packed.getvalue()


# --- PowerPoint --------------------------------------------------------------------------------------------------


def repair_slides(data: bytes) -> tuple[bytes, list[list[str]]]:
    """Return a presentation whose slides are named in their order, and the lines of the notes of each slide."""
    package = _Package(data)
    main = next((name for kind, name in package.relations("").values() if kind == "officeDocument"), "")
    root = package.tree(main)
    if root is None:
        return data, []
    relations = package.relations(main)
    slides: list[str] = []
    for entry in root.iter():
        if entry.tag.endswith("}sldId"):
            reference = next((found for key in _RELATION_IDS if (found := entry.get(key))), "")
            kind, target = relations.get(reference, ("", ""))
            if kind == "slide" and target in package.parts and target not in slides:
                slides.append(target)
    if not slides:
        return data, []
    notes = [list(_notes(package, slide)) for slide in slides]
    _rename(package, slides)
    return package.pack(), notes


def _notes(package: _Package, slide: str) -> Iterator[str]:
    name = next((target for kind, target in package.relations(slide).values() if kind == "notesSlide"), "")
    root = package.tree(name)
    for shape in root.iter() if root is not None else ():
        if not shape.tag.endswith("}sp"):
            continue
        place = next((element for element in shape.iter() if element.tag.endswith("}ph")), None)
        if place is None or place.get("type") != "body":
            # The other shapes are the picture of the slide, its number, the date.
            continue
        for paragraph in shape.iter():
            if paragraph.tag.endswith("}p"):
                text = "".join(
                    "\n" if element.tag.endswith("}br") else element.text or ""
                    for element in paragraph.iter()
                    if element.tag.endswith(("}t", "}br"))
                )
                yield from (line for line in text.split("\n") if line.strip())


_MENTION = re.compile(rb"""<(?:\w+:)?(?:Relationship|Override)\b[^>]*["/]slides/(?P<name>slide\d+\.xml)"[^>]*>""")
_SLIDE = re.compile(r"ppt/slides/(?:_rels/)?(slide\d+\.xml)(?:\.rels)?")


def _rename(package: _Package, slides: list[str]) -> None:
    """Give the slides the names ``slide1.xml``, ``slide2.xml``, ... in their order, and drop those that are none."""
    names = {slide: f"ppt/slides/slide{number}.xml" for number, slide in enumerate(slides, 1)}
    present = {name for name in package.parts if _SLIDE.fullmatch(name) and "/_rels/" not in name}
    if present == set(slides) and all(old == new for old, new in names.items()):
        return
    short = {posixpath.basename(old): posixpath.basename(new) for old, new in names.items()}
    parts: dict[str, bytes] = {}
    for name, part in package.parts.items():
        found = _SLIDE.fullmatch(name)
        if found is None:
            parts[name] = part
        elif found.group(1) in short:
            parts[name.replace(found.group(1), short[found.group(1)])] = part
    for name in ("[Content_Types].xml", *(part for part in parts if part.endswith(".rels"))):
        if name in parts:
            parts[name] = _MENTION.sub(lambda mention: _moved(mention, short), parts[name])
    package.replace(parts)


def _moved(mention: re.Match[bytes], short: Mapping[str, str]) -> bytes:
    new = short.get(mention.group("name").decode())
    if new is None:
        return b""
    start, end = (place - mention.start() for place in mention.span("name"))
    return mention.group()[:start] + new.encode() + mention.group()[end:]
