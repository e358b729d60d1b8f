"""A chunker for transcripts: a chunk is what one person says at a time."""

import re
from dataclasses import dataclass

from ragspine_assets.chunking import Chunk, DocumentMeta

_SPEAKER = re.compile(r"^\s*[A-Z][\w .'-]{0,40}:\s")


@dataclass(frozen=True)
class TranscriptChunker:
    """Cuts before each line that begins with a name and a colon; what is longer than a chunk may be is cut at spaces.

    It decides text and headings alone. Ids, offsets, paragraphs, label and pages are stamped by whoever calls it, and a
    chunk that breaks the rules (SPEC 2.4) is refused by name. Attributes are its parameters: ``transcript(speakers=False)``.
    """

    speakers: bool = True

    def chunk(self, text: str, meta: DocumentMeta, *, max_chars: int = 480, overlap_chars: int = 80) -> list[Chunk]:
        """Return the turns in order; overlap is not used, since a turn needs none."""
        del overlap_chars
        turns: list[str] = []
        for line in filter(None, map(str.strip, text.splitlines())):
            if turns and not _SPEAKER.match(line):
                turns[-1] += f"\n{line}"
            else:
                turns.append(line)
        pieces = [(turn, piece) for turn in turns for piece in _pieces(turn, max_chars)]
        return [
            Chunk(
                chunk_id="", doc_id=meta.doc_id, seq=seq, text=piece, source_locator="", para_start=0, para_end=0,
                heading=turn.partition(":")[0] if self.speakers and _SPEAKER.match(turn) else "",
            )
            for seq, (turn, piece) in enumerate(pieces)
        ]  # fmt: skip


def _pieces(turn: str, max_chars: int) -> list[str]:
    pieces = []
    while len(turn) > max_chars:
        space = max(turn.rfind(" ", 0, max_chars), turn.rfind("\n", 0, max_chars))
        end = space if space > 0 else max_chars
        pieces.append(turn[:end])
        turn = turn[end:].lstrip()
    return [*pieces, turn] if turn else pieces
