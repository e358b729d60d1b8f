"""The page for people, at ``/`` of the same process: files of this package, no script from elsewhere (SPEC 8.4)."""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_FOLDER = files("ragspine_assets.service") / "static"


def page_routes() -> list[Route]:
    """Return the routes of the page: ``/`` and each file of the folder ``static``, by its name. They need no token."""
    names = sorted(entry.name for entry in _FOLDER.iterdir() if entry.name.rpartition(".")[2] in _TYPES)
    return [Route("/" if name == "index.html" else f"/static/{name}", _file(name)) for name in names]


def _file(name: str):
    content, kind = (_FOLDER / name).read_bytes(), _TYPES[name.rpartition(".")[2]]

    async def sent(_request: Request) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return sent
