"""A loopback HTTP server that keeps every request and answers as it is told to."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol


class Reply(Protocol):
    """What is sent back."""

    @property
    def status(self) -> int: ...
    @property
    def body(self) -> bytes: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


class ReplyingHandler(BaseHTTPRequestHandler):
    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def send_reply(self, reply: Reply | None) -> None:
        """Answer; None drops the connection."""
        if reply is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def listen(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on a free port of the loopback interface, and yield the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.server_port}"
        finally:
            listener.shutdown()
            thread.join()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class Received:
    path: str
    headers: Mapping[str, str]
    body: bytes


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
    class Handler(ReplyingHandler):
        def do_POST(self) -> None:
            running.received.append(Received(self.path, dict(self.headers), self.read_body()))
            answer = running.answers.popleft() if running.answers else (200, {})
            self.send_reply(None if answer is None else Answer(*answer))

    with listen(Handler) as url:
        running = LoopbackServer(url)
        yield running
