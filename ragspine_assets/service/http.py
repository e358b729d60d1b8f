"""The HTTP service: requests in, the answers of `view.View` out, a line of the log for each (SPEC 8.1, 8.4)."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from ragspine_assets.errors import SettingError, is_cancel
from ragspine_assets.service.clients import Client, Clients
from ragspine_assets.service.metrics import CONTENT_TYPE_LATEST, Metrics
from ragspine_assets.service.openapi import docs_page, openapi
from ragspine_assets.service.own_pages import App, Origin, OwnPagesOnly, is_json
from ragspine_assets.service.page import page_routes
from ragspine_assets.service.questions import (
    ContextQuestion,
    DocumentQuestion,
    GraphQuestion,
    NoQuestion,
    Q,
    SearchQuestion,
    read_json,
    read_values,
)
from ragspine_assets.service.refusal import Refusal
from ragspine_assets.service.releases import Releases
from ragspine_assets.service.request_log import Entry, RequestLog
from ragspine_assets.service.view import Answer, View, served_citations, served_windows

if TYPE_CHECKING:
    from starlette.types import ExceptionHandler

MOST_BYTES = 64 * 1024
"""Longest body of a request."""

BODY_S = 10.0
"""Seconds in which a body must arrive."""

_INLINE_CHARS = 200
_INLINE_CHUNKS = 200_000
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True)
class Served:
    """An answer, and what the log says of it.

    Attributes:
        answer: what is sent.
        hits: how many passages or edges are in it.
        citations: the passages that are served.
        windows: paragraphs that are served around them.
        query: what was asked.
    """

    answer: Answer
    hits: int = 0
    citations: Iterable[str] = ()
    windows: Iterable[str] = field(default=())
    query: str = ""


Handler = Callable[[View, Request], Awaitable[Served]]


def make_app(
    releases: Releases, clients: Clients, log: RequestLog | None = None, *, origins: Iterable[Origin] = ()
) -> App:
    """Return the service as an ASGI application.

    Args:
        releases: what is served.
        clients: who is served. Without a file of clients only this machine's own pages and programs are answered.
        log: where each request leaves a line; None for nowhere.
        origins: addresses under which a proxy on this machine shows the service, where no clients are named.
    """
    service = Service(releases, clients, log)
    app = Starlette(routes=[*api_routes(service), *page_routes()], exception_handlers=service.exception_handlers())
    app.router.redirect_slashes = False
    return app if clients.named else OwnPagesOnly(app, origins)


def api_routes(service: Service) -> list[Route]:
    """Return the routes that programs use."""
    return [
        Route("/search", service.endpoint("/search", _search), methods=["POST"]),
        Route("/context", service.endpoint("/context", _context), methods=["POST"]),
        Route("/chunks/{citation:path}", service.endpoint("/chunks", _chunk)),
        Route("/documents/{doc_id:path}", service.endpoint("/documents", _document)),
        Route("/graph/{kind}/{node_id:path}", service.endpoint("/graph", _graph)),
        Route("/healthz", service.health),
        Route("/metrics", service.metrics),
        Route("/openapi.json", _openapi),
        Route("/docs", _docs),
    ]


class Service:
    """What all requests have in common: who asks, what is current, what goes wrong, what is written down.

    Args:
        releases: what is served.
        clients: who is served.
        log: where each request leaves a line; None for nowhere.
    """

    def __init__(self, releases: Releases, clients: Clients, log: RequestLog | None) -> None:
        self._releases = releases
        self._clients = clients
        self._log = log
        self._metrics = Metrics()

    def endpoint(self, route: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Return what answers a route."""

        async def answered(request: Request) -> Response:
            async def handled(client: Client) -> tuple[Served, str]:
                view = (await self._releases.current()).view(client)
                return await handler(view, request), view.name

            return await self._answered(request, route, handled)

        return answered

    async def health(self, request: Request) -> Response:
        """Say whether a release is served; to a client, also which and how old it is."""

        async def handled(client: Client) -> tuple[Served, str]:
            view = (await self._releases.current()).view(client)
            state = view.state()
            age = time.time() - _seconds(str(state["published_at"]))
            problem = {"problem": self._releases.problem} if self._releases.problem else {}
            return Served({"status": "ok", **state, "age_s": round(max(age, 0), 1), **problem}), view.name

        async def unknown() -> tuple[Served, str]:
            await self._releases.current()
            return Served({"status": "ok"}), ""

        return await self._answered(request, "/healthz", handled, unknown)

    async def metrics(self, request: Request) -> Response:
        """Return counts and times, to a client that may see them."""
        published = None

        async def handled(client: Client) -> tuple[Served, str]:
            nonlocal published
            if not client.metrics:
                raise Refusal(
                    403, "This client may not read the metrics; the operator sets metrics = true for one that may."
                )
            try:
                published = _seconds((await self._releases.current()).snapshot.manifest.published_at)
            except Refusal:
                published = None
            return Served({}), ""

        response = await self._answered(request, "/metrics", handled)
        if response.status_code != 200:
            return response
        return Response(self._metrics.text(published), media_type=CONTENT_TYPE_LATEST, headers=_HEADERS)

    def exception_handlers(self) -> Mapping[object, ExceptionHandler]:
        """Return how requests are refused that reach no route."""

        async def refused(request: Request, error: Exception) -> Response:
            status = error.status_code if isinstance(error, HTTPException) else 500
            sentence = {
                404: "There is no such address here; /docs lists them.",
                405: "That address is not asked in this way; /docs tells how.",
            }

            async def handled(_client: Client) -> tuple[Served, str]:
                raise Refusal(status, sentence.get(status, "The request cannot be answered."))

            response = await self._answered(request, "other", handled, lambda: handled(_NOBODY))
            if status == 405 and isinstance(error, HTTPException) and error.headers:
                response.headers.update(error.headers)
            return response

        return {HTTPException: refused}  # pyright: ignore[reportReturnType]

    async def _answered(
        self,
        request: Request,
        route: str,
        handled: Callable[[Client], Awaitable[tuple[Served, str]]],
        unknown: Callable[[], Awaitable[tuple[Served, str]]] | None = None,
    ) -> Response:
        """Answer a request, and write down what was answered.

        Args:
            request: the request.
            route: what the log calls what was asked for.
            handled: answers a client.
            unknown: answers somebody who shows no token; None where a token is needed.
        """
        started = time.perf_counter()
        served, client, release = Served({}), "", ""
        status, headers = 200, dict(_HEADERS)
        try:
            known = self._client(request, needed=unknown is None)
            if known is not None:
                client = known.name
                served, release = await handled(known)
            elif unknown is not None:
                served, release = await unknown()
            body = _json(served.answer)
        except Refusal as refusal:
            status, body = refusal.status, _json({"error": str(refusal)})
            if status == 401:
                headers["WWW-Authenticate"] = "Bearer"
            if status in {408, 413}:
                headers["Connection"] = "close"
        except BaseException as error:
            if is_cancel(error):
                raise
            served, status, body = Served({}), 500, _json({"error": BROKEN})
            report(error)
        seconds = time.perf_counter() - started
        try:
            self._write(Entry(
                client, route, status, seconds * 1000, served.hits, release,
                tuple(served.citations), tuple(served.windows), served.query,
            ))  # fmt: skip
        except OSError as error:
            status, body = (
                503,
                _json(
                    {"error": "Nothing is served: the request log cannot be written. The operator looks at its disk."}
                ),
            )
            report(error)
        self._metrics.answered(route, status, seconds)
        return Response(body, status, headers, "application/json")

    def _write(self, entry: Entry) -> None:
        if self._log is not None:
            self._log.write(entry)

    def _client(self, request: Request, *, needed: bool) -> Client | None:
        """Return who asks; None for somebody without a token, where none is needed."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            if not self._clients.named:
                return self._clients.find("")
            if scheme.lower() != "bearer" or not token.strip():
                if not needed:
                    return None
                raise Refusal(401, "A token is needed: send `Authorization: Bearer TOKEN`.")
            client = self._clients.find(token.strip())
        except SettingError as error:
            print(f"ragspine serve: {error}", file=sys.stderr)
            raise Refusal(
                503, "Nothing is served: the list of clients cannot be used. The operator's log says why."
            ) from None
        if client is None:
            raise Refusal(401, "That token is nobody's.")
        return client


BROKEN = "Something is wrong here. The operator's log has the kind of error; nothing of any document."
_NOBODY = Client("", max_label=Clients().all()[0].max_label)


def report(error: BaseException) -> None:
    """Tell the operator what kind of error happened where, and nothing of its message: it may quote a document."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f" at {at.tb_frame.f_code.co_filename.rpartition('/')[2]}:{at.tb_lineno}" if at is not None else ""
    print(f"ragspine serve: {type(error).__name__}{where}", file=sys.stderr)


async def _search(view: View, request: Request) -> Served:
    asked = await _body(request, SearchQuestion)
    answer = await _run(
        view, asked.query, lambda: view.search(asked.query, filters=asked.filters.given(), top_k=asked.top_k, explain=asked.explain)
    )  # fmt: skip
    return passages(answer, "snippets", asked.query)


async def _context(view: View, request: Request) -> Served:
    asked = await _body(request, ContextQuestion)
    answer = await _run(
        view, asked.query, lambda: view.context(asked.query, filters=asked.filters.given(), top_k=asked.top_k, budget=asked.budget)
    )  # fmt: skip
    return passages(answer, "sources", asked.query)


async def _chunk(view: View, request: Request) -> Served:
    read_values(NoQuestion, _parameters(request))
    answer = view.chunk(request.path_params["citation"])
    return passages({"snippets": [answer]}, "snippets", "", answer)


async def _document(view: View, request: Request) -> Served:
    asked = read_values(DocumentQuestion, _parameters(request))
    answer = await asyncio.to_thread(
        view.document, request.path_params["doc_id"], offset=asked.offset, limit=asked.limit
    )
    return Served(answer)


async def _graph(view: View, request: Request) -> Served:
    asked = read_values(GraphQuestion, _parameters(request))
    answer = await asyncio.to_thread(
        view.graph,
        request.path_params["kind"],
        request.path_params["node_id"],
        depth=asked.depth,
        types=asked.type,
        unverified=asked.unverified,
    )
    edges = answer["edges"]
    return Served(answer, len(edges) if isinstance(edges, list) else 0)


async def _openapi(_request: Request) -> Response:
    return Response(_json(openapi()), media_type="application/json", headers=_HEADERS)


async def _docs(_request: Request) -> Response:
    policy = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}
    return Response(docs_page(), media_type="text/html", headers={**_HEADERS, **policy})


def passages(answer: Answer, key: str, query: str, whole: Answer | None = None) -> Served:
    """Return an answer that serves passages, with what the log says of it."""
    found = answer[key]
    hits = [hit for hit in found if isinstance(hit, dict)] if isinstance(found, list) else []
    return Served(whole or answer, len(hits), served_citations(hits), served_windows(hits), query)


async def _run(view: View, query: str, ask: Callable[[], Answer]) -> Answer:
    # What takes less time than to hand it to a thread is done at once; nobody has to wait for the rest.
    if len(query) <= _INLINE_CHARS and len(view.snapshot) <= _INLINE_CHUNKS:
        return ask()
    return await asyncio.to_thread(ask)


async def _body(request: Request, model: type[Q]) -> Q:
    if not is_json(request.headers.get("content-type", "")):
        raise Refusal(415, "Send the question as application/json.")
    length = request.headers.get("content-length", "0")
    too_long = Refusal(413, f"The body is too long; at most {MOST_BYTES:,} bytes are read.")
    if not length.isdecimal() or int(length) > MOST_BYTES:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BYTES:
                    raise too_long
    except TimeoutError:
        raise Refusal(408, f"The body did not arrive within {BODY_S:.0f} seconds.") from None
    except ClientDisconnect:
        raise Refusal(400, "The body broke off.") from None
    return read_json(model, bytes(body))


def _parameters(request: Request) -> dict[str, object]:
    values: dict[str, object] = {}
    for name in request.query_params:
        given = request.query_params.getlist(name)
        values[name] = given if name == "type" or len(given) > 1 else given[0]
    return values


def _seconds(time_text: str) -> float:
    return datetime.fromisoformat(time_text).timestamp()


def _json(value: object) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # A name that is no Unicode.
        return json.dumps(value, separators=(",", ":")).encode()
