"""A real implementation of S3 on the loopback interface, one for each process of tests, that fails as it is told to."""

import socket
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

Fault: TypeAlias = Literal["busy", "refused", "cut", "answer lost"]
"""What happens to one call: 503, 403, no answer, or an answer that is lost after the work is done."""
BUCKET = "shared"


@dataclass
class Bucket:
    """The server.

    Attributes:
        app: What answers as S3 does; it keeps the content while the server is stopped.
        serve: Makes a server on a port, or on a free one.
        address: Its address on the loopback interface.
        fault: Decides what happens to a call; None for what S3 does.
    """

    app: Any
    serve: Callable[["Bucket", int], "BaseWSGIServer"]
    address: str = ""
    fault: Callable[[str, str], Fault | None] = lambda _method, _path: None
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
            case _:
                answer: Iterable[bytes] = self.app(environ, start_response)
                return answer


def _cut(environ: WSGIEnvironment) -> Iterable[bytes]:
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    return []


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
    yield running_bucket
    running_bucket.fault = lambda _method, _path: None
