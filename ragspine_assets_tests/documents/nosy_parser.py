"""A parser that tries what a taken-over one would try, and says as its text what it could."""

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from ragspine_assets.documents.extraction import Extracted, ExtractionLimits


def curious(data: bytes, suffix: str, limits: ExtractionLimits) -> Extracted:
    """Try everything; the file's bytes are JSON: files to read, a folder to write, a port to reach."""
    given = json.loads(data)
    ways: dict[str, Callable[[], object]] = {
        **{f"read {name}": (lambda name=name: Path(name).read_bytes()) for name in given["read"]},
        "list": lambda: os.listdir(given["folder"]),
        "write": lambda: Path(given["folder"], "planted").write_text("x"),
        "connect": lambda: socket.create_connection(("127.0.0.1", given["port"]), timeout=2),
        "datagram": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "local socket": lambda: socket.socket(socket.AF_UNIX),
        "program": lambda: subprocess.run(["/bin/true"], check=True),
        "signal": lambda: os.kill(os.getppid(), 0),
        "parent's environment": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
        "own folder": lambda: Path(os.environ["TMPDIR"], "mine").write_text("x"),
    }
    could = []
    for name, way in ways.items():
        try:
            way()
            could.append(name)
        except OSError:
            pass
    own = os.stat(os.environ["TMPDIR"])
    told = {"could": could, "environment": dict(os.environ), "temporary": [os.environ["TMPDIR"], oct(own.st_mode)]}
    return Extracted(json.dumps(told), "plain", "nosy 1")
