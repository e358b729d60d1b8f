"""A server as `make ui` starts it, in a folder of its own, and what can be asked of it over HTTP."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

ROOT = Path(__file__).resolve().parents[2]
ENDED = {"SUCCESS", "FAILURE", "CANCELED"}


@dataclass(frozen=True)
class Run:
    """A run as the server tells of it."""

    run_id: str
    job: str
    status: str
    tags: dict[str, str]
    config: str


@dataclass(frozen=True)
class Server:
    """A running `dagster dev` and the folder it was started in."""

    url: str
    folder: Path
    process: subprocess.Popen[bytes]

    def ask(self, query: str) -> dict[str, object]:
        """Send a GraphQL query and return its data."""
        request = urllib.request.Request(
            f"{self.url}/graphql", json.dumps({"query": query}).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["data"]

    def runs(self) -> list[Run]:
        """Return the runs, the newest first."""
        data = self.ask(
            "{ runsOrError(limit: 50) { ... on Runs { results { runId jobName status runConfigYaml tags { key value } } } } }"
        )["runsOrError"]
        assert isinstance(data, dict)
        return [
            Run(r["runId"], r["jobName"], r["status"], {t["key"]: t["value"] for t in r["tags"]}, r["runConfigYaml"])
            for r in data["results"]
        ]

    def wait_for_run(self, before: set[str], timeout_s: float = 180) -> Run:
        """Wait until a run that was not there before has ended."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            for run in self.runs():
                if run.run_id not in before and run.status in ENDED:
                    return run
            time.sleep(0.5)
        raise AssertionError(f"no run ended within {timeout_s} s; there are {self.runs()}")

    def checks(self) -> dict[str, str]:
        """Return the last outcome of every check."""
        data = self.ask(
            "{ assetNodes { assetKey { path } assetChecksOrError { ... on AssetChecks { checks { name "
            "executionForLatestMaterialization { status } } } } } }"
        )["assetNodes"]
        assert isinstance(data, list)
        found = {}
        for node in data:
            for check in node["assetChecksOrError"].get("checks", ()):
                execution = check["executionForLatestMaterialization"] or {}
                found[f"{node['assetKey']['path'][-1]}: {check['name']}"] = execution.get("status", "NEVER")
        return found


@contextmanager
def serve(folder: Path, **settings: str) -> Iterator[Server]:
    """Start `dagster dev` on loopback over a copy of the project's demo, and end it and all it started.

    Args:
        folder: an empty folder.
        settings: environment variables.
    """
    for name in ("dagster.yaml", "workspace.yaml"):
        copy(ROOT / name, folder)
    copytree(ROOT / "data", folder / "data", ignore=ignore_patterns("*.duckdb*", "snapshots", "stores"))
    (folder / ".dagster").mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RAGSPINE_", "DAGSTER_HOME"))}
    log = (folder / "server.log").open("wb")
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("dagster")), "dev", "--host", "127.0.0.1", "--port", str(port)],
        cwd=folder, env={**clean, "PYTHONPATH": str(ROOT), **settings}, stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    server = Server(f"http://127.0.0.1:{port}", folder, process)
    try:
        _wait_until_loaded(server)
        yield server
    finally:
        # Its own session: nothing but what this server started is in the group.
        for number in (signal.SIGINT, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
                process.wait(15)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        log.close()


def _wait_until_loaded(server: Server, timeout_s: float = 120) -> None:
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if server.process.poll() is not None:
            break
        try:
            if server.ask("{ assetNodes { id } }")["assetNodes"]:
                return
        except (OSError, urllib.error.URLError, ValueError, KeyError, TypeError):
            pass
        time.sleep(0.5)
    raise AssertionError("the server did not come up:\n" + (server.folder / "server.log").read_text()[-2000:])
