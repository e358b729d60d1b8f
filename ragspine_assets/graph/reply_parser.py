"""Reading a model's answer: one complete JSON value, or nothing (SPEC 5.6).

Around the value may stand prose, a code fence, a byte order mark and reasoning tags. What is in it is not believed here:
this only says what the model proposed. Linear in the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_ANSWER_CHARS = 1_000_000
"""Longer answers are not read, in code points."""
MAX_PROPOSALS = 1_000
"""Proposals kept of one answer; the others are counted."""
MAX_KEPT_CHARS = 200
"""Longest name or kind kept of a proposal, in code points: enough to see that it is too long."""

EMPTY = "empty_answer"
NOT_JSON = "not_json"
SHAPE = "shape"

_THOUGHT = re.compile(
    r"<(think|thinking|thought|reasoning|reflection|analysis|scratchpad)(?:\s[^<>]*)?>", re.IGNORECASE
)
_NOTABLE = re.compile(r"[{\[<]")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Proposal:
    """One relation as a model gave it, names and kind cut to `MAX_KEPT_CHARS`."""

    source: str
    target: str
    kind: str
    negative: bool = False


@dataclass(frozen=True)
class Answer:
    """What an answer proposes.

    Attributes:
        proposals: in the order given; None for an item that is no relation.
        more: items beyond `MAX_PROPOSALS`.
        problem: why there is nothing: `empty_answer`, `not_json` or `shape`; empty for an answer that could be read.
    """

    proposals: tuple[Proposal | None, ...] = ()
    more: int = 0
    problem: str = ""

    def to_json(self) -> str:
        """Return the answer as text to keep; `from_json` reads it back."""
        items = [item and [item.source, item.target, item.kind, item.negative] for item in self.proposals]
        return json.dumps({"items": items, "more": self.more}, ensure_ascii=True)

    @classmethod
    def from_json(cls, kept: str, problem: str = "") -> Answer:
        """Return a kept answer."""
        value = json.loads(kept)
        return cls(tuple(item and Proposal(*item) for item in value["items"]), value["more"], problem)


def read_answer(text: str) -> Answer:
    """Return what a model's answer proposes.

    The answer is one JSON value: an object whose `relations` is a list, or a bare list. Two of them, a value that breaks
    off or any other fault mean that nothing is taken.
    """
    if not text.strip("\ufeff \t\r\n"):
        return Answer(problem=EMPTY)
    if len(text) > MAX_ANSWER_CHARS:
        return Answer(problem=NOT_JSON)
    try:
        values = list(_values(text))
    except (ValueError, RecursionError):
        return Answer(problem=NOT_JSON)
    objects = [value["relations"] for value in values if isinstance(value, dict) and "relations" in value]
    lists = [value for value in values if isinstance(value, list) and _is_relations(value)]
    chosen = objects or lists
    if len(chosen) != 1:
        return Answer(problem=SHAPE if values and not chosen else NOT_JSON)
    items = chosen[0]
    if not isinstance(items, list):
        return Answer(problem=SHAPE)
    return Answer(tuple(map(_proposal, items[:MAX_PROPOSALS])), max(len(items) - MAX_PROPOSALS, 0))


def _values(text: str) -> Iterator[object]:
    """Yield the JSON objects and lists that stand in a text outside of reasoning.

    Raises:
        ValueError: if something that begins like one of them is none.
        RecursionError: if one is nested too deeply to be read.
    """
    at = 0
    while found := _NOTABLE.search(text, at):
        at = found.start()
        if text[at] == "<":
            thought = _THOUGHT.match(text, at)
            if thought is None:
                at += 1
                continue
            closing = re.compile(f"</{thought[1]}>", re.IGNORECASE).search(text, thought.end())
            if closing is None:
                return
            at = closing.end()
        elif text[at + 1 : at + 2].isalpha() and not text.startswith(("true", "false", "null", "NaN"), at + 1):
            # A bracket in prose.
            at += 1
        else:
            value, at = _DECODER.raw_decode(text, at)
            yield value


def _is_relations(value: list[object]) -> bool:
    return not value or any(isinstance(item, dict) for item in value)


def _proposal(item: object) -> Proposal | None:
    if not isinstance(item, dict):
        return None
    parts = [item.get(name) for name in ("source", "target", "kind")]
    if not all(isinstance(part, str) for part in parts):
        return None
    source, target, kind = (str(part)[:MAX_KEPT_CHARS] for part in parts)
    polarity = str(item.get("polarity", "")).strip().casefold()[:MAX_KEPT_CHARS]
    negative = item.get("negated") is True or polarity in {"negative", "negated", "neg", "false", "no"}
    return Proposal(source, target, kind, negative)
