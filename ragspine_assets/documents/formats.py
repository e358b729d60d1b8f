"""Which formats are read, one row each (SPEC 1.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import cast

from .reading import ExtractionLimits, Markup, Reading

# Raised whenever decoding the same bytes would give another text, so that fingerprints change with it (SPEC 1.9).
DECODER = "decode 1"

Read = Callable[[bytes, str, ExtractionLimits], Reading]
"""What every reader module has as ``read``: of the bytes of a file, its media type and what it may cost."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Attributes:
        suffixes: file-name suffixes in lower case, with their dot.
        mime: its media type.
        reader: module of the package ``readers`` that reads it; '' if it is decoded and nothing else.
        markup: how headings are found in its text.
        libraries: distributions that read it; their versions are part of the fingerprint.
        revision: raised whenever the reader makes another text of the same bytes, so that fingerprints change with it.
        packed: whether it is a zip package, which is looked through before it is unpacked.
    """

    suffixes: tuple[str, ...]
    mime: str
    reader: str = ""
    markup: Markup = "markdown"
    libraries: tuple[str, ...] = ()
    revision: int = 1
    packed: bool = False

    def read(self, data: bytes, limits: ExtractionLimits) -> Reading:
        """Read the bytes of a file of this format; its reader is loaded when it is needed first."""
        reader = import_module(f".readers.{self.reader}", __package__)
        return cast("Read", reader.read)(data, self.mime, limits)


_OFFICE = "application/vnd.openxmlformats-officedocument."

FORMATS: tuple[Format, ...] = (
    Format((".txt",), "text/plain", markup="plain"),
    Format((".srt",), "application/x-subrip", markup="plain"),
    Format((".rst",), "text/x-rst", markup="plain"),
    Format((".md", ".markdown"), "text/markdown"),
    Format((".html", ".htm"), "text/html", "web", libraries=("lxml",)),
    Format((".csv",), "text/csv", "values"),
    Format((".pdf",), "application/pdf", "pdf", libraries=("pypdfium2",)),
    Format((".docx",), f"{_OFFICE}wordprocessingml.document", "word", libraries=("lxml",), packed=True),
    Format((".pptx",), f"{_OFFICE}presentationml.presentation", "slides", libraries=("lxml",), packed=True),
    Format((".xlsx",), f"{_OFFICE}spreadsheetml.sheet", "sheets", libraries=("lxml",), packed=True),
    Format((".epub",), "application/epub+zip", "books", libraries=("lxml",), packed=True),
    Format((".eml",), "message/rfc822", "mail", libraries=("lxml",)),
    Format((".xls",), "application/vnd.ms-excel", "legacy", libraries=("kreuzberg",)),
    Format((".msg",), "application/vnd.ms-outlook", "legacy", libraries=("kreuzberg",)),
    Format((".rtf",), "application/rtf", "legacy", libraries=("kreuzberg",)),
)
"""Every format that is read."""

BY_SUFFIX: Mapping[str, Format] = {suffix: entry for entry in FORMATS for suffix in entry.suffixes}
"""The format of each suffix."""


@cache
def parser_for(suffix: str) -> str:
    """Return parser and version for files with a suffix, without parsing: part of the fingerprint (SPEC 1.9).

    Raises:
        KeyError: files with this suffix are not read.
    """
    entry = BY_SUFFIX[suffix.lower()]
    libraries = (f"{library} {version(library)}" for library in entry.libraries)
    return ", ".join([f"{entry.reader} {entry.revision}", *libraries]) if entry.reader else DECODER
