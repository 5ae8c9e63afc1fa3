"""Nobody crosses from one tenant into another: random calls over every route find no marker and write nothing there."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from backstory.interfaces.service.app import make_app
from backstory.interfaces.service.pages.visits import SESSION_COOKIE
from backstory.storage.state import close_idle
from tests.interfaces.service.crossing_calls import MCP_HEADERS, TOOLS, Call, Caller
from tests.interfaces.service.planted import TENANTS, Planted, list_users, planting
from tests.interfaces.service.route_table import NEEDED, OF_NO_TENANT, list_routes
from tests.long_tests import LONG_TESTS
from tests.postgres import PostgresServer

CALLS = 6_000 if LONG_TESTS else 250
SEED = 20_261_125

_OPENING = (
    "open",
    "os.listdir",
    "os.scandir",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.link",
    "sqlite3.connect",
)
_watching: list[list[str]] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in _OPENING:
        _watching[-1] += [str(each) for each in arguments if isinstance(each, str | Path)]


@contextmanager
def watching() -> Iterator[list[str]]:
    """Yield the paths of files and folders that this process opens meanwhile."""
    opened: list[str] = []
    _watching.append(opened)
    try:
        yield opened
    finally:
        _watching.remove(opened)


@pytest.fixture(scope="module", params=["files", pytest.param("database", marks=pytest.mark.long)])
def storage(request: pytest.FixtureRequest) -> Iterator[Mapping[str, str] | None]:
    """Where each tenant keeps its state; None for its folder."""
    if request.param == "files":
        yield None
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    addresses = {tenant: server.make_address() for tenant in TENANTS}
    yield addresses
    close_idle()


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory, storage: Mapping[str, str] | None) -> Iterator[Planted]:
    sys.addaudithook(_note)
    with planting(tmp_path_factory.mktemp("crossing") / "service", storage) as planted:
        yield planted


class States:
    """What each tenant has in its databases."""

    def __init__(self, storage: Mapping[str, str] | None, folders: Mapping[str, str]) -> None:
        self._storage, self._folders = storage or {}, folders

    def read(self, tenant: str) -> list[tuple[str, str]]:
        """Hash the rows of every table of a tenant."""
        found = [
            (str(file), dump_rows(file)) for file in sorted(Path(self._folders[tenant]).rglob("*.sqlite"))
        ]
        if tenant not in self._storage:
            return found
        address = self._storage[tenant]
        with psycopg.connect(address, cursor_factory=psycopg.RawCursor) as connection:
            query = (
                "SELECT format('%I.%I', nspname, relname) FROM pg_class JOIN pg_namespace "
                "ON pg_namespace.oid = relnamespace WHERE starts_with(nspname, $1) AND relkind = 'r' ORDER BY 1"
            )
            for (table,) in connection.execute(query, (f"{address.rpartition('%3D')[2]}_",)).fetchall():
                rows = f"SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM {table} t"
                found.append((table, str(connection.execute(rows).fetchall()[0][0])))
        return found


def dump_rows(file: Path) -> str:
    """Hash the rows of a database, whatever of them its log still holds."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return hashlib.sha256("\n".join(connection.iterdump()).encode()).hexdigest()


@pytest.fixture
def caller(planted: Planted) -> Iterator[Caller]:
    caller = Caller(planted, SEED)
    yield caller
    caller.connection.close()


def look_at(folder: str) -> dict[str, tuple[int, int, int]]:
    """Give the number, the size and the last change of every file but databases; nobody can set that time."""
    found: dict[str, tuple[int, int, int]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found |= look_at(entry.path)
            elif ".sqlite" not in entry.name:
                seen = entry.stat(follow_symlinks=False)
                found[entry.path] = (seen.st_ino, seen.st_size, seen.st_ctime_ns)
    return found


def list_entered(planted: Planted, opened: list[str]) -> set[str]:
    """List the tenants in whose folders something was opened."""
    place = f"{planted.served.service.root}/tenants/"
    return {path.removeprefix(place).partition("/")[0] for path in opened if path.startswith(place)}


def find_leaks(planted: Planted, call: Call, content: bytes) -> list[str]:
    """List what an answer must not hold; what the caller has sent does not count."""
    found = planted.find_markers(content)
    leaks = [
        f"{marker.kind} of {marker.tenant}"
        for word, marker in found.items()
        if word not in call.sent and not planted.may_see(marker, call.user, call.tenant)
    ]
    leaks += [f"secret {each[:12]}" for each in planted.secrets if each.encode() in content]
    root = str(planted.served.service.root)
    if root.encode() in content and root not in repr(call):
        leaks.append("the place of the service")
    return leaks


def test_markers_are_seen_by_those_who_may(planted: Planted) -> None:
    # So a marker that nobody else has seen was there to be seen.
    for tenant in TENANTS:
        user = list_users(planted, tenant, "owner")[0]
        [conversation] = planted.ids["conversation", tenant][1:]
        paths = ["documents", "conversations", f"conversations/{conversation}", "jobs", "feedback/export"]
        with planted.served.client(user, tenant) as client:
            seen = b"".join(client.get(f"/api/{path}").raise_for_status().content for path in paths)
            seen += client.post("/api/search", json={"query": "the night train to Lisbon"}).content
            client.headers["Cookie"] = f"{SESSION_COOKIE}={planted.sessions[user]}"
            seen += client.get(f"/tenants/{tenant}").raise_for_status().content
        markers = planted.find_markers(seen).values()
        kinds = {"text", "title", "tag", "file", "job", "question", "feedback", "user"}
        assert {marker.kind for marker in markers} == kinds
        assert all(planted.may_see(marker, user, tenant) for marker in markers)


def test_no_call_crosses_into_another_tenant(
    planted: Planted, caller: Caller, caplog: pytest.LogCaptureFixture, storage: Mapping[str, str] | None
) -> None:
    root = planted.served.service.root
    folders = {tenant: str(root / "tenants" / tenant) for tenant in TENANTS}
    states = States(storage, folders)
    caplog.set_level(logging.INFO)
    routes = list_routes(make_app(planted.served.service, hosts=[]))
    assert len(routes) > 40
    faults: list[tuple[str, str]] = []
    answered: set[str] = set()
    left: str | None = None
    for number in range(CALLS if storage is None else CALLS // 4):
        call = caller.make(routes[number % len(routes)])
        foreign = [tenant for tenant in TENANTS if tenant != call.tenant]
        before = {tenant: (look_at(folders[tenant]), states.read(tenant)) for tenant in foreign}
        if storage is not None:  # the server may have closed the connection while the rows were read
            caller.connection.close()
        with watching() as opened:
            status, content = caller.send(call)
        described = f"{number}: {call.route} {call.path} {status}"
        wrong = find_leaks(planted, call, content)
        wrong += [
            f"changed {tenant}"
            for tenant in foreign
            if (look_at(folders[tenant]), states.read(tenant)) != before[tenant]
        ]
        # A call of an agent leaves its tenant a moment after its answer.
        wrong += [f"opened {tenant}" for tenant in list_entered(planted, opened) - {call.tenant, left}]
        left = call.tenant if call.route == "POST /mcp" else None
        if status >= 500:
            wrong.append("a fault")
        if status < 300 and call.route not in OF_NO_TENANT:
            answered.add(call.route)
            if not planted.includes(call.user, call.tenant, NEEDED.get(call.route, "reader")):
                wrong.append("let in")
        faults += [(described, each) for each in wrong]
        if call.route == "POST /sign-out":
            for user in planted.roles:
                if planted.served.service.accounts.find_session(planted.sessions[user]) is None:
                    planted.open_session(user)
    assert not faults, faults[:30]
    assert {path.name for path in root.iterdir()} <= {
        "service.sqlite",
        "service.sqlite-wal",
        "service.sqlite-shm",
        "tenants",
    }
    assert {path.name for path in (root / "tenants").iterdir()} == set(TENANTS)
    # The service keeps no log of accesses, but pytest listens to it.
    kept = [record for record in caplog.records if record.name != "uvicorn.access"]
    logged = "\n".join(map(caplog.handler.format, kept)).encode()
    assert [secret for secret in planted.secrets if secret.encode() in logged] == []
    assert [line for line in logged.splitlines() if planted.find_markers(line)] == []
    # Those who may are let in, so that the others are refused by what they are.
    assert len(answered) > len(routes) // 4


def test_what_is_stored_holds_no_secret(planted: Planted) -> None:
    root = planted.served.service.root
    held = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and any(secret.encode() in path.read_bytes() for secret in planted.secrets)
    ]
    assert held == []
    assert sum(len(secret) for secret in planted.secrets) > 0


def test_every_tool_of_agents_is_called(planted: Planted) -> None:
    user = list_users(planted, "garden", "owner")[0]
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    with planted.served.client(user) as client:
        listed = client.post("/mcp/garden", json=message, headers=MCP_HEADERS).text
    told = json.loads(listed.partition("data: ")[2])
    assert {tool["name"] for tool in told["result"]["tools"]} == set(TOOLS)


@pytest.mark.parametrize("absent", ["absent", "Garden", "%", "gardеn"])
def test_an_absent_tenant_and_a_forbidden_one_take_the_same_work(
    planted: Planted, caller: Caller, absent: str
) -> None:
    user = next(user for user, roles in planted.roles.items() if set(roles) == {"workshop"})
    for route in list_routes(make_app(planted.served.service, hosts=[])):
        if route in OF_NO_TENANT:
            continue
        seen = []
        for tenant in ("garden", "garden", absent):
            call = caller.knock(route, user, tenant)
            with watching() as opened:
                status, content = caller.send(call)
            assert list_entered(planted, opened) == set(), route
            seen.append((status, opened, content.partition(b"\n\n")[2]))
        # What the first call loads, no later one does.
        assert seen[1] == seen[2], route
        assert seen[2][0] == 404, route
