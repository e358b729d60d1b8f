"""Which requests a server on loopback answers: those of its own pages, and of programs on this machine.

A page of another origin that is open in the same browser can send requests to loopback: with a form or an image (they look
like a program's), by a name that it points at loopback (DNS rebinding), over a WebSocket (no preflight), or through a
person's clicks (a frame). All of these are refused before the application sees them (SPEC 6.5, 8.2).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PORTS = {"http": 80, "https": 443}
READING = {"GET", "HEAD"}
"""Methods that change nothing."""
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

    setting: ClassVar[str] = "RAGSPINE_SERVE_ORIGINS"
    """Which setting names the addresses under which a proxy shows it."""

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
                f"Refused: this server is not called that. Behind a proxy, {self.setting} names the address that "
                "people use."
            )
        if "origin" in headers and parse_origin(headers["origin"][0]) not in own:
            return "Refused: the request comes from a page of another origin."
        if not _is_own_or_navigation(scope, headers):
            return "Refused: the browser says that another site asks."
        return self.problem_of_form(scope, headers)

    def problem_of_form(self, scope: Scope, headers: Mapping[str, list[str]]) -> str:
        """Say what is wrong with the form of a request that is more than reading; '' for nothing."""
        (kind,) = headers.get("content-type") or ("",)
        # A page may send any other type across origins without asking first.
        if scope["type"] == "http" and scope["method"] not in {*READING, "OPTIONS"} and not is_json(kind):
            return "Refused: send application/json."
        return ""

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


def is_json(content_type: str) -> bool:
    """Tell whether a header says that a body is JSON."""
    return content_type.partition(";")[0].strip().lower() == "application/json"


def _unframed(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_FRAMES]}
        await send(message)

    return with_headers
