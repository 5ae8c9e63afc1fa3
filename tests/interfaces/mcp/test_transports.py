"""The server over standard input and output, and over HTTP, with the client of the SDK."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from backstory.base.environment import hook_environment
from backstory.base.errors import InputError, ModelSetupError
from backstory.interfaces.library.library import Library
from backstory.interfaces.mcp.http import open_socket, read_token
from tests.errors import raises
from tests.started_python import StartedPython

TOKEN = "0123456789abcdef0123456789abcdef"
COMMAND = [sys.executable, "-c", "from backstory.interfaces.cli.app import main; main()", "mcp"]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """Run the command with HTTP on a free port, and yield its address."""
    process = StartedPython(
        [*COMMAND[1:], "--http", "--port", "0", "-w", str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "BACKSTORY_MCP_TOKEN": TOKEN},
    )
    assert process.stderr is not None
    try:
        told = ""
        for line in process.stderr:
            told += line
            if found := re.search(r"serving (http://127\.0\.0\.1:\d+/mcp)", line):
                break
        else:
            raise AssertionError(told)
        # What is said later must not fill the pipe.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield found[1]
    finally:
        process.terminate()
        output, _ = process.communicate(timeout=600)
        assert output == ""


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        yield client


async def ask(client: Client) -> None:
    assert "cover_conversation" in [tool.name for tool in (await client.list_tools()).tools]
    found = await client.call_tool("search", {"query": "night train"})
    assert isinstance(found.structured_content, dict)
    assert found.structured_content["results"][0]["title"] == "Night train"
    assert (await client.call_tool("fetch", {"id": "absent.md"})).is_error


def test_over_standard_input_and_output(indexed_once: Library) -> None:
    parameters = StdioServerParameters(
        command=COMMAND[0],
        args=[*COMMAND[1:], "-w", str(indexed_once.workspace.root)],
        env=dict(os.environ),
    )

    async def run() -> None:
        async with Client(parameters) as client:
            await ask(client)

    anyio.run(run)


def test_over_http_with_the_token_only(indexed_once: Library) -> None:
    with serving(indexed_once.workspace.root) as address:

        async def run() -> None:
            async with connect(address) as client:
                await ask(client)

        anyio.run(run)
        headers = {"Accept": "application/json, text/event-stream"}
        right = {**headers, "Authorization": f"Bearer {TOKEN}"}
        with httpx2.Client(headers=headers) as http:
            for wrong in (
                "",
                f"Bearer {TOKEN}x",
                f"Bearer {TOKEN[:-1]}",
                f"Basic {TOKEN}",
                "Bearer",
                "Bearer é",
            ):
                refused = http.post(address, json=PING, headers={b"Authorization": wrong.encode()})
                assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
                assert TOKEN not in refused.text
            foreign = http.post(address, json=PING, headers={**right, "Host": "evil.example"})
            assert foreign.status_code == 421
            page = http.post(address, json=PING, headers={**right, "Origin": "http://evil.example"})
            assert page.status_code == 403
            assert http.get(address.removesuffix("mcp"), headers=headers).status_code == 401


def test_a_port_in_use_is_an_error() -> None:
    with open_socket(0) as taken, raises(InputError, "unusable_port"):
        open_socket(taken.getsockname()[1])


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (None, "missing_key"),
        ("", "missing_key"),
        ("short", "missing_key"),
        ("with a space in it 0123456789", "unusable_key"),
        ("línea0123456789abcdef", "unusable_key"),
    ],
)
def test_http_needs_a_token_that_is_one(
    monkeypatch: pytest.MonkeyPatch, token: str | None, code: str
) -> None:
    monkeypatch.delenv("BACKSTORY_MCP_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("BACKSTORY_MCP_TOKEN", token)
    with raises(ModelSetupError, code):
        read_token()


def test_no_hook_gets_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSTORY_MCP_TOKEN", TOKEN)
    assert TOKEN not in hook_environment().values()
    assert TOKEN not in repr(read_token())
