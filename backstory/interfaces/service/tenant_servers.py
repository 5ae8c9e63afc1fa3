"""The Model Context Protocol over HTTP for each tenant, with the tokens of the service.

Every request stands alone: no session outlives it, so none can be taken over, and a token or a role that was revoked
ends at once.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import HTTPConnection, Request
from starlette.types import Message, Receive, Scope, Send

from backstory.base.errors import BackstoryError
from backstory.interfaces.agents.failures import Failure, make_failure
from backstory.interfaces.library.library import Library
from backstory.interfaces.mcp.server import LibraryServer, make_server
from backstory.interfaces.service.authentication import authenticate, enter, refuse_tenant
from backstory.interfaces.service.failures import describe_error
from backstory.interfaces.service.refusals import RefusedError, hide_paths, list_places
from backstory.interfaces.service.service import Service
from backstory.pipeline.workspace import Workspace

logger = logging.getLogger(__name__)

_PATH: Final = "/mcp"
_KEPT: Final = 16
"""Servers that are kept, since making one takes as long as several requests."""
_CHECKED_BEFORE: Final = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""The service has checked Host and Origin of every request."""


class TenantServers:
    """An application below ``/mcp``: the server of the tenant that the path names."""

    def __init__(self, service: Service) -> None:
        """Take the service whose tenants are served."""
        self._service = service
        self._making = threading.Lock()
        self._servers: OrderedDict[tuple[str, bool], tuple[Library, LibraryServer]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with the tools that the role of its caller allows."""
        if scope["type"] != "http":
            return
        try:
            tenant, may_write = await anyio.to_thread.run_sync(self._let_in, scope)
            # A client that sends its body slowly must not hold the turn of its tenant meanwhile.
            body = await Request(scope, receive).body()
            with self._service.take_place(tenant) as place, ExitStack() as held:
                await place.has_thread.wait()
                lent = self._service.tenants.entering(tenant)
                library = await anyio.to_thread.run_sync(held.enter_context, lent)
                server = await anyio.to_thread.run_sync(self._find_server, tenant, library, may_write)
                with anyio.CancelScope() as answering:
                    timed = self._limit_waiting(send, answering)
                    await _answer(server, scope, _replay(body, receive), timed)
        except BackstoryError as error:
            await describe_error(error, self._service.root).to_response()(scope, receive, send)

    def _limit_waiting(self, send: Send, answering: anyio.CancelScope) -> Send:
        """End an answer whose client takes it so slowly that others wait for the turn that it holds."""
        limits, waited, taken = self._service.limits, 0.0, 0

        async def pass_on(message: Message) -> None:
            nonlocal waited, taken
            taken += len(message.get("body", b""))
            most = limits.body_seconds + taken / limits.body_bytes_per_second
            began = anyio.current_time()
            with anyio.move_on_after(most - waited) as limit:
                await send(message)
            waited += anyio.current_time() - began
            if limit.cancelled_caught:
                logger.warning("a client took its answer too slowly, and its connection is ended")
                answering.cancel()

        return pass_on

    def _let_in(self, scope: Scope) -> tuple[str, bool]:
        """Return the tenant of a request, and whether its caller may write."""
        caller = authenticate(self._service, HTTPConnection(scope))
        name = scope["path"].removeprefix(scope.get("root_path", "")).strip("/")
        if not name:
            raise refuse_tenant()
        access = enter(caller, name, "reader")
        if scope["method"] != "POST":
            raise RefusedError(
                "send requests by POST; no session is kept", status=405, code="method_not_allowed"
            )
        return access.tenant, caller.may(access.tenant, "editor")

    def _find_server(self, tenant: str, library: Library, may_write: bool) -> LibraryServer:
        """Find the server of a library, or make it; those that were used last are kept.

        A library that was closed and opened again is another one.
        """
        with self._making:
            served, server = self._servers.pop((tenant, may_write), (None, None))
            if served is not library or server is None:
                server = make_server(library, allow_write=may_write)
                server.make_hide = partial(_make_hide, library.workspace)
                server.tell = partial(_tell, root=library.workspace.root)
                server.require_room = partial(self._service.tenants.require_room, tenant)
            self._servers[tenant, may_write] = library, server
            if len(self._servers) > _KEPT:
                self._servers.popitem(last=False)
            return server


def _make_hide(workspace: Workspace) -> Callable[[str], str]:
    """Make what hides the places of a tenant's files, which its sources may have changed."""
    return partial(hide_paths, root=workspace.root, others=list_places(workspace))


def _tell(error: BackstoryError, root: Path) -> Failure:
    """Describe an error to an agent with the code and the words of every other route."""
    told = describe_error(error, root).text
    return make_failure(told.code, f"{told.message} {told.id or ''}".rstrip())


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read, and then what comes after it."""
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def take() -> Message:
        return parts.pop() if parts else await receive()

    return take


async def _answer(server: LibraryServer, scope: Scope, receive: Receive, send: Send) -> None:
    app = server.streamable_http_app(
        streamable_http_path=_PATH, stateless_http=True, transport_security=_CHECKED_BEFORE
    )
    async with app.router.lifespan_context(app):
        await app({**scope, "path": _PATH, "raw_path": _PATH.encode(), "root_path": ""}, receive, send)
