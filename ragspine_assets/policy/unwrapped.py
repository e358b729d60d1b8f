"""A text as it is shown once its markup and escapes are read, with where each character stood (SPEC 5.7).

For finding names that markup cuts or that are spelt in escapes: inline tags, comments, targets of links and commands
of TeX leave nothing, other tags a space; entities, percent signs, backslash escapes and quoted-printable are decoded.
What is no markup stays as it is. Linear in the text.
"""

from __future__ import annotations

import re
from html import unescape

_INLINE = re.compile(
    r"</?(?:a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|nobr|q|rp|rt|ruby|s|samp|small"
    r"|span|strike|strong|sub|sup|time|tt|u|var|wbr)(?![A-Za-z])",
    re.IGNORECASE,
)
_COMMENT = "<!--"
# Each alternative begins with a character of its own, and none reaches further than a few hundred characters.
_WRAPPED = re.compile(
    r"<(?:!--[^<>]{0,200}-->|/?[A-Za-z][^<>]{0,300}>)"
    r"|&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?"
    r"|(?:%[0-9A-Fa-f]{2})+"
    r"|=(?:\r?\n|[0-9A-F]{2})"
    r"|\\(?:u\{[0-9A-Fa-f]{1,6}\}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x\{[0-9A-Fa-f]{1,6}\}|x[0-9A-Fa-f]{2}|[0-7]{3}"
    r"|[A-Za-z]{2,16}\{|[nrtvf](?![A-Za-z]{0,16}\{))"
    r"|\](?:\([^()\s]{0,300}\)|\[[^\[\]\n]{0,100}\])"
)
_MAY_BE_WRAPPED = re.compile(r"[<&%=\\\]]")
_ROUNDS = 2


def unwrapped(text: str) -> tuple[str, list[int]] | None:
    """Return a text without its markup and the offset of each of its characters, or None if it has no markup."""
    shown: tuple[str, list[int]] | None = None
    for _ in range(_ROUNDS):
        current = shown[0] if shown else text
        if not _MAY_BE_WRAPPED.search(current) or not _WRAPPED.search(current):
            break
        plain, places = _once(current)
        if plain == current:
            break
        shown = plain, ([shown[1][place] for place in places] if shown else places)
    return shown


def _once(text: str) -> tuple[str, list[int]]:
    pieces: list[str] = []
    places: list[int] = []
    done = 0
    for found in _WRAPPED.finditer(text):
        pieces.append(text[done : found.start()])
        places.extend(range(done, found.start()))
        for piece, place in _shown(found.group()):
            pieces.append(piece)
            places.extend([found.start() + place] * len(piece))
        done = found.end()
    pieces.append(text[done:])
    places.extend(range(done, len(text)))
    return "".join(pieces), places


def _shown(wrapped: str) -> list[tuple[str, int]]:
    """Return what a piece of markup shows, each part with its offset in the piece."""
    first = wrapped[0]
    if first == "<":
        return [] if wrapped.startswith(_COMMENT) or _INLINE.match(wrapped) else [(" ", 0)]
    if first == "&":
        shown = unescape(wrapped)
        return [(wrapped, 0)] if shown == wrapped else [(shown, 0)]
    if first == "%":
        # Bytes of one character stand together; what is no UTF-8 becomes a character that cannot be seen.
        text = bytes.fromhex(wrapped.replace("%", "")).decode("utf-8", "surrogateescape")
        shown_at: list[tuple[str, int]] = []
        place = 0
        for char in text:
            shown_at.append((char, place))
            place += 3 * len(char.encode("utf-8", "surrogateescape"))
        return shown_at
    if first == "]":
        return []
    digits = wrapped[1:].lstrip("uUx").strip("{}")
    if first == "=":
        return [] if wrapped[1] in "\r\n" else [(chr(int(wrapped[1:], 16)), 0)]
    if wrapped[1] in "nrtvf" and len(wrapped) == len("\\n"):
        return [(" ", 0)]
    if wrapped[-1] == "{":
        return []
    code = int(digits, 8 if wrapped[1].isdigit() else 16)
    return [(chr(code) if code <= 0x10FFFF else "", 0)]
