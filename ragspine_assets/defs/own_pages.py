"""Which requests the UI's server answers: see `service.own_pages`, and what GraphQL adds.

Belongs here: the layer in front of Dagster's web server, which has no login and executes whatever reaches it (SPEC 6.5).
"""

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import parse_qsl

from graphql import GraphQLSyntaxError, OperationDefinitionNode, OperationType, parse

from ragspine_assets.service.own_pages import (
    READING,
    App,
    Message,
    Origin,
    Receive,
    Scope,
    Send,
    is_json,
    parse_origin,
    parse_origins,
)
from ragspine_assets.service.own_pages import OwnPagesOnly as AnyOwnPagesOnly

__all__ = ["App", "Message", "Origin", "OwnPagesOnly", "Receive", "Scope", "Send", "parse_origin", "parse_origins"]


class OwnPagesOnly(AnyOwnPagesOnly):
    """An ASGI application that answers only its own pages and programs on this machine, and changes nothing by GET."""

    setting: ClassVar[str] = "RAGSPINE_UI_ORIGINS"

    def problem_of_form(self, scope: Scope, headers: Mapping[str, list[str]]) -> str:
        """Say what is wrong with the form of a request that could change something; '' for nothing."""
        if scope["type"] == "websocket":
            return ""
        if scope["method"] not in READING:
            (kind,) = headers.get("content-type") or ("",)
            # A page may send any other type across origins without asking first.
            if scope["method"] != "OPTIONS" and not is_json(kind):
                return "Refused: what changes something is sent as application/json."
            return ""
        query = scope.get("query_string", b"").decode("latin-1")
        queries = [value for name, value in parse_qsl(query) if name == "query"]
        if scope["path"].rstrip("/").endswith("/graphql") and not all(map(_only_reads, queries)):
            return "Refused: a GET may hold queries only; what changes something is sent by POST."
        return ""


def _only_reads(document: str) -> bool:
    """Whether every operation of a GraphQL document is a query, whichever of them is asked for."""
    try:
        definitions = parse(document).definitions
    except (GraphQLSyntaxError, RecursionError):
        return False
    operations = [each.operation for each in definitions if isinstance(each, OperationDefinitionNode)]
    return all(operation is OperationType.QUERY for operation in operations)
