"""The connections of a process to a Postgres server, shared by all databases that lie on it."""

from __future__ import annotations

import atexit
import os
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import NumericBinaryLoader

from backstory.base.database import patience
from backstory.base.errors import ServerError

CLOCK_SECONDS: Final = 300.0
"""Most that the clock of this machine may differ from that of the server: runs and budgets of a day tell the time."""

_CONNECT_SECONDS: Final = 10
_FIRST_WAIT_SECONDS: Final = 0.05
_LONGEST_WAIT_SECONDS: Final = 2.0
_MOST_IDLE: Final = 4
"""Connections that are kept open while nothing uses them."""
_MOST_IDLE_OF_ALL: Final = 32
"""Those of all servers together: the tenants of a service have addresses of their own, and a server allows 100."""
_NAMESPACE: Final = re.compile(r"[a-z_][a-z0-9_]{0,29}")
"""Names that stand in SQL as they are, and leave room for what follows: Postgres cuts names after 63 bytes, so that
those of different tables would be one."""
_ABSENT: Final = re.compile(r'database "[^"]*" does not exist')
"""How a server says so: before there is a connection, it gives no code."""


class _PlainNumberLoader(NumericBinaryLoader):
    """Gives sums as whole numbers, as SQLite does."""

    def load(self, data: psycopg.abc.Buffer) -> Any:
        found: Decimal = super().load(data)
        return int(found) if found == found.to_integral_value() else float(found)


class Server:
    """The connections of this process to one database. Threads share them, each transaction has one of its own.

    Attributes:
        address: The address, without any password.
    """

    def __init__(self, address: str) -> None:
        """Set the address; nothing is connected yet."""
        self.address = address
        self._lock = threading.Lock()
        self._idle: list[psycopg.Connection[Any]] = []
        self._namespace: str | None = None
        self._used_at = 0.0

    @property
    def namespace(self) -> str:
        """The schema of the workspace, which the names of all others begin with.

        Raises:
            ServerError: The server cannot be used.
        """
        if self._namespace is None:
            with self.connected():
                pass  # each connection notes it
        return self._namespace or ""

    @contextmanager
    def connected(self, first: str = "SELECT 1") -> Iterator[tuple[psycopg.Connection[Any], Any]]:
        """Lend a connection. One that fails is closed, which undoes what was begun in it.

        Args:
            first: Statements without parameters that are run first, on another connection if the server has ended it.

        Yields:
            The connection, and the first row of the last statement; None if it gives none.

        Raises:
            ServerError: The server cannot be used.
        """
        connection, row = self._begin(first)
        with ExitStack() as failed:
            failed.callback(connection.close)
            yield connection, row
            failed.pop_all()
        self._used_at = time.monotonic()
        with self._lock:
            is_kept = len(self._idle) < _MOST_IDLE
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()
        _close_unused()

    @property
    def idle(self) -> int:
        """Number of connections that are kept open while nothing uses them."""
        return len(self._idle)

    @property
    def used_at(self) -> float:
        """When a connection was used last, by a clock that never goes back."""
        return self._used_at

    def forget_connections(self) -> None:
        """Leave all connections to the process that this one was forked from."""
        _left.extend(self._idle)  # to be closed would end them for the other process, too
        self._lock = threading.Lock()
        self._idle = []

    def measure(self) -> tuple[float, float]:
        """Measure the seconds of one question, and those by which the server's clock is ahead of this machine's.

        Raises:
            ServerError: The server cannot be used.
        """
        with self.connected() as (connection, _):
            began, asked = time.time(), time.monotonic()
            [(found,)] = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchall()
            taken = time.monotonic() - asked
        return taken, float(found) - (began + taken / 2)

    def _begin(self, first: str) -> tuple[psycopg.Connection[Any], Any]:
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            connection = idle or self._connect()
            with ExitStack() as failed:
                failed.callback(connection.close)
                try:
                    row = _read_last(connection.execute(first))
                except psycopg.OperationalError:
                    if idle is None or not connection.broken:
                        raise
                    self.close_idle()
                    continue
                failed.pop_all()
            return connection, row

    def close_idle(self) -> None:
        """Close the connections that nothing uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _connect(self) -> psycopg.Connection[Any]:
        """Connect; a server that was there before is waited for, since it may be starting again."""
        until = time.monotonic() + patience.get()
        wait = _FIRST_WAIT_SECONDS
        while True:
            try:
                return self._connect_once()
            except ServerError as error:
                is_starting = error.code == "unreachable_database" and self._namespace is not None
                if not is_starting or time.monotonic() > until:
                    raise
            threading.Event().wait(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def _connect_once(self) -> psycopg.Connection[Any]:
        given = conninfo_to_dict(self.address)
        defaults = {"connect_timeout": _CONNECT_SECONDS, "application_name": "backstory"}
        missing: dict[str, Any] = {name: value for name, value in defaults.items() if name not in given}
        try:
            connection = psycopg.connect(
                make_conninfo(self.address, **missing), autocommit=True, cursor_factory=psycopg.RawCursor
            )
        except psycopg.Error as error:
            raise self._refused(error) from error
        with ExitStack() as failed:
            failed.callback(connection.close)
            connection.adapters.register_loader("numeric", _PlainNumberLoader)
            self._require_usable(connection)
            failed.pop_all()
        return connection

    def _require_usable(self, connection: psycopg.Connection[Any]) -> None:
        began = time.time()
        found = connection.execute(
            "SELECT extract(epoch FROM clock_timestamp())::float8, current_schema()"
        ).fetchone()
        now, namespace = found or (began, None)
        ended = time.time()
        if not began - CLOCK_SECONDS < now < ended + CLOCK_SECONDS:
            apart = abs(now - ended)
            raise ServerError(
                f"the clock of this machine and that of the database differ by {apart:,.0f} s, and at most "
                f"{CLOCK_SECONDS:.0f} s are allowed; set both by NTP",
                code="clock_apart",
            )
        if namespace is None:
            raise ServerError(
                "none of the schemas in its search_path exists; create one, or name another by "
                "?options=-csearch_path%3DNAME in the address",
                code="absent_schema",
            )
        if not _NAMESPACE.fullmatch(str(namespace)):
            raise ServerError(
                f"its schema {namespace!r} cannot begin the names of others; name one of at most 30 letters a to z, "
                "digits and underscores by ?options=-csearch_path%3DNAME in the address",
                code="unusable_schema",
            )
        self._namespace = str(namespace)

    def _refused(self, error: psycopg.Error) -> ServerError:
        said = " ".join(str(error).split())
        connection = error.pgconn
        if connection is not None and connection.needs_password:
            return ServerError(
                f"it asks for a password ({said}); set PGPASSWORD or PGPASSFILE in the environment",
                code="missing_password",
            )
        if connection is not None and connection.used_password and "password" in said:
            return ServerError(
                f"it refuses the password, or does not know the user ({said}); correct PGPASSWORD or PGPASSFILE, or "
                "the user of the address",
                code="refused_password",
            )
        if _ABSENT.search(said):
            return ServerError(
                f"there is no such database ({said}); make it, or correct its name in the address",
                code="absent_database",
            )
        if "does not support SSL" in said:
            return ServerError(
                f"it does not encrypt connections ({said}); give it a certificate, or write ?sslmode=disable at the "
                "end of the address, if no stranger reaches the network between",
                code="no_encryption",
            )
        return ServerError(
            f"it cannot be reached ({said}); start it, or correct the address",
            code="unreachable_database",
        )


def _read_last(cursor: psycopg.Cursor[Any]) -> Any:
    """Return the first row of the last statement of several."""
    while cursor.nextset():
        pass
    return cursor.fetchone() if cursor.description else None


_servers: Final[dict[str, Server]] = {}
_opening: Final = threading.Lock()
_left: Final[list[object]] = []


def find_server(address: str) -> Server:
    """Return the one object of a process for a server."""
    with _opening:
        return _servers.setdefault(address, Server(address))


def _close_unused() -> None:
    """Close the connections of servers that were not used for longest, while there are too many of all."""
    with _opening:
        servers = sorted(_servers.values(), key=lambda server: server.used_at)
    left = sum(server.idle for server in servers)
    for server in servers[:-1]:
        if left <= _MOST_IDLE_OF_ALL:
            return
        left -= server.idle
        server.close_idle()


def _forget_connections() -> None:
    for server in _servers.values():
        server.forget_connections()


def _close_idle() -> None:
    for server in _servers.values():
        server.close_idle()


atexit.register(_close_idle)
os.register_at_fork(after_in_child=_forget_connections)
