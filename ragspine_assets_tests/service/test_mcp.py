"""Agents are served over MCP, with the official SDK, within a fixed audience (SPEC 8.1, 8.2)."""

import asyncio
import json
import os
import sys
from pathlib import Path

from mcp import Client as McpClient
from mcp.client.stdio import StdioServerParameters, stdio_client

from ragspine_assets.policy import Sensitivity
from ragspine_assets.service import Client, Releases
from ragspine_assets.service.mcp_server import DATA, make_mcp_server
from ragspine_assets.service.request_log import RequestLog, logged
from ragspine_assets.serving.publish import withdraw_documents_from_snapshots
from ragspine_assets_tests.serving.conftest import Port


def test_an_agent_finds_cites_and_is_told_what_is_data(published: Port) -> None:
    published.publish(levels=["INTERNAL"])
    folder = published.root.with_name("requests")

    async def talk() -> None:
        server = make_mcp_server(Releases(published.root), Client("agent", Sensitivity.INTERNAL), RequestLog(folder))
        async with McpClient(server) as agent:
            tools = {tool.name: tool for tool in (await agent.list_tools()).tools}
            assert set(tools) == {"search", "get_context", "show_citation", "graph_neighbours"}
            for tool in tools.values():
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint
                assert "label" not in json.dumps(tool.input_schema["properties"]).replace("sensitivity", "label")
            found = (await agent.call_tool("search", {"query": "greased Monday"})).structured_content
            assert found is not None
            assert found["note"] == DATA
            snippets = published.open().up_to("INTERNAL").retriever().retrieve("greased Monday", top_k=10)
            citations = [one.pop("citation") for one in found["snippets"]]
            assert found["snippets"] == snippets
            shown = (await agent.call_tool("show_citation", {"citation": citations[0]})).structured_content
            assert shown is not None
            assert shown["sensitivity"] == "INTERNAL"
            context = (await agent.call_tool("get_context", {"query": "winter"})).structured_content
            assert context is not None
            assert context["sources"][0]["number"] == 1
            graph = (
                await agent.call_tool("graph_neighbours", {"kind": "entity", "node_id": "HARB"})
            ).structured_content
            assert graph is not None
            assert all(edge["verified"] for edge in graph["edges"])
            closed = await agent.call_tool("show_citation", {"citation": "numbers.txt@v1#c0"})
            assert closed.is_error
            asked = await agent.call_tool("search", {"query": "tariffs percent", "max_label": "CONFIDENTIAL"})
            assert asked.is_error or "numbers.txt" not in json.dumps(asked.structured_content)

    asyncio.run(talk())
    lines = list(logged(folder))
    assert [line["route"] for line in lines][:2] == ["mcp:search", "mcp:show_citation"]
    assert {line["client"] for line in lines} == {"agent"}


def test_a_withdrawn_release_is_refused_at_the_next_call(published: Port) -> None:
    published.publish(levels=["INTERNAL"])

    async def talk() -> None:
        server = make_mcp_server(Releases(published.root), Client("agent", Sensitivity.INTERNAL), None)
        async with McpClient(server) as agent:
            assert not (await agent.call_tool("search", {"query": "crane"})).is_error
            withdraw_documents_from_snapshots(published.root, ["cranes.md"])
            refused = await agent.call_tool("search", {"query": "crane"})
            assert refused.is_error
            assert "crane" not in json.dumps(refused.structured_content or "")

    asyncio.run(talk())


def test_a_process_speaks_on_its_standard_streams(published: Port, tmp_path: Path) -> None:
    published.publish(levels=["INTERNAL"])
    command = ["-m", "ragspine_assets.cli", "mcp", "--max-label", "INTERNAL", "--snapshots", str(published.root)]
    environment = {**os.environ, "RAGSPINE_REQUEST_LOG": str(tmp_path / "requests")}
    process = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=str(tmp_path))

    async def talk() -> None:
        async with asyncio.timeout(60), McpClient(stdio_client(process)) as agent:
            found = (await agent.call_tool("search", {"query": "greased Monday"})).structured_content
            assert found is not None
            assert found["snippets"][0]["doc_id"] == "cranes.md"

    asyncio.run(talk())
