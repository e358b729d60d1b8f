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
from collections.abc import Iterator, Mapping
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
    """A running UI and the folder it was started in."""

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

    def change(self, mutation: str, **variables: object) -> dict[str, object]:
        """Send a GraphQL mutation with its variables and return its data."""
        request = urllib.request.Request(
            f"{self.url}/graphql",
            json.dumps({"query": mutation, "variables": variables}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["data"]

    def launch(self, job: str, run_config: Mapping[str, object] | None = None) -> str:
        """Launch a job as the UI does, and return the run's id."""
        selector = {
            "repositoryLocationName": "ragspine_assets", "repositoryName": "__repository__", "pipelineName": job,
        }  # fmt: skip
        answer = self.change(
            "mutation($p: ExecutionParams!) { launchRun(executionParams: $p) { __typename "
            "... on LaunchRunSuccess { run { runId } } ... on PythonError { message } "
            "... on RunConfigValidationInvalid { errors { message } } } }",
            p={"selector": selector, "runConfigData": run_config or {}, "mode": "default"},
        )["launchRun"]
        assert isinstance(answer, dict)
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return answer["run"]["runId"]

    def cancel(self, run_id: str) -> None:
        """Terminate a run as the UI does; one that has ended stays as it is."""
        self.change("mutation($id: String!) { terminateRun(runId: $id) { __typename } }", id=run_id)

    def launch_again(self, run_id: str) -> str:
        """Launch a run again as the UI's "Re-execute all" does, and return the new run's id."""
        answer = self.change(
            "mutation($p: ReexecutionParams!) { launchRunReexecution(reexecutionParams: $p) { __typename "
            "... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }",
            p={"parentRunId": run_id, "strategy": "ALL_STEPS"},
        )["launchRunReexecution"]
        assert isinstance(answer, dict)
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return answer["run"]["runId"]

    def status(self, run_id: str) -> str:
        """Return a run's status."""
        data = self.ask(f'{{ runOrError(runId: "{run_id}") {{ ... on Run {{ status }} }} }}')["runOrError"]
        assert isinstance(data, dict)
        return data["status"]

    def wait_for(self, run_id: str, timeout_s: float = 180) -> str:
        """Wait until a run has ended, and return its status."""
        until = time.monotonic() + timeout_s
        while (status := self.status(run_id)) not in ENDED:
            if time.monotonic() > until:
                raise AssertionError(f"the run is still {status} after {timeout_s} s")
            time.sleep(0.3)
        return status

    def events(self, run_id: str) -> list[dict[str, object]]:
        """Return a run's events with their messages and numbers."""
        data = self.ask(
            f'{{ logsForRun(runId: "{run_id}") {{ ... on EventConnection {{ events {{ __typename '
            "... on MessageEvent { message } ... on EngineEvent { metadataEntries { label ... on TextMetadataEntry "
            "{ text } ... on IntMetadataEntry { intValue } } } "
            "... on RunFailureEvent { error { className message causes { className message } } } "
            "... on ExecutionStepFailureEvent { failureMetadata { description } error { message } } } } } }"
        )["logsForRun"]
        assert isinstance(data, dict)
        return data["events"]

    def process_of(self, run_id: str) -> int | None:
        """Return the process that runs a run, once there is one."""
        for event in self.events(run_id):
            for entry in event.get("metadataEntries") or ():  # pyright: ignore[reportGeneralTypeIssues]
                if entry["label"] == "pid":
                    return int(entry.get("intValue") or entry.get("text"))
        return None

    def spans(self) -> list[tuple[float, float]]:
        """Return when each run's first step began and its last one ended, in the order of their beginnings."""
        data = self.ask("{ runsOrError { ... on Runs { results { stepStats { startTime endTime } } } } }")[
            "runsOrError"
        ]
        assert isinstance(data, dict)
        steps = [run["stepStats"] for run in data["results"] if run["stepStats"]]
        return sorted((min(s["startTime"] for s in each), max(s["endTime"] for s in each)) for each in steps)

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
    """Start the UI on loopback over a copy of the project's demo, and end it and all it started.

    Args:
        folder: an empty folder.
        settings: environment variables.
    """
    copytree(ROOT / "data", folder / "data", ignore=ignore_patterns("*.duckdb*", "snapshots", "stores"))
    with running(folder, **settings) as server:
        yield server


@contextmanager
def running(folder: Path, **settings: str) -> Iterator[Server]:
    """Start the UI on loopback in a folder, which may have been one before, and end it and all it started."""
    for name in ("dagster.yaml", "workspace.yaml"):
        copy(ROOT / name, folder)
    (folder / ".dagster").mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RAGSPINE_", "DAGSTER_HOME"))}
    log = (folder / "server.log").open("ab")
    process = subprocess.Popen(
        [sys.executable, "-m", "ragspine_assets.defs.ui", "--port", str(port)],
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
