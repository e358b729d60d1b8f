"""What a file says: its text, its pages and its own title (SPEC 1.4).

Plain text, reStructuredText, subtitles and Markdown are decoded and normalised, nothing else: see
``docs/decisions/0001-plain-text-is-not-parsed.md``. Every other format has a reader, see ``formats``. No word of a
document ever gets into an error: the reasons below are our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from .decoding import UndecodableText, decode_text
from .formats import BY_SUFFIX, Format
from .formats import parser_for as parser_for
from .normalise import normalise_text, paragraphs
from .office import UnsafePackage, check_package
from .reading import DAMAGED, ENCRYPTED, Extracted, ExtractionError, ExtractionLimits, Reading
from .reading import TimeLimitError as TimeLimitError


def extract_bytes(data: bytes, suffix: str, limits: ExtractionLimits | None = None) -> Extracted:
    """Read the bytes of a file as the format its suffix says (SPEC 1.4).

    The same bytes give the same text, on any machine.

    Args:
        data: all bytes of the file.
        suffix: lower-case suffix with its dot.
        limits: what the file may cost; its size, unpacked size and length of text are checked here.

    Raises:
        ExtractionError: with the reason.
    """
    limits = limits or ExtractionLimits()
    entry = BY_SUFFIX.get(suffix)
    if entry is None:
        raise ExtractionError(f"files with the suffix {suffix!r} are not read")
    if len(data) > limits.max_bytes:
        raise ExtractionError(f"it is larger than {limits.max_bytes} bytes")
    if not data:
        return Extracted("", entry.markup, parser_for(suffix))
    if entry.reader:
        _refuse_other_formats(data, suffix, entry, limits)
        reading = _read(entry, data, limits)
    else:
        reading = _decode(data)
    pages = () if isinstance(reading.text, str) else tuple(map(normalise_text, reading.text))
    text = normalise_text(reading.text) if isinstance(reading.text, str) else "\n".join(filter(None, pages))
    if len(text) > limits.max_characters:
        raise ExtractionError(f"its text is longer than {limits.max_characters} characters")
    return Extracted(
        text,
        entry.markup,
        parser_for(suffix),
        reading.title,
        reading.encoding,
        reading.encoding_found_by,
        len(pages),
        _page_starts(pages),
        _left_out(reading),
    )


def _decode(data: bytes) -> Reading:
    try:
        decoded = decode_text(data)
    except UndecodableText as problem:
        raise ExtractionError(str(problem)) from None
    return Reading(decoded.text, encoding=decoded.encoding, encoding_found_by=decoded.found_by)


def _read(entry: Format, data: bytes, limits: ExtractionLimits) -> Reading:
    try:
        return entry.read(data, limits)
    except (ExtractionError, MemoryError):
        raise
    except RecursionError:
        reason = "its parts are nested too deeply"
    except Exception:
        # What it says may quote the document.
        reason = DAMAGED
    _prove_reader(entry.reader)
    raise ExtractionError(reason)


def _page_starts(pages: Sequence[str]) -> tuple[int, ...]:
    starts: list[int] = []
    count = 1
    for page in pages:
        starts.append(count)
        count += len(paragraphs(page))
    return tuple(starts)


_NAMED_PAGES = 50


def _left_out(reading: Reading) -> str:
    said = [f"{kind}: {count}" for kind, count in sorted(reading.left_out.items()) if count]
    if reading.unreadable:
        named = ", ".join(map(str, reading.unreadable[:_NAMED_PAGES]))
        more = len(reading.unreadable) - _NAMED_PAGES
        said.append(f"unreadable pages: {named}" + (f" and {more} more" if more > 0 else ""))
    return "; ".join(said)


# --- what a file is not ------------------------------------------------------------------------------------------

_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
_ZIP = b"PK\x03\x04"


def _refuse_other_formats(data: bytes, suffix: str, entry: Format, limits: ExtractionLimits) -> None:
    if entry.packed:
        if data.startswith(_OLE):
            if "EncryptedPackage".encode("utf-16-le") in data:
                raise ExtractionError(ENCRYPTED)
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


# --- whether this machine can read at all ------------------------------------------------------------------------

# The smallest sound PDF: one empty page.
_BLANK_PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)
_SAMPLES = {"pdf": (_BLANK_PDF, ".pdf"), "legacy": (rb"{\rtf1 sound}", ".rtf"), "": (b"sound\n", ".txt")}
_NOT_ABLE = (
    "its parser does not work on this machine, it cannot read a sound file either: make room in the temporary folder, "
    "or install the libraries again"
)


def sound_sample(suffix: str) -> tuple[bytes, str]:
    """Return bytes that any machine can read which can read files with this suffix, and the suffix to read them as."""
    return _SAMPLES.get(BY_SUFFIX[suffix].reader, (b"<p>sound</p>", ".html"))


@cache
def _prove_reader(reader: str) -> None:
    """Have a reader that failed read a sound file, once it has managed to (errors are not kept).

    On a machine where a library cannot be loaded, every sound file would be called damaged, for as long as its bytes
    stay the same.

    Raises:
        ExtractionError: it cannot.
    """
    sample, suffix = _SAMPLES.get(reader, (b"<p>sound</p>", ".html"))
    try:
        BY_SUFFIX[suffix].read(sample, ExtractionLimits())
    except Exception:
        raise ExtractionError(_NOT_ABLE, retry=True) from None
