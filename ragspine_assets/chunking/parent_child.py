"""Small chunks that know the section around them (SPEC 2.6).

The chunks are those of `LayoutAwareChunker`; each also carries the text of its parent to show a model. A section too
long for that becomes several parents, so that the window of a book without headings stays a page and not the book.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from ragspine_assets.chunking.chunk import DocumentMeta
from ragspine_assets.chunking.default import gather_paragraphs, paragraph_pieces
from ragspine_assets.chunking.headings import HeadingOutline
from ragspine_assets.chunking.layout import LayoutAwareChunker
from ragspine_assets.chunking.spans import Cuts, SourceText
from ragspine_assets.documents.normalise import CanonicalText

DEFAULT_MAX_WINDOW_CHARS = 8_000
"""Longest window by default, in code points."""


@dataclass(frozen=True, slots=True)
class ParentChildChunker(LayoutAwareChunker):
    """`LayoutAwareChunker` whose chunks carry their parent's text and span (SPEC 2.6).

    Attributes:
        max_window_chars: longest window, in code points; a longer section becomes several parents. Where it is less
            than ``max_chars``, it bounds the chunks too.
    """

    max_window_chars: int = DEFAULT_MAX_WINDOW_CHARS

    def __post_init__(self) -> None:
        """Refuse a window that could hold nothing."""
        if self.max_window_chars <= 0:
            message = f"max_window_chars must be positive, not {self.max_window_chars}"
            raise ValueError(message)

    def cuts(self, source: SourceText, meta: DocumentMeta, max_chars: int, overlap_chars: int) -> Cuts:
        """Return where to cut, see `CutChunker.cuts`."""
        max_chars = min(max_chars, self.max_window_chars)
        overlap_chars = min(overlap_chars, max_chars - 1)
        cuts = Cuts()
        document, outline = source.canonical, HeadingOutline()
        starts, ends = document.starts, document.ends
        for first, stop, heading in self.sections(source, meta):
            path = outline.path(document, first, heading, meta)
            position = first
            while position < stop:
                following = bisect_right(ends, starts[position] + self.max_window_chars, position, stop)
                if following > position:
                    gather_paragraphs(document, position, following, max_chars, overlap_chars, cuts)
                    _close_parent(cuts, starts[position], ends[following - 1], heading)
                    position = following
                else:
                    self._cut_paragraph(document, position, max_chars, heading, cuts)
                    position += 1
            cuts.heading_paths.extend([path] * (len(cuts.starts) - len(cuts.heading_paths)))
        return cuts

    def _cut_paragraph(self, document: CanonicalText, paragraph: int, max_chars: int, heading: str, cuts: Cuts) -> None:
        """Make several parents of one paragraph, ending where its pieces end."""
        start, end = document.starts[paragraph], document.ends[paragraph]
        pieces = paragraph_pieces(document.text, start, end, max_chars)
        done = 0
        while done < len(pieces):
            behind = bisect_right(pieces, start + self.max_window_chars, done)
            parent = pieces[done:behind]
            cuts.starts.extend((start, *parent[:-1]))
            cuts.ends.extend(parent)
            cuts.para_starts.extend([paragraph + 1] * len(parent))
            cuts.para_ends.extend([paragraph + 1] * len(parent))
            _close_parent(cuts, start, parent[-1], heading)
            start = parent[-1]
            done = behind


def _close_parent(cuts: Cuts, start: int, end: int, heading: str) -> None:
    """Make the chunks added since the last parent the children of one that spans ``start`` to ``end``."""
    number = len(cuts.window_starts)
    children = len(cuts.starts) - len(cuts.windows)
    cuts.window_starts.append(start)
    cuts.window_ends.append(end)
    cuts.window_para_starts.append(cuts.para_starts[-children])
    cuts.window_para_ends.append(cuts.para_ends[-1])
    cuts.windows.extend([number] * children)
    cuts.sections.extend([number] * children)
    cuts.headings.extend([heading] * children)
