"""A file becomes a document: source, extraction, normalisation, metadata (SPEC 1)."""

from .document import Document
from .normalise import normalise_text, paragraphs
from .period import period_from_filename
from .source import scan_source

__all__ = ["Document", "normalise_text", "paragraphs", "period_from_filename", "scan_source"]
