"""What reading a file gives, may cost, and says when it fails: the words every reader shares (SPEC 1.4, 1.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ragspine_assets.errors import RagspineError

Markup = Literal["plain", "markdown"]


class ExtractionError(RagspineError):
    """A file cannot be read as a document.

    Attributes:
        reason: one line for the person who must act, without a word of the document.
        retry: whether the same bytes may succeed another time.
    """

    def __init__(self, reason: str, *, retry: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry = retry


class TimeLimitError(ExtractionError):
    """The parser gave up at its time limit; its threads may still be running, so the process is to be ended."""


ENCRYPTED = "it needs a password: store a copy without one"
DAMAGED = "it is damaged, or not what its name says: its parser cannot read it"


@dataclass(frozen=True, slots=True)
class ExtractionLimits:
    """What one file may cost.

    Attributes:
        max_bytes: size of the file, bytes.
        max_characters: length of its text, code points.
        time_limit_s: seconds its parser may take.
        memory_bytes: data the process that reads it may hold, bytes.
        max_unpacked_bytes: what a packed file (docx, pptx, xlsx, epub) may unpack to, bytes.
    """

    max_bytes: int = 100 * 2**20
    max_characters: int = 20_000_000
    time_limit_s: float = 60.0
    memory_bytes: int = 2 * 2**30
    max_unpacked_bytes: int = 400 * 2**20


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a file says.

    Attributes:
        text: normalised text (SPEC 1.5), unstripped; a front matter block is still in it. '' if the file has no text.
        markup: ``markdown`` or ``plain``.
        parser: parser and version, as ``parser_for`` gives it.
        title: the title the file states as such (PDF and Office properties, HTML ``title``, EPUB metadata, subject of
            a mail), '' without one. A heading is text and no title.
        encoding: codec the bytes were decoded with; '' where the format is not text.
        encoding_found_by: as in ``DecodedText``.
        pages: number of pages or slides; 0 where the format has none.
        page_starts: for each page the number (from 1) of the first paragraph on or after its start.
        left_out: what a reader might look for in the file and does not find in the text, by design (SPEC 1.12): kind
            and how often, or which pages; '' if nothing.
    """

    text: str
    markup: Markup
    parser: str
    title: str = ""
    encoding: str = ""
    encoding_found_by: str = ""
    pages: int = 0
    page_starts: tuple[int, ...] = ()
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader makes of the bytes of one file; the text is not normalised yet.

    Attributes:
        text: Markdown, or the text of each page or slide.
        title: as in ``Extracted``.
        left_out: kinds of what was left out by design, and how often.
        unreadable: pages, from 1, whose text cannot be told because their fonts have no usable character map.
        encoding: as in ``Extracted``.
        encoding_found_by: as in ``Extracted``.
    """

    text: str | tuple[str, ...]
    title: str = ""
    left_out: Mapping[str, int] = field(default_factory=dict)
    unreadable: tuple[int, ...] = ()
    encoding: str = ""
    encoding_found_by: str = ""


def one_line(text: str) -> str:
    """Return a title as one line of bounded length."""
    return " ".join(text.split())[:500]
