"""A first golden set, drafted from what is published, for a person to edit (SPEC 10.1). No model is asked."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from ragspine_assets.chunking.chunk import Chunk, DocumentMeta
from ragspine_assets.chunking.sentence_window import SentenceWindowChunker
from ragspine_assets.documents.normalise import canonical_text
from ragspine_assets.serving.snapshot import Snapshot

_HEADING = re.compile(r"#{1,6}\s+(?=\S)")
_SHORTEST, _LONGEST = 24, 400
_SEED = 20


def draft_questions(snapshot: Snapshot, count: int) -> list[tuple[str, str, str, str]]:
    """Return drafts: a heading or title as the question, and the first sentence under it as what is expected.

    Documents take turns, so that a long one does not fill the set; the same snapshot gives the same drafts.

    Args:
        snapshot: what is published; nothing else can be asked for.
        count: how many drafts at most.

    Returns:
        question, ``doc_id``, passage and language of each.
    """
    chance = random.Random(_SEED)  # noqa: S311
    doc_ids = list(snapshot.chunks.values["doc_id"])
    chance.shuffle(doc_ids)
    waiting = [_drafts(snapshot, doc_id) for doc_id in doc_ids]
    found: dict[tuple[str, str], tuple[str, str, str, str]] = {}
    while waiting and len(found) < count:
        left = []
        for drafts in waiting:
            draft = next((one for one in drafts if (one[1], one[0]) not in found), None)
            if draft is not None and len(found) < count:
                found[draft[1], draft[0]] = draft
                left.append(drafts)
        waiting = left
    return list(found.values())


def _drafts(snapshot: Snapshot, doc_id: str) -> Iterator[tuple[str, str, str, str]]:
    for position in snapshot.chunks.of_document(doc_id).tolist():
        chunk = snapshot.chunks[position]
        heading, body = _heading(chunk)
        passage = _first_sentence(body)
        if heading and passage and heading not in passage:
            yield heading, doc_id, passage, chunk.language


def _heading(chunk: Chunk) -> tuple[str, str]:
    lines = chunk.text.split("\n")
    for number, line in enumerate(lines):
        if heading := _heading_of(line):
            return heading, "\n".join(lines[number + 1 :])
    return chunk.heading_path.rpartition(" > ")[2] or chunk.title, chunk.text


def _heading_of(line: str) -> str:
    mark = _HEADING.match(line)
    return (line[mark.end() :].rstrip("#").rstrip() or "#") if mark else ""


def _first_sentence(text: str) -> str:
    canonical = canonical_text(text).text
    chunks = SentenceWindowChunker(window_size=0).chunk(
        canonical, DocumentMeta(""), max_chars=len(canonical) + 1, overlap_chars=0
    )
    for chunk in chunks:
        sentence = " ".join(chunk.text.split())
        if _SHORTEST <= len(sentence) <= _LONGEST and not sentence.startswith(("#", "|", "-", "*")):
            return sentence
    return ""
