"""What a chunker takes and gives: the metadata of a document and the chunks of its text (SPEC 2.1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ragspine_assets.errors import SettingError

DEFAULT_MAX_CHARS = 480
"""Longest chunk by default, in code points."""

DEFAULT_OVERLAP_CHARS = 80
"""Most text that neighbouring chunks share by default, in code points."""


@dataclass(frozen=True, slots=True)
class DocumentMeta:
    """What is known about a document; every chunk of it inherits these values (SPEC 1.7, 2.1).

    Attributes:
        doc_id: the document's id, unique in a store.
        title: title, ``''`` if unknown, like every value below that has this default.
        topic: subject the document belongs to.
        entity: code of the entity the document is about.
        geography: code of a place.
        period: period the document covers.
        language: language code.
        sensitivity: label of the lattice (SPEC 1.8).
        valid_as_of: date from which the content holds.
        source_locator_prefix: what locators begin with; ``doc_id`` when empty.
        markup: ``markdown`` where the text's structure is that of CommonMark, else ``plain`` (SPEC 2.5).
    """

    doc_id: str
    title: str = field(default="", repr=False)
    topic: str = ""
    entity: str = ""
    geography: str = ""
    period: str = ""
    language: str = ""
    sensitivity: str = "INTERNAL"
    valid_as_of: str = ""
    source_locator_prefix: str = ""
    markup: str = "plain"

    @property
    def locator_prefix(self) -> str:
        """What the locators of this document begin with (SPEC 2.1)."""
        return self.source_locator_prefix or self.doc_id


@dataclass(frozen=True, slots=True)
class Chunk:
    """A slice of a document's canonical text, with where it comes from (SPEC 2.1).

    The representation leaves out whatever is text of the document, so that it may be logged.

    Attributes:
        chunk_id: ``{doc_id}#c{seq}``.
        doc_id: the document.
        seq: position among the document's chunks, from 0.
        text: ``canonical[char_start:char_end]``, never empty.
        source_locator: ``{prefix}#para{n}`` or ``{prefix}#para{a}-{b}``.
        para_start: first paragraph, from 1.
        para_end: last paragraph, inclusive.
        title: metadata of the document, like the six fields after it.
        topic: see `DocumentMeta`.
        entity: see `DocumentMeta`.
        geography: see `DocumentMeta`.
        period: see `DocumentMeta`.
        language: see `DocumentMeta`.
        sensitivity: label of the document.
        parent_id: ``{doc_id}#s{k}`` of the section it lies in, ``''`` where a chunker knows no sections.
        heading: first line of that section's heading.
        window_text: wider text to show a model in place of ``text``; never the evidence.
        parent_locator: span of paragraphs that ``window_text`` covers.
        page_start: page on which the first paragraph starts, 0 when unknown.
        page_end: page on which the last paragraph starts, 0 when unknown.
        char_start: offset of the chunk in the canonical text, in code points.
        char_end: offset behind its last code point.
        valid_as_of: metadata of the document.
    """

    chunk_id: str
    doc_id: str
    seq: int
    text: str = field(repr=False)
    source_locator: str
    para_start: int
    para_end: int
    title: str = field(default="", repr=False)
    topic: str = ""
    entity: str = ""
    geography: str = ""
    period: str = ""
    language: str = ""
    sensitivity: str = "INTERNAL"
    parent_id: str = ""
    heading: str = field(default="", repr=False)
    window_text: str = field(default="", repr=False)
    parent_locator: str = ""
    page_start: int = 0
    page_end: int = 0
    char_start: int = 0
    char_end: int = 0
    valid_as_of: str = ""


def require_sizes(max_chars: int, overlap_chars: int) -> None:
    """Refuse sizes that no chunker accepts (SPEC 2.2).

    Raises:
        ValueError: if ``max_chars`` is not positive or ``overlap_chars`` is not in ``[0, max_chars)``.
    """
    if max_chars <= 0:
        message = f"max_chars must be positive, not {max_chars}"
        raise SettingError(message)
    if not 0 <= overlap_chars < max_chars:
        message = (
            f"overlap_chars must be at least 0 and less than max_chars ({max_chars}), not {overlap_chars};"
            " lower overlap_chars or raise max_chars"
        )
        raise SettingError(message)
