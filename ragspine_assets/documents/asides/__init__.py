"""What a file says beside its text, and the labels it carries, read from its bytes (SPEC 1.10, 1.11).

One module per family of formats. Nothing here decides a label or changes a text: it finds whatever a person could see in
the file or the file carries, so that the policy reads the whole file. It runs where the parsers run, under their limits,
and takes time in proportion to the file.
"""

from __future__ import annotations

from ragspine_assets.policy.labelling import Aside, CarriedLabel, FileLabels

ASIDES_VERSION = "asides 1"
"""Raised whenever the same bytes would give other asides: a document is read again then (SPEC 1.9)."""

__all__ = ["ASIDES_VERSION", "Aside", "CarriedLabel", "FileLabels", "read_file_labels"]


def read_file_labels(data: bytes, suffix: str) -> FileLabels:
    """Return what a file's bytes say beside its text, and the labels it carries.

    Args:
        data: all bytes of the file.
        suffix: lower-case suffix with its dot.
    """
    del data, suffix
    return FileLabels()
