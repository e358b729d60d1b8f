"""What a search may be asked with (SPEC 4.1, 4.6): a wrong kind is told in a sentence, before any work."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index

from ragspine_assets.errors import RagspineError
from ragspine_assets.retrieval.corpus import FILTER_KEYS


class QuestionError(RagspineError, TypeError, ValueError):
    """A search was asked with something of another kind; the message names what, and what it must be."""


def require_question(
    query: object, top_k: object, filters: object = None, misplaced: Mapping[str, object] | None = None
) -> int:
    """Return ``top_k`` as an int, or refuse what is no question.

    Args:
        query: must be a string.
        top_k: must be a whole number.
        filters: must be a mapping, or None.
        misplaced: keywords that the search does not know.

    Raises:
        QuestionError: one of them is of another kind; neither question nor filter is quoted.
    """
    if not isinstance(query, str):
        raise QuestionError(f"query must be a string; it is of the type {type(query).__name__}.")
    if isinstance(top_k, bool) or not hasattr(top_k, "__index__"):
        raise QuestionError(f"top_k must be a whole number; it is of the type {type(top_k).__name__}.")
    if filters is not None and not isinstance(filters, Mapping):
        raise QuestionError(
            f"filters must be a mapping such as {{'topic': 'hr'}}; it is of the type {type(filters).__name__}."
        )
    for name in misplaced or ():
        if name in FILTER_KEYS:
            raise QuestionError(f"{name} is a filter here: filters={{{name!r}: ...}}.")
        raise QuestionError(f"There is no argument {name!r}; there are query, filters and top_k.")
    return index(top_k)  # pyright: ignore[reportArgumentType]
