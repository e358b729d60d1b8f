"""What a chunker that is not ours returned, read as cuts of the document (SPEC 2.4).

Such a chunker is believed in what it decides (text, spans, headings, windows) as far as the document bears it out:
text that is not the document's, in order, and windows that are not the document's around their child, are refused.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import index

from ragspine_assets.chunking.chunk import DocumentMeta
from ragspine_assets.chunking.locator import locator, parse_locator
from ragspine_assets.chunking.protocol import Chunker
from ragspine_assets.chunking.spans import Cuts, SourceText, shortened_heading
from ragspine_assets.documents.normalise import BLANK, CanonicalText, canonical_text, normalise_text
from ragspine_assets.errors import RagspineError, is_cancel
from ragspine_assets.policy.lattice import is_restricted

_NOT_BLANK = re.compile(f"[^{re.escape(BLANK)}]")


class ChunkerError(RagspineError, ValueError):
    """A chunker failed or broke the rule for chunks (SPEC 2.4).

    The message names the document, unless that is RESTRICTED, and the rule; it quotes no text.

    Attributes:
        doc_id: the document.
        rule: what was wrong, without the document's name.
    """

    def __init__(self, meta: DocumentMeta, rule: str) -> None:
        named = "a RESTRICTED document" if is_restricted(meta.sensitivity) else f"document {meta.doc_id!r}"
        super().__init__(f"{named}: {rule}")
        self.doc_id = meta.doc_id
        self.rule = rule


def foreign_cuts(chunker: Chunker, source: SourceText, meta: DocumentMeta, max_chars: int, overlap_chars: int) -> Cuts:
    """Call a third party's chunker with the normalised text and return what it decided as cuts.

    Offsets count code points of the canonical text. A chunk without offsets (both 0), or with offsets of the text
    that was handed over, is looked for in the canonical text, after the chunk before it. Paragraph numbers are
    computed, parents are numbered in the order in which they appear.

    Raises:
        ChunkerError: if the chunker raises, or what it returns is not of this document.
    """
    returned, failure = _call(chunker, source, meta, max_chars, overlap_chars)
    # Raised out here, so that the foreign exception, which may quote the text, is not this one's context.
    if failure:
        raise ChunkerError(meta, failure)
    reader = _Reader(source, meta, max_chars)
    for position, chunk in enumerate(returned):
        reader.add(position, chunk)
    return reader.cuts


def _call(
    chunker: Chunker, source: SourceText, meta: DocumentMeta, max_chars: int, overlap_chars: int
) -> tuple[Sequence[object], str]:
    try:
        return list(chunker.chunk(source.normalised, meta, max_chars=max_chars, overlap_chars=overlap_chars)), ""
    except BaseException as error:
        if is_cancel(error):
            raise
        # Whatever a foreign chunker raises is a failure of this document only.
        return (), f"the chunker raised {type(error).__name__}"


class _Reader:
    """Turns returned chunks into cuts, one after the other."""

    def __init__(self, source: SourceText, meta: DocumentMeta, max_chars: int) -> None:
        self.cuts = Cuts()
        self._handed = source.normalised
        self._document = source.canonical
        self._meta = meta
        self._max_chars = max_chars
        self._covered = 0
        self._parents: dict[str, int] = {}
        self._windows: dict[tuple[int, int], int] = {}
        self._last_window = ("", 0, 0)

    def add(self, position: int, chunk: object) -> None:
        """Read one chunk, the ``position``-th from 0."""
        text = self._text(position, chunk, "text")
        if text in ("", "\n"):
            raise self._refusal(position, "is empty")
        if len(text) > self._max_chars:
            raise self._refusal(position, f"has {len(text)} code points, more than max_chars ({self._max_chars})")
        start, end = self._span(position, chunk, text)
        self._covered = max(self._covered, end)
        first = bisect_right(self._document.ends, start) + 1
        last = bisect_left(self._document.starts, end)
        cuts = self.cuts
        cuts.starts.append(start)
        cuts.ends.append(end)
        cuts.para_starts.append(first)
        cuts.para_ends.append(last)
        parent = self._text(position, chunk, "parent_id")
        cuts.sections.append(self._parents.setdefault(parent, len(self._parents)) if parent else -1)
        cuts.headings.append(shortened_heading(normalise_text(self._text(position, chunk, "heading")).strip(BLANK)))
        path = shortened_heading(normalise_text(self._text(position, chunk, "heading_path")).strip(BLANK))
        cuts.heading_paths.append((path,) if path else ())
        window = self._text(position, chunk, "window_text")
        cuts.windows.append(self._window(position, window, start, end) if window else -1)
        named = self._text(position, chunk, "parent_locator")
        cuts.parent_locators.append(self._parent_locator(position, named, first, last) if named else "")

    def _refusal(self, position: int, rule: str) -> ChunkerError:
        return ChunkerError(self._meta, f"chunk {position} of the chunker {rule}")

    def _text(self, position: int, chunk: object, name: str) -> str:
        value = getattr(chunk, name, "")
        if not isinstance(value, str):
            raise self._refusal(position, f"has a {name} that is no string")
        return value

    def _span(self, position: int, chunk: object, text: str) -> tuple[int, int]:
        try:
            start, end = index(getattr(chunk, "char_start", 0)), index(getattr(chunk, "char_end", 0))
        except TypeError:
            start, end = -1, -1
        canonical = self._document.text
        if 0 <= start < end and canonical[start:end] == text:
            return start, end
        if (start, end) == (0, 0) or (0 <= start < end and self._handed[start:end] == text):
            # A slice of the text handed over has a canonical form, and that is a slice of the canonical text.
            for wanted in dict.fromkeys((text, canonical_text(text).text)):
                found = self._find(wanted) if wanted else -1
                if found >= 0:
                    return found, found + len(wanted)
            raise self._refusal(position, "holds text that does not follow in the document")
        raise self._refusal(position, "is not what the document has at its offsets")

    def _find(self, wanted: str) -> int:
        """Return where ``wanted`` continues the chunks so far best, -1 if nowhere."""
        canonical, covered = self._document.text, self._covered
        if canonical.startswith(wanted, covered):
            return covered
        match = _NOT_BLANK.search(canonical, covered)
        following = match.start() if match else len(canonical)
        if canonical.startswith(wanted, following):
            return following
        # It overlaps the chunk before: the latest place that leaves no gap.
        earliest = self.cuts.starts[-1] if self.cuts.starts else 0
        return canonical.rfind(wanted, earliest, following + len(wanted))

    def _window(self, position: int, window: str, start: int, end: int) -> int:
        text, window_start, window_end = self._last_window
        if window != text or not window_start <= start <= end <= window_end:
            window_start, window_end = self._window_span(position, window, start, end)
            self._last_window = (window, window_start, window_end)
        number = self._windows.setdefault((window_start, window_end), len(self._windows))
        cuts = self.cuts
        if number == len(cuts.window_starts):
            first = bisect_right(self._document.ends, window_start) + 1
            last = max(first, bisect_left(self._document.starts, window_end))
            cuts.window_starts.append(window_start)
            cuts.window_ends.append(window_end)
            cuts.window_para_starts.append(first)
            cuts.window_para_ends.append(last)
        return number

    def _window_span(self, position: int, window: str, start: int, end: int) -> tuple[int, int]:
        for wanted in dict.fromkeys((window, canonical_text(window).text)):
            found = -1
            if wanted:
                found = self._document.text.find(wanted, max(0, end - len(wanted)), start + len(wanted))
            if found >= 0:
                return found, found + len(wanted)
        raise self._refusal(position, "has a window that is not the document's text around it")

    def _parent_locator(self, position: int, named: str, first: int, last: int) -> str:
        try:
            span = parse_locator(named)
        except ValueError:
            span = None
        if span is None or not span.para_start <= first <= last <= span.para_end <= _count(self._document):
            raise self._refusal(position, "names a parent span that does not contain it")
        return locator(self._meta.locator_prefix, span.para_start, span.para_end)


def _count(document: CanonicalText) -> int:
    return len(document.starts)
