"""The tools of agents over HTTP for each tenant, with the client of the SDK."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent
from starlette.types import Message

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import StateError
from backstory.interfaces.library.library import Library
from backstory.interfaces.service.service import ServiceLimits
from backstory.interfaces.service.tenant_servers import TenantServers
from tests.interfaces.service.running import QUESTION, Running, running, write_service

WRITING = {"index_document", "index_directory", "dump_document"}


@asynccontextmanager
async def connect(served: Running, user: str, tenant: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {served.tokens[user]}"}, timeout=60) as http,
        Client(streamable_http_client(f"{served.url}/mcp/{tenant}", http_client=http)) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("user", "tenant", "may_write"),
    [
        ("ben", "garden", False),
        ("dora", "garden", True),
        ("dora", "workshop", False),
        ("ada", "garden", True),
    ],
)
def test_tools_follow_the_role(served_once: Running, user: str, tenant: str, may_write: bool) -> None:
    async def run() -> None:
        async with connect(served_once, user, tenant) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert bool(names & WRITING) is may_write
            answered = await client.call_tool("answer_question", {"query": QUESTION})
            assert isinstance(answered.structured_content, dict)
            assert not answered.is_error
            assert "night-train.md" in str(answered.structured_content)

    anyio.run(run)


def test_a_writing_tool_is_refused_to_a_reader_who_calls_it_all_the_same(served_once: Running) -> None:
    async def run() -> None:
        async with connect(served_once, "ben", "garden") as client:
            for name in sorted(WRITING):
                assert (await client.call_tool(name, {"path": "posts"})).is_error

    anyio.run(run)


def test_an_editor_can_read_and_write_no_file_outside_of_the_tenant(served_once: Running) -> None:
    root = served_once.service.root

    async def run() -> None:
        async with connect(served_once, "dora", "garden") as client:
            for path in ("/etc", str(root), str(root / "tenants" / "workshop"), "../workshop/posts"):
                told = await client.call_tool("index_directory", {"directory_path": path})
                assert told.is_error, path
            for path in ("/tmp/x.txt", str(root / "x.txt"), "../workshop/posts/x.md"):
                dumped = await client.call_tool(
                    "dump_document", {"file_name": "night-train.md", "output_path": path}
                )
                assert dumped.is_error, path

    anyio.run(run)


def test_a_path_that_is_refused_does_not_tell_where_it_leads(served_once: Running) -> None:
    async def run() -> None:
        async with connect(served_once, "dora", "garden") as client:
            for path in ("~", "../workshop/posts", "/proc/self/cwd"):
                for name, argument in (
                    ("index_document", "file_path"),
                    ("index_directory", "directory_path"),
                ):
                    told = str(await client.call_tool(name, {argument: path}))
                    assert path in told
                    for place in (Path.home(), Path.cwd(), served_once.service.root):
                        assert f"{place}/" not in told
                        assert f"{place} " not in told

    anyio.run(run)


@pytest.mark.parametrize("user", ["ben", "cleo", "dora"])
def test_places_on_this_machine_are_not_shown(served_once: Running, user: str) -> None:
    tenant = "workshop" if user == "cleo" else "garden"
    calls: list[tuple[str, dict[str, object]]] = [
        ("documents", {}),
        ("status", {}),
        ("search", {"query": QUESTION}),
        ("answer_question", {"query": QUESTION}),
        ("fetch", {"id": "absent.md"}),
    ]

    async def run() -> None:
        async with connect(served_once, user, tenant) as client:
            for name, arguments in calls:
                told = await client.call_tool(name, arguments)
                assert str(served_once.service.root) not in str(told), name

    anyio.run(run)


def test_places_of_sources_and_roots_elsewhere_are_not_shown(
    indexed_once: Library, service_root: Path, tmp_path: Path
) -> None:
    service, tokens = write_service(service_root, indexed_once.workspace.root, ServiceLimits())
    notes, inbox = tmp_path / "elsewhere" / "notes", tmp_path / "elsewhere" / "inbox"
    for folder in (notes, inbox):
        folder.mkdir(parents=True)
        (folder / "one.md").write_text("# One\n\nA ferry from elsewhere.\n", "utf-8")
    settings = service.tenants.folder("garden") / SETTINGS_FILE
    settings.write_text(f"{settings.read_text('utf-8')}agents: {{roots: [{inbox}]}}\n", "utf-8")
    with service.tenants.entering("garden") as library:
        library.index(notes)
    calls: list[tuple[str, dict[str, object]]] = [
        ("documents", {}),
        ("status", {}),
        ("search", {"query": "A ferry from elsewhere"}),
        ("index_directory", {"directory_path": "/proc"}),
        ("index_document", {"file_path": "~"}),
        ("dump_document", {"file_name": "night-train.md", "output_path": "../x.md"}),
        ("explain", {"window_id": "latest", "document": "absent.md"}),
    ]

    async def run() -> None:
        async with connect(served, "dora", "garden") as client:
            for name, arguments in calls:
                told = str(await client.call_tool(name, arguments))
                for place in (tmp_path, Path.home()):
                    assert str(place) not in told, name
            listed = await client.call_tool("documents", {})
            assert isinstance(listed.structured_content, dict)
            [other] = [each for each in listed.structured_content["documents"] if "://" in each["uri"]]
            assert other["path"] == other["uri"] == "notes://one.md"

    with running(service, tokens) as served:
        anyio.run(run)


def test_an_error_has_the_code_of_every_other_route(served_once: Running) -> None:
    async def run() -> None:
        async with connect(served_once, "ben", "garden") as client:
            told = await client.call_tool("fetch", {"id": "absent"})
            assert isinstance(told.content[0], TextContent)
            codes.append(json.loads(told.content[0].text)["code"])
            with pytest.raises(MCPError) as raised:
                await client.read_resource("backstory://document/absent")
            codes.append(raised.value.error.data["code"])

    codes: list[str] = []
    anyio.run(run)
    with served_once.client("ben") as client:
        codes.append(client.get("/api/documents/absent").json()["error"]["code"])
    assert codes == ["unknown_document"] * 3


@pytest.mark.parametrize("address", ["backstory://windows", "backstory://documents"])
def test_a_fault_shows_nothing_of_the_machine(
    served_once: Running, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StateError("/srv/private/store cannot be read", code="damaged_store")

    monkeypatch.setattr(Library, "status", fail)
    monkeypatch.setattr(Library, "documents", fail)
    monkeypatch.setattr("backstory.operations.inspection.windows.list_windows", fail)

    async def run() -> None:
        async with connect(served_once, "ben", "garden") as client:
            told = str(await client.call_tool("status", {}))
            with pytest.raises(MCPError) as raised:
                await client.read_resource(address)
            for text in (told, str(raised.value.error)):
                assert "internal" in text
                assert "private" not in text

    anyio.run(run)


def test_only_requests_by_post_are_answered(served_once: Running) -> None:
    with served_once.client("ben") as client:
        for method in ("GET", "DELETE", "PUT"):
            refused = client.request(method, "/mcp/garden")
            assert (refused.status_code, refused.json()["error"]["code"]) == (405, "method_not_allowed")


def test_a_client_that_does_not_take_its_answer_gives_back_its_turn(
    indexed_once: Library, service_root: Path
) -> None:
    limits = ServiceLimits(answers=1, waiting=0, body_seconds=0.2)
    service, tokens = write_service(service_root, indexed_once.workspace.root, limits)
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    headers = {
        "authorization": f"Bearer {tokens['ben']}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/garden",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "app": SimpleNamespace(state=SimpleNamespace(service=service)),
    }
    held: list[bool] = []

    async def run() -> None:
        parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if not parts:
                await anyio.sleep_forever()
            return parts.pop()

        async def send(message: Message) -> None:
            assert message["status"] == 200
            held.append(service.threads["answers"].has_place("garden"))
            await anyio.sleep_forever()

        with anyio.fail_after(60):
            await TenantServers(service)(scope, receive, send)
        assert (held, service.threads["answers"].has_place("garden")) == ([False], True)

    anyio.run(run)
    service.close()
