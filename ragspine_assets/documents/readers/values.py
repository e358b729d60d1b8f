"""Tables of values in plain text: comma, semicolon, tab and the like (SPEC 1.4, 1.12)."""

from __future__ import annotations

import csv
import io
from collections import Counter

from ragspine_assets.documents.decoding import UndecodableText, decode_text
from ragspine_assets.documents.markdown import table
from ragspine_assets.documents.normalise import normalise_text
from ragspine_assets.documents.reading import ExtractionError, ExtractionLimits, Reading

_DELIMITERS = ",;\t|"
_SAMPLE_LINES = 200


def read(data: bytes, mime: str, limits: ExtractionLimits) -> Reading:  # noqa: ARG001
    """Read a csv file."""
    try:
        decoded = decode_text(data)
    except UndecodableText as problem:
        raise ExtractionError(str(problem)) from None
    text = normalise_text(decoded.text)
    csv.field_size_limit(max(limits.max_characters, 131_072))
    first, _, rest = text.partition("\n")
    if first.lower().startswith("sep=") and len(first) == 5:
        # The line by which spreadsheets say what separates the values.
        delimiter, text = first[4], rest
    else:
        delimiter = _delimiter(text)
    rows = list(csv.reader(io.StringIO(text, newline="\n"), delimiter=delimiter))
    return Reading(table(rows) + "\n" if rows else "", encoding=decoded.encoding, encoding_found_by=decoded.found_by)


def _delimiter(text: str) -> str:
    """Return what separates the values: what parts the first lines into the same number of values, more than one.

    Python's sniffer is not used: it takes letters for delimiters and quadratic time on some texts.
    """
    lines = io.StringIO(text, newline="\n")
    sample = [line for _, line in zip(range(_SAMPLE_LINES), lines, strict=False)]
    best, best_score = ",", 0.0
    for delimiter in _DELIMITERS:
        widths = Counter(len(row) for row in csv.reader(sample, delimiter=delimiter) if row)
        width, count = max(widths.items(), key=lambda item: (item[0] > 1, item[1], item[0]), default=(1, 0))
        score = count / max(sum(widths.values()), 1) * (1 + min(width, 50) / 1000) if width > 1 else 0.0
        if score > best_score:
            best, best_score = delimiter, score
    return best
