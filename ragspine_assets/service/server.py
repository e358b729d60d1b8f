"""Starting the HTTP service: where it listens, whom it serves, and when it refuses to start (SPEC 8.2)."""

from __future__ import annotations

import ipaddress
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from ragspine_assets.errors import SettingError
from ragspine_assets.service.clients import LOCAL, Clients, levels_of
from ragspine_assets.service.http import make_app
from ragspine_assets.service.own_pages import parse_origins
from ragspine_assets.service.releases import Releases
from ragspine_assets.service.request_log import RequestLog
from ragspine_assets.serving.snapshot import Snapshot
from ragspine_assets.serving.snapshot_files import SnapshotError

_KEEP_ALIVE_S = 5
_END_S = 10


@dataclass(frozen=True)
class ServeSettings:
    """How the service is started.

    Attributes:
        snapshots: folder of the snapshots.
        clients: file of the clients; ``''`` for none.
        host: address to listen on.
        port: port to listen on; 0 for any that is free.
        origins: addresses under which a proxy on this machine shows it, separated by commas.
        log: folder of the request log.
        trusted_keys: public keys one of which must have signed a release; none for no signature.
        certificate: file of a certificate, for TLS; ``''`` for none.
        certificate_key: file of its key.
    """

    snapshots: str
    clients: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    origins: str = ""
    log: str = ""
    trusted_keys: tuple[str, ...] = ()
    certificate: str = ""
    certificate_key: str = ""


def serve(settings: ServeSettings) -> None:
    """Serve until somebody ends it.

    Raises:
        SettingError: it would listen where others reach it and no clients are named, the list of clients may not be used,
            or the log cannot be written.
    """
    clients = Clients(settings.clients or None)
    if not clients.named and not is_loopback(settings.host):
        raise SettingError(
            f"{settings.host} can be reached by others, and no clients are named. Make a file of clients (`ragspine token` "
            "writes a section of it), set RAGSPINE_CLIENTS to it, and start again; or listen on 127.0.0.1."
        )
    try:
        origins = parse_origins(settings.origins)
    except ValueError as error:
        raise SettingError(f"RAGSPINE_SERVE_ORIGINS: {error}.") from None
    try:
        log = RequestLog(settings.log) if settings.log else None
    except OSError as error:
        raise SettingError(f"The request log {settings.log} cannot be written: {error.strerror}.") from None
    app = make_app(Releases(settings.snapshots, trusted_keys=settings.trusted_keys), clients, log, origins=origins)
    logging.getLogger("uvicorn.error").addFilter(_kinds_only)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_END_S,
            ssl_certfile=settings.certificate or None,
            ssl_keyfile=settings.certificate_key or None,
        )
    )
    for line in notices(settings, clients):
        print(line, file=sys.stderr)
    server.run()


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address; a name other than ``localhost`` may stand for any."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def notices(settings: ServeSettings, clients: Clients) -> Sequence[str]:
    """Return what is said when the service starts: where, for whom, and what is missing."""
    scheme = "https" if settings.certificate else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    who = ", ".join(f"{client.name} up to {client.max_label}" for client in clients.all())
    lines = [f"Serving on {scheme}://{host}:{settings.port} for {who}. What can be asked: /docs. Ctrl-C ends it."]
    if not clients.named:
        lines[0] = (
            f"Serving on {scheme}://{host}:{settings.port}, to this machine only, up to {LOCAL.max_label}: no clients are named. "
            "What can be asked: /docs. Ctrl-C ends it."
        )
    try:
        snapshot = Snapshot.open(Path(settings.snapshots), verify=False, trusted_keys=settings.trusted_keys)
        for level in levels_of(clients.all()):
            snapshot.up_to(level)
    except SnapshotError as error:
        lines.append(f"Not yet: {error}")
    return lines


def _kinds_only(record: logging.LogRecord) -> bool:
    """Keep the kind of an error and drop its words: they may quote a document."""
    if record.exc_info:
        kind = record.exc_info[0]
        record.msg, record.args = "The server met %s.", (kind.__name__ if kind else "an error",)
        record.exc_info = record.exc_text = None
    return True
