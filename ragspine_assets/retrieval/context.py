"""What a model is shown: snippets, made shorter and put together with their citations (SPEC 4.8)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol, runtime_checkable

from ragspine_assets.chunking.chunk import DocumentMeta
from ragspine_assets.chunking.sentence_window import SentenceWindowChunker
from ragspine_assets.documents.normalise import canonical_text
from ragspine_assets.index.bm25 import bm25_scores
from ragspine_assets.index.tokens import tokenize
from ragspine_assets.policy.lattice import is_restricted

Snippet = dict[str, object]
"""A hit as it leaves the house; its keys are those of SPEC 4.6."""

NOT_FOUND = "not found"
"""The context when there is no snippet. It is the answer, too: no model is to be asked."""

_GAP = " … "
_FEWEST_SHARE = 0.25
_BACKTICKS = re.compile("`+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


@runtime_checkable
class NodePostprocessor(Protocol):
    """Works on snippets after the exit: reorders, drops or shortens what is left."""

    def postprocess(self, query: str, snippets: list[Snippet]) -> list[Snippet]:
        """Return the snippets to go on with; those given are not changed."""
        ...


def snippet_text(snippet: Mapping[str, object]) -> str:
    """Return what a model is to read of a snippet: ``prompt_text`` if there is one, else ``text`` (SPEC 4.8)."""
    return str(snippet.get("prompt_text") or snippet.get("text") or "")


def _sentences(text: str) -> list[str]:
    """Return the sentences of a canonical text (SPEC 2.7), each with the space behind it; joined they are the text."""
    chunker = SentenceWindowChunker(window_size=0)
    found = chunker.chunk(text, DocumentMeta(""), max_chars=len(text) + 1, overlap_chars=0)
    starts = [sentence.char_start for sentence in found]
    return [text[start:end] for start, end in pairwise([*starts, len(text)])]


@dataclass(frozen=True, slots=True)
class SentenceCompressor:
    """A `NodePostprocessor` that keeps the sentences that have to do with the query (SPEC 4.8).

    Sentences are compared by BM25 among themselves. What is left goes into ``prompt_text``, from the window where there
    is one; no other key changes. Of the text that is cited, the best sentence always stays. A snippet in which nothing
    has to do with the query, or everything, stays as it is.

    Attributes:
        keep: how much of the score of the snippet's best sentence another must have to stay, from 0 to 1.
    """

    keep: float = 0.4

    def postprocess(self, query: str, snippets: list[Snippet]) -> list[Snippet]:
        """Return the snippets, shortened."""
        per_snippet = [_sentences(canonical_text(snippet_text(snippet)).text) for snippet in snippets]
        scores = iter(
            bm25_scores(tokenize(query), [tokenize(sentence) for sentences in per_snippet for sentence in sentences])
        )
        return [
            self._compress(snippet, sentences, [next(scores) for _ in sentences])
            for snippet, sentences in zip(snippets, per_snippet, strict=True)
        ]

    def _compress(self, snippet: Snippet, sentences: Sequence[str], scores: Sequence[float]) -> Snippet:
        best = max(scores, default=0.0)
        kept = [score > 0 and score >= self.keep * best for score in scores]
        if not any(kept):
            return dict(snippet)
        # The snippet cites its text as the evidence, so something of that text has to be seen.
        evidence = _positions_of(canonical_text(str(snippet.get("text") or "")).text, sentences)
        if evidence and not any(kept[position] for position in evidence):
            kept[max(evidence, key=scores.__getitem__)] = True
        if all(kept):
            return dict(snippet)
        parts: list[str] = []
        for position, sentence in enumerate(sentences):
            if not kept[position]:
                continue
            if parts and not kept[position - 1]:
                parts[-1] = parts[-1].rstrip()
                parts.append(_GAP)
            parts.append(sentence)
        return {**snippet, "prompt_text": "".join(parts).strip()}


def _positions_of(text: str, sentences: Sequence[str]) -> list[int]:
    """Return which sentences, joined, hold a text or a part of it; none if it is not in them."""
    start = "".join(sentences).find(text)
    bounds = list(accumulate(map(len, sentences), initial=0))
    if start < 0:
        return []
    return [at for at, (begin, end) in enumerate(pairwise(bounds)) if begin < start + len(text) and end > start]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A numbered hit, with its evidence and, unless it was shown before, its window."""

    locator: str
    title: str
    parent: str
    path: str
    text: str
    window: str
    same_as: int = 0
    """The number of the hit before that has the same text; 0 if none has."""

    def shown(self, room: int | None) -> str:
        """Return the window, or as much of it around the evidence as ``room`` code points hold; at least the text."""
        if not self.window or (room is not None and room <= len(self.text)):
            return self.text
        if room is None or len(self.window) <= room:
            return self.window
        return _around(self.window, self.text, room)

    def head(self, number: int, shown: str) -> str:
        context = f"; context: {self.parent}" if self.parent and shown != self.text else ""
        title = f" ({self.title})" if self.title else ""
        path = f"; under: {self.path}" if self.path else ""
        return f"[{number}] source: {self.locator}{title}{path}{context}"


def build_context(snippets: Iterable[Mapping[str, object]], *, budget_chars: int | None = None) -> str:
    """Put snippets together for a prompt, numbered from 1, each with its citation (SPEC 4.8).

    A hit is a line that cites its own locator as the evidence and, where a window is shown, names the parent span as
    context; then the text, fenced. The fence is longer than any in the texts, so that no text can pass for another hit.
    A window that several hits share is shown with the first, the others show their own text. A text that several hits
    have is shown once: the others cite where it stands too.

    Args:
        snippets: from a retriever, best first.
        budget_chars: how long the context may be, in code points. Windows shrink to the evidence first, those of the
            best hits last; then hits are dropped, the worst first, and the last that is shown may end at an earlier sentence;
            the best hit's text is cut if it alone is too long.

    Returns:
        The context, or `NOT_FOUND` if there is no snippet.

    Raises:
        ValueError: ``budget_chars`` does not even hold the citation of the best hit.
    """
    return "\n\n".join(context_blocks(snippets, budget_chars=budget_chars)) or NOT_FOUND


def context_blocks(snippets: Iterable[Mapping[str, object]], *, budget_chars: int | None = None) -> list[str]:
    """Return the hits as `build_context` shows them, one by one; those that the budget does not hold are left out.

    Raises:
        ValueError: ``budget_chars`` does not even hold the citation of the best hit.
    """
    entries = _entries(snippets)
    if not entries:
        return []
    texts = (text for entry in entries for text in (entry.text, entry.window))
    longest = max((len(run) for text in texts for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    if budget_chars is None:
        return [_render(number, entry, entry.shown(None), fence) for number, entry in enumerate(entries, 1)]
    return _fit(entries, fence, budget_chars)


def _entries(snippets: Iterable[Mapping[str, object]]) -> list[_Entry]:
    entries: list[_Entry] = []
    shown: set[tuple[str, str]] = set()
    numbers: dict[str, int] = {}
    for snippet in snippets:
        # A snippet carries its label; whoever made it, RESTRICTED text goes into no prompt.
        if "sensitivity" in snippet and is_restricted(snippet["sensitivity"]):
            continue
        text = str(snippet.get("text") or "")
        window = str(snippet.get("prompt_text") or "")
        parent = (str(snippet.get("doc_id") or ""), window)
        if window and parent in shown:
            window = ""
        shown.add(parent)
        first = numbers.setdefault(" ".join(text.split()), len(entries) + 1)
        same_as = first if first <= len(entries) and not window and text.strip() else 0
        entries.append(
            _Entry(
                _one_line(snippet.get("source_locator")),
                _one_line(snippet.get("title")),
                _one_line(snippet.get("parent_locator")),
                _one_line(snippet.get("heading_path")),
                text,
                window,
                same_as,
            )
        )
    return entries


def _one_line(value: object) -> str:
    """Keep a name from starting a line of its own: names come from files, too."""
    return _CONTROL.sub("\ufffd", str(value or ""))


def _render(number: int, entry: _Entry, shown: str, fence: str) -> str:
    if entry.same_as:
        return f"{entry.head(number, entry.text)}; same text as [{entry.same_as}]"
    return f"{entry.head(number, shown)}\n{fence}\n{shown}\n{fence}"


def _fit(entries: Sequence[_Entry], fence: str, budget: int) -> list[str]:
    blocks = [_render(number, entry, entry.text, fence) for number, entry in enumerate(entries, 1)]
    used = sum(map(len, blocks)) + 2 * (len(blocks) - 1)
    while used > budget and len(blocks) > 1:
        used -= len(blocks.pop()) + 2
    if used > budget:
        return [_cut(entries[0], fence, budget)]
    if len(blocks) < len(entries) and (
        beginning := _beginning(entries[len(blocks)], budget - used - 2, fence, len(blocks))
    ):
        blocks.append(beginning)
        used += 2 + len(beginning)
    for position, entry in enumerate(entries[: len(blocks)]):
        frame = len(_render(position + 1, entry, entry.window, fence)) - len(entry.window)
        room = budget - used + len(blocks[position]) - frame
        if entry.window and room > len(entry.text):
            used -= len(blocks[position])
            blocks[position] = _render(position + 1, entry, entry.shown(room), fence)
            used += len(blocks[position])
    return blocks


def _beginning(entry: _Entry, room: int, fence: str, place: int) -> str:
    """Return the first hit that does not fit whole with as many whole sentences as fit; ``''`` if those are few."""
    frame = len(_render(place + 1, entry, "", fence))
    if room - frame < _FEWEST_SHARE * len(entry.text) or canonical_text(entry.text).text != entry.text:
        return ""
    ends = list(accumulate(map(len, _sentences(entry.text))))
    kept = entry.text[: max((end for end in ends if end <= room - frame), default=0)].rstrip()
    return _render(place + 1, entry, kept, fence) if len(kept) >= _FEWEST_SHARE * len(entry.text) else ""


def _cut(entry: _Entry, fence: str, budget: int) -> str:
    frame = len(_render(1, entry, "", fence))
    if budget <= frame:
        message = f"budget_chars={budget} holds no citation; allow at least {frame + 1}"
        raise ValueError(message)
    return _render(1, entry, entry.text[: budget - frame], fence)


def _around(window: str, text: str, room: int) -> str:
    """Return whole sentences of a window around a text in it, at most ``room`` code points; at least the text."""
    start = window.find(text)
    if start < 0 or canonical_text(window).text != window:
        # A compressed window need not hold the whole text, and its beginning would be no evidence.
        return text
    end = start + len(text)
    bounds = [0, *accumulate(map(len, _sentences(window)))]
    before = [bound for bound in bounds if bound < start]
    behind = [bound for bound in reversed(bounds) if bound > end]
    forward = True
    while before or behind:
        to_the_end = behind and (forward or not before)
        wider = (start, behind.pop()) if to_the_end else (before.pop(), end)
        if wider[1] - wider[0] > room:
            break
        start, end = wider
        forward = not forward
    return window[start:end].strip() if end - start > len(text) else text
