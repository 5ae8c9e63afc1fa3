"""What can be wrong with a server: each is one sentence with a code, and no password is shown."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from backstory.base import postgres, postgres_server
from backstory.base.database import Database
from backstory.base.errors import StateError
from backstory.base.mounts import mount, open_database
from backstory.base.postgres_server import Server, find_server
from tests.base.test_database import NUMBERS, add, read
from tests.errors import raises
from tests.postgres import PostgresServer

WRONG = "hunter2secret"

Open = Callable[[str], Database]


@pytest.fixture
def open_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens the tables at an address, to which nothing has connected yet."""
    servers: dict[str, Server] = {}
    monkeypatch.setattr(postgres_server, "_servers", servers)

    def open_numbers(address: str) -> Database:
        mount(tmp_path, address)
        return open_database(tmp_path / "numbers.sqlite", NUMBERS)

    yield open_numbers
    mount(tmp_path, None)
    for server in servers.values():
        server.close_idle()


@pytest.mark.parametrize(("password", "code"), [(None, "missing_password"), (WRONG, "refused_password")])
def test_a_wrong_password_is_said_and_never_shown(
    postgres_server: PostgresServer,
    open_at: Open,
    password: str | None,
    code: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if password is not None:
        monkeypatch.setenv("PGPASSWORD", password)
    caplog.set_level(logging.DEBUG)
    database = open_at(postgres_server.loopback_address)
    with raises(StateError, code, path=database.path) as raised:
        read(database)
    assert WRONG not in "".join(traceback.format_exception(raised.value)) + caplog.text


def test_the_password_is_taken_from_the_environment(
    postgres_server: PostgresServer, open_at: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "right")
    assert read(open_at(f"{postgres_server.loopback_address}?options=-csearch_path%3Dpublic")) == []


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("@/postgres?host=/nowhere", "unreachable_database"),
        ("@127.0.0.1:{port}/postgres?sslmode=require", "no_encryption"),
        ("@/absent?host={folder}&port={port}", "absent_database"),
        ("@/postgres?host={folder}&port={port}&options=-csearch_path%3Dabsent", "absent_schema"),
    ],
)
def test_an_address_that_leads_nowhere_is_said_at_once(
    postgres_server: PostgresServer, open_at: Open, end: str, code: str
) -> None:
    place = end.format(folder=postgres_server.folder, port=postgres_server.port)
    database = open_at(f"postgresql://backstory{place}")
    with raises(StateError, code, path=database.path):
        add(database, 1)


def test_a_clock_that_is_an_hour_ahead_is_said(
    postgres_server: PostgresServer, open_at: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_at(postgres_server.make_address())
    clock = time.time
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: clock() + 3600)
        with raises(StateError, "clock_apart", path=database.path):
            read(database)
    assert read(database) == []


def test_a_user_who_may_make_nothing_is_told_what_to_permit(
    postgres_server: PostgresServer, open_at: Open
) -> None:
    with postgres_server.connect() as connection:
        connection.execute("CREATE ROLE guest LOGIN")
    database = open_at(postgres_server.socket_address.replace("backstory@", "guest@"))
    assert read(database) == []
    with raises(StateError, "unusable_file", path=database.path):
        add(database, 1)


def test_workspaces_of_one_database_do_not_see_each_other(
    postgres_server: PostgresServer, open_at: Open
) -> None:
    first, second = (open_at(postgres_server.make_address()) for _ in range(2))
    add(first, 1)
    assert (read(first), read(second)) == ([1], [])


@pytest.mark.parametrize("name", ["Garden", "my-team", "it's", "a" * 31])
def test_a_schema_whose_name_would_be_another_in_sql_is_refused(
    postgres_server: PostgresServer, open_at: Open, name: str
) -> None:
    with postgres_server.connect() as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
    database = open_at(f"{postgres_server.socket_address}&options=-csearch_path%3D%22{quote(name)}%22")
    for act in (lambda: add(database, 1), lambda: read(database)):
        with raises(StateError, "unusable_schema", path=database.path):
            act()


def test_two_who_make_the_tables_at_once_share_them(postgres_server: PostgresServer, open_at: Open) -> None:
    address = postgres_server.make_address()
    first, second = open_at(address), open_at(f"{address}&application_name=other")
    assert not second.exists()  # which its connection remembers
    adding = threading.Thread(target=add, args=(second, 2))
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'other' AND wait_event_type = 'Lock'"
    )
    with postgres_server.connect() as watcher, first.writing() as session:
        adding.start()
        while adding.is_alive() and not watcher.execute(waiting).fetchall()[0][0]:
            pass
        session.execute("INSERT INTO numbers VALUES (1, 'of the test')")
    adding.join()
    assert read(first) == [1, 2]


def test_tables_that_somebody_reads_are_not_waited_for_without_end(
    postgres_server: PostgresServer, open_at: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_at(postgres_server.make_address())
    add(database, 1)
    with monkeypatch.context() as patched, database.reading() as session:
        session.execute("SELECT number FROM numbers").fetchall()
        patched.setattr(postgres, "BUSY_SECONDS", 0.05)
        with raises(StateError, "busy_file", path=database.path):
            database.compact()
    database.compact()
    assert read(database) == [1]


def test_a_restart_of_the_server_is_waited_for(postgres_server: PostgresServer, open_at: Open) -> None:
    database = open_at(postgres_server.make_address())
    add(database, 1)
    postgres_server.stop()
    postgres_server.start()
    add(database, 2)
    assert read(database) == [1, 2]


def test_few_connections_are_kept_open_of_many_addresses(
    postgres_server: PostgresServer, open_at: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstory.base.postgres_server._MOST_IDLE_OF_ALL", 2)
    addresses = [postgres_server.make_address() for _ in range(5)]
    for number in range(2):
        for address in addresses:
            add(open_at(address), number)
    kept = {address: find_server(address).idle for address in addresses}
    assert sum(kept.values()) == 2
    assert kept[addresses[-1]] == 1


def test_a_connection_that_ends_in_a_transaction_undoes_it(
    postgres_server: PostgresServer, open_at: Open
) -> None:
    database = open_at(postgres_server.make_address())
    add(database, 1)

    def lose() -> None:
        with database.writing() as session:
            session.execute("INSERT INTO numbers VALUES (2, '')")
            with postgres_server.connect() as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'backstory'"
                )
            session.execute("INSERT INTO numbers VALUES (3, '')")

    with raises(StateError, "unreachable_database", path=database.path):
        lose()
    assert read(database) == [1]


def test_the_library_loads_no_client_of_a_server() -> None:
    command = "import sys, backstory, backstory.pipeline.workspace; print('psycopg' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True)
    assert found.stdout == "False\n"
