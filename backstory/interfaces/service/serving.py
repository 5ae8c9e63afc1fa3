"""Serves the application on a socket until the process is told to end."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

from backstory.interfaces.mcp.http_serving import serve_app
from backstory.interfaces.service.app import make_app
from backstory.interfaces.service.limits import LOOPBACK_NAMES
from backstory.interfaces.service.service import Service

_ANSWER_SECONDS: Final = 20
"""Longest time for which answers that are under way are waited for at the end."""


def name_hosts(port: int, names: Sequence[str] = ()) -> list[str]:
    """List the hosts as clients of a port name them.

    Args:
        port: The port.
        names: Further hosts, with a port if clients name one, such as ``docs.example.org`` behind a proxy.
    """
    return [*(f"{name}:{port}" for name in LOOPBACK_NAMES), *names]


def serve(service: Service, listening: socket.socket, *, hosts: Sequence[str]) -> None:
    """Serve until the process is told to end. Streams then end with an error, and index jobs stay resumable.

    Args:
        service: The service, which is closed at the end.
        listening: An open socket, which is closed at the end.
        hosts: Hosts as clients name them; see :func:`name_hosts`.
    """
    serve_app(
        make_app(service, hosts=hosts),
        listening,
        on_stop=service.stopping.set,
        answer_seconds=_ANSWER_SECONDS,
    )
