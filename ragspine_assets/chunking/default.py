"""The default chunker: whole paragraphs, gathered greedily (SPEC 2.3).

Paragraphs are found by bisection over their offsets, so that the work is proportional to the number of chunks, and
only paragraphs too long for a chunk are read character by character.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from ragspine_assets.chunking.chunk import DEFAULT_MAX_CHARS, DEFAULT_OVERLAP_CHARS, Chunk, DocumentMeta
from ragspine_assets.chunking.spans import CutChunker, Cuts, SourceText
from ragspine_assets.documents.normalise import CanonicalText

_SENTENCE_END = re.compile("[。！？；.!?;]+")


def paragraph_pieces(text: str, start: int, end: int, max_chars: int) -> list[int]:
    """Return the offsets behind the pieces of a paragraph that is too long for one chunk (SPEC 2.3).

    Pieces are gathered from sentences as long as they fit; a sentence that does not fit is cut every ``max_chars``
    code points. Nothing is trimmed: the pieces are ``text[start:end]`` without a gap.
    """
    sentence_ends = [match.end() for match in _SENTENCE_END.finditer(text, start, end)]
    if not sentence_ends or sentence_ends[-1] != end:
        sentence_ends.append(end)
    pieces: list[int] = []
    position = start
    after = 0
    while position < end:
        limit = position + max_chars
        after = bisect_right(sentence_ends, limit, after)
        last_end = sentence_ends[after - 1] if after else position
        position = last_end if last_end > position else limit
        pieces.append(position)
    return pieces


def gather_paragraphs(
    document: CanonicalText, first: int, behind: int, max_chars: int, overlap_chars: int, cuts: Cuts
) -> None:
    """Cut the paragraphs from index ``first`` up to ``behind`` by SPEC 2.3 and add the chunks to ``cuts``."""
    starts, ends = document.starts, document.ends
    while first < behind:
        start = starts[first]
        if ends[first] - start > max_chars:
            pieces = paragraph_pieces(document.text, start, ends[first], max_chars)
            cuts.starts.append(start)
            cuts.starts.extend(pieces[:-1])
            cuts.ends.extend(pieces)
            first += 1
            cuts.para_starts.extend([first] * len(pieces))
            cuts.para_ends.extend([first] * len(pieces))
            continue
        following = bisect_right(ends, start + max_chars, first, behind)
        end = ends[following - 1]
        cuts.starts.append(start)
        cuts.ends.append(end)
        cuts.para_starts.append(first + 1)
        cuts.para_ends.append(following)
        if following == behind:
            return
        if ends[following] - starts[following] > max_chars:
            first = following
            continue
        # Carried paragraphs fit the overlap, and leave room for the one that did not fit.
        carried = bisect_left(starts, end - overlap_chars, first, following)
        first = bisect_left(starts, ends[following] - max_chars, carried, following)


@dataclass(frozen=True, slots=True)
class DefaultChunker(CutChunker):
    """The built-in rule as a `Chunker`; equal to `chunk_document` byte for byte (SPEC 2.8)."""

    def cuts(self, source: SourceText, meta: DocumentMeta, max_chars: int, overlap_chars: int) -> Cuts:
        """Return where to cut, see `CutChunker.cuts`."""
        del meta
        cuts = Cuts()
        gather_paragraphs(source.canonical, 0, len(source.canonical.starts), max_chars, overlap_chars, cuts)
        return cuts


def chunk_document(
    text: str,
    meta: DocumentMeta,
    *,
    max_chars: int = DEFAULT_MAX_CHARS,
    overlap_chars: int = DEFAULT_OVERLAP_CHARS,
) -> list[Chunk]:
    """Return the chunks of a text by the built-in rule (SPEC 2.3).

    Paragraphs are gathered while their texts joined by a newline fit ``max_chars`` code points; up to
    ``overlap_chars`` of whole paragraphs are repeated in the next chunk. A longer paragraph is cut at sentence ends,
    a longer sentence every ``max_chars``. Linear in the text.

    Raises:
        ValueError: if ``max_chars`` is not positive or ``overlap_chars`` is not in ``[0, max_chars)``.
    """
    return DefaultChunker().chunk(text, meta, max_chars=max_chars, overlap_chars=overlap_chars)
