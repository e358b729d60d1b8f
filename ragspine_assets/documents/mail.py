"""Mails whose texts are UTF-8, so that the parser reads them whatever they were written in (SPEC 1.4).

kreuzberg 4.10 reads bodies and headers in Chinese, Japanese and Korean encodings as U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import cast

from .decoding import UndecodableText, decode_declared, decode_text

_UTF8 = policy.SMTPUTF8.clone(refold_source="all")


def recode_mail(data: bytes, clean_html: Callable[[str], str]) -> bytes:
    """Return a mail with its headers and the texts of its body in UTF-8; attachments are left alone.

    A mail that is too odd for Python's own parser is returned as it is.

    Args:
        data: the mail.
        clean_html: what is done to each body that is HTML.

    Raises:
        UndecodableText: a text of the body is in no encoding that can be told.
    """
    try:
        message = cast("EmailMessage", message_from_bytes(_with_readable_head(data), policy=policy.default))
        for part in message.walk():
            _recode(cast("EmailMessage", part), clean_html)
        return message.as_bytes(policy=_UTF8)
    except UndecodableText:
        raise
    except Exception:
        # The library raises many kinds of errors over headers that are no headers.
        return data


def _with_readable_head(data: bytes) -> bytes:
    """The mail with bytes that must not stand in a header, and do, in UTF-8."""
    found = re.search(rb"\r?\n\r?\n", data)
    end = found.start() if found else len(data)
    head = data[:end]
    return data if head.isascii() else decode_text(head).text.encode("utf-8", "replace") + data[end:]


def _recode(part: EmailMessage, clean_html: Callable[[str], str]) -> None:
    if part.get_content_maintype() != "text" or part.is_multipart() or part.is_attachment():
        return
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes):
        return
    text = decode_declared(payload, part.get_content_charset() or "").text
    kind = part.get_content_subtype()
    part.set_content(clean_html(text) if kind == "html" else text, subtype=kind, charset="utf-8", cte="base64")
