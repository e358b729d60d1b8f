"""Lines of a PDF that the Markdown lost (SPEC 1.4).

kreuzberg takes some page regions for tables or margins and leaves their text out of the Markdown, while the plain text
of the page has it. What is missing is put back at the end of its page, so that no text of a document is lost; headers
and footers that repeat from page to page stay out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from .normalise import normalise_text, paragraphs

_WORD = re.compile(r"\w+")
_NOT_LETTERS = re.compile(r"[\W_]+")
_SEVERAL_PAGES = 3
_FEWEST_LETTERS = 3
_MISSING_SHARE = 0.5


def restore_lost_lines(text: str, pages: Sequence[str], page_starts: Sequence[int]) -> tuple[str, tuple[int, ...], int]:
    """Put back lines of the pages that a Markdown text does not hold.

    A line counts as held when its letters stand in the Markdown of its page or a neighbouring one, in this order or, for
    at least half of its words, in any.

    Args:
        text: the normalised Markdown of the whole document.
        pages: the plain text of each page.
        page_starts: for each page, the number of the first paragraph on or after its start.

    Returns:
        The text, its ``page_starts``, and how many lines were put back.
    """
    if len(pages) != len(page_starts):
        return text, tuple(page_starts), 0
    found = paragraphs(text)
    letters = [_NOT_LETTERS.sub("", paragraph) for paragraph in found]
    plain = [paragraphs(normalise_text(page)) for page in pages]
    repeated = Counter(key for lines in plain for key in {_furniture(line) for line in lines})
    ends = [*page_starts[1:], len(found) + 1]
    lost: list[list[str]] = []
    for page, lines in enumerate(plain):
        first = page_starts[max(page - 1, 0)] - 1
        last = ends[min(page + 1, len(pages) - 1)] - 1
        # The paragraph before the first may have begun on this page's predecessor and reach over.
        near = range(max(first - 1, 0), last)
        held = "".join(letters[n] for n in near)
        words = {word for n in near for word in _WORD.findall(found[n])}
        lost.append([line for line in lines if not _is_held(line, held, words, repeated)])
    return _insert(text, found, lost, ends)


def _furniture(line: str) -> str:
    """Return what a header or footer has in common on all pages: its letters, whatever the numbers in it."""
    return re.sub(r"\d+", "0", _NOT_LETTERS.sub("", line))


def _is_held(line: str, held: str, words: set[str], repeated: Counter[str]) -> bool:
    letters = _NOT_LETTERS.sub("", line)
    if len(letters) < _FEWEST_LETTERS or letters in held or repeated[_furniture(line)] >= _SEVERAL_PAGES:
        return True
    parts = _WORD.findall(line)
    missing = sum(len(word) for word in parts if word not in words and word not in held)
    return missing < _MISSING_SHARE * sum(map(len, parts))


def _insert(
    text: str, found: list[str], lost: list[list[str]], ends: Sequence[int]
) -> tuple[str, tuple[int, ...], int]:
    if not any(lost):
        return text, (1, *ends[:-1]) if ends else (), 0
    # Lines of the text by paragraph number, so that what is put back lands behind the last paragraph of its page.
    raw = text.split("\n")
    filled = [number for number, line in enumerate(raw) if paragraphs(line)]
    assert len(filled) == len(found)
    pieces: list[str] = []
    done = added = 0
    starts = [1]
    for page, lines in enumerate(lost):
        end = filled[ends[page] - 2] + 1 if ends[page] > 1 else 0
        end = max(end, done)
        pieces += raw[done:end]
        done = end
        for line in lines:
            pieces += ["", _plain(line)]
        pieces += [""] if lines else []
        added += len(lines)
        starts.append(ends[page] + added)
    pieces += raw[done:]
    return "\n".join(pieces), tuple(starts[:-1]), added


_MEANING = re.compile(r"[\\`*#<>\[\]!~|]|^[-+=]|^\d+(?=[.)])", re.MULTILINE)


def _plain(line: str) -> str:
    """Return a line in which no character means anything to Markdown."""
    return _MEANING.sub(lambda mark: f"{mark[0]}\\" if mark[0].isdigit() else f"\\{mark[0]}", line)
