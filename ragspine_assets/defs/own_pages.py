"""Which requests the UI's server answers: those of its own pages, and of programs on this machine.

Belongs here: the layer in front of Dagster's web server, which has no login and executes whatever reaches it. A page of
another origin that is open in the same browser can send requests to loopback: with a form or an image (they look like a
program's), by a name that it points at loopback (DNS rebinding), over a WebSocket (no preflight), or through a person's
clicks (a frame). All of these are refused before Dagster sees them (SPEC 6.5).
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from graphql import GraphQLSyntaxError, OperationDefinitionNode, OperationType, parse

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PORTS = {"http": 80, "https": 443}
_READING = {"GET", "HEAD"}
_OWN = {"same-origin", "none"}
_FRAMES = [(b"x-frame-options", b"SAMEORIGIN"), (b"cross-origin-resource-policy", b"same-origin")]

Origin = tuple[str, str, int]
"""Scheme, name in lower case, port."""


def parse_origin(text: str) -> Origin | None:
    """Return the origin that an address such as `https://dagster.example.org` names; None where it is not one."""
    try:
        parts = urlsplit(text)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    bare = not (parts.path or parts.query or parts.fragment or "@" in parts.netloc or "\\" in text or " " in text)
    if port is None or not parts.hostname or not bare or not text.isascii():
        return None
    return parts.scheme, parts.hostname.lower(), port


def parse_origins(text: str) -> tuple[Origin, ...]:
    """Return the origins that a setting lists, separated by commas.

    Raises:
        ValueError: one of them is no address of a server; the message says what is allowed.
    """
    found = []
    for part in filter(None, (part.strip().rstrip("/") for part in text.split(","))):
        origin = parse_origin(part)
        if origin is None:
            raise ValueError(f"{part!r} must be an address without a path, such as https://dagster.example.org")
        found.append(origin)
    return tuple(found)


class OwnPagesOnly:
    """An ASGI application that answers only its own pages and programs on this machine.

    Args:
        app: the application behind it.
        also: further origins under which a proxy shows it.
    """

    def __init__(self, app: App, also: Iterable[Origin] = ()) -> None:
        self._app = app
        self._also = frozenset(also)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or refuse it with one sentence."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        problem = self._problem(scope)
        if not problem:
            await self._app(scope, receive, _unframed(send))
        elif scope["type"] == "websocket":
            # Before it is accepted, closing a WebSocket refuses it with status 403.
            await send({"type": "websocket.close", "code": 1008, "reason": problem})
        else:
            body = f"{problem}\n".encode()
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    def _problem(self, scope: Scope) -> str:
        """Say why a request is refused; '' for one that is not."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        for name in ("host", "origin", "content-type", "sec-fetch-site"):
            if len(headers.get(name, ())) > 1:
                return f"Refused: the header {name} is there more than once."
        own = self._own(scope)
        (host,) = headers.get("host") or ("",)
        if not {parse_origin(f"{scheme}://{host}") for scheme in ("http", "https")} & own:
            return (
                "Refused: this server is not called that. Behind a proxy, RAGSPINE_UI_ORIGINS names the address that "
                "people use."
            )
        if "origin" in headers and parse_origin(headers["origin"][0]) not in own:
            return "Refused: the request comes from a page of another origin."
        if not _is_own_or_navigation(scope, headers):
            return "Refused: the browser says that another site asks."
        return _problem_of_form(scope, headers)

    def _own(self, scope: Scope) -> frozenset[Origin]:
        port = (scope.get("server") or (None, None))[1]
        return self._also if port is None else self._also | {("http", name, port) for name in _LOOPBACK}


def _is_own_or_navigation(scope: Scope, headers: dict[str, list[str]]) -> bool:
    """Whether a browser says that this server's own page asks, or a person follows a link to one of its pages."""
    (site,) = headers.get("sec-fetch-site") or ("none",)
    if site.strip().lower() in _OWN:
        return True
    told = [headers.get(name, [""])[0].strip().lower() for name in ("sec-fetch-mode", "sec-fetch-dest")]
    return scope["type"] == "http" and scope["method"] == "GET" and told == ["navigate", "document"]


def _problem_of_form(scope: Scope, headers: dict[str, list[str]]) -> str:
    """Say what is wrong with the form of a request that could change something; '' for nothing."""
    if scope["type"] == "websocket":
        return ""
    if scope["method"] not in _READING:
        (kind,) = headers.get("content-type") or ("",)
        # A page may send any other type across origins without asking first.
        if scope["method"] != "OPTIONS" and kind.partition(";")[0].strip().lower() != "application/json":
            return "Refused: what changes something is sent as application/json."
        return ""
    queries = [value for name, value in parse_qsl(scope.get("query_string", b"").decode("latin-1")) if name == "query"]
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


def _unframed(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_FRAMES]}
        await send(message)

    return with_headers
