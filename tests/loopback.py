"""A loopback HTTP server that keeps every request and answers as it is told to."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Reply(Protocol):
    """What is sent back."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...


@contextmanager
def listen(answer: Callable[[Received], Reply | None]) -> Iterator[str]:
    """Serve on a free port of the loopback interface, each connection in a thread, and yield the URL.

    A reply that is None drops the connection.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_HEAD(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = answer(Received(self.command, self.path, dict(self.headers), body))
            if reply is None:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.server_port}"
        finally:
            listener.shutdown()
            thread.join()


@dataclass(frozen=True)
class EmptyReply:
    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass
class LoopbackServer:
    """What was received, and the answers to give next; after them, 200.

    An answer is a status and headers. None drops the connection.
    """

    url: str
    received: list[Received] = field(default_factory=list)
    answers: deque[tuple[int, Mapping[str, str]] | None] = field(default_factory=deque)


@contextmanager
def run_server() -> Iterator[LoopbackServer]:
    def answer(received: Received) -> EmptyReply | None:
        running.received.append(received)
        told = running.answers.popleft() if running.answers else (200, {})
        return None if told is None else EmptyReply(*told)

    with listen(answer) as url:
        running = LoopbackServer(url)
        yield running
