"""A real Postgres server for the tests, started when the first test of a process asks for it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
import pytest

from backstory.storage.state import close_idle
from tests.privileges import NOBODY

address_of_test: ContextVar[str | None] = ContextVar("address_of_test", default=None)
"""The server of a test that :func:`either_storage` runs over one."""
_DEBIAN = Path("/usr/lib/postgresql")
ON_FILES = pytest.mark.parametrize("storage_address", [None], ids=["sqlite"])
"""For a test of those that :func:`either_storage` runs over both, which looks into the files of SQLite."""
LONG_ON_SERVER = pytest.mark.parametrize(
    "storage_address", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)], indirect=True
)
"""For a test of them that takes long on a server."""
_OPTIONS = "-c fsync=off -c full_page_writes=off -c max_connections=60"


def find_programs() -> Path | None:
    """Return the folder of the server's programs; None if none is installed."""
    if found := shutil.which("postgres"):
        return Path(found).parent
    return max(_DEBIAN.glob("*/bin"), default=None)


@dataclass
class PostgresServer:
    """A server of its own, which runs as an ordinary user and knows no password but by loopback.

    Attributes:
        folder: Its folder, with its socket.
        programs: Folder of its programs.
        port: Its port.
    """

    folder: Path
    programs: Path
    port: int
    _numbers: count[int] = field(default_factory=count)

    def make_address(self) -> str:
        """Make an empty schema, and return the address that leads to it, as that of a workspace of its own."""
        name = f"workspace{next(self._numbers)}"
        with self.connect() as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self.socket_address}&options=-csearch_path%3D{name}"

    @property
    def socket_address(self) -> str:
        """The address by its socket, which asks for no password."""
        return f"postgresql://backstory@/postgres?host={self.folder}&port={self.port}"

    @property
    def loopback_address(self) -> str:
        """The address by loopback, which asks for the password ``right``."""
        return f"postgresql://backstory@127.0.0.1:{self.port}/postgres"

    def connect(self) -> psycopg.Connection:
        """Connect, and commit every statement."""
        return psycopg.connect(self.socket_address, autocommit=True)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"{_OPTIONS} -c listen_addresses=127.0.0.1 -c port={self.port} -k {self.folder}"
        log = self.folder / "log"
        self._run("pg_ctl", "start", "-w", "-D", str(self.folder / "data"), "-l", str(log), "-o", options)

    def stop(self) -> None:
        """End it at once, with all connections, as a power failure would."""
        self._run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", str(self.folder / "data"))

    def make(self) -> None:
        """Make its files."""
        password = self.folder / "password"
        password.write_text("right")
        self._run(
            *("initdb", "--no-sync", "--no-locale", "--encoding=UTF8", "--username=backstory"),
            *("--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={password}"),
            *("-D", str(self.folder / "data")),
        )

    def _run(self, program: str, *arguments: str) -> None:
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.folder,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **user,  # type: ignore[call-overload]
        )


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server for the tests of this process; they are skipped where none is installed."""
    programs = find_programs()
    if programs is None:
        pytest.skip("Postgres is not installed: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="pg") as place:
        if os.geteuid() == 0:
            os.chown(place, NOBODY, NOBODY)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = PostgresServer(Path(place), programs, port)
        server.make()
        server.start()
        yield server
        server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def storage_address(request: pytest.FixtureRequest) -> str | None:
    """The address of an empty server; None for files."""
    if request.param == "sqlite":
        return None
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.make_address()


@pytest.fixture
def either_storage(storage_address: str | None) -> Iterator[str | None]:
    """Keep what :mod:`tests.caches` opens in files, and once more on a server."""
    token = address_of_test.set(storage_address)
    yield storage_address
    address_of_test.reset(token)
    close_idle()
