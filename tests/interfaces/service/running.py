"""A service over workspaces of its own, on a real server of the loopback interface, and clients of it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from backstory.interfaces.mcp.http_serving import make_server
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.app import make_app
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.service import Service, ServiceLimits
from backstory.interfaces.service.serving import name_hosts
from backstory.interfaces.service.tenants import Tenants
from tests.caches import open_accounts
from tests.workspaces import copy_made

QUESTION = "What does the night train to Lisbon need?"


@dataclass
class Running:
    """A service that runs.

    Attributes:
        service: The service.
        server: Its server.
        thread: The thread in which it runs.
        port: Its port.
        tokens: A token of each user.
    """

    service: Service
    server: uvicorn.Server
    thread: threading.Thread
    port: int
    tokens: dict[str, str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def client(self, user: str | None = None, tenant: str | None = None) -> httpx2.Client:
        """Open a client of a user; None for one without a token."""
        headers = {} if user is None else {"Authorization": f"Bearer {self.tokens[user]}"}
        if tenant is not None:
            headers["X-Backstory-Tenant"] = tenant
        return httpx2.Client(base_url=self.url, headers=headers, timeout=600)

    def stop(self) -> None:
        """Tell the server to end, and wait until it has."""
        self.server.should_exit = True
        self.thread.join(600)
        assert not self.thread.is_alive()


def write_service(root: Path, made: Path, limits: ServiceLimits) -> tuple[Service, dict[str, str]]:
    """Make a service of two tenants that are copies of a workspace, with users of each role, and their tokens."""
    for tenant in ("garden", "workshop"):
        copy_made(made, root / "tenants" / tenant)
    accounts = Accounts(open_accounts(root))
    roles = {
        "ada": {"garden": "owner"},
        "ben": {"garden": "reader"},
        "cleo": {"workshop": "reader"},
        "dora": {"garden": "editor", "workshop": "reader"},
        "eli": {},
    }
    for user, granted in roles.items():
        accounts.add_user(user)
        for tenant, role in granted.items():
            accounts.grant(user, tenant, role)
    tokens = {user: accounts.make_token(user) for user in roles}
    keys = KeyRing(accounts.state, root.with_name(f"{root.name}.key"))
    tenants = Tenants(root, keys, memory_bytes=1 << 30)
    return Service(accounts, tenants, IndexJobs(tenants), limits), tokens


@contextmanager
def running(
    service: Service, tokens: dict[str, str], *, request_seconds: float = 60.0, names: Sequence[str] = ()
) -> Iterator[Running]:
    """Serve on a free port of the loopback interface, also under further names."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    app = make_app(service, hosts=name_hosts(port, names))
    server = make_server(
        app, request_seconds=request_seconds, on_stop=service.stopping.set, answer_seconds=60
    )
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
    thread.start()
    started = Running(service, server, thread, port, tokens)
    try:
        yield started
    finally:
        started.stop()
        listening.close()


def read_events(response: httpx2.Response) -> Iterator[tuple[str, Any]]:
    """Read server-sent events: the name and the data of each."""
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))
