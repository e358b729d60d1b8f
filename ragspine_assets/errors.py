"""Errors that may be shown to anybody (SPEC 6.1)."""

from __future__ import annotations


class RagspineError(Exception):
    """An error of this project, written for the person who must act.

    Its message may leave the house: it says what happened, to which document (by reference where that is RESTRICTED) and
    what to do, and holds no word of any document. The message of any other exception may not leave.
    """


class SettingError(RagspineError, ValueError):
    """A setting that is not allowed; the message names it and lists what is."""
