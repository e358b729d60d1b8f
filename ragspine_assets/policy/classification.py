"""What label a document has when nobody gave it one (SPEC 1.8).

The order is fixed: a restricted pattern in the path, a restricted keyword in the text, then
``escalate_unknown_to_restricted``, then ``default_level``. Patterns and keywords can only raise.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import ahocorasick_rs

from ragspine_assets.policy.folding import fold_text
from ragspine_assets.policy.lattice import Sensitivity, is_known_label, read_label

_BLOCK = 1 << 20
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED_LETTER = re.compile(f"[{_UNSPACED}]")
# The space comes first so that the search runs from one space to the next.
_SPACE_INSIDE_UNSPACED = re.compile(f" (?=[{_UNSPACED}])(?<=[{_UNSPACED}] )")


class _Keywords:
    """All keywords of a policy in one automaton, so that the cost of a search does not grow with their number."""

    def __init__(self, keywords: Sequence[str]) -> None:
        folded = [_SPACE_INSIDE_UNSPACED.sub("", fold_text(keyword)) for keyword in keywords]
        self._automaton = ahocorasick_rs.AhoCorasick(folded)
        self._longest = max(map(len, folded))
        # Where words are not separated by spaces, a line break inside a word is no end of it.
        self._unspaced = any(_UNSPACED_LETTER.search(keyword) for keyword in folded)

    def first_in(self, text: str) -> int:
        """Return the number (from 1) of a keyword that a text contains, 0 if it contains none."""
        folded = fold_text(text)
        if self._unspaced:
            folded = _SPACE_INSIDE_UNSPACED.sub("", folded)
        # Block by block: the automaton lists every match, and a text may consist of them.
        for start in range(0, len(folded), _BLOCK):
            found = self._automaton.find_matches_as_indexes(folded[start : start + _BLOCK + self._longest])
            if found:
                return min(index for index, _, _ in found) + 1
        return 0


@dataclass(frozen=True)
class SensitivityPolicy:
    """How documents without a label are labelled (SPEC 1.8, 5.1). Immutable; lists are taken as tuples.

    Attributes:
        default_level: the label of a document about which nothing else says anything.
        escalate_unknown_to_restricted: such a document is RESTRICTED instead.
        restricted_filename_patterns: a document is RESTRICTED if its path contains one of these, folded as text is;
            a pattern with ``*``, ``?`` or ``[`` is a glob that must match the whole path or the whole of any trailing
            part of it (``*`` does not cross a ``/``, ``**`` does).
        restricted_keywords: a document is RESTRICTED if its folded text contains one of these, folded.

    Raises:
        ValueError: if ``default_level`` is no label of the lattice, or a pattern or keyword is blank after folding
            (it would match everything or nothing).
        TypeError: if a list is given as one string, or an entry is not a string.
    """

    default_level: str = "INTERNAL"
    escalate_unknown_to_restricted: bool = False
    restricted_filename_patterns: tuple[str, ...] | list[str] = ()
    restricted_keywords: tuple[str, ...] | list[str] = ()

    def __post_init__(self) -> None:
        """Check the values; see the class."""
        if not is_known_label(self.default_level):
            allowed = ", ".join(label.value for label in Sensitivity)
            message = f"default_level {self.default_level!r} is no sensitivity label; use one of {allowed}"
            raise ValueError(message)
        object.__setattr__(self, "default_level", read_label(self.default_level).value)
        if not isinstance(self.escalate_unknown_to_restricted, bool):
            message = "escalate_unknown_to_restricted must be true or false"
            raise TypeError(message)
        for name in ("restricted_filename_patterns", "restricted_keywords"):
            object.__setattr__(self, name, _strings(name, getattr(self, name)))

    def digest(self) -> str:
        """Return a hash of the policy, equal for equal policies on any machine; part of a document's fingerprint."""
        values = [
            self.default_level,
            self.escalate_unknown_to_restricted,
            list(self.restricted_filename_patterns),
            list(self.restricted_keywords),
        ]
        return hashlib.sha256(json.dumps(values, ensure_ascii=True).encode()).hexdigest()

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(_path_pattern(fold_text(pattern)) for pattern in self.restricted_filename_patterns)

    @cached_property
    def _keywords(self) -> _Keywords | None:
        return _Keywords(self.restricted_keywords) if self.restricted_keywords else None

    def pattern_in(self, path: str) -> str | None:
        """Return the first restricted pattern that a path matches, None if it matches none."""
        folded = fold_text(path)
        pairs = zip(self.restricted_filename_patterns, self._patterns, strict=True)
        return next((pattern for pattern, compiled in pairs if compiled.search(folded)), None)

    def keyword_in(self, text: str) -> int:
        """Return the number (from 1) of a restricted keyword that a text contains, 0 if it contains none."""
        return self._keywords.first_in(text) if self._keywords else 0

    def __getstate__(self) -> dict[str, object]:
        """Leave the compiled automata behind: they do not travel between processes and are made again at need."""
        fields = type(self).__dataclass_fields__
        return {name: value for name, value in self.__dict__.items() if name in fields}


@dataclass(frozen=True, slots=True)
class LabelVerdict:
    """A label and why it is so; the reason names a rule of the policy and never text of the document."""

    label: str
    reason: str


def _strings(name: str, values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        message = f"{name} must be a list of strings"
        raise TypeError(message)
    for number, value in enumerate(values, start=1):
        if not fold_text(value):
            message = f"{name}: entry {number} is blank"
            raise ValueError(message)
    return tuple(values)


def _path_pattern(folded: str) -> re.Pattern[str]:
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


def explain_sensitivity(filename: str, text: str, policy: SensitivityPolicy) -> LabelVerdict:
    """Return the label that the policy gives a document, and why (SPEC 1.8).

    Args:
        filename: the document's whole path relative to the source root, with ``/``.
        text: the document's text.
        policy: the rules.
    """
    pattern = policy.pattern_in(filename)
    if pattern is not None:
        return LabelVerdict(Sensitivity.RESTRICTED.value, f"file name pattern {pattern!r} of the policy")
    keyword = policy.keyword_in(text)
    if keyword:
        return LabelVerdict(Sensitivity.RESTRICTED.value, f"keyword {keyword} of the policy")
    if policy.escalate_unknown_to_restricted:
        return LabelVerdict(Sensitivity.RESTRICTED.value, "the policy restricts what has no label")
    return LabelVerdict(policy.default_level, "default level of the policy")


def classify_sensitivity(filename: str, text: str, policy: SensitivityPolicy) -> str:
    """Return the label that the policy gives a document (SPEC 1.8); see `explain_sensitivity` for the reason."""
    return explain_sensitivity(filename, text, policy).label
