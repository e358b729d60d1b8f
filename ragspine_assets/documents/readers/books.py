"""EPUB books: the documents of the spine, in its order (SPEC 1.4, 1.12)."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from urllib.parse import unquote

from ragspine_assets.documents.decoding import UndecodableText, decode_text
from ragspine_assets.documents.markdown import join_blocks
from ragspine_assets.documents.reading import DAMAGED, ExtractionError, ExtractionLimits, Reading, one_line

from .package import Package
from .web import page_blocks, without_head

_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_BOOK = "{http://www.idpf.org/2007/opf}"
# XML may close any element where it opens it; HTML would leave it open.
_EMPTY = re.compile(
    r"<((?!(?:br|hr|img|input|meta|link|col|wbr|area|base|source)\b)[A-Za-z][\w:-]{0,40})(\s[^<>]{0,4000})?/>"
)
_DECLARATION = re.compile(r"\s*<\?xml[^>]{0,500}\?>")


def read(data: bytes, mime: str, limits: ExtractionLimits) -> Reading:  # noqa: ARG001
    """Read an epub file."""
    package = Package(data)
    if package.read("META-INF/encryption.xml") and package.read("META-INF/rights.xml"):
        raise ExtractionError("it is protected against copying: store a copy without protection")
    container = package.tree("META-INF/container.xml")
    files = container.iter(f"{_CONTAINER}rootfile") if container is not None else ()
    name = next((entry.get("full-path", "") for entry in files), "")
    book = package.tree(name)
    if book is None:
        raise ExtractionError(DAMAGED)
    folder = posixpath.dirname(name)
    items = {entry.get("id", ""): entry for entry in book.iter(f"{_BOOK}item")}
    left_out: Counter[str] = Counter()
    blocks: list[str] = []
    seen: set[str] = set()
    for reference in book.iter(f"{_BOOK}itemref"):
        item = items.get(reference.get("idref", ""))
        if item is None or item.get("href", "") in seen:
            continue
        seen.add(item.get("href", ""))
        if "nav" in item.get("properties", "").split() and len(items) > 1:
            # The table of contents repeats the headings of the chapters.
            left_out["tables of contents"] += 1
            continue
        if "html" not in item.get("media-type", ""):
            left_out["pictures"] += "image" in item.get("media-type", "")
            continue
        part = package.read(posixpath.normpath(posixpath.join(folder, unquote(item.get("href", "").split("#")[0]))))
        if part:
            blocks += _chapter(part, left_out)
    title = book.findtext(".//{http://purl.org/dc/elements/1.1/}title") or ""
    return Reading(join_blocks(blocks), one_line(title), left_out)


def _chapter(part: bytes, left_out: Counter[str]) -> list[str]:
    try:
        text = decode_text(part, markup=True).text
    except UndecodableText as problem:
        raise ExtractionError(str(problem)) from None
    text = _EMPTY.sub(r"<\1\2></\1>", _DECLARATION.sub("", text, count=1))
    return page_blocks(without_head(text)[0], left_out)
