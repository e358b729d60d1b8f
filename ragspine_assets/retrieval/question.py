"""What a search may be asked with (SPEC 4.1, 4.6): a wrong kind is told in a sentence, before any work."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index

from ragspine_assets.errors import RagspineError
from ragspine_assets.retrieval.corpus import FILTER_KEYS


class QuestionError(RagspineError, TypeError, ValueError):
    """A search was asked with something of another kind; the message names what, and what it must be."""


Filters = Mapping[str, tuple[str, ...]]
"""For each field the values one of which a chunk must have."""


def require_question(query: object, top_k: object) -> int:
    """Return ``top_k`` as an int, or refuse what is no question.

    Args:
        query: must be a string.
        top_k: must be a whole number.

    Raises:
        QuestionError: one of them is of another kind; the question is not quoted.
    """
    if not isinstance(query, str):
        raise QuestionError(f"query must be a string; it is of the type {type(query).__name__}.")
    if isinstance(top_k, bool) or not hasattr(top_k, "__index__"):
        raise QuestionError(f"top_k must be a whole number; it is of the type {type(top_k).__name__}.")
    return index(top_k)  # pyright: ignore[reportArgumentType]


def read_filters(filters: object, keywords: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Return the values of each filter, from a mapping or as keywords; empty values are no filter.

    Args:
        filters: a mapping, or None; other keys than those of `FILTER_KEYS` are ignored.
        keywords: the same as keywords, of which none is ignored.

    Raises:
        QuestionError: a filter is unknown, given twice, or neither a value nor a list of values; no value is quoted.
    """
    if filters is not None and not isinstance(filters, Mapping):
        raise QuestionError(
            f"filters must be a mapping such as {{'topic': 'hr'}}; it is of the type {type(filters).__name__}."
        )
    for name in keywords:
        if name not in FILTER_KEYS:
            raise QuestionError(
                f"There is no argument {name!r}; there are query, filters, top_k and the filters {', '.join(FILTER_KEYS)}."
            )
        if filters and filters.get(name):
            raise QuestionError(f"{name} is given twice: in filters and as a keyword.")
    given = {**(filters or {}), **{name: value for name, value in keywords.items() if value}}
    read = {name: _values(name, given[name]) for name in FILTER_KEYS if given.get(name)}
    return {name: values for name, values in read.items() if values}


def _values(name: str, given: object) -> tuple[str, ...]:
    if isinstance(given, (list, tuple, set, frozenset)):
        parts: list[object] = list(given)
    else:
        parts = [given]
    if not all(isinstance(part, (str, int, float)) or part is None for part in parts):
        raise QuestionError(f"The filter {name} must be a value or a list of values.")
    return tuple(sorted({str(part) for part in parts if part not in ("", None)}))
