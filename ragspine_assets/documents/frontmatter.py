"""The front matter of a Markdown document: metadata, not text (SPEC 1.4, 1.7).

A block is read as YAML events, never as Python objects: every scalar stays the text its author wrote (``1.10`` is no
number, ``no`` no boolean), and a block that tries to be clever (anchors, deep nesting, two documents, a key twice) is
one that cannot be parsed. What cannot be parsed makes the document RESTRICTED, so a problem is never silent and never
quotes the document.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import yaml

from ragspine_assets.documents.normalise import BLANK, ZERO_WIDTH
from ragspine_assets.policy.folding import fold_text
from ragspine_assets.policy.lattice import Sensitivity, is_known_label

METADATA_KEYS: tuple[str, ...] = (
    "title",
    "topic",
    "entity",
    "geography",
    "period",
    "language",
    "sensitivity",
    "valid_as_of",
)
"""The metadata of a document, as named in front matter and in ``metadata.csv`` (SPEC 1.7)."""

MAX_BLOCK_CHARS = 64 << 10
"""The longest front matter that is read, code points."""

_MAX_DEPTH = 16
_OPENING = re.compile(r"---[ \t]*(?:\n|\Z)")
_KEY = re.compile(r"[\w\"'][^\n:]{0,60}:(?:[ \t\n]|\Z)")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
# libyaml reads some thirty times as fast; without it the pure parser gives the same events.
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

_HEAD_LINES = 40
_HEAD_CHARS = 8 << 10
_TAG = re.compile(r"<(?![!?]--)[^<>]*>")
_MARK = re.compile(r"-{3,}(?!>)|\+{3,}|;{3,}|\"{3}|'{3}|/\*|<!--")
_END = re.compile(r"(?:-{3,}|\+{3,}|;{3,}|\"{3}|'{3}|.*\*/|.*-->|\.{3})\Z")
_COMMENT = ("//", "%", "..", ";", ":")
# What may stand in front of the first words of a text without being one of them: blank, a comment, a name and its value.
_PREAMBLE = re.compile(r"[#%<>/;:.*+{}\[\]\"'`~=|!-]|[\w][\w .-]{0,40}[\"']?\s*[:=]|\s")
_STATED = re.compile(r"(?:^|[{,\s])[\s:.#/%*;>+{<!\"'\[_-]*sensitivity[\"'*_`]*\s*[:=]+(.*)", re.IGNORECASE)
_AROUND = " \t\"'`*_,;{}[]<>-+!/"


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """A document's front matter, taken off its text.

    Attributes:
        block: the lines between the two marks; '' if there is no front matter.
        values: metadata name to text, only names of `METADATA_KEYS` that stand in the block. A list is joined by
            ``, ``, a null is ''. ``sensitivity`` is as written; reading it is the lattice's business.
        body: the rest of the text, unchanged.
        line_offset: number of lines taken off in front of the body.
        problem: why the block cannot be parsed, '' if it can. Such a document is RESTRICTED.
    """

    block: str = ""
    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    body: str = ""
    line_offset: int = 0
    problem: str = ""


class _FaultyBlockError(Exception):
    """A block that cannot be parsed; the message is the problem."""


def split_front_matter(text: str) -> FrontMatter:
    """Take the front matter off a Markdown text that has been normalised (SPEC 1.5, 1.7).

    Front matter is a block between a first line ``---`` and a line ``---`` or ``...``. Keys are read without regard
    to case, width, hyphens and spaces; unknown ones are ignored. After blank lines, or followed by one, the same
    mark may as well be a thematic break: there the block counts if it gives a value to a known name, or names
    ``sensitivity``, and is text otherwise. A block without an end is text too, unless it names ``sensitivity``: then
    it is a problem, since a label that somebody wrote must not be lost.
    """
    mark = len(text) - len(text.lstrip(BLANK))
    start = text.rfind("\n", 0, mark) + 1
    # Characters without width in front of the mark do not show, so they hide nothing either.
    opening = _OPENING.match(text, start if text[start:mark].strip(ZERO_WIDTH) else mark)
    if not opening:
        return FrontMatter(body=text)
    inside = opening.end()
    closing = _CLOSING.search(text, inside)
    names_label = _names_sensitivity(text[inside : closing.start() if closing else len(text)])
    if closing is None:
        return FrontMatter(body=text, problem="the front matter has no end" if names_label else "")
    block = text[inside : closing.start()]
    if len(block) > MAX_BLOCK_CHARS:
        # Two rules far apart in a long text are no front matter; what begins like a key, or names a label, is.
        is_meant = names_label or _KEY.match(block)
        return FrontMatter(body=text, problem="the front matter is too long" if is_meant else "")
    end = min(len(text), closing.end() + 1)
    lines = text.count("\n", 0, end)
    ambiguous = start > 0 or (block != "" and not block.split("\n", 1)[0].strip(BLANK))
    try:
        values = _values(block)
    except _FaultyBlockError as faulty:
        if ambiguous and not names_label:
            return FrontMatter(body=text)
        return FrontMatter(block=block, body=text[end:], line_offset=lines, problem=str(faulty))
    if ambiguous and not values:
        return FrontMatter(body=text)
    return FrontMatter(block=block, values=MappingProxyType(values), body=text[end:], line_offset=lines)


def stored_front_matter(block: str, problem: str) -> FrontMatter:
    """Return the front matter again from what was kept of it: its block, and why it cannot be parsed."""
    if problem or not block:
        return FrontMatter(problem=problem)
    return split_front_matter(f"---\n{block}---\n")


def label_in_head(text: str) -> str | None:
    """Return the label that stands at the start of a text in a form that is no front matter; None if none does (SPEC 1.7).

    People write front matter with ``+++``, as JSON, in a comment, behind one, as a field list, and in formats that have
    none: a label that somebody wrote must not be lost. Looked at are the lines before the first words. Between marks, and in
    a comment, any value counts; in a plain line ``sensitivity: ...`` only a label or what was meant to be one, since
    instruments have a sensitivity too.

    Args:
        text: the text as it is in the file, or as it was read from it.
    """
    is_marked = False
    for raw in text[:_HEAD_CHARS].split("\n")[:_HEAD_LINES]:
        line = fold_text(_TAG.sub(" ", raw)).strip(BLANK)
        opens = not is_marked and _MARK.match(line) is not None
        if stated := _STATED.search(line):
            value = stated[1].split("-->")[0]
            value = re.split(r"[,}]", value)[0] if line.startswith("{") else value
            value = re.sub(r"\s+(?:#|-{3}|\+{3}).*", "", value).strip(_AROUND + BLANK)
            if opens or is_marked or line.startswith(_COMMENT) or is_known_label(value) or _is_meant_as_label(value):
                return value
        if opens or is_marked:
            is_marked = not (is_marked and _END.match(line)) and not (opens and line.endswith(("-->", "*/")))
        elif line and not raw.lstrip(BLANK).startswith("<") and not _PREAMBLE.match(line):
            return None
    return None


def label_block(label: str) -> str:
    """Return the front matter that gives a document this label and nothing else."""
    return f"sensitivity: {json.dumps(label, ensure_ascii=True)}\n"


def _is_meant_as_label(value: str) -> bool:
    return bool(difflib.get_close_matches(value.casefold(), [label.lower() for label in Sensitivity], 1, 0.75))


def _names_sensitivity(block: str) -> bool:
    return any(":" in line and _key(line.split(":", 1)[0]) == "sensitivity" for line in _folded_lines(block))


def _folded_lines(block: str) -> Iterator[str]:
    """Yield the lines of a block folded, so that a full-width colon is a colon."""
    return (fold_text(line) for line in block.split("\n"))


def _key(raw: str) -> str:
    return re.sub(r"[ _-]+", "_", fold_text(raw).strip("\"'? ")).strip("_")


def _values(block: str) -> dict[str, str]:
    """Return the metadata of a block; see `FrontMatter.values`."""
    try:
        return _mapping(_events(block))
    except (yaml.YAMLError, ValueError, RecursionError, UnicodeError):
        # A YAML error quotes the line it stumbled over.
        message = "the front matter is no valid YAML"
        raise _FaultyBlockError(message) from None


def _events(block: str) -> Iterator[yaml.Event]:
    depth = 0
    documents = 0
    for event in yaml.parse(block, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            message = "the front matter uses anchors or aliases"
            raise _FaultyBlockError(message)
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if documents > 1 or depth > _MAX_DEPTH:
            message = "the front matter is nested too deeply or holds several documents"
            raise _FaultyBlockError(message)
        if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            yield event


def _mapping(events: Iterator[yaml.Event]) -> dict[str, str]:
    first = next(events, None)
    if first is None or (isinstance(first, yaml.ScalarEvent) and not first.value and not first.style):
        return {}
    if not isinstance(first, yaml.MappingStartEvent):
        message = "the front matter is no mapping of names to values"
        raise _FaultyBlockError(message)
    values: dict[str, str] = {}
    seen: set[str] = set()
    for key in events:
        if isinstance(key, yaml.MappingEndEvent):
            break
        name = _key(key.value) if isinstance(key, yaml.ScalarEvent) else ""
        if not isinstance(key, yaml.ScalarEvent):
            _value(key, events)
        # Unknown keys are compared as written: `tag` and `Tag` may be two.
        identity = name if name in METADATA_KEYS or not isinstance(key, yaml.ScalarEvent) else f"={key.value}"
        if identity in seen:
            message = "the front matter has a key twice"
            raise _FaultyBlockError(message)
        if identity:
            seen.add(identity)
        value = _value(next(events), events)
        if name in METADATA_KEYS:
            if value is None:
                message = f"the front matter's {name} is neither a text nor a list of texts"
                raise _FaultyBlockError(message)
            values[name] = value
    for _ in events:  # what follows the mapping is parsed too, so that its faults are found
        pass
    return values


def _value(event: yaml.Event, events: Iterator[yaml.Event]) -> str | None:
    """Return the text of a value, None if it is neither a scalar nor a list of scalars; reads to its end."""
    if isinstance(event, yaml.ScalarEvent):
        return "" if not event.style and event.value in _NULLS else event.value.strip(BLANK)
    flat = isinstance(event, yaml.SequenceStartEvent)
    parts: list[str] = []
    depth = 1
    while depth:
        inner = next(events)
        if isinstance(inner, yaml.CollectionStartEvent):
            depth += 1
            flat = False
        elif isinstance(inner, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(inner, yaml.ScalarEvent):
            parts.append(_value(inner, events) or "")
    return ", ".join(part for part in parts if part) if flat else None
