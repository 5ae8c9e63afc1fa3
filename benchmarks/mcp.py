"""What a call over the Model Context Protocol takes beside the same call of the library.

``python -m benchmarks.mcp --chunks 1000`` indexes documents with the hashing embedder, and takes turns: the library
directly, its server in this process, over standard input and output, and over HTTP. It prints one JSON line in
milliseconds: of each kind the tenth percentile, which other work on the machine disturbs least. Then it calls the
library, and the server over standard input and output, in a row, and prints the medians. Every question is asked once
before, so that its vector is cached. ``connect`` is what the server takes from its start until it is initialized.
``client_validation`` is what the client of the SDK takes to compare a result with the schema of the tool; it is a part
of every call, and of its overhead.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import numpy as np
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from backstory.interfaces.agents import document_answers
from backstory.interfaces.library.library import Library
from backstory.interfaces.mcp.server import make_server
from benchmarks.library import make_question, write_documents

_SETTINGS = "embedding: {provider: hashing}\nchunks: {max_tokens: 72, overlap_tokens: 0}\n"
_TOOL = "query_documents"
_COMMAND = [
    sys.executable,
    "-c",
    "from backstory.interfaces.cli.app import main; main()",
    "mcp",
    "--tools",
    _TOOL,
]
_TOKEN = os.urandom(16).hex()

_Call = Callable[[str], Awaitable[object]]


@asynccontextmanager
async def _connect_http(root: Path) -> AsyncIterator[Client]:
    process = subprocess.Popen(
        [*_COMMAND, "--http", "--port", "0", "-w", str(root)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "BACKSTORY_MCP_TOKEN": _TOKEN},
    )
    try:
        if process.stderr is None:
            raise SystemExit("the server has no standard error")
        address = process.stderr.readline().split()[-1]
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {_TOKEN}"}) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            yield client
    finally:
        process.terminate()
        process.wait()


def _call_by(client: Client) -> _Call:
    async def call(question: str) -> object:
        result = await client.call_tool(_TOOL, {"query": question})
        if result.is_error:
            raise SystemExit(f"the call failed: {result.content}")
        return result

    return call


async def _measure(root: Path, library: Library, questions: int) -> dict[str, float]:
    async def call_directly(question: str) -> object:
        return document_answers.query(library, question)

    stdio = StdioServerParameters(
        command=_COMMAND[0], args=[*_COMMAND[1:], "-w", str(root)], env=dict(os.environ)
    )
    async with AsyncExitStack() as stack:
        calls: dict[str, _Call] = {"library": call_directly}
        validating = await stack.enter_async_context(Client(make_server(library, tools=_TOOL)))
        calls["in_memory"] = _call_by(validating)
        began = time.perf_counter()
        calls["stdio"] = _call_by(await stack.enter_async_context(Client(stdio)))
        connect = time.perf_counter() - began
        calls["http"] = _call_by(await stack.enter_async_context(_connect_http(root)))
        taken: dict[str, list[float]] = {name: [] for name in [*calls, "client_validation"]}
        for number in range(-3, questions):
            question = make_question(number)
            await call_directly(question)
            for name, call in calls.items():
                started = time.perf_counter()
                await call(question)
                if number >= 0:
                    taken[name].append(time.perf_counter() - started)
            result = await validating.call_tool(_TOOL, {"query": question})
            started = time.perf_counter()
            await validating.session.validate_tool_result(_TOOL, result)
            if number >= 0:
                taken["client_validation"].append(time.perf_counter() - started)
        row = {name: await _time_row(calls[name], questions) for name in ("library", "stdio")}
    return {
        **{name: 1000 * float(np.percentile(some, 10)) for name, some in taken.items()},
        **{f"{name}_in_a_row": 1000 * seconds for name, seconds in row.items()},
        "connect": 1000 * connect,
    }


async def _time_row(call: _Call, questions: int) -> float:
    """Call for one question after the other, and give the median of the seconds."""
    taken = []
    for number in range(questions):
        question = make_question(number)
        started = time.perf_counter()
        await call(question)
        taken.append(time.perf_counter() - started)
    return float(np.median(taken))


def measure(chunks: int, questions: int) -> dict[str, float]:
    """Index documents, and measure calls.

    Args:
        chunks: Number of chunks, about.
        questions: Number of calls of each kind.

    Returns:
        Milliseconds of a call by kind, of the client's validation, and what each kind takes beyond the library.
    """
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "workspace"
        write_documents(root / "posts", chunks)
        (root / "backstory.yaml").write_text(_SETTINGS, encoding="utf-8")
        with Library.open(root) as library:
            library.index()
            found = anyio.run(_measure, root, library, questions)
    beyond = {f"{name}_overhead": found[name] - found["library"] for name in ("in_memory", "stdio", "http")}
    beyond["in_a_row_overhead"] = found["stdio_in_a_row"] - found["library_in_a_row"]
    return {name: round(value, 2) for name, value in {**found, **beyond}.items()}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mcp", description=__doc__)
    parser.add_argument("--chunks", type=int, default=1000, help="number of chunks")
    parser.add_argument("--questions", type=int, default=100, help="calls of each kind")
    options = parser.parse_args()
    print(json.dumps({"chunks": options.chunks, **measure(options.chunks, options.questions)}))


if __name__ == "__main__":
    main()
