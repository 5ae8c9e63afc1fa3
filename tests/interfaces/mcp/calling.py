"""How tests call a server: by the client of the SDK, without awaiting it themselves."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import TextContent

from backstory.interfaces.mcp.registry import DEFAULT, ORIGINAL, SELECTIONS

_T = TypeVar("_T")

EVERY = list(dict.fromkeys([*SELECTIONS[DEFAULT], "explain", *SELECTIONS[ORIGINAL]]))
"""The names of all tools."""
READERS = [name for name in EVERY if name not in ("index_document", "index_directory", "dump_document")]
"""The names of those that change nothing."""


def use(server: MCPServer[Any], steps: Callable[[Client], Awaitable[_T]]) -> _T:
    """Take some steps with a client in this process."""

    async def run() -> _T:
        async with Client(server) as client:
            return await steps(client)

    return anyio.run(run)


def call(server: MCPServer[Any], tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed; give its structured result, which the client has checked by its schema."""

    async def steps(client: Client) -> dict[str, Any]:
        await client.list_tools()
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result.structured_content
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    return use(server, steps)


def fail(server: MCPServer[Any], tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must fail; give the error."""

    async def steps(client: Client) -> dict[str, Any]:
        result = await client.call_tool(tool, arguments)
        assert result.is_error
        assert result.structured_content is None, "clients would compare it with the output schema"
        [content] = result.content
        assert isinstance(content, TextContent)
        error: dict[str, Any] = json.loads(content.text)
        return error

    return use(server, steps)
