"""Starting the service: where it listens, when it refuses, and what a real process does with hostile input."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest

from ragspine_assets.errors import SettingError
from ragspine_assets.service.server import ServeSettings, is_loopback, serve
from ragspine_assets_tests.serving.conftest import Port


@pytest.fixture
def process(published: Port, tmp_path: Path) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    published.publish(levels=["INTERNAL"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "RAGSPINE_REQUEST_LOG": str(tmp_path / "requests")}
    command = [
        sys.executable,
        "-m",
        "ragspine_assets.cli",
        "serve",
        "--port",
        str(port),
        "--snapshots",
        str(published.root),
    ]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as running:
        try:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                try:
                    if httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200:
                        break
                except httpx.TransportError:
                    time.sleep(0.1)
            yield port, running
        finally:
            running.send_signal(signal.SIGINT)


RAW = [
    b"GET /chunks/../../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    b"GET /chunks/%2e%2e%2fetc%2fpasswd%00 HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    b"GET /documents/%ff%fe HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    b"GET /documents/\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"POST /search HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n{",
    b"POST /search HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Type: application/json\r\nContent-Length: -1\r\n\r\n{",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"POST /search HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
]


def test_a_process_answers_refuses_what_is_hostile_and_ends_when_asked(
    process: tuple[int, subprocess.Popen[str]],
) -> None:
    port, running = process
    found = httpx.post(f"http://127.0.0.1:{port}/search", json={"query": "crane"})
    assert found.json()["snippets"][0]["doc_id"] == "cranes.md"
    assert "server" not in found.headers
    for raw in RAW:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(raw.replace(b"PORT", str(port).encode()))
            answer = connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 4"), (raw, answer)
        assert b"Traceback" not in answer
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=20)
    assert "to this machine only, up to INTERNAL" in said
    assert "Traceback" not in said
    assert json.dumps("crane") not in said


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "ragspine.example.org"])
def test_elsewhere_than_on_loopback_it_does_not_start_without_clients(tmp_path: Path, host: str) -> None:
    with pytest.raises(SettingError, match="no clients are named"):
        serve(ServeSettings(str(tmp_path), host=host))


def test_loopback_is_what_only_this_machine_reaches() -> None:
    assert [host for host in ("127.0.0.1", "127.8.0.1", "::1", "localhost", "0.0.0.0", "localhost.example.org") if is_loopback(host)] == [
        "127.0.0.1", "127.8.0.1", "::1", "localhost",
    ]  # fmt: skip
