"""A page of another origin that is open in the same browser starts nothing: `make e2e` (SPEC 6.5)."""

import http.server
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from .server import Server, serve

playwright = pytest.importorskip("playwright.sync_api", reason="the browser test needs playwright: make e2e")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
LAUNCH = (
    'mutation { launchRun(executionParams: { selector: { repositoryLocationName: "ragspine_assets", repositoryName: '
    '"__repository__", pipelineName: "checks" }, mode: "default", runConfigData: "{}" }) { __typename } }'
)
WAYS = """
async ([address, launch]) => {
  const body = JSON.stringify({query: launch}), url = address + '/graphql';
  const tried = {};
  const attempt = async (name, work) => {
    try { tried[name] = String(await work()).slice(0, 200); } catch (error) { tried[name] = 'refused: ' + error; }
  };
  await attempt('get', () => fetch(url + '?query=' + encodeURIComponent(launch), {mode: 'no-cors'}).then(a => a.type));
  await attempt('image', () => new Promise(done => {
    const image = new Image(); image.onerror = image.onload = () => done('asked');
    image.src = url + '?query=' + encodeURIComponent(launch);
  }));
  await attempt('plain text', () => fetch(url, {method: 'POST', mode: 'no-cors', body}).then(a => a.type));
  await attempt('post with a query string', () => fetch(url + '?query=' + encodeURIComponent(launch),
    {method: 'POST', mode: 'no-cors', body: new URLSearchParams({a: 'b'})}).then(a => a.type));
  await attempt('multipart', () => { const form = new FormData(); form.append('query', launch);
    return fetch(url + '?query=' + encodeURIComponent(launch), {method: 'POST', mode: 'no-cors', body: form}).then(a => a.type); });
  await attempt('json', () => fetch(url, {method: 'POST', headers: {'content-type': 'application/json'}, body}).then(a => a.text()));
  await attempt('read', () => fetch(url + '?query={version}').then(a => a.text()));
  await attempt('beacon', () => navigator.sendBeacon(url, body));
  await attempt('websocket', () => new Promise((done, fail) => {
    const socket = new WebSocket(url.replace('http', 'ws'), 'graphql-ws');
    socket.onopen = () => { socket.send(JSON.stringify({type: 'connection_init'})); };
    socket.onmessage = message => done('OPEN ' + message.data); socket.onerror = () => fail('closed');
  }));
  await attempt('form', () => new Promise(done => {
    const frame = document.createElement('iframe'); frame.name = 'target'; document.body.append(frame);
    const form = document.createElement('form'); form.target = 'target'; form.method = 'POST';
    form.action = url + '?query=' + encodeURIComponent(launch); document.body.append(form);
    frame.onload = () => done('asked'); form.submit(); setTimeout(() => done('asked'), 3000);
  }));
  await attempt('frame', () => new Promise(done => {
    const frame = document.createElement('iframe'); frame.src = address + '/locations'; document.body.append(frame);
    frame.onload = () => { let seen = 'nothing'; try { seen = frame.contentDocument ? 'blank' : 'nothing'; } catch (e) {} done(seen); };
    setTimeout(() => done('nothing'), 3000);
  }));
  return tried;
}
"""

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="the browser test needs chromium: apt-get install chromium")


@contextmanager
def stranger() -> Iterator[str]:
    """Serve an empty page from another port of this machine, under any name."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>stranger</title><body></body>")

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"evil.example:{served.server_address[1]}"
        served.shutdown()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("site"), RAGSPINE_AUTOMATION="0") as running:
        yield running


@pytest.fixture
def page(tmp_path: Path) -> Iterator["playwright.Page"]:
    # Names of the attacker's lead here, as they would after DNS rebinding.
    names = "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP rebound.example 127.0.0.1"
    with playwright.sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            str(tmp_path / "profile"), executable_path=CHROMIUM, args=[*FLAGS, names, "--proxy-server=direct://"],
            viewport={"width": 1600, "height": 1000},
        )  # fmt: skip
        context.set_default_timeout(60_000)
        yield context.new_page()
        context.close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_starts_and_reads_nothing(server: Server, page: "playwright.Page", name: str) -> None:
    before = {run.run_id for run in server.runs()}
    port = server.url.rpartition(":")[2]
    with stranger() as address:
        # An origin of another name, and one of this machine whose port only is another.
        for origin in (f"http://{address}", f"http://{name}:{address.rpartition(':')[2]}"):
            page.goto(origin)
            tried = page.evaluate(WAYS, [f"http://{name}:{port}", LAUNCH])
            assert tried["json"].startswith("refused"), tried
            assert tried["read"].startswith("refused"), tried
            assert tried["websocket"].startswith("refused"), tried
    assert {run.run_id for run in server.runs()} == before


def test_a_name_that_was_pointed_at_this_machine_reaches_nothing(server: Server, page: "playwright.Page") -> None:
    port = server.url.rpartition(":")[2]
    answer = page.goto(f"http://rebound.example:{port}/locations")
    assert answer is not None
    assert answer.status == 403
    tried = page.evaluate(WAYS, [f"http://rebound.example:{port}", LAUNCH])
    assert all("data" not in said and "OPEN" not in said for said in tried.values()), tried
    assert server.runs() == []


def test_the_same_ways_start_runs_where_they_are_not_refused(server: Server, page: "playwright.Page") -> None:
    """The attack is one: from the UI's own page, the same code launches a run."""
    page.goto(f"{server.url}/locations")
    tried = page.evaluate(WAYS, [server.url, LAUNCH])
    assert "LaunchRunSuccess" in tried["json"], tried
    assert tried["websocket"].startswith("OPEN"), tried
    (run,) = server.runs()
    assert server.wait_for(run.run_id) in {"SUCCESS", "FAILURE"}


def test_a_mutation_by_get_starts_nothing_for_a_program_either(server: Server) -> None:
    before = len(server.runs())
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as line:
        line.sendall(
            f"GET /graphql?query={quote(LAUNCH)} HTTP/1.1\r\nHost: {server.url[7:]}\r\nConnection: close\r\n\r\n".encode()
        )
        assert b" 403 " in line.makefile("rb").readline()
    assert len(server.runs()) == before
