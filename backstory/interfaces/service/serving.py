"""Serves the application on a socket until the process is told to end."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Sequence
from typing import Final

from backstory.interfaces.mcp.http_serving import LOOPBACK_NAMES, serve_app
from backstory.interfaces.service.app import make_app
from backstory.interfaces.service.service import Service

logger = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 20
"""Longest time for which answers that are under way are waited for at the end."""
END_SECONDS: Final = 10
"""Longest time that the end may take after that, such as for the call of a model that nothing can cut short."""

_CONNECTIONS: Final = 1_000
"""Open connections from which on requests are refused, so that there are files left for those that are answered."""


def name_hosts(port: int, names: Sequence[str] = ()) -> list[str]:
    """List the hosts as clients of a port name them, with further ones, such as ``docs.example.org`` behind a proxy."""
    return [*(f"{name}:{port}" for name in LOOPBACK_NAMES), *names]


def serve(
    service: Service,
    listening: socket.socket,
    *,
    hosts: Sequence[str],
    answer_seconds: int = ANSWER_SECONDS,
    end_seconds: int = END_SECONDS,
) -> None:
    """Serve on an open socket until the process is told to end.

    Streams then end with an error, and index jobs stay resumable. Answers that are under way are waited for, and the
    process does not outlive the time that it is given. Nothing is lost by that: every file is written in whole, and an
    index job that was cut short begins again at the next start.
    """

    def stop() -> None:
        service.stopping.set()
        last = threading.Timer(answer_seconds + end_seconds, _leave, [service])
        last.daemon = True
        last.start()

    # Whoever starts the process may have it ignore the signal. It is raised again at the end, for the exit code.
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    serve_app(
        make_app(service, hosts=hosts),
        listening,
        on_stop=stop,
        answer_seconds=answer_seconds,
        connections=_CONNECTIONS,
    )


def _leave(service: Service) -> None:
    """End the process whatever its threads do, and those of index jobs."""
    logger.error(
        "the end came before that of all work, such as the call of a model; index jobs begin again later"
    )
    service.jobs.kill()
    os._exit(128 + signal.SIGTERM)
