"""What clients are told of errors shows no place on the machine of the service."""

import logging
import socket
from pathlib import Path

import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.pages.visits import SESSION_COOKIE
from backstory.interfaces.service.refusals import hide_paths
from backstory.interfaces.service.service import ServiceLimits
from tests.interfaces.service.running import running, write_service

GARDEN = Path("/srv/service/tenants/garden")


def test_the_place_of_a_folder_is_cut_out_of_a_text() -> None:
    assert hide_paths(f"{GARDEN}/posts/one.md is absent", GARDEN) == "posts/one.md is absent"
    for text in (f"{GARDEN}: not writable", f"nothing is written to {GARDEN}."):
        assert str(GARDEN) not in hide_paths(text, GARDEN)


def test_a_folder_whose_name_begins_alike_is_another_one() -> None:
    for other in (f"{GARDEN}-notes/one.md", f"{GARDEN}.old"):
        assert hide_paths(other, GARDEN) == other


def test_a_client_that_goes_in_the_middle_of_a_body_is_no_fault(
    indexed_once: Library, service_root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service, tokens = write_service(service_root, indexed_once.workspace.root, ServiceLimits())
    session = service.accounts.open_session(tokens["ada"])
    paths = ("/mcp/garden", "/api/documents", "/tenants/garden/documents")
    with running(service, tokens) as served:
        for path in paths:
            lines = [
                f"POST {path} HTTP/1.1",
                f"Host: {served.host}",
                f"Origin: {served.url}",
                f"Authorization: Bearer {tokens['ada']}",
                f"Cookie: {SESSION_COOKIE}={session}",
                "Content-Type: multipart/form-data; boundary=edge",
                "Content-Length: 100",
                "Expect: 100-continue",
            ]
            with socket.create_connection(("127.0.0.1", served.port), timeout=600) as client:
                client.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
                assert client.recv(100).startswith(b"HTTP/1.1 100")  # its body is waited for
                client.sendall(b"--edge")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
