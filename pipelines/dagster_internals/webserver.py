"""Dagster's webserver, changed to refuse requests that pages of other sites make.

Anyone who can send requests to the webserver can start runs. Dagster's own accepts any ``Host``: a page whose name
resolves to 127.0.0.1 can read everything. It accepts any ``Origin``, too: every page that a person visits can start
runs.
"""

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from dagster._core.workspace.context import WorkspaceProcessContext, WorkspaceRequestContext
from dagster_webserver.webserver import DagsterWebserver
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine, for itself."""

_PATHS_OF_ACTIONS = ("/graphql", "/report_asset_")
_FOREIGN = ("cross-site", "same-site")


class GuardedWebserver(DagsterWebserver[WorkspaceProcessContext, WorkspaceRequestContext]):
    """Dagster's webserver behind :class:`OwnPagesOnly`, and in no frame of another page."""

    def __init__(self, context: WorkspaceProcessContext, authorities: Collection[str]) -> None:
        super().__init__(context, live_data_poll_rate=2000)
        self._authorities = authorities

    def build_middleware(self) -> list[Middleware]:
        """Return Dagster's middleware behind the guard."""
        return [Middleware(OwnPagesOnly, authorities=self._authorities), *super().build_middleware()]

    def make_security_headers(self) -> dict[str, str]:
        """Return Dagster's headers and the one that forbids frames of other sites."""
        return {**super().make_security_headers(), "X-Frame-Options": "SAMEORIGIN"}


class OwnPagesOnly:
    """Refuses requests that name another host, or that a page of another site makes.

    A link from another site to a page is followed. Programs that are no browser send neither ``Origin`` nor
    ``Sec-Fetch-Site``, and pass.
    """

    def __init__(self, app: ASGIApp, authorities: Collection[str]) -> None:
        """Wrap an application.

        Args:
            app: The application.
            authorities: Allowed values of ``Host``: ``name:port``, or ``name`` for any port.
        """
        self._app = app
        self._authorities = frozenset(authority.lower() for authority in authorities)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 400 (host) or 403 (another site)."""
        refusal = self._refuse(scope) if scope["type"] in ("http", "websocket") else None
        await (refusal or self._app)(scope, receive, send)

    def _refuse(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        if not self._is_own(headers.get("host", "")):
            return PlainTextResponse(
                "This address is not one of the UI's. Open the one that `backstory dagster ui` printed, or allow "
                "this name with --allow-host.\n",
                status_code=400,
            )
        origin = headers.get("origin")
        is_foreign = headers.get("sec-fetch-site") in _FOREIGN
        if origin is not None:
            is_foreign = is_foreign or not self._is_own(urlsplit(origin).netloc)
        is_page = (
            scope["type"] == "http"
            and scope["method"] in ("GET", "HEAD")
            and headers.get("sec-fetch-mode") == "navigate"
            and not scope["path"].startswith(_PATHS_OF_ACTIONS)
        )
        if is_foreign and not is_page:
            return PlainTextResponse("A page of another site may not use the UI.\n", status_code=403)
        return None

    def _is_own(self, authority: str) -> bool:
        name, colon, port = authority.lower().rpartition(":")
        if not colon or not port.isdigit():
            name = authority.lower()
        return bool(name) and (authority.lower() in self._authorities or name in self._authorities)


def list_authorities(host: str, port: int, names: Collection[str]) -> list[str]:
    """List the allowed values of ``Host``.

    Args:
        host: Address that the server is bound to.
        port: Its port.
        names: Further names, such as that of a proxy, with any port.
    """
    bound = [host] if host not in ("0.0.0.0", "::") else []  # noqa: S104 - compared, not bound
    return [*(f"{name}:{port}" for name in (*LOOPBACK, *bound)), *names]
