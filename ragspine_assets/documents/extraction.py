"""What a file says: its text, its pages and its own title (SPEC 1.4).

Text formats are decoded here; the others are read by kreuzberg. Nothing of a document's text ever gets into an error:
the reasons below are our own words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from html import unescape
from importlib.metadata import version
from math import ceil
from typing import TYPE_CHECKING, Literal

from .decoding import UndecodableText, decode_text
from .normalise import normalise_text

if TYPE_CHECKING:
    from kreuzberg import ExtractionResult

Markup = Literal["plain", "markdown"]


class ExtractionError(Exception):
    """A file cannot be read as a document.

    Attributes:
        reason: one line for the person who must act, without a word of the document.
        retry: whether the same bytes may succeed another time (a time limit, for instance).
    """

    def __init__(self, reason: str, *, retry: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry = retry


@dataclass(frozen=True, slots=True)
class ExtractionLimits:
    """What one file may cost.

    Attributes:
        max_bytes: size of the file, and of what a packed file unpacks to.
        max_characters: code points of its text.
        time_limit_s: seconds its parser may take.
        memory_bytes: data a worker process may hold while it reads the file.
    """

    max_bytes: int = 100 * 2**20
    max_characters: int = 20_000_000
    time_limit_s: float = 60.0
    memory_bytes: int = 2 * 2**30


@dataclass(frozen=True, slots=True)
class Extracted:
    text: str
    markup: Markup
    parser: str
    title: str = ""
    encoding: str = ""
    encoding_found_by: str = ""
    pages: int = 0
    page_starts: tuple[int, ...] = field(default=())


_PLAIN = {".txt": "plain", ".rst": "plain", ".srt": "plain", ".md": "markdown", ".markdown": "markdown"}
_DECODED = {".html": "text/html", ".htm": "text/html", ".csv": "text/csv"}
_BINARY = {
    ".pdf": "application/pdf",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".epub": "application/epub+zip",
    ".eml": "message/rfc822",
}


@cache
def parser_for(suffix: str) -> str:
    if suffix in _PLAIN:
        return "decode 1"
    return f"kreuzberg {version('kreuzberg')}"


def extract_bytes(data: bytes, suffix: str, limits: ExtractionLimits) -> Extracted:
    if len(data) > limits.max_bytes:
        raise ExtractionError(f"it is larger than {limits.max_bytes} bytes")
    if suffix in _PLAIN or suffix in _DECODED:
        try:
            decoded = decode_text(data, markup=suffix not in _PLAIN)
        except UndecodableText as problem:
            raise ExtractionError(str(problem)) from None
        if suffix in _PLAIN:
            return Extracted(
                normalise_text(decoded.text), _PLAIN[suffix], parser_for(suffix),  # type: ignore
                encoding=decoded.encoding, encoding_found_by=decoded.found_by,
            )
        result = _kreuzberg(decoded.text.encode("utf-8", "surrogatepass"), _DECODED[suffix], limits)
        return Extracted(normalise_text(result.content), "markdown", parser_for(suffix),
            encoding=decoded.encoding, encoding_found_by=decoded.found_by)
    result = _kreuzberg(data, _BINARY[suffix], limits)
    return Extracted(normalise_text(result.content), "markdown", parser_for(suffix),
                     title=str(result.metadata.get("title") or ""))


def _kreuzberg(data: bytes, mime: str, limits: ExtractionLimits) -> ExtractionResult:
    from kreuzberg import ExtractionConfig, PageConfig, extract_bytes_sync

    config = ExtractionConfig(use_cache=False, disable_ocr=True, output_format="markdown",
        enable_quality_processing=False, include_document_structure=True, pages=PageConfig(extract_pages=True),
        extraction_timeout_secs=ceil(limits.time_limit_s))
    try:
        return extract_bytes_sync(data, mime, config)
    except Exception as problem:
        raise ExtractionError(f"it cannot be parsed ({type(problem).__name__})") from None
