"""What is refused before anything is read: hosts, pages of others, bodies, requests that are too many or too slow."""

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.limits import RequestRates
from backstory.interfaces.service.pages.rendering import find_asset
from backstory.interfaces.service.service import ServiceLimits
from tests.interfaces.service.running import QUESTION, Running, running, write_service

MOST = 100_000


def send(served: Running, content: bytes) -> tuple[int, bytes]:
    """Send bytes on a connection of their own, and return the status and all that comes until it ends."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=600) as connection:
        connection.sendall(content)
        read = b""
        while part := connection.recv(65536):
            read += part
    return int(read.split(b" ", 2)[1]), read


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "localhost:1", "", "127.0.0.1:%d.evil.example"]
)
def test_another_host_is_refused(served_once: Running, host: str) -> None:
    named = host.replace("%d", str(served_once.port))
    head = f"GET /healthz HTTP/1.1\r\nHost: {named}\r\nConnection: close\r\n\r\n"
    status, read = send(served_once, head.encode())
    assert (status, b"unknown_host" in read) == (421, True)


def test_every_name_of_this_machine_is_known(served_once: Running) -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        with served_once.client() as client:
            headers = {"Host": f"{name}:{served_once.port}"}
            assert client.get("/healthz", headers=headers).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", "https://localhost:1"])
def test_a_page_of_another_site_is_refused(served_once: Running, origin: str) -> None:
    with served_once.client("ben") as client:
        refused = client.get("/api/conversations", headers={"Origin": origin})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "foreign_page")
        own = client.get("/api/conversations", headers={"Origin": served_once.url})
        assert own.status_code == 200
        assert "access-control-allow-origin" not in own.headers
        asked = client.options("/api/conversations", headers={"Access-Control-Request-Method": "GET"})
        assert "access-control-allow-origin" not in asked.headers


@pytest.mark.parametrize("path", ["/healthz", "/api/conversations", "/absent", "/docs", "/mcp/garden"])
def test_every_answer_has_protecting_headers(served_once: Running, path: str) -> None:
    with served_once.client("ben") as client:
        headers = client.get(path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def write_request(served: Running, path: str, headers: str, body: bytes) -> bytes:
    token = served.tokens["ben"]
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {served.host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\n{headers}\r\n\r\n"
    )
    return head.encode() + body


@pytest.mark.parametrize(
    "path", ["/api/search", "/api/chat/message", "/api/chat/stream", "/mcp/garden", "/absent"]
)
def test_a_body_that_says_that_it_is_too_large_is_refused(served_once: Running, path: str) -> None:
    request = write_request(served_once, path, f"Content-Length: {MOST + 1}", b"")
    status, read = send(served_once, request)
    assert (status, b"too_large" in read) == (413, True)


@pytest.mark.parametrize("path", ["/api/search", "/api/chat/message", "/api/chat/stream", "/mcp/garden"])
def test_a_body_in_chunks_that_becomes_too_large_is_refused(served_once: Running, path: str) -> None:
    chunk = b"%x\r\n%s\r\n" % (10_000, b"x" * 10_000)
    body = chunk * (MOST // 10_000 + 1) + b"0\r\n\r\n"
    status, read = send(served_once, write_request(served_once, path, "Transfer-Encoding: chunked", body))
    assert (status, b"larger than" in read) == (413, True)


def test_a_body_in_chunks_that_is_small_enough_is_read(served_once: Running) -> None:
    told = json.dumps({"query": QUESTION}).encode()
    body = b"".join(b"1\r\n%c\r\n" % byte for byte in told) + b"0\r\n\r\n"
    status, read = send(
        served_once, write_request(served_once, "/api/search", "Transfer-Encoding: chunked", body)
    )
    assert (status, b"night-train.md" in read) == (200, True)


@pytest.mark.parametrize("body", [b"{", b"[" * 50_000, b"\xff\xfe", b'{"query": "\\ud800"}', b"null"])
def test_a_body_that_is_no_question_is_refused(served_once: Running, body: bytes) -> None:
    with served_once.client("ben") as client:
        refused = client.post("/api/search", content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"]


LIMITS = ServiceLimits(
    requests_per_minute=1,
    requests_at_once=3,
    failures_per_minute=1,
    failures_at_once=2,
    body_seconds=0.4,
    body_bytes_per_second=1_000_000,
)


@pytest.fixture
def strict(indexed_once: Library, service_root: Path) -> Iterator[Running]:
    service, tokens = write_service(service_root, indexed_once.workspace.root, LIMITS)
    with running(service, tokens) as started:
        yield started


def test_too_many_requests_of_a_token_wait_and_others_do_not(strict: Running) -> None:
    with strict.client("ben") as ben, strict.client("ada") as ada:
        assert [ben.get("/api/conversations").status_code for _ in range(3)] == [200, 200, 200]
        for refused in (ben.get("/api/conversations"), ben.post("/mcp/garden", json={})):
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_requests")
            assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert ada.get("/api/conversations").status_code == 200
        assert ben.get("/healthz").status_code == 200


def test_headers_that_do_not_come_end_the_connection(indexed_once: Library, service_root: Path) -> None:
    service, tokens = write_service(service_root, indexed_once.workspace.root, LIMITS)
    with (
        running(service, tokens, request_seconds=0.3) as hasty,
        socket.create_connection(("127.0.0.1", hasty.port), timeout=600) as connection,
    ):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        assert connection.recv(1) == b""


@pytest.mark.parametrize("path", ["/api/search", "/api/chat/stream", "/mcp/garden"])
def test_a_body_that_does_not_come_is_refused(strict: Running, path: str) -> None:
    head = "Content-Length: 100"
    status, read = send(strict, write_request(strict, path, head, b"{"))
    assert (status, b"slowly" in read) == (408, True)


def test_a_body_that_drips_is_refused(strict: Running) -> None:
    request = write_request(strict, "/api/search", "Content-Length: 1000", b"{")
    with socket.create_connection(("127.0.0.1", strict.port), timeout=600) as connection:
        connection.sendall(request)
        connection.settimeout(0.05)
        for _ in range(600):
            try:
                read = connection.recv(65536)
                break
            except TimeoutError:
                connection.sendall(b" ")
        else:
            pytest.fail("every byte was waited for")
    assert read.startswith(b"HTTP/1.1 408 ")


def test_an_answer_may_take_longer_than_its_body(strict: Running) -> None:
    # A stream waits for the end of its client all the time.
    with strict.client("ben") as client:
        asked = client.post("/api/chat/stream", json={"question": QUESTION})
    assert "event: done" in asked.text


def test_failures_of_an_address_are_counted_and_valid_tokens_let_in(strict: Running) -> None:
    with strict.client() as nobody, strict.client("ben") as ben:
        wrong = {"Authorization": "Bearer bst_guessed"}
        calls = [("GET", "/api/conversations"), ("POST", "/mcp/garden"), ("GET", "/api/jobs")]
        answers = [nobody.request(method, path, headers=wrong) for method, path in calls]
        assert [answer.status_code for answer in answers] == [401, 401, 429]
        assert answers[-1].json()["error"]["code"] == "too_many_failures"
        assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60
        assert ben.get("/api/conversations").status_code == 200


def test_signing_in_is_counted_like_every_request(strict: Running) -> None:
    def sign_in(client: httpx2.Client, token: str) -> int:
        headers = {"Origin": strict.url}
        return client.post("/sign-in", data={"token": token}, headers=headers).status_code

    with strict.client() as client:
        assert [sign_in(client, "bst_guessed") for _ in range(3)] == [401, 401, 429]
        assert [sign_in(client, strict.tokens["ben"]) for _ in range(4)] == [303, 303, 303, 429]


def test_a_name_of_no_file_does_not_stay_in_memory() -> None:
    name = "absent.css"
    before = sys.getrefcount(name)
    assert find_asset(name) is None
    assert sys.getrefcount(name) == before


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/jobs?offset=99999999999999999999", b""),
        ("/api/chat/message", b'{"question": "And then?", "conversation_id": "\\ud800"}'),
        ("/api/chat/stream", b'{"question": "And then?", "conversation_id": "\\ud800"}'),
    ],
)
def test_values_that_nothing_can_have_are_no_fault(served_once: Running, path: str, body: bytes) -> None:
    with served_once.client("ben") as client:
        method = "POST" if body else "GET"
        headers = {"Content-Type": "application/json"}
        refused = client.request(method, path, content=body, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "input")


def test_requests_are_gained_back_with_time() -> None:
    now = 100.0
    rates = RequestRates(60, 2, lambda: now)
    assert [rates.take("a"), rates.take("a"), rates.take("a")] == [0, 0, 1]
    now += 0.5
    assert rates.take("a") == pytest.approx(0.5)
    assert rates.take("b") == 0
    now += 0.5
    assert [rates.take("a"), rates.take("a")] == [0, 1]
    now += 3600
    assert [rates.take("a"), rates.take("a"), rates.take("a")] == [0, 0, 1]
