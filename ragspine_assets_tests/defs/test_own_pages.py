"""The UI's server answers its own pages and programs on this machine, and nobody else's page."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest
from dagster import DagsterInstance
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import EmptyWorkspaceTarget
from dagster_webserver.app import create_app_from_workspace_process_context
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from ragspine_assets.defs.own_pages import Message, OwnPagesOnly, Receive, Scope, Send, parse_origins

PORT = 3000
LAUNCH = 'mutation { launchRun(executionParams: {mode: "default"}) { __typename } }'
QUERY = "{ version }"
JSON = "application/json"


class Behind:
    """The application behind the layer: it notes what reaches it."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.reached.append(scope["type"])
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})
        elif scope["type"] == "websocket":
            await send({"type": "websocket.accept"})


def ask(
    headers: Mapping[str, str] | Sequence[tuple[str, str]],
    *,
    method: str = "GET",
    path: str = "/runs",
    query: str = "",
    kind: str = "http",
    server: tuple[str, int | None] = ("127.0.0.1", PORT),
    also: str = "",
) -> tuple[bool, list[Message]]:
    """Send a request through the layer; tell whether it reached the application, and what was answered."""
    behind, sent = Behind(), []
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    scope: Scope = {
        "type": kind, "method": method, "path": path, "query_string": query.encode(), "server": server,
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs],
    }  # fmt: skip

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(OwnPagesOnly(behind, parse_origins(also))(scope, receive, send))
    return bool(behind.reached), sent


def reaches(headers: Mapping[str, str] | Sequence[tuple[str, str]], **asked: object) -> bool:
    return ask(headers, **asked)[0]  # pyright: ignore[reportArgumentType]


OWN = {"Host": f"127.0.0.1:{PORT}"}


# -- what the UI and programs do ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1:3000", "localhost:3000", "LOCALHOST:3000", "[::1]:3000"])
def test_its_own_pages_are_answered_under_every_name_of_loopback(host: str) -> None:
    page = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin", "Content-Type": JSON}
    assert reaches({"Host": host})
    assert reaches(page, method="POST", path="/graphql")
    assert reaches({"Host": host, "Origin": f"http://{host}"}, kind="websocket", path="/graphql")


def test_a_program_on_this_machine_may_send_json_and_ask_by_get() -> None:
    assert reaches({**OWN, "Content-Type": "application/json; charset=utf-8"}, method="POST", path="/graphql")
    assert reaches(OWN, path="/graphql", query=f"query={quote(QUERY)}")
    assert reaches(OWN, path="/graphql", query=f"query={quote('query A { version } query B { version }')}")


def test_a_link_on_another_page_may_be_followed_to_a_page() -> None:
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert reaches({**OWN, **followed})


def test_what_is_no_request_passes() -> None:
    assert reaches({}, kind="lifespan")


# -- another page ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "null", "http://127.0.0.1:8000", "http://localhost", "https://127.0.0.1:3000", "file://",
        "http://127.0.0.1.evil.example:3000", "http://evil.example:3000", "http://localhost.:3000", "http://[::2]:3000",
        "http://user@127.0.0.1:3000", "http://127.0.0.1:3000/", "http://127.0.0.1:3000\\.evil.example", "", " ",
        "http://127.0.0.1:3000 http://evil.example", "chrome-extension://abc", "http://\u212aocalhost:3000".encode().decode("latin-1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_page_of_another_origin_is_refused(origin: str, kind: str) -> None:
    headers = {**OWN, "Origin": origin, "Content-Type": JSON}
    assert not reaches(headers, method="POST", path="/graphql", kind=kind)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_another_origin_is_refused_whatever_the_method(method: str) -> None:
    headers = {**OWN, "Origin": "http://evil.example", "Content-Type": JSON}
    assert not reaches(headers, method=method, path="/graphql")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:3000", "127.0.0.1", "127.0.0.1:3001", "localhost:80", "", "127.0.0.1:3000.evil.example",
        "evil@127.0.0.1:3000", "127.0.0.1:3000@evil", "127.0.0.1:3000/x", "[::1]", "[::1]:3001", "localhost.:3000",
        "a.localhost:3000", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:x", "0.0.0.0:3000", "[::ffff:127.0.0.1]:3000",
        "127.0.0.1 :3000", "127.0.0.1:3000,evil.example", "[127.0.0.1:3000", "2130706433:3000",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_name_that_is_not_this_servers_is_refused(host: str, kind: str) -> None:
    reached, sent = ask({"Host": host}, kind=kind)
    assert not reached
    assert "RAGSPINE_UI_ORIGINS" in str(sent)


@given(st.text(st.characters(max_codepoint=255), max_size=30))
def test_no_other_name_ever_passes(host: str) -> None:
    if host.lower() not in {f"{name}:{PORT}" for name in ("localhost", "127.0.0.1", "[::1]")}:
        assert not reaches({"Host": host})


def test_a_request_without_a_name_is_refused() -> None:
    assert not reaches({})


@pytest.mark.parametrize("name", ["Host", "Origin", "Content-Type", "Sec-Fetch-Site"])
def test_a_header_that_is_there_twice_is_refused(name: str) -> None:
    value = {"Host": OWN["Host"], "Origin": f"http://{OWN['Host']}", "Content-Type": JSON, "Sec-Fetch-Site": "none"}
    assert not reaches([*value.items(), (name, value[name])], method="POST", path="/graphql")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "CROSS-SITE", "something new"])
@pytest.mark.parametrize(
    "how", [("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("no-cors", "script"), ("navigate", "")]
)
def test_what_the_browser_calls_another_site_is_refused(site: str, how: tuple[str, str]) -> None:
    told = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": how[0], "Sec-Fetch-Dest": how[1]}
    assert not reaches({**OWN, **told}, path="/graphql", query=f"query={quote(QUERY)}")
    assert not reaches({**OWN, **told}, path="/logs/a/b")


def test_a_form_of_another_site_that_navigates_is_refused() -> None:
    told = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert not reaches({**OWN, **told, "Content-Type": JSON}, method="POST", path="/graphql")


def test_no_other_page_may_frame_the_ui_or_load_from_it() -> None:
    _, sent = ask(OWN)
    assert (b"x-frame-options", b"SAMEORIGIN") in sent[0]["headers"]
    assert (b"cross-origin-resource-policy", b"same-origin") in sent[0]["headers"]


# -- the form of what changes something --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/graphql",
        "text/plain; application/json", "text/plain;charset=application/json", "application/jsonx", "application/json-patch+json",
        "application/json, text/plain",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/graphql", "/report_asset_materialization/chunks", "/report_asset_check/chunks"])
def test_what_a_form_could_send_is_refused(kind: str, path: str) -> None:
    headers = {**OWN, **({"Content-Type": kind} if kind else {})}
    assert not reaches(headers, method="POST", path=path, query=f"query={quote(LAUNCH)}")


@pytest.mark.parametrize(
    "query",
    [
        f"query={quote(LAUNCH)}",
        f"query={quote('query A { version } ' + LAUNCH)}&operationName=A",
        f"query={quote(LAUNCH + ' query A { version }')}&operationName=A",
        f"query={quote(QUERY)}&query={quote(LAUNCH)}",
        f"query={quote(LAUNCH)}&query={quote(QUERY)}",
        f"query={quote('# a comment' + chr(10) + LAUNCH)}",
        f"query={quote(chr(0xFEFF) + LAUNCH)}",
        f"query={quote('subscription { pipelineRunLogs(runId: 1) { __typename } }')}",
        f"quer%79={quote(LAUNCH)}",
        f"query={quote('{' * 5000)}",
        "query=%ff%fe",
        "query=not+graphql",
    ],
)
@pytest.mark.parametrize("path", ["/graphql", "/graphql/", "/prefix/graphql"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_get_changes_nothing(query: str, path: str, method: str) -> None:
    assert not reaches(OWN, method=method, path=path, query=query)


# -- behind a proxy ----------------------------------------------------------------------------------------------------------


def test_behind_a_proxy_the_address_that_people_use_is_answered() -> None:
    also = "https://dagster.example.org, https://other.example.org:8443/"
    page = {"Host": "dagster.example.org", "Origin": "https://dagster.example.org", "Content-Type": JSON}
    assert reaches(page, method="POST", path="/graphql", also=also)
    assert reaches({"Host": "other.example.org:8443"}, also=also)
    assert reaches({"Host": "dagster.example.org"}, also=also, server=("/run/ui.sock", None))
    assert not reaches({**page, "Origin": "http://dagster.example.org"}, method="POST", path="/graphql", also=also)
    assert not reaches({"Host": "other.example.org"}, also=also)


@pytest.mark.parametrize(
    "text", ["dagster.example.org", "https://a.example/path", "ftp//x", "*", "https://u@a.example"]
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"https://dagster\.example\.org"):
        parse_origins(text)


# -- without the layer -------------------------------------------------------------------------------------------------------


def test_without_the_layer_dagsters_server_executes_a_mutation_by_get_from_any_origin(
    tmp_path: Path,
) -> None:
    """What the layer is for: should this stop to hold, the layer has less to do."""
    forget = 'mutation { deleteRun(runId: "00000000-0000-0000-0000-000000000000") { __typename } }'
    foreign = {"origin": "http://evil.example", "host": "evil.example"}
    instance = DagsterInstance.local_temp(str(tmp_path))
    with WorkspaceProcessContext(instance, EmptyWorkspaceTarget()) as process:
        app = create_app_from_workspace_process_context(process)
        bare = TestClient(app).get("/graphql", params={"query": forget}, headers=foreign)
        assert json.loads(bare.text)["data"]["deleteRun"]["__typename"] == "RunNotFoundError"
        layered = TestClient(OwnPagesOnly(app)).get("/graphql", params={"query": forget}, headers=foreign)
        assert layered.status_code == 403
