"""Messages that the event loop reads from descriptors and writes to them."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest

from backstory.interfaces.mcp.standard_streams import MessageReader, MessageWriter

MORE_THAN_A_PIPE = 300_000
"""Characters of a message that no pipe takes at once."""


@contextmanager
def open_pipe() -> Iterator[tuple[int, int]]:
    source, target = os.pipe()
    try:
        yield source, target
    finally:
        os.close(source)
        os.close(target)


def ping(number: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode()


def note(text: str) -> SessionMessage:
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="note", params={"text": text}))


async def receive_request(reader: MessageReader) -> object:
    item = await reader.receive()
    assert isinstance(item, SessionMessage)
    assert isinstance(item.message, JSONRPCRequest)
    return item.message.id


async def read_lines(descriptor: int, count: int) -> list[str]:
    """Read whole lines, each piece after a turn of the loop."""
    found = b""
    while found.count(b"\n") < count:
        await anyio.wait_readable(descriptor)
        found += os.read(descriptor, 10_000)
    assert found.endswith(b"\n")
    return found.decode().splitlines()


@asynccontextmanager
async def within_a_minute() -> AsyncIterator[None]:
    with anyio.fail_after(60):
        yield


def test_messages_come_in_pieces_and_several_at_once() -> None:
    async def run() -> None:
        async with within_a_minute():
            reader = MessageReader(source)
            os.write(target, ping(1) + b"\n" + ping(2) + b"\n" + ping(3)[:10])
            assert [await receive_request(reader), await receive_request(reader)] == [1, 2]
            async with anyio.create_task_group() as group:

                async def end_the_line() -> None:
                    os.write(target, ping(3)[10:] + b"\n")

                group.start_soon(end_the_line)
                assert await receive_request(reader) == 3

    with open_pipe() as (source, target):
        anyio.run(run)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_file_is_read_to_its_end_and_a_line_that_is_no_message_is_an_error(
    tmp_path: Path, end: bytes
) -> None:
    lines = [ping(1), b"no message", b'"\xff"', ping(2)]
    (tmp_path / "input").write_bytes(b"\n".join(lines) + end)

    async def run() -> list[SessionMessage | Exception]:
        with (tmp_path / "input").open("rb") as file:
            return [item async for item in MessageReader(file.fileno())]

    first, *errors, last = anyio.run(run)
    assert isinstance(first, SessionMessage)
    assert isinstance(last, SessionMessage)
    assert [isinstance(error, ValueError) for error in errors] == [True, True]


def count_writes() -> int:
    """Count the calls by which this process has written so far."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["syscw"])


@pytest.mark.skipif(not hasattr(fcntl, "F_GETPIPE_SZ"), reason="this system does not tell what a pipe holds")
def test_an_empty_pipe_takes_a_message_at_once() -> None:
    with open_pipe() as (source, target):
        writer, text = MessageWriter(target), "a" * 40_000
        before = count_writes()
        anyio.run(writer.send, note(text))
        # The message, and what the loop writes to wake itself.
        assert count_writes() - before <= 4
        assert json.loads(os.read(source, 65_536))["params"]["text"] == text


def test_messages_of_several_tasks_are_whole_while_the_reader_is_slow() -> None:
    texts = ["a" * MORE_THAN_A_PIPE, "b" * MORE_THAN_A_PIPE, "short"]

    async def run() -> list[str]:
        async with within_a_minute(), anyio.create_task_group() as group:
            writer = MessageWriter(target)
            for text in texts:
                group.start_soon(writer.send, note(text))
            return await read_lines(source, len(texts))
        raise AssertionError

    with open_pipe() as (source, target):
        lines = anyio.run(run)
    assert [json.loads(line)["params"]["text"] for line in lines] == texts


def test_a_message_that_was_begun_is_ended_where_its_task_is_cancelled() -> None:
    async def run() -> list[str]:
        async with within_a_minute():
            writer, scope = MessageWriter(target), anyio.CancelScope()

            async def send() -> None:
                with scope:
                    await writer.send(note("a" * MORE_THAN_A_PIPE))

            async with anyio.create_task_group() as group:
                group.start_soon(send)
                await anyio.wait_readable(source)  # so it was begun, and waits for room
                scope.cancel()
                lines = await read_lines(source, 1)
            await writer.send(note("next"))
            return [*lines, *await read_lines(source, 1)]

    with open_pipe() as (source, target):
        lines = anyio.run(run)
    texts = [json.loads(line)["params"]["text"] for line in lines]
    assert texts == ["a" * MORE_THAN_A_PIPE, "next"]


def test_a_message_that_nobody_reads_is_an_error_of_the_stream() -> None:
    source, target = os.pipe()
    os.close(source)
    try:
        with pytest.raises(anyio.BrokenResourceError):
            anyio.run(MessageWriter(target).send, note("lost"))
    finally:
        os.close(target)


def test_nothing_but_messages_is_read_and_written_meanwhile() -> None:
    code = """
import anyio, sys
from mcp_types import JSONRPCNotification
from mcp.shared.message import SessionMessage
from backstory.interfaces.mcp.standard_streams import claim_standard_streams

async def answer(reader, writer):
    async for item in reader:
        print("read", item.message.method, "and", repr(sys.stdin.read()), flush=True)
        await writer.send(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="note")))

print("before", flush=True)
with claim_standard_streams() as (reader, writer):
    anyio.run(answer, reader, writer)
print("after", flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input=ping(1), capture_output=True, timeout=120, check=True
    )
    before, message, after = done.stdout.decode().splitlines()
    assert (before, json.loads(message)["method"], after) == ("before", "note", "after")
    assert done.stderr.decode().splitlines() == ["read ping and ''"]
