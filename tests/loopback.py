"""A loopback HTTP server that keeps every request and answers as it is told to."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


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
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            running.received.append(Received(self.path, dict(self.headers), body))
            answer = running.answers.popleft() if running.answers else (200, {})
            if answer is None:
                self.close_connection = True
                return
            status, headers = answer
            self.send_response(status)
            for name, value in {"Content-Length": "0", **headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running = LoopbackServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
