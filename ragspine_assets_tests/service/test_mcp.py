"""Agents are served over MCP, with the official SDK, within a fixed audience (SPEC 8.1, 8.2)."""

import asyncio
import json

from mcp import Client as McpClient

from ragspine_assets.policy import Sensitivity
from ragspine_assets.service import Client, Releases
from ragspine_assets.service.mcp_server import DATA, make_mcp_server
from ragspine_assets.service.request_log import RequestLog, logged
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
