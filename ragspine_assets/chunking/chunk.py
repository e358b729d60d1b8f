"""What a chunker takes and gives: the metadata of a document and the chunks of its text (SPEC 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType

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
class ChunkColumn:
    """What there is to know about one column of chunks: every table, file, filter and description derives from this.

    Attributes:
        name: the field of `Chunk`.
        kind: ``str`` or ``int``.
        meaning: one line, as the UI shows it.
        default: what it holds where nothing is known.
        stored_default: what a row that never had it reads back as; None where a row cannot be without it.
        inherited: whether a document gives it to all its chunks.
        filterable: whether a search may be narrowed by it.
        repeats: whether many chunks have the same value: published files keep each value once.
        published: whether it is part of what is published.
        additive: whether it came later: empty, it changes no digest of what was there before.
    """

    name: str
    kind: type[str | int]
    meaning: str
    default: str | int = ""
    stored_default: str | int | None = ""
    inherited: bool = False
    filterable: bool = False
    repeats: bool = False
    published: bool = True
    additive: bool = False


def _column(
    meaning: str,
    *,
    stored_default: str | None = None,
    required: bool = False,
    inherited: bool = False,
    filterable: bool = False,
    repeats: bool = False,
    published: bool = True,
    additive: bool = False,
) -> Mapping[str, object]:
    flags = {
        "inherited": inherited, "filterable": filterable, "repeats": repeats or inherited, "published": published,
        "additive": additive,
    }  # fmt: skip
    return MappingProxyType(
        {"meaning": meaning, "stored_default": stored_default, "required": required, "flags": MappingProxyType(flags)}
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """A slice of a document's canonical text, with where it comes from (SPEC 2.1).

    What each field means stands beside it. A column more is a line more here, at the end, with ``additive=True``; what
    fills it is a chunker. The representation leaves out whatever is text of the document, so that it may be logged.
    """

    chunk_id: str = field(metadata=_column("Document and position: {doc_id}#c{seq}.", required=True))
    doc_id: str = field(
        metadata=_column(
            "Path relative to the source root, NFC-normalised.", required=True, inherited=True, filterable=True
        )
    )
    seq: int = field(metadata=_column("Position of the chunk in its document, from 0.", required=True))
    text: str = field(
        repr=False,
        metadata=_column(
            "The chunk: a slice of the document's canonical text, canonical[char_start:char_end], never empty.",
            required=True,
        ),
    )
    source_locator: str = field(
        metadata=_column("Which paragraphs the chunk comes from: {prefix}#para{n} or {prefix}#para{a}-{b}.")
    )
    para_start: int = field(metadata=_column("First paragraph, from 1."))
    para_end: int = field(metadata=_column("Last paragraph."))
    title: str = field(
        default="", repr=False, metadata=_column("From metadata.csv, front matter or the file itself.", inherited=True)
    )
    topic: str = field(
        default="", metadata=_column("From metadata.csv or front matter.", inherited=True, filterable=True)
    )
    entity: str = field(
        default="", metadata=_column("Code of the entity the row is about.", inherited=True, filterable=True)
    )
    geography: str = field(
        default="", metadata=_column("From metadata.csv or front matter.", inherited=True, filterable=True)
    )
    period: str = field(
        default="", metadata=_column("FY2024, 2024H1, 2025Q3 and the like.", inherited=True, filterable=True)
    )
    language: str = field(
        default="", metadata=_column("From metadata.csv or front matter.", inherited=True, filterable=True)
    )
    # A row whose label was never written is treated as the most restricted one (SPEC 1.8, fail closed).
    sensitivity: str = field(
        default="INTERNAL",
        metadata=_column("PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED.", stored_default="RESTRICTED", inherited=True),
    )
    parent_id: str = field(
        default="",
        metadata=_column(
            "Section the chunk belongs to, {doc_id}#s{k}, where the chunker makes sections.", repeats=True
        ),
    )
    heading: str = field(
        default="", repr=False, metadata=_column("Heading of that section, its first line.", repeats=True)
    )
    window_text: str = field(
        default="",
        repr=False,
        metadata=_column(
            "Wider context of the chunk, where the chunker gives one: shown to a model, never the evidence.",
            repeats=True,
        ),
    )
    parent_locator: str = field(default="", metadata=_column("Paragraphs that the window covers.", repeats=True))
    page_start: int = field(default=0, metadata=_column("Page or slide of the first paragraph; 0 where unknown."))
    page_end: int = field(default=0, metadata=_column("Page or slide of the last paragraph; 0 where unknown."))
    char_start: int = field(default=0, metadata=_column("Offset into the canonical text, in code points."))
    char_end: int = field(default=0, metadata=_column("Offset behind the last code point."))
    valid_as_of: str = field(default="", metadata=_column("Date for which the content is valid.", inherited=True))
    heading_path: str = field(
        default="",
        repr=False,
        metadata=_column("Headings above the chunk, outermost first, joined by ' > '.", repeats=True, additive=True),
    )


def _columns_of_chunks() -> tuple[ChunkColumn, ...]:
    columns = []
    for item in fields(Chunk):
        about = item.metadata
        kind = int if item.type in (int, "int") else str
        default = kind() if item.default is MISSING else item.default
        stored = about["stored_default"] or kind()
        columns.append(
            ChunkColumn(
                item.name, kind, about["meaning"], default, None if about["required"] else stored, **about["flags"]
            )
        )
    return tuple(columns)


COLUMNS: tuple[ChunkColumn, ...] = _columns_of_chunks()
"""The columns of a chunk, in the order of SPEC 2.1."""

FILTERS: tuple[str, ...] = tuple(column.name for column in COLUMNS if column.filterable)
"""Columns by which chunks can be filtered (SPEC 3.3)."""


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
