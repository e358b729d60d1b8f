"""What may be asked, and in which form: one model per request, from which the OpenAPI page derives (SPEC 8.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ragspine_assets.retrieval.corpus import FILTER_KEYS
from ragspine_assets.service.refusal import Refusal

MOST_CHARS = 2_000
"""Longest question, in code points."""

MOST_SNIPPETS = 200
MOST_BUDGET = 1_000_000

Filter = Annotated[str, StringConstraints(max_length=500)]


class _Question(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class Filters(_Question):
    """Values that fields of what is found must have; an empty one is none."""

    topic: Filter = ""
    entity: Filter = ""
    geography: Filter = ""
    period: Filter = ""
    language: Filter = ""

    def given(self) -> dict[str, str]:
        """Return those that are not empty."""
        return {name: value for name in FILTER_KEYS if (value := getattr(self, name))}


class SearchQuestion(_Question):
    """A question, answered by passages."""

    query: Annotated[str, StringConstraints(max_length=MOST_CHARS)] = Field(
        description="The question, in any language."
    )
    filters: Filters = Field(default_factory=Filters)
    top_k: int = Field(10, ge=1, le=MOST_SNIPPETS, description="How many passages at most.")
    explain: bool = Field(False, description="Whether each passage says which terms gave which score.")


class ContextQuestion(_Question):
    """A question, answered by one numbered text for a prompt."""

    query: Annotated[str, StringConstraints(max_length=MOST_CHARS)] = Field(
        description="The question, in any language."
    )
    filters: Filters = Field(default_factory=Filters)
    top_k: int = Field(10, ge=1, le=MOST_SNIPPETS, description="How many passages at most.")
    budget: int | None = Field(None, ge=1, le=MOST_BUDGET, description="Longest text, in code points.")


class DocumentQuestion(_Question):
    """Which part of a document's passages is listed."""

    offset: int = Field(0, ge=0, le=2**31, description="How many passages to pass over.")
    limit: int = Field(500, ge=1, le=2_000, description="How many passages at most.")


class GraphQuestion(_Question):
    """Which part of the graph around a node is shown."""

    depth: int = Field(1, ge=0, le=3, description="How many edges away.")
    type: list[Annotated[str, StringConstraints(max_length=100)]] = Field(
        default_factory=list, max_length=20, description="Only edges of this type; may be repeated."
    )
    unverified: bool = Field(False, description="Also edges that a model asserted; each is marked.")


class NoQuestion(_Question):
    """Nothing that could be asked."""


Q = TypeVar("Q", bound=_Question)


def read_json(model: type[Q], body: bytes) -> Q:
    """Read the body of a request.

    Raises:
        Refusal: it is no JSON, or not of that form; the sentence names the field and quotes nothing.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _refusal(error) from None


def read_values(model: type[Q], values: Mapping[str, Any]) -> Q:
    """Read the parameters of an address, which are all texts.

    Raises:
        Refusal: one is unknown or not of its form; the sentence names it and quotes nothing.
    """
    try:
        return model.model_validate(values, strict=False)
    except ValidationError as error:
        raise _refusal(error) from None


def _refusal(error: ValidationError) -> Refusal:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return Refusal(400, "The body is no JSON.")
    known = {
        "query",
        "filters",
        "top_k",
        "explain",
        "budget",
        "offset",
        "limit",
        "depth",
        "type",
        "unverified",
        *FILTER_KEYS,
    }
    where = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in known)
    if first["type"] == "extra_forbidden":
        within = f" of {where}" if where else ""
        allowed = ", ".join(FILTER_KEYS) if where == "filters" else "those that /openapi.json lists"
        return Refusal(422, f"Unknown field{within}; allowed are {allowed}.")
    message = first["msg"][:1].lower() + first["msg"][1:]
    return Refusal(422, f"{where or 'The body'}: {message}.")
