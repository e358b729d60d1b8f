"""Formats of old programs: compound files (msg, xls) and RTF (SPEC 1.10, 1.11)."""

from __future__ import annotations

import re

from ragspine_assets.documents.asides.gathering import Gathering
from ragspine_assets.documents.asides.mail import gather_headers

_WIDE = re.compile(rb"(?:[\t\n\r\x20-\xff][\x00-\x06]|[\x00-\xff][\x04-\x06\x30-\x9f\xac-\xd7]){5,}")
_NARROW = re.compile(rb"[\t\n\r\x20-\x7e\xa0-\xff]{5,}")
_HEADERS = re.compile(
    r"^(msip_labels|sensitivity|x-[\w-]+|subject):[ \t]*((?:.*\n(?:[ \t].*\n)*)?.*)", re.IGNORECASE | re.MULTILINE
)
_RTF = re.compile(
    r"\\'([0-9a-fA-F]{2})|\\u(-?\d{1,5}) ?\??|\\(?:par|line|cell|row|tab|sect|page)\b ?|\\[a-zA-Z]{1,32}-?\d{0,10} ?|\\([^a-zA-Z])|[{}\r\n]+"
)
_RTF_PROPERTY = re.compile(
    r"\\propname\s?([^{}\\]{1,300})\}[^{}]{0,200}(?:\{[^{}]{0,20})?\\staticval\s?([^{}\\]{0,2000})"
)
_BREAKS = ("\\par", "\\line", "\\cell", "\\row", "\\tab", "\\sect", "\\page")


def gather_compound(data: bytes, found: Gathering) -> None:
    """Gather from a compound file whatever reads as a text in it, wherever it lies."""
    for start in (0, 1):
        for run in _WIDE.finditer(data, start):
            _gather_run(run.group().decode("utf-16-le", "replace"), found)
    for run in _NARROW.finditer(data):
        _gather_run(run.group().decode("cp1252", "replace"), found)


def _gather_run(text: str, found: Gathering) -> None:
    found.add_lines("stored text", "", text.splitlines())
    lowered = text.casefold()
    if "msip_label" in lowered:
        pairs = [part.partition("=") for part in re.split(r"[;\n]", text)]
        found.carry_purview("stored text", [(left.rsplit(" ", 1)[-1], right) for left, _, right in pairs], text)
    if ":" in text:
        gather_headers(
            [(name, value) for name, value in _HEADERS.findall(text) if name.lower() != "msip_labels"], found
        )


def gather_rich_text(data: bytes, found: Gathering) -> None:
    """Gather from RTF: the texts of all its groups, shown or not, and its properties."""
    source = data.decode("latin-1")
    pairs = [(name.strip(), value.strip()) for name, value in _RTF_PROPERTY.findall(source)]
    for name, value in pairs:
        found.carry_named("property", name, value)
    found.carry_purview("properties", pairs, source)
    found.add_lines("stored text", "", _RTF.sub(_read, source).split("\n"))


def _read(token: re.Match[str]) -> str:
    code, unit, other = token.groups()
    if code:
        return bytes.fromhex(code).decode("cp1252", "replace")
    if unit:
        return chr(int(unit) % 65536)
    if other:
        return {"~": " ", "-": "", "_": "-"}.get(other, other if other in "\\{}" else "")
    return "\n" if token.group().startswith(_BREAKS) or token.group()[0] in "{}" else ""
