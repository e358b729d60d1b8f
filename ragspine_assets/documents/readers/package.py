"""The parts of an Office or EPUB package as XML trees.

Nothing outside a part is ever loaded: a part with a document type is refused, so there are no entities to expand.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, cast
from urllib.parse import unquote

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  # it brings no types

from ragspine_assets.documents.reading import DAMAGED, ExtractionError, one_line


class Element(Protocol):
    """What is used here of an element of lxml, which brings no types."""

    tag: str
    text: str | None
    tail: str | None

    def get(self, name: str, default: str = ..., /) -> str: ...  # noqa: D102
    def find(self, path: str, /) -> Element | None: ...  # noqa: D102
    def findall(self, path: str, /) -> list[Element]: ...  # noqa: D102
    def findtext(self, path: str, /) -> str | None: ...  # noqa: D102
    def iter(self, *tags: str) -> Iterator[Element]: ...  # noqa: D102
    def iterchildren(self, *tags: str) -> Iterator[Element]: ...  # noqa: D102
    def __iter__(self) -> Iterator[Element]: ...
    def __len__(self) -> int: ...


WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
SLIDE = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
VML = "{urn:schemas-microsoft-com:vml}"

_STRICT = b"http://purl.oclc.org/ooxml/"
# What the strict variant of the standard calls the same things; the longest names first.
_STRICT_NAMES = (
    (b"http://purl.oclc.org/ooxml/wordprocessingml/main", WORD[1:-1].encode()),
    (b"http://purl.oclc.org/ooxml/drawingml/main", DRAWING[1:-1].encode()),
    (b"http://purl.oclc.org/ooxml/drawingml/chart", CHART[1:-1].encode()),
    (b"http://purl.oclc.org/ooxml/drawingml/diagram", DIAGRAM[1:-1].encode()),
    (b"http://purl.oclc.org/ooxml/presentationml/main", SLIDE[1:-1].encode()),
    (b"http://purl.oclc.org/ooxml/spreadsheetml/main", SHEET[1:-1].encode()),
    (b"http://purl.oclc.org/ooxml/officeDocument/math", MATH[1:-1].encode()),
    (b"http://purl.oclc.org/ooxml/officeDocument/relationships", RELATION[1:-1].encode()),
)


def parse_xml(part: bytes) -> Element | None:
    """Return the root of an XML part, None if it cannot be read or has a document type of its own."""
    if _STRICT in part[:4096]:
        for strict, usual in _STRICT_NAMES:
            part = part.replace(strict, usual)
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(part, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    return None if root.getroottree().docinfo.doctype else cast("Element", root)


@dataclass(frozen=True, slots=True)
class Relationship:
    """What a part of a package refers to: the last word of the type, and the name of the part, '' outside of it."""

    kind: str
    target: str


class Package:
    """A packed file that has been found safe to unpack."""

    def __init__(self, data: bytes) -> None:
        try:
            self._file = zipfile.ZipFile(io.BytesIO(data))
            # Names are compared as the standard says: without regard to case.
            self._names = {name.casefold(): name for name in self._file.namelist()}
        except (zipfile.BadZipFile, ValueError, OSError):
            raise ExtractionError(DAMAGED) from None
        self._trees: dict[str, Element | None] = {}

    def names(self) -> list[str]:
        """Names of all parts, in the order of the package."""
        return list(self._names.values())

    def read(self, name: str) -> bytes | None:
        """Bytes of a part; None if there is none of that name.

        Raises:
            ExtractionError: it cannot be unpacked.
        """
        known = self._names.get(name.casefold())
        if known is None:
            return None
        try:
            return self._file.read(known)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, ValueError, EOFError, OSError):
            raise ExtractionError("it is damaged: a part of it cannot be unpacked") from None

    def tree(self, name: str) -> Element | None:
        """Root of an XML part; None if there is none that can be read."""
        if name not in self._trees:
            part = self.read(name) if name else None
            self._trees[name] = parse_xml(part) if part else None
        return self._trees[name]

    def forget(self, name: str) -> None:
        """Let go of the tree of a part that has been read."""
        self._trees.pop(name, None)

    def relations(self, name: str) -> dict[str, Relationship]:
        """Relationships of a part by their id, ``''`` for those of the package."""
        folder, base = posixpath.split(name)
        root = self.tree(posixpath.join(folder, "_rels", f"{base}.rels"))
        found: dict[str, Relationship] = {}
        for entry in root if root is not None else ():
            target = entry.get("Target", "")
            if entry.get("TargetMode") == "External":
                target = ""
            elif target.startswith("/"):
                target = target.lstrip("/")
            else:
                target = posixpath.normpath(posixpath.join(folder, target))
            if target and target.casefold() not in self._names:
                target = unquote(target)
            found[entry.get("Id", "")] = Relationship(entry.get("Type", "").rsplit("/", 1)[-1], target)
        return found

    def related(self, name: str, kind: str) -> list[str]:
        """Names of the parts of one kind that a part refers to, in the order of its relationships."""
        return [relation.target for relation in self.relations(name).values() if relation.kind == kind]

    def main_part(self) -> str:
        """Name of the part that holds the document.

        Raises:
            ExtractionError: there is none.
        """
        for name in self.related("", "officeDocument"):
            if self.tree(name) is not None:
                return name
        raise ExtractionError(DAMAGED)

    def title(self) -> str:
        """Title that the core properties state."""
        for name in (*self.related("", "core-properties"), "docProps/core.xml"):
            root = self.tree(name)
            if root is not None:
                return one_line(root.findtext("{http://purl.org/dc/elements/1.1/}title") or "")
        return ""


def child(element: Element, tag: str) -> Element | None:
    """Return the first child with a tag; several times as fast as ``find``, which understands paths."""
    return next(element.iterchildren(tag), None)


def is_on(element: Element | None, attribute: str) -> bool:
    """Tell whether a switch such as ``<w:vanish/>`` is on; an element without a value is."""
    return element is not None and element.get(attribute, "1").lower() not in {"0", "false", "off", "none"}


def alternative(content: Element) -> Element | None:
    """Return the one branch of an ``AlternateContent`` that is read: the first that is no picture only."""
    branches = [branch for branch in content if branch.tag in {f"{COMPATIBILITY}Choice", f"{COMPATIBILITY}Fallback"}]
    # All branches show the same; a fallback repeats the words of its choice for older readers.
    return next((branch for branch in branches if len(branch)), None)
