"""Errors that may be shown to anybody (SPEC 6.1)."""

from __future__ import annotations


class RagspineError(Exception):
    """An error of this project, written for the person who must act.

    Its message may leave the house: it says what happened, to which document (by reference where that is RESTRICTED) and
    what to do, and holds no word of any document. The message of any other exception may not leave.
    """


class SettingError(RagspineError, ValueError):
    """A setting that is not allowed; the message names it and lists what is."""


# By name: only `defs` knows Dagster, asyncio takes its time to load, and every seam has to let both through.
_CANCELS = frozenset({"DagsterExecutionInterruptedError", "CancelledError"})


def is_cancel(error: BaseException) -> bool:
    """Tell whether an exception means that somebody cancelled, and is no failure of what was called.

    Native libraries panic with a `BaseException`, and ``sys.exit(text)`` is one too: at a seam these are failures like
    any other, whose words may quote a document. A cancelled run has to stay one.
    """
    return isinstance(error, KeyboardInterrupt) or any(base.__name__ in _CANCELS for base in type(error).__mro__)
