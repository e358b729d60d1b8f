"""Globs of paths, in ``metadata.csv`` and in the policy (SPEC 1.7, 1.8)."""

from __future__ import annotations

import re


def path_pattern(folded: str) -> re.Pattern[str]:
    """Return what finds a folded pattern in a folded path: anywhere, or as a glob the whole of a trailing part of it."""
    if not re.search(r"[*?\[]", folded):
        return re.compile(re.escape(folded))
    return re.compile(f"(?:^|/){glob_regex(folded)}$")


def glob_regex(glob: str) -> str:
    """Return the source of a regular expression for a path glob, without anchors.

    ``*`` and ``?`` match inside one segment, ``**`` across segments (``**/`` also no segment at all), ``[...]`` one
    character of a set (``[!...]`` none of it) that is not ``/``; an unclosed ``[`` is itself.
    """
    parts: list[str] = []
    position = 0
    while position < len(glob):
        char = glob[position]
        if glob.startswith("**", position):
            end = position
            while end < len(glob) and glob[end] == "*":
                end += 1
            at_start = position == 0 or glob[position - 1] == "/"
            if at_start and glob.startswith("/", end):
                parts.append("(?:.*/)?")
                position = end + 1
            else:
                parts.append(".*")
                position = end
            continue
        position += 1
        if char == "*":
            parts.append("[^/]*")
        elif char == "?":
            parts.append("[^/]")
        elif char == "[" and (close := _set_end(glob, position)) > 0:
            parts.append(_set_regex(glob[position:close]))
            position = close + 1
        else:
            parts.append(re.escape(char))
    return "(?s:" + "".join(parts) + ")"


def _set_regex(members: str) -> str:
    """Return the source of a regular expression for the inside of a set."""
    negated = members.startswith(("!", "^"))
    rest = members[1:] if negated else members
    ranges: list[str] = []
    while rest:
        first, last = rest[0], rest[2] if rest[1:2] == "-" and len(rest) > len("a-") else rest[0]
        # A range that runs backwards has no members.
        if first <= last:
            ranges.append(f"{re.escape(first)}-{re.escape(last)}")
        rest = rest[3:] if rest[1:2] == "-" and len(rest) > len("a-") else rest[1:]
    if not ranges:
        return "[^/]" if negated else "(?!)"
    return f"(?!/)[{'^' if negated else ''}{''.join(ranges)}]"


def _set_end(glob: str, position: int) -> int:
    """Return the offset of the ``]`` that closes the set opened before ``position``; -1 if there is none."""
    start = position + (glob[position : position + 1] in {"!", "^"})
    # A bracket right at the start of a set is a member of it.
    return glob.find("]", start + 1)
