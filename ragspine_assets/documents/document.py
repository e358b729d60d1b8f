"""One document, read (SPEC 1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .extraction import ExtractionLimits
from .frontmatter import FrontMatter, stored_front_matter
from .source import SourceFile, suffix_of
from .worker import extract_batch


@dataclass(frozen=True)
class Document:
    """What one file says, before anybody decides about it.

    Attributes:
        doc_id: POSIX path relative to the source root, NFC-normalised.
        text: the normalised text, unstripped, without front matter.
        markup: ``markdown`` or ``plain``: how headings are found.
        content_hash: sha256 of the bytes the text was read from, hex.
        title: the title the file itself states.
        front_matter: the front matter of a Markdown file.
        page_starts: for each page from 1 the number of the first paragraph on or after its start; empty if unknown.
        parser: what read the file, and its version.
        left_out: what the file holds and its text does not, by design: kinds and how often.
        encoding: character encoding of a text format, ``''`` for others.
        status: ``ingested``, ``no_text`` or ``failed``.
        reason: why it failed, in one line.
    """

    doc_id: str
    text: str = field(default="", repr=False)
    markup: str = "plain"
    content_hash: str = ""
    title: str = field(default="", repr=False)
    front_matter: FrontMatter = field(default_factory=FrontMatter, repr=False)
    page_starts: tuple[int, ...] = ()
    parser: str = ""
    left_out: str = ""
    encoding: str = ""
    status: str = "ingested"
    reason: str = ""

    @classmethod
    def read(cls, root: str | Path, doc_id: str, limits: ExtractionLimits | None = None) -> Document:
        """Read one file of a source folder in this process; a bad file is ``failed``, not an exception (SPEC 1.6)."""
        path = Path(root, doc_id)
        size = path.stat().st_size if path.is_file() else 0
        file = SourceFile(doc_id, doc_id, size, suffix_of(doc_id))
        (row,) = extract_batch(str(root), [file], limits or ExtractionLimits()).to_pylist()
        return cls(
            doc_id,
            row["text"],
            row["markup"] or "plain",
            row["content_hash"],
            row["title"],
            stored_front_matter(row["front_matter"], row["front_matter_problem"]),
            tuple(row["page_starts"]),
            row["parser"],
            row["left_out"],
            row["encoding"],
            row["status"],
            row["reason"],
        )
