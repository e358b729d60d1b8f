"""Mails: who wrote what to whom, the body once, forwarded mails with their heads (SPEC 1.4, 1.12)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import cast

from ragspine_assets.documents.decoding import UndecodableText, decode_declared, decode_text
from ragspine_assets.documents.markdown import escape, join_blocks, paragraph
from ragspine_assets.documents.normalise import normalise_text
from ragspine_assets.documents.reading import DAMAGED, ExtractionError, ExtractionLimits, Reading, one_line

from .web import page_blocks, without_head

_HEAD = ("Subject", "From", "To", "Cc", "Date")
_MAX_DEPTH = 50
# A body that only says where the other one is.
_STUB_CHARACTERS = 300
_WORD = re.compile(r"\w+")


def read(data: bytes, mime: str, limits: ExtractionLimits) -> Reading:  # noqa: ARG001
    """Read an eml file."""
    try:
        message = cast("EmailMessage", message_from_bytes(_with_readable_head(data), policy=policy.default))
    except UndecodableText as problem:
        raise ExtractionError(str(problem)) from None
    except Exception:
        # The library raises many kinds of errors over headers that are no headers.
        raise ExtractionError(DAMAGED) from None
    left_out: Counter[str] = Counter()
    try:
        blocks = list(_mail(message, left_out, 0))
    except UndecodableText as problem:
        raise ExtractionError(str(problem)) from None
    return Reading(join_blocks(blocks), one_line(_header(message, "Subject")), left_out)


def _with_readable_head(data: bytes) -> bytes:
    """The mail with bytes that must not stand in a header, and do, in UTF-8."""
    found = re.search(rb"\r?\n\r?\n", data)
    end = found.start() if found else len(data)
    head = data[:end]
    return data if head.isascii() else decode_text(head).text.encode("utf-8", "replace") + data[end:]


def _header(message: EmailMessage, name: str) -> str:
    try:
        values = message.get_all(name) or []
        text = " ".join(str(value) for value in values)
    except Exception:
        # A header that cannot be parsed is shown as it stands.
        text = " ".join(value for key, value in message._headers if key.lower() == name.lower())  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue]
    # Bytes that are no ASCII come as lone surrogates.
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return " ".join(normalise_text(text).split())


def _mail(message: EmailMessage, left_out: Counter[str], depth: int) -> Iterator[str]:
    for name in _HEAD:
        text = _header(message, name)
        if text:
            yield f"**{name}**: {escape(text, first=False)}"
    names: list[str] = []
    yield from _part(message, left_out, names, depth)
    if names:
        yield f"**Attachments**: {', '.join(escape(name, first=False) for name in names)}"


def _part(part: EmailMessage, left_out: Counter[str], names: list[str], depth: int) -> Iterator[str]:
    kind, main = part.get_content_type(), part.get_content_maintype()
    if depth > _MAX_DEPTH:
        left_out["parts nested too deeply"] += 1
        return
    if kind == "message/rfc822":
        inner = part.get_payload()
        name = _name(part)
        if name:
            names.append(name)
        for message in inner if isinstance(inner, list) else ():
            yield from _mail(cast("EmailMessage", message), left_out, depth + 1)
        return
    if part.is_multipart():
        parts = [cast("EmailMessage", inner) for inner in part.iter_parts()] if main == "multipart" else []
        if kind == "multipart/alternative":
            yield from _alternative(parts, left_out, names, depth + 1)
            return
        for inner in parts:
            yield from _part(inner, left_out, names, depth + 1)
        return
    name = _name(part)
    if name or part.is_attachment():
        names.append(name or kind)
        return
    if kind == "text/html" or main == "text":
        if kind == "text/calendar":
            left_out["calendar entries"] += 1
        elif kind in {"text/html", "application/xhtml+xml"}:
            yield from page_blocks(without_head(_text(part))[0], left_out)
        else:
            yield from _plain(_text(part), flowed=str(part.get_param("format", "")).lower() == "flowed")
    elif main == "image":
        left_out["pictures"] += 1
    elif main != "multipart":
        left_out["unnamed parts"] += 1


def _alternative(parts: list[EmailMessage], left_out: Counter[str], names: list[str], depth: int) -> Iterator[str]:
    """The best of several forms of one body: plain text, unless it says less than the page beside it."""
    forms: list[tuple[bool, list[str], Counter[str], list[str]]] = []
    for part in parts:
        counts: Counter[str] = Counter()
        its_names: list[str] = []
        blocks = [block for block in _part(part, counts, its_names, depth) if block.strip()]
        forms.append((part.get_content_type() == "text/plain", blocks, counts, its_names))
    plain = next((form for form in forms if form[0]), None)
    rich = max((form for form in forms if not form[0]), key=lambda form: sum(map(len, form[1])), default=None)
    chosen = plain or rich
    if plain and rich and _is_stub("\n".join(plain[1]), "\n".join(rich[1])):
        chosen = rich
    if chosen is not None:
        yield from chosen[1]
        left_out.update(chosen[2])
    for form in forms:
        names += form[3]
        if form is not chosen:
            left_out["calendar entries"] += form[2]["calendar entries"]


def _is_stub(plain: str, rich: str) -> bool:
    """Tell whether a plain text is empty, or short and without most of the words of the page."""
    if not plain.strip():
        return True
    words = set(_WORD.findall(rich.casefold()))
    missing = words - set(_WORD.findall(plain.casefold()))
    return bool(words) and len(plain) < _STUB_CHARACTERS and 2 * len(missing) > len(words)


def _name(part: EmailMessage) -> str:
    try:
        return one_line(normalise_text(part.get_filename() or ""))
    except Exception:
        return ""


def _text(part: EmailMessage) -> str:
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes):
        return ""
    try:
        charset = part.get_content_charset() or ""
    except Exception:
        charset = ""
    return normalise_text(decode_declared(payload, charset).text)


def _plain(text: str, *, flowed: bool) -> Iterator[str]:
    """Paragraphs of a plain body; lines that a mailer has folded are joined where it says so."""
    if flowed:
        text = re.sub(r"(?m)^(?!-- $)(.*) \n(?![> \n]|\Z)", r"\1 ", text)
    for block in re.split(r"\n[ \t]*\n", text):
        yield paragraph(block)
