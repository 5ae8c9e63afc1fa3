"""Serves an application over HTTP, and ends connections that keep it waiting for a request."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final

import anyio
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine for itself, as addresses of the web have them."""


def is_own_host(host: str) -> bool:
    """Return whether a client of this machine names it so, with a port or without one."""
    return host.rpartition(":")[0] in LOOPBACK_NAMES or host in LOOPBACK_NAMES


REQUEST_SECONDS: Final = 10.0
"""Longest time that a client may take to send the headers of a request, all together."""

READING_SECONDS: Final = 30.0
"""Longest time that a client may leave an answer unread that waits for it, about 50 KB."""

UNREAD_BYTES: Final = 64 << 20
"""Bytes of answers that wait for their clients, all together, beside the latest answer."""


def serve_app(
    app: ASGIApp,
    listening: socket.socket,
    *,
    on_stop: Callable[[], None] | None = None,
    answer_seconds: int | None = None,
    connections: int | None = None,
) -> None:
    """Serve until the process is told to end.

    Args:
        app: The application.
        listening: An open socket, which is closed at the end.
        on_stop: As for :func:`make_server`.
        answer_seconds: As for :func:`make_server`.
        connections: As for :func:`make_server`.
    """
    server = make_server(app, on_stop=on_stop, answer_seconds=answer_seconds, connections=connections)
    with listening:
        anyio.run(lambda: server.serve(sockets=[listening]))


def make_server(
    app: ASGIApp,
    *,
    request_seconds: float = REQUEST_SECONDS,
    reading_seconds: float = READING_SECONDS,
    unread_bytes: int = UNREAD_BYTES,
    on_stop: Callable[[], None] | None = None,
    answer_seconds: int | None = None,
    connections: int | None = None,
) -> uvicorn.Server:
    """Make a server that ends a connection which has not sent whole headers in time, however it spreads their bytes.

    A connection that was answered may stay open for its next request as long as uvicorn's ``timeout_keep_alive`` says.
    A body may take any time, and so may an answer, as long as its client reads it. Where many answers wait for their
    clients at once, those that have waited longest end.

    Args:
        app: The application. It gets no WebSockets.
        request_seconds: Longest time for the headers of a request.
        reading_seconds: Longest time for which a client may not read what waits for it.
        unread_bytes: Most bytes that may wait for clients, all together, beside the latest answer.
        on_stop: Called in the event loop when the process was told to end, before answers that are under way are
            waited for.
        answer_seconds: Longest time for which these are waited for; None for any time.
        connections: Open connections from which on a request is answered with 503; None for any number.
    """
    config = uvicorn.Config(
        app,
        http=_make_protocol(request_seconds, reading_seconds, unread_bytes),
        ws="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=answer_seconds,
        limit_concurrency=connections,
    )
    return _Server(config, on_stop)


class _Server(uvicorn.Server):
    """Says when it begins to end, since uvicorn tells an application only after all answers have ended."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._on_stop is not None:
            self._on_stop()
        await super().shutdown(sockets)


def _make_protocol(
    request_seconds: float, reading_seconds: float, unread_bytes: int
) -> type[asyncio.Protocol]:
    """Make the class of connections; uvicorn makes the objects, so that they take no further argument."""
    unread: dict[asyncio.TimerHandle, asyncio.Transport] = {}
    """Connections whose clients do not read, by what ends them, those that have waited longest first."""

    class PromptProtocol(H11Protocol):
        """Ends a connection that was opened, or has begun a request, and for some seconds has none to be answered.

        So it also ends one that was refused and goes on sending its body, and one that does not read its answer.
        """

        _waiting: asyncio.TimerHandle | None = None
        _unread: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            # It cancels uvicorn's own timer of an idle connection, which one byte is enough for.
            super().data_received(data)
            if self.cycle is None or self.cycle.response_complete:
                self._wait()
            else:
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            self._forget_unread()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._unread is None:
                self._unread = self.loop.call_later(reading_seconds, self.transport.abort)
                unread[self._unread] = self.transport
                _end_longest(list(unread.values()), unread_bytes)

        def resume_writing(self) -> None:
            self._forget_unread()
            super().resume_writing()

        def _wait(self) -> None:
            if self._waiting is None:
                self._waiting = self.loop.call_later(request_seconds, self.transport.close)

        def _forget_unread(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                del unread[self._unread]
                self._unread = None

        def _stop_waiting(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

    return PromptProtocol


def _end_longest(unread: Sequence[asyncio.Transport], most: int) -> None:
    """End the first connections, until what waits in all but the last one fits."""
    waiting = [transport.get_write_buffer_size() for transport in unread[:-1]]
    excess = sum(waiting) - most
    for transport, size in zip(unread, waiting, strict=False):
        if excess <= 0:
            break
        transport.abort()
        excess -= size
