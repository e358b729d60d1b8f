"""Mails: headers, both parts of the body, names of attachments, labels in headers (SPEC 1.10, 1.11)."""

from __future__ import annotations

import re
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.message import Message
from urllib.parse import unquote

from ragspine_assets.documents.asides.gathering import Gathering
from ragspine_assets.documents.asides.web import gather_html
from ragspine_assets.documents.decoding import UndecodableText, decode_declared

# Written by machines on the way.
_TRAFFIC = re.compile(
    r"(?:received|dkim-.*|arc-.*|authentication-results|message-id|references|in-reply-to|return-path|mime-version|date|"
    r"content-(?:type|transfer-encoding|id|disposition)|x-(?:ms-exchange|microsoft-antispam|google|forefront|originating).*)",
    re.IGNORECASE,
)


def gather_mail(data: bytes, found: Gathering) -> None:
    """Gather from a mail, and from mails attached to it."""
    message = message_from_bytes(data, policy=policy.compat32)
    for number, part in enumerate(message.walk()):
        gather_headers([(name, _decoded(value)) for name, value in part.items()], found)
        if name := part.get_filename():
            found.add("attachment", "", _decoded(name))
            continue
        if part.get_content_maintype() == "text" and not part.is_multipart():
            body = _body(part)
            if part.get_content_subtype() == "html":
                gather_html(body, found, f"part {number}" if number else "")
            else:
                found.add_lines("part of the mail", f"part {number}" if number else "", body.split("\n"))


def gather_headers(headers: list[tuple[str, str]], found: Gathering) -> None:
    """Gather from the headers of a mail."""
    for name, value in headers:
        key = name.strip().casefold()
        if key == "msip_labels" or "msip_label" in value.casefold():
            pairs = [part.partition("=") for part in re.split(r"[;\n]", value)]
            found.carry_purview(f"header {'msip_labels' if key == 'msip_labels' else 'of the mail'}",
                                [(left, right) for left, _, right in pairs], value)  # fmt: skip
            if key == "msip_labels" and value.strip() and "msip_label" not in value.casefold():
                found.problem("the header msip_labels cannot be read")
        elif key == "sensitivity" or not _TRAFFIC.fullmatch(key):
            found.carry_named(f"header {key}" if key.isascii() and len(key) < 40 else "header", name, value)
        if not _TRAFFIC.fullmatch(key):
            found.add("subject" if key in {"subject", "thread-topic"} else "header of the mail", "", value)


def _decoded(value: object) -> str:
    text = str(value)
    if "=?" in text:
        try:
            text = str(make_header(decode_header(re.sub(r"\?=\s+=\?", "?==?", text))))
        except (ValueError, LookupError, UnicodeError):
            text = str(value)
    # A folded header is one line; bytes that have no place in a header are what they are in UTF-8.
    text = re.sub(r"\r?\n[ \t]+", " ", text)
    if any("\udc80" <= char <= "\udcff" for char in text):
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return unquote(text) if re.search(r"%[0-9A-Fa-f]{2}", text) else text


def _body(part: Message) -> str:
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes):
        return str(part.get_payload())
    try:
        return decode_declared(payload, part.get_content_charset() or "").text
    except UndecodableText:
        return payload.decode("latin-1")
