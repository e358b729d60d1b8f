"""A published port, and a service over it."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ragspine_assets.service import Clients, Releases, make_app
from ragspine_assets.service.request_log import RequestLog, logged
from ragspine_assets_tests.serving.conftest import Port, published, template

__all__ = ["published", "template"]

HERE = "http://127.0.0.1:8000"
TOKENS = {"web": "PUBLIC", "staff": "INTERNAL", "board": "CONFIDENTIAL"}


def clients_file(path: Path, more: str = "") -> Path:
    """A file of three clients, whose tokens are their names."""
    parts = [
        f'[clients.{name}]\ntoken_sha256 = "{hashlib.sha256(name.encode()).hexdigest()}"\nmax_label = "{label}"\n'
        for name, label in TOKENS.items()
    ]
    path.write_text("\n".join([*parts, more]))
    path.chmod(0o600)
    return path


@dataclass
class Served:
    """A service in this process."""

    port: Port
    http: TestClient
    log: Path

    def lines(self) -> list[dict[str, object]]:
        return list(logged(self.log))


def serve(port: Port, clients: Path | None = None) -> Iterator[Served]:
    log = port.root.with_name("requests")
    app = make_app(Releases(port.root), Clients(clients), RequestLog(log))
    with TestClient(app, base_url=HERE) as http:
        yield Served(port, http, log)


@pytest.fixture
def local(published: Port) -> Iterator[Served]:
    """A service on loopback, for whoever asks on this machine."""
    published.publish(levels=["INTERNAL"])
    yield from serve(published)


@pytest.fixture
def served(published: Port, tmp_path: Path) -> Iterator[Served]:
    """A service for three clients."""
    published.publish(levels=["INTERNAL", "PUBLIC"])
    yield from serve(published, clients_file(tmp_path / "clients.toml"))
