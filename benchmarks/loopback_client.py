"""A client of HTTP/1.1 for one user of a benchmark, which takes much less of the processor than the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_IDLE_SECONDS: Final = 3.0
"""Seconds after which a connection is opened again, since the server closes idle ones after five."""
_LIMIT: Final = 1 << 24


class Reply(NamedTuple):
    """The answer to a request.

    Attributes:
        status: Its status.
        body: Its body.
    """

    status: int
    body: bytes


class LoopbackClient:
    """Sends the requests of one user, one after another, over a connection that stays open between them."""

    def __init__(self, port: int, headers: Mapping[str, str]) -> None:
        """Name the server; nothing is sent yet.

        Args:
            port: Its port on the loopback interface.
            headers: Headers of every request.
        """
        self._port = port
        self._head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used = 0.0

    async def send(self, method: str, path: str, body: object = None) -> Reply:
        """Send a request, and read the whole answer.

        Args:
            method: Method of the request.
            path: Path and query.
            body: Sent as JSON; None for no body.

        Raises:
            OSError: The connection failed.
            EOFError: The server closed the connection before the end of its answer.
        """
        reader, writer = await self._connect()
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{self._head}"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        is_answered = False
        try:
            writer.write(head.encode() + content)
            await writer.drain()
            reply = await _read_reply(reader)
            is_answered = True
        finally:
            if not is_answered:
                self.close()
        self._used = asyncio.get_running_loop().time()
        return reply

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if asyncio.get_running_loop().time() > self._used + _IDLE_SECONDS:
            self.close()
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=_LIMIT)
        return self._streams


async def _read_reply(reader: asyncio.StreamReader) -> Reply:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    named: dict[str, Any] = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    status = int(first.split()[1])
    if named.get("transfer-encoding") != "chunked":
        return Reply(status, await reader.readexactly(int(named.get("content-length", 0))))
    parts = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return Reply(status, b"".join(parts))
