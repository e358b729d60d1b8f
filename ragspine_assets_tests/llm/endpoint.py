"""An endpoint on loopback that speaks both interfaces, answers by script, and keeps every request it gets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

LONGEST_S = 20.0


@dataclass(frozen=True)
class Say:
    """An answer of the model, in the interface's own form; `drip_s` is a pause between its bytes."""

    text: str
    input_tokens: int = 11
    output_tokens: int = 7
    drip_s: float = 0.0
    cut: bool = False


@dataclass(frozen=True)
class Fail:
    """An answer of the endpoint instead of the model."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: str = '{"error": {"message": "no", "type": "error"}}'


@dataclass(frozen=True)
class Hang:
    """No answer at all until the client goes away or the endpoint stops."""


@dataclass(frozen=True)
class Raw:
    """Bytes that are no answer of either interface."""

    body: bytes


Behaviour = Say | Fail | Hang | Raw | str


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, object]
    raw: str

    @property
    def prompt(self) -> str:
        """What the model reads: all turns, and the rules that stand apart in Anthropic's interface."""
        messages = self.body.get("messages", [])
        assert isinstance(messages, list)
        return "\n".join([str(self.body.get("system", "")), *(str(message["content"]) for message in messages)])


class Endpoint:
    """Answers with what `script` says: one behaviour per request, the last one again and again, or a function."""

    def __init__(self, script: Sequence[Behaviour] | Callable[[Request], Behaviour]) -> None:
        self._script = script
        self._guard = threading.Lock()
        self._stopped = threading.Event()
        self.requests: list[Request] = []
        self.at_once = 0
        self.most_at_once = 0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                endpoint.handle(self)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        raw = handler.rfile.read(int(handler.headers.get("content-length", "0"))).decode()
        request = Request(handler.path, {k.lower(): v for k, v in handler.headers.items()}, json.loads(raw), raw)
        with self._guard:
            number = len(self.requests)
            self.requests.append(request)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if callable(self._script):
                behaviour = self._script(request)
            else:
                behaviour = self._script[min(number, len(self._script) - 1)]
            self._answer(handler, request, behaviour)
        except (BrokenPipeError, ConnectionResetError):
            handler.close_connection = True
        finally:
            with self._guard:
                self.at_once -= 1

    def _answer(self, handler: BaseHTTPRequestHandler, request: Request, behaviour: Behaviour) -> None:
        if isinstance(behaviour, str):
            behaviour = Say(behaviour)
        if isinstance(behaviour, Hang):
            self._stopped.wait(LONGEST_S)
            handler.close_connection = True
            return
        if isinstance(behaviour, Fail):
            self._send(handler, behaviour.status, behaviour.body.encode(), behaviour.headers)
            return
        if isinstance(behaviour, Raw):
            self._send(handler, 200, behaviour.body, {})
            return
        body = json.dumps(self._form(request, behaviour)).encode()
        if behaviour.cut:
            handler.send_response(200)
            handler.send_header("content-type", "application/json")
            handler.send_header("content-length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body[: len(body) // 2])
            handler.wfile.flush()
            handler.close_connection = True
            return
        self._send(handler, 200, body, {}, behaviour.drip_s)

    def _send(
        self, handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str], drip_s: float = 0.0
    ) -> None:
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        if not drip_s:
            handler.wfile.write(body)
            return
        end = time.monotonic() + LONGEST_S
        for byte in body:
            if self._stopped.wait(drip_s) or time.monotonic() > end:
                handler.close_connection = True
                return
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()

    def _form(self, request: Request, said: Say) -> dict[str, object]:
        if request.path.endswith("/messages"):
            return {
                "id": "m1",
                "type": "message",
                "role": "assistant",
                "model": "double-1",
                "content": [{"type": "text", "text": said.text}],
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens},
            }
        return {
            "id": "c1",
            "object": "chat.completion",
            "created": 1,
            "model": "double-1",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said.text}}],
            "usage": {
                "prompt_tokens": said.input_tokens,
                "completion_tokens": said.output_tokens,
                "total_tokens": said.input_tokens + said.output_tokens,
            },
        }
