"""What a file says: its text, its pages and its own title (SPEC 1.4).

Plain text, reStructuredText, subtitles and Markdown are decoded and normalised, nothing else: see
``docs/decisions/0001-plain-text-is-not-parsed.md``. Everything else is read by kreuzberg, text formats after they have
been decoded. No word of a document ever gets into an error: the reasons below are our own.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import unescape
from importlib.metadata import version
from math import ceil
from typing import TYPE_CHECKING

from . import formats
from .decoding import UndecodableText, decode_text
from .lost_lines import restore_lost_lines
from .mail import recode_mail
from .normalise import normalise_text
from .office import UnsafePackage, check_package, repair_slides
from .pages import align_pages, cut_at_marks
from .reading import ENCRYPTED as _ENCRYPTED
from .reading import Extracted, ExtractionError, ExtractionLimits, Markup, TimeLimitError

if TYPE_CHECKING:
    from kreuzberg import ExtractionResult

_DECODED_ONLY: dict[str, Markup] = {
    ".txt": "plain",
    ".rst": "plain",
    ".srt": "plain",
    ".md": "markdown",
    ".markdown": "markdown",
}
_OFFICE = "application/vnd.openxmlformats-officedocument."
_MIME = {
    ".html": "text/html",
    ".htm": "text/html",
    ".csv": "text/csv",
    ".pdf": "application/pdf",
    ".docx": f"{_OFFICE}wordprocessingml.document",
    ".pptx": f"{_OFFICE}presentationml.presentation",
    ".xlsx": f"{_OFFICE}spreadsheetml.sheet",
    ".xls": "application/vnd.ms-excel",
    ".epub": "application/epub+zip",
    ".eml": "message/rfc822",
    ".msg": "application/vnd.ms-outlook",
    ".rtf": "application/rtf",
}
_TEXT_SUFFIXES = frozenset({".html", ".htm", ".csv"})

# Raised whenever the same bytes would give another text, so that fingerprints change with it (SPEC 1.9).
_DECODER = "decode 1"
_ADAPTER = "adapter 1"


@cache
def parser_for(suffix: str) -> str:
    """Return parser and version for files with a suffix, without parsing: part of the fingerprint (SPEC 1.9).

    Raises:
        KeyError: files with this suffix are not read.
    """
    suffix = suffix.lower()
    if suffix == ".docx":
        return formats.parser_for(suffix)
    if suffix in _DECODED_ONLY:
        return _DECODER
    _MIME[suffix]
    adapter = f"kreuzberg {version('kreuzberg')} {_ADAPTER}"
    return f"{adapter} {_DECODER}" if suffix in _TEXT_SUFFIXES else adapter


def extract_bytes(data: bytes, suffix: str, limits: ExtractionLimits | None = None) -> Extracted:
    """Read the bytes of a file as the format its suffix says (SPEC 1.4).

    The same bytes give the same text, on any machine; for a PDF without fonts of its own only in a process of its own,
    see ``dedicate_process``.

    Args:
        data: all bytes of the file.
        suffix: lower-case suffix with its dot.
        limits: what the file may cost; its size, unpacked size and length of text are checked here.

    Raises:
        ExtractionError: with the reason.
    """
    limits = limits or ExtractionLimits()
    if suffix not in _DECODED_ONLY and suffix not in _MIME:
        raise ExtractionError(f"files with the suffix {suffix!r} are not read")
    if len(data) > limits.max_bytes:
        raise ExtractionError(f"it is larger than {limits.max_bytes} bytes")
    parser = parser_for(suffix)
    if not data:
        return Extracted("", _DECODED_ONLY.get(suffix, "markdown"), parser)
    if suffix in _DECODED_ONLY or suffix in _TEXT_SUFFIXES:
        extracted = _read_text(data, suffix, parser, limits)
    else:
        _refuse_other_formats(data, suffix, limits)
        extracted = (
            _read_packed(data, suffix, parser, limits)
            if suffix == ".docx"
            else _read_binary(data, suffix, parser, limits)
        )
    if len(extracted.text) > limits.max_characters:
        raise ExtractionError(f"its text is longer than {limits.max_characters} characters")
    return extracted


# --- text formats ------------------------------------------------------------------------------------------------

# The rest of a tag. A quote that is not closed soon is a mistake and must not swallow the page; that no pattern here
# reaches over the next tag of its kind keeps them linear.
_TAG = r"""(?:[^<>"']|"[^"]{0,4000}+"|'[^']{0,4000}+'|["'])*+>"""
_TITLE = re.compile(
    rf"<title\b{_TAG}((?:[^<]|<(?!/?(?:title|head|body|meta|link|script|style)\b)){{0,2000}}+)(?:</title\s*>)?",
    re.IGNORECASE,
)
_HEAD_TAGS = re.compile(rf"<(?:meta|link|base)\b{_TAG}", re.IGNORECASE)
# Scripts are dropped by the parser too, but not those a page breaks off in.
_SCRIPT = re.compile(rf"<(script|style)\b{_TAG}.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_EMBEDDED = re.compile(r"!\[([^\]\n]*)\]\(data:[^)\s]*\)")


def _read_text(data: bytes, suffix: str, parser: str, limits: ExtractionLimits) -> Extracted:
    markup = _DECODED_ONLY.get(suffix, "markdown")
    try:
        decoded = decode_text(data, markup=suffix not in _DECODED_ONLY and suffix != ".csv")
    except UndecodableText as problem:
        raise ExtractionError(str(problem)) from None
    text, title = decoded.text, ""
    if suffix in _TEXT_SUFFIXES:
        if suffix != ".csv":
            text, title = _without_head(text)
        content = _parse(normalise_text(text).encode(), _MIME[suffix], limits).content
        text = _EMBEDDED.sub(r"\1", content) if suffix != ".csv" else content
    return Extracted(normalise_text(text), markup, parser, title, decoded.encoding, decoded.found_by)


def _without_head(html: str) -> tuple[str, str]:
    """Take off what kreuzberg would put before the text as front matter: title and metadata of the page."""
    html = _SCRIPT.sub("", html)
    found = _TITLE.search(html)
    title = _one_line(unescape(found.group(1))) if found else ""
    return _HEAD_TAGS.sub("", _TITLE.sub("", html)), title


def _one_line(text: str) -> str:
    return " ".join(normalise_text(text).split())[:500]


# --- the others --------------------------------------------------------------------------------------------------

_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
_ZIP = b"PK\x03\x04"
_PACKED = frozenset({".docx", ".pptx", ".xlsx", ".epub"})


def _refuse_other_formats(data: bytes, suffix: str, limits: ExtractionLimits) -> None:
    if suffix in _PACKED:
        if data.startswith(_OLE):
            if "EncryptedPackage".encode("utf-16-le") in data:
                raise ExtractionError(_ENCRYPTED)
            raise ExtractionError(f"it is an Office file of the old kind, not {suffix}: save it as {suffix}")
        if not data.startswith((_ZIP, b"PK\x05\x06")):
            raise ExtractionError(f"it is no {suffix} file, whatever its name says")
        try:
            check_package(data, limits.max_unpacked_bytes)
        except UnsafePackage as problem:
            raise ExtractionError(str(problem)) from None
    elif (
        (suffix in {".xls", ".msg"} and not data.startswith(_OLE))
        or (suffix == ".pdf" and b"%PDF-" not in data[:1024])
        or (suffix == ".rtf" and not data.lstrip().startswith(b"{\\rtf"))
        or (suffix == ".eml" and b"\x00" in data[:4096])
    ):
        raise ExtractionError(f"it is no {suffix} file, whatever its name says")


def _read_packed(data: bytes, suffix: str, parser: str, limits: ExtractionLimits) -> Extracted:
    reading = formats.BY_SUFFIX[suffix].read(data, limits)
    left_out = ", ".join(f"{kind}: {count}" for kind, count in sorted(reading.left_out.items()) if count)
    return Extracted(normalise_text(str(reading.text)), "markdown", parser, reading.title, left_out=left_out)


def _read_binary(data: bytes, suffix: str, parser: str, limits: ExtractionLimits) -> Extracted:
    mark, notes = "", ()
    try:
        if suffix == ".eml":
            data = recode_mail(data, lambda page: _without_head(page)[0])
        elif suffix == ".pptx":
            # A mark made of the file's own bytes cannot stand in its text.
            mark = f"\ue000{hashlib.sha256(data).hexdigest()[:24]}page"
            data, notes = repair_slides(data)
    except (UnsafePackage, UndecodableText) as problem:
        raise ExtractionError(str(problem)) from None
    result = _parse(data, _MIME[suffix], limits, mark=mark)
    text = normalise_text(result.content)
    pages, starts = 0, ()
    if suffix == ".pptx":
        text, starts = cut_at_marks(text, mark, [_as_markdown(lines) for lines in notes])
        pages = len(starts)
    elif suffix == ".pdf":
        pages = int((result.metadata.get("pages") or {}).get("total_count") or 0)
        starts = align_pages(text, (result.document or {}).get("nodes", ()), pages)
        text, starts, _ = restore_lost_lines(text, [str(page["content"]) for page in result.pages or ()], starts)
    elif suffix in {".eml", ".msg"}:
        text = _with_attachments(text, result)
    title = result.metadata.get("subject" if suffix in {".eml", ".msg"} else "title")
    return Extracted(text, "markdown", parser, _one_line(str(title or "")), pages=pages, page_starts=starts)


_MEANING = re.compile(r"[\\`*#<>\[\]!~|]|^[-+=]|^\d+(?=[.)])", re.MULTILINE)


def _as_markdown(lines: Sequence[str]) -> str:
    """Paragraphs of plain lines, in which no character means anything to Markdown."""
    escaped = (_MEANING.sub(lambda found: _escape(found.group()), normalise_text(line)) for line in lines)
    return "\n\n".join(escaped)


def _escape(mark: str) -> str:
    return f"{mark}\\" if mark.isdigit() else f"\\{mark}"


def _with_attachments(text: str, result: ExtractionResult) -> str:
    """Name the attachments of a mail at its end: they are part of what it says, and kreuzberg leaves them out."""
    names = [_one_line(str(name)) for name in result.metadata.get("attachments") or ()]
    names = [name for name in names if name]
    return f"{text.rstrip()}\n\n**Attachments**: {', '.join(names)}\n" if names else text


# The smallest sound PDF: one empty page.
_BLANK_PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)
_BLANK_PAGE = b"<p>sound</p>"
_NOT_ABLE = (
    "its parser does not work on this machine, it cannot read a sound file either: make room in the temporary folder, "
    "or install kreuzberg again"
)


def sound_sample(suffix: str) -> tuple[bytes, str]:
    """Return bytes that any machine can read which can read files with this suffix, and the suffix to read them as."""
    if suffix in _DECODED_ONLY:
        return b"sound\n", suffix
    return (_BLANK_PDF, ".pdf") if suffix == ".pdf" else (_BLANK_PAGE, ".html")


class _Process:
    """What is true of this process as a whole."""

    reads_documents_only = False


def dedicate_process() -> None:
    """Say that this process does nothing but read documents: then PDFs are read without the fonts of the machine.

    Where a PDF does not bring its fonts, pdfium takes those it finds on the machine, and their widths decide where it
    sees words and lines: the same bytes gave other text after fonts had been installed. A process that may open no
    files while it reads a PDF finds none, on any machine. That limit holds for a whole process, so it is not set in one
    that has other things to do; ``ExtractionPool`` sets it in its workers.
    """
    _Process.reads_documents_only = True


@contextlib.contextmanager
def _without_fonts() -> Iterator[None]:
    if not _Process.reads_documents_only:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@cache
def _prove_parser(mime: str) -> None:
    """Have the parser read a sound file of its kind, once it has managed to (errors are not kept).

    It unpacks a library into the temporary folder and loads it when it meets its first PDF. On a machine where that
    fails, every sound file would be called damaged, for as long as its bytes stay the same. From then on it looks for
    nothing but fonts.

    Raises:
        ExtractionError: it cannot.
    """
    try:
        import kreuzberg

        sample = _BLANK_PDF if mime == _MIME[".pdf"] else _BLANK_PAGE
        kreuzberg.extract_bytes_sync(sample, mime, kreuzberg.ExtractionConfig(use_cache=False))
    except Exception:
        raise ExtractionError(_NOT_ABLE, retry=True) from None


def _parse(data: bytes, mime: str, limits: ExtractionLimits, *, mark: str = "") -> ExtractionResult:
    _prove_parser(mime if mime == _MIME[".pdf"] else _MIME[".html"])
    import kreuzberg

    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=True,  # pyright: ignore[reportCallIssue]  # the stubs of 4.10 lack it
        output_format="markdown",
        enable_quality_processing=False,
        include_document_structure=mime == "application/pdf",
        pages=kreuzberg.PageConfig(
            extract_pages=bool(mark) or mime == "application/pdf",
            insert_page_markers=bool(mark),
            marker_format=f"\n\n{mark}{{page_num}}.\n\n",
        ),
        html_options={"preprocessing": {"enabled": True, "preset": "standard", "remove_forms": False}},
        concurrency=kreuzberg.ConcurrencyConfig(max_threads=1),
        extraction_timeout_secs=ceil(limits.time_limit_s),
    )
    try:
        with _without_fonts() if mime == _MIME[".pdf"] else contextlib.nullcontext():
            return kreuzberg.extract_bytes_sync(data, mime, config)
    except Exception as problem:
        # What it says may quote the document: it is looked at, never shown.
        words = f"{type(problem).__name__} {problem}".lower()
    if "password" in words or "encrypted" in words:
        raise ExtractionError(_ENCRYPTED)
    if "timeout" in words or "timed out" in words:
        raise TimeLimitError(f"its parser did not end within the time limit of {limits.time_limit_s:g} s", retry=True)
    raise ExtractionError("it is damaged, or not what its name says: its parser cannot read it")
