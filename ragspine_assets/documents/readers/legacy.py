"""Formats of the past (xls, msg, rtf), by kreuzberg, which reads them best (SPEC 1.4)."""

from __future__ import annotations

import re
from math import ceil

from ragspine_assets.documents.reading import (
    DAMAGED,
    ENCRYPTED,
    ExtractionError,
    ExtractionLimits,
    Reading,
    TimeLimitError,
    one_line,
)

_MAIL = "application/vnd.ms-outlook"
_EMBEDDED = re.compile(r"!\[([^\]\n]*)\]\(data:[^)]*\)")


def read(data: bytes, mime: str, limits: ExtractionLimits) -> Reading:
    """Read a file with kreuzberg."""
    import kreuzberg

    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=True,  # pyright: ignore[reportCallIssue]  # the stubs of 4.10 lack it
        output_format="markdown",
        enable_quality_processing=False,
        concurrency=kreuzberg.ConcurrencyConfig(max_threads=1),
        extraction_timeout_secs=ceil(limits.time_limit_s),
    )
    try:
        result = kreuzberg.extract_bytes_sync(data, mime, config)
    except Exception as problem:
        # What it says may quote the document: it is looked at, never shown.
        words = f"{type(problem).__name__} {problem}".lower()
    else:
        title = result.metadata.get("subject" if mime == _MAIL else "title")
        text = _EMBEDDED.sub(r"\1", result.content)
        if mime == _MAIL:
            # Attachments are part of what a mail says, and kreuzberg leaves their names out.
            names = filter(None, (one_line(str(name)) for name in result.metadata.get("attachments") or ()))
            listed = ", ".join(names)
            text = f"{text.rstrip()}\n\n**Attachments**: {listed}\n" if listed else text
        return Reading(text, one_line(str(title or "")))
    if "password" in words or "encrypted" in words:
        raise ExtractionError(ENCRYPTED)
    if "timeout" in words or "timed out" in words:
        raise TimeLimitError(f"its parser did not end within the time limit of {limits.time_limit_s:g} s", retry=True)
    raise ValueError(DAMAGED)
