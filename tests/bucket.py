"""A real implementation of S3 on the loopback interface, one for each process of tests, that fails as it is told to."""

import os
import signal
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

Fault: TypeAlias = Literal[
    "busy", "refused", "cut", "cut body", "answer lost", "answer late", "kill before", "kill after"
]
"""What happens to one call: 503, 403, no answer, half of an answer, an answer that is lost after the work is done or
that does not come before the test is over; or the process that calls is killed before or after the work is done."""
BUCKET = "shared"


@dataclass
class Bucket:
    """The server.

    Attributes:
        app: What answers as S3 does; it keeps the content while the server is stopped.
        serve: Makes a server on a port, or on a free one.
        address: Its address on the loopback interface.
        calls: Method and path of each call since the test began.
        fault: Decides what happens to a call; None for what S3 does.
        victim: The process that ``kill`` kills.
        ignores_conditions: Whether it writes though a condition does not hold, as some imitations of S3 do.
        last_list: The last list of objects that it gave.
        stale_list: The list that it gives, as a store does that is consistent later; None for the true one.
        clock_ahead: How far its clock is ahead.
        is_over: Set when the test is over.
    """

    app: Any
    serve: Callable[["Bucket", int], "BaseWSGIServer"]
    address: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    fault: Callable[[str, str], Fault | None] = lambda _method, _path: None
    victim: int = 0
    ignores_conditions: bool = False
    last_list: bytes = b""
    stale_list: bytes | None = None
    clock_ahead: timedelta = timedelta(0)
    is_over: threading.Event = field(default_factory=threading.Event)
    _port: int = 0
    _server: "BaseWSGIServer | None" = None
    _thread: threading.Thread | None = None

    root = f"s3://{BUCKET}"

    @property
    def access(self) -> dict[str, str]:
        """The environment of a program that uses it."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "NO_PROXY": "127.0.0.1",
        }

    def start(self) -> None:
        """Listen, after a stop on the same port."""
        self._server = self.serve(self, self._port)
        self._port = self._server.port
        self.address = f"http://127.0.0.1:{self._port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Refuse connections, until it is started again."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.calls.append((method, path))
        match self.fault(method, path):
            case "busy":
                start_response("503 Slow Down", [("Content-Length", "0")])
                return []
            case "refused":
                start_response("403 Forbidden", [("Content-Length", "0")])
                return []
            case "cut":
                return _cut(environ)
            case "answer lost":
                list(self.app(environ, lambda *_: None))
                return _cut(environ)
            case "answer late":
                list(self.app(environ, lambda *_: None))
                self.is_over.wait()
                return _cut(environ)
            case "cut body":
                body = b"".join(self.app(environ, start_response))
                return _send_half(environ, body)
            case "kill before":
                os.kill(self.victim, signal.SIGKILL)
                return _cut(environ)
            case "kill after":
                list(self.app(environ, lambda *_: None))
                os.kill(self.victim, signal.SIGKILL)
                return _cut(environ)
            case _:
                if self.ignores_conditions:
                    environ.pop("HTTP_IF_NONE_MATCH", None)
                if "list-type=2" in environ.get("QUERY_STRING", ""):
                    return self._list(environ, start_response)
                answer: Iterable[bytes] = self.app(environ, self._shift_clock(start_response))
                return answer

    def _list(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        self.last_list = (
            b"".join(self.app(environ, lambda *_: None)) if self.stale_list is None else self.stale_list
        )
        start_response("200 OK", [("Content-Length", str(len(self.last_list))), ("Content-Type", "text/xml")])
        return [self.last_list]

    def _shift_clock(self, start_response: StartResponse) -> StartResponse:
        """Answer with the times of another clock."""

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            shifted = [
                (name, format_datetime(parsedate_to_datetime(value) + self.clock_ahead, usegmt=True))
                if name.lower() == "last-modified"
                else (name, value)
                for name, value in headers
            ]
            return start_response(status, shifted, *rest)

        return start if self.clock_ahead else start_response

    def fail_first(self, fault: Fault, method: str, holding: str, times: int = 1, passed: int = 0) -> None:
        """Fail the calls of a method whose path holds some characters, after the first that pass."""
        lock, seen = threading.Lock(), iter(range(10**6))

        def choose(called: str, path: str) -> Fault | None:
            if called != method or holding not in path:
                return None
            with lock:
                return fault if passed <= next(seen) < passed + times else None

        self.fault = choose

    def count(self, method: str, holding: str = "") -> int:
        """Count the calls of a method whose path holds some characters."""
        return sum(called == method and holding in path for called, path in self.calls)


def _cut(environ: WSGIEnvironment) -> Iterable[bytes]:
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    return []


def _send_half(environ: WSGIEnvironment, body: bytes) -> Iterator[bytes]:
    yield body[: len(body) // 2]
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="session")
def running_bucket() -> Iterator[Bucket]:
    # What few tests need is not loaded for all of them.
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *_: object) -> None: ...

    def serve(app: Bucket, port: int) -> BaseWSGIServer:
        return make_server("127.0.0.1", port, app, threaded=True, request_handler=Quiet)

    bucket = Bucket(DomainDispatcherApplication(create_backend_app), serve)
    bucket.start()
    yield bucket
    bucket.stop()


@pytest.fixture
def bucket(running_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """The server without faults, and an environment that names it."""
    for name, value in running_bucket.access.items():
        monkeypatch.setenv(name, value)
    made = urllib.request.Request(f"{running_bucket.address}/{BUCKET}", method="PUT")
    urllib.request.urlopen(made).close()
    running_bucket.calls.clear()
    running_bucket.is_over.clear()
    yield running_bucket
    running_bucket.is_over.set()
    running_bucket.fault = lambda _method, _path: None
    running_bucket.ignores_conditions = False
    running_bucket.stale_list = None
    running_bucket.clock_ahead = timedelta(0)
