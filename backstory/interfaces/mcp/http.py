"""The server over HTTP, for clients of this machine that send the token."""

from __future__ import annotations

import hmac
import logging
import socket
from typing import Any, Final

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from backstory.base.environment import find_key
from backstory.base.errors import InputError, ModelSetupError
from backstory.interfaces.mcp.http_serving import LOOPBACK_NAMES, serve_app

logger = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
PATH: Final = "/mcp"

_SCHEME: Final = "bearer"
_VARIABLE: Final = "BACKSTORY_MCP_TOKEN"
_SHORTEST_TOKEN: Final = 16


def read_token() -> SecretStr:
    """Return the token that clients of the MCP server must send, or raise ``ModelSetupError`` if it may be guessed."""
    token = find_key(_VARIABLE)
    if token is None or len(token.get_secret_value()) < _SHORTEST_TOKEN:
        raise ModelSetupError(
            f"{_VARIABLE} must hold a token of at least {_SHORTEST_TOKEN} characters, which every client sends; "
            "`openssl rand -hex 32` makes one",
            code="missing_key",
        )
    return token


class BearerOnly:
    """Refuses requests without the token, in a time that does not tell how much of a guess is right."""

    def __init__(self, app: ASGIApp, token: SecretStr) -> None:
        """Wrap an application.

        Args:
            app: The application.
            token: The token that every request must bear.
        """
        self._app = app
        self._token = token.get_secret_value().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 401."""
        if scope["type"] == "lifespan" or self._is_allowed(scope):
            await self._app(scope, receive, send)
            return
        refusal = JSONResponse(
            {"error": "send the token of BACKSTORY_MCP_TOKEN as `Authorization: Bearer TOKEN`"},
            status_code=401,
            headers={"WWW-Authenticate": "Bearer"},
        )
        await refusal(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode(), self._token)
        return scope["type"] == "http" and scheme.lower() == _SCHEME and is_right


def make_app(server: MCPServer[Any], token: SecretStr, port: int) -> ASGIApp:
    """Make the application of a server that listens on a port of this machine.

    Requests that name another host, or that a page of another site makes, are refused.

    Args:
        server: The server.
        token: The token that every request must bear.
        port: Port of the server.
    """
    authorities = [f"{name}:{port}" for name in LOOPBACK_NAMES]
    security = TransportSecuritySettings(
        allowed_hosts=authorities, allowed_origins=[f"http://{authority}" for authority in authorities]
    )
    app = server.streamable_http_app(streamable_http_path=PATH, host=HOST, transport_security=security)
    return BearerOnly(app, token)


def open_socket(port: int, host: str = HOST) -> socket.socket:
    """Open the socket of a port.

    Args:
        port: The port; 0 for any that is free.
        host: Address of this machine on which it listens; by default none but this machine reaches it.

    Raises:
        InputError: The port is in use, or not allowed.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(
            f"port {port} of {host} cannot be opened ({error.strerror}); name another with --port",
            code="unusable_port",
        ) from error


def serve(server: MCPServer[Any], token: SecretStr, listening: socket.socket) -> None:
    """Serve until the process is told to end.

    Args:
        server: The server.
        token: The token that every request must bear.
        listening: Socket of :func:`open_socket`, which is closed at the end.
    """
    port = listening.getsockname()[1]
    serve_app(make_app(server, token, port), listening)
