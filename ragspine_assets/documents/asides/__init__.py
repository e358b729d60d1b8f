"""What a file says beside its text, and the labels it carries, read from its bytes (SPEC 1.10, 1.11).

One module per family of formats. Nothing here decides a label or changes a text: it finds whatever a person could see in
the file or the file carries, so that the policy reads the whole file. It runs where the parsers run, under their limits,
and takes time in proportion to the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ragspine_assets.documents.asides.gathering import Gathering
from ragspine_assets.documents.asides.mail import gather_mail
from ragspine_assets.documents.asides.office import gather_package
from ragspine_assets.documents.asides.old import gather_compound, gather_rich_text
from ragspine_assets.documents.asides.pages import gather_pdf
from ragspine_assets.documents.asides.web import gather_page, gather_source
from ragspine_assets.policy.labelling import Aside, CarriedLabel, FileLabels

ASIDES_VERSION = "asides 3"
"""Raised whenever the same bytes would give other asides: a document is read again then (SPEC 1.9)."""

__all__ = ["ASIDES_VERSION", "Aside", "CarriedLabel", "FileLabels", "read_file_labels"]

_READERS: Mapping[str, Callable[[bytes, Gathering], None]] = {
    ".html": gather_page,
    ".htm": gather_page,
    ".md": gather_source,
    ".markdown": gather_source,
    ".csv": gather_source,
    ".rst": gather_source,
    ".docx": gather_package,
    ".pptx": gather_package,
    ".xlsx": gather_package,
    ".epub": gather_package,
    ".pdf": gather_pdf,
    ".eml": gather_mail,
    ".msg": gather_compound,
    ".xls": gather_compound,
    ".rtf": gather_rich_text,
}
_UNREADABLE = "the parts beside its text cannot be read"


def read_file_labels(data: bytes, suffix: str, text: str = "") -> FileLabels:
    """Return what a file's bytes say beside its text, and the labels it carries.

    A file whose asides cannot be read has a problem, and its label fails closed: it may say there that it is secret.

    Args:
        data: all bytes of the file.
        suffix: lower-case suffix with its dot.
        text: the document's text; what is in it as a line or a cell of its own is no aside.
    """
    read = _READERS.get(suffix)
    if read is None:
        return FileLabels()
    found = Gathering(text)
    try:
        read(data, found)
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception:
        # What the libraries raise may quote the document.
        found.problem(_UNREADABLE)
    return found.result()
