"""Connections over loopback sockets that send no whole request, and those that only take their time."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import anyio
import pytest
from starlette.types import Receive, Scope, Send

from backstory.interfaces.mcp.http_serving import make_server

REQUEST_SECONDS = 0.3
LONGER = 2 * REQUEST_SECONDS
PARTS = 6
REQUEST = b"GET /stream HTTP/1.1\r\nHost: here\r\n\r\n"
UPLOAD = b"POST /%s HTTP/1.1\r\nHost: here\r\nContent-Length: 10\r\n\r\n"


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in parts, slowly; read the body before, unless the request is refused."""
    while scope["path"] == "/read" and (await receive()).get("more_body"):
        pass
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % PARTS)]}
    )
    for _ in range(PARTS):
        if scope["path"] == "/stream":
            await anyio.sleep(LONGER / PARTS)
        await send({"type": "http.response.body", "body": b".", "more_body": True})
    await send({"type": "http.response.body"})


async def ignore_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await answer(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = make_server(ignore_lifespan, request_seconds=REQUEST_SECONDS)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join()
    listening.close()


@pytest.fixture
def client(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=600) as connection:
        yield connection


def is_quiet(client: socket.socket, seconds: float) -> bool:
    """Say whether nothing comes for some seconds, not even the end of the connection."""
    return not select.select([client], [], [], seconds)[0]


def is_ended(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:  # it had sent what nobody read
        return True


def send_slowly(client: socket.socket, content: bytes) -> bool:
    """Send bytes one by one until the connection ends; say whether it did so."""
    for byte in content:
        if not is_quiet(client, REQUEST_SECONDS / 10):
            return is_ended(client)
        client.sendall(bytes([byte]))
    return False


def read_answer(client: socket.socket) -> bytes:
    read = b""
    while not read.endswith(b"." * PARTS):
        part = client.recv(1000)
        assert part, read
        read += part
    return read


def test_connections_that_send_nothing_end(port: int) -> None:
    clients = [socket.create_connection(("127.0.0.1", port), timeout=600) for _ in range(50)]
    assert [is_ended(client) for client in clients] == [True] * len(clients)
    for client in clients:
        client.close()


@pytest.mark.parametrize("before", [b"", REQUEST], ids=["first request", "second request"])
def test_headers_that_come_byte_by_byte_end_the_connection(client: socket.socket, before: bytes) -> None:
    if before:
        client.sendall(before)
        read_answer(client)
    assert send_slowly(client, b"GET / HTTP/1.1\r\nHost: here\r\nX-Slow: " + b"x" * 100)


def test_a_refused_body_that_comes_byte_by_byte_ends_the_connection(client: socket.socket) -> None:
    client.sendall(UPLOAD.replace(b"10", b"1000") % b"refused")
    read_answer(client)
    assert send_slowly(client, b"x" * 100)


def test_a_long_answer_is_not_cut_and_the_connection_stays_for_the_next_request(
    client: socket.socket,
) -> None:
    for _ in range(2):
        client.sendall(REQUEST)
        assert read_answer(client).startswith(b"HTTP/1.1 200")
        assert is_quiet(client, LONGER)


def test_a_body_may_take_longer_than_headers(client: socket.socket) -> None:
    client.sendall(UPLOAD % b"read")
    assert is_quiet(client, LONGER)
    client.sendall(b"x" * 10)
    assert read_answer(client).startswith(b"HTTP/1.1 200")


def test_a_request_beyond_the_number_of_connections_is_refused() -> None:
    server = make_server(ignore_lifespan, connections=3)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
    thread.start()
    address = listening.getsockname()
    request = REQUEST.replace(b"/stream", b"/")
    try:
        with socket.create_connection(address, timeout=600) as first:
            first.sendall(request)
            assert first.recv(100).startswith(b"HTTP/1.1 200 ")
            with (
                socket.create_connection(address, timeout=600),
                socket.create_connection(address, timeout=600) as third,
            ):
                third.sendall(request)
                assert third.recv(100).startswith(b"HTTP/1.1 503 ")
        with socket.create_connection(address, timeout=600) as later:
            later.sendall(request)
            assert later.recv(100).startswith(b"HTTP/1.1 200 ")
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def test_an_answer_that_nobody_reads_ends() -> None:
    has_ended = threading.Event()

    async def answer_at_length(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await receive()
            await send({"type": "http.response.start", "status": 200})
            for _ in range(100):
                await send({"type": "http.response.body", "body": b"." * 1_000_000, "more_body": True})
            await send({"type": "http.response.body"})
            has_ended.set()

    server = make_server(answer_at_length, reading_seconds=REQUEST_SECONDS)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
    thread.start()
    try:
        with socket.create_connection(listening.getsockname(), timeout=600) as lazy:
            lazy.sendall(REQUEST)
            assert has_ended.wait(600)
        with socket.create_connection(listening.getsockname(), timeout=600) as quick:
            quick.sendall(REQUEST)
            read = 0
            while read < 100_000_000:
                part = quick.recv(1_000_000)
                assert part
                read += len(part)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def test_answers_that_many_clients_do_not_read_end_from_the_first_on() -> None:
    size, clients, kept_by_system = 16_000_000, 6, 64_000

    async def answer_whole(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await receive()
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"." * size})

    server = make_server(answer_whole, unread_bytes=2 * size)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, kept_by_system)  # also of its connections
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
    thread.start()

    def read_size(client: socket.socket) -> int:
        read = 0
        with suppress(ConnectionResetError):
            while read < size and (part := client.recv(1_000_000)):
                read += len(part)
        return read

    try:
        with ExitStack() as opened:
            lazy = []
            for _ in range(clients):
                client = opened.enter_context(socket.socket())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kept_by_system)
                client.settimeout(30)
                client.connect(listening.getsockname())
                client.sendall(REQUEST)
                assert client.recv(1)  # its answer waits before the next request comes
                lazy.append(client)
            # Those of two clients fit, beside the latest one.
            assert [read_size(client) >= size for client in lazy] == [False] * 3 + [True] * 3
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
