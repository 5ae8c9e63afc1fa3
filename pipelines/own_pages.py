"""Guards the local UI: it answers its own pages and programs, and no page of another site that a browser has open."""

import os
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS_VARIABLE: Final = "BACKSTORY_UI_HOSTS"
"""Environment variable with the allowed values of ``Host``: ``name:port``, or ``name`` for any port."""

_THIS_MACHINE = ("127.0.0.1", "localhost", "[::1]")
_EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
_PATHS_OF_ACTIONS = ("/graphql", "/report_asset_")
_FOREIGN = ("cross-site", "same-site")


def list_hosts(host: str, port: int, names: Collection[str]) -> str:
    """Return the value of :data:`HOSTS_VARIABLE` for a bound address, its port, and further names such as a proxy's."""
    bound = [] if host in _EVERY_ADDRESS else [host]
    return " ".join([*(f"{name}:{port}" for name in (*_THIS_MACHINE, *bound)), *names]).lower()


def guard(app: ASGIApp) -> ASGIApp:
    """Refuse requests that name another host (400), or that a page of another site makes (403).

    A link from another site to a page is followed, but no such page may show the UI in a frame. Programs that are no
    browser send neither ``Origin`` nor ``Sec-Fetch-Site``, and pass.
    """
    hosts = frozenset(os.environ[HOSTS_VARIABLE].split())

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_unframed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Frame-Options"] = "SAMEORIGIN"
            await send(message)

        refusal = _refuse(scope, hosts) if scope["type"] in ("http", "websocket") else None
        await (refusal or app)(scope, receive, send_unframed)

    return guarded


def _refuse(scope: Scope, hosts: frozenset[str]) -> PlainTextResponse | None:
    headers = Headers(scope=scope)
    if not _is_own(headers.get("host", ""), hosts):
        told = "This address is not one of the UI's. Open the one that `backstory dagster ui` printed, or allow this "
        return PlainTextResponse(f"{told}name with --allow-host.\n", status_code=400)
    origin = headers.get("origin")
    is_foreign = headers.get("sec-fetch-site") in _FOREIGN
    if origin is not None:
        is_foreign = is_foreign or not _is_own(urlsplit(origin).netloc, hosts)
    is_page = (
        scope["type"] == "http"
        and scope["method"] in ("GET", "HEAD")
        and headers.get("sec-fetch-mode") == "navigate"
        and not scope["path"].startswith(_PATHS_OF_ACTIONS)
    )
    if is_foreign and not is_page:
        return PlainTextResponse("A page of another site may not use the UI.\n", status_code=403)
    return None


def _is_own(authority: str, hosts: frozenset[str]) -> bool:
    name, colon, port = authority.lower().rpartition(":")
    if not colon or not port.isdigit():
        name = authority.lower()
    return bool(name) and not hosts.isdisjoint({authority.lower(), name})
