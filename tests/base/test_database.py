"""What every owner of tables relies on, whether they are a file or on a server."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backstory.base import postgres, sqlite
from backstory.base.database import Database, Description
from backstory.base.errors import StateError
from backstory.base.mounts import find_mount, open_database
from tests.errors import raises
from tests.postgres import PostgresServer, mounted
from tests.started_python import let_go, starting_ready

NUMBERS = Description(
    schema="""
CREATE TABLE numbers (number INTEGER, name TEXT);
CREATE TABLE entries (
    entry INTEGER PRIMARY KEY, part TEXT NOT NULL, weight REAL, content BLOB, UNIQUE (part, weight)
);
CREATE INDEX entries_of_part ON entries (part);
CREATE TABLE pairs (part TEXT NOT NULL, entry INTEGER NOT NULL REFERENCES entries, PRIMARY KEY (part, entry)) STRICT;
CREATE TABLE single (number INTEGER PRIMARY KEY CHECK (number = 1), name TEXT) WITHOUT ROWID;
""",
    name="the numbers",
    remedy="count again",
    error=StateError,
    version=2,
    application_id=7,
)


def add(database: Database, number: int) -> None:
    with database.writing() as session:
        session.execute("INSERT INTO numbers VALUES (?, 'of the test')", (number,))


def read(database: Database) -> list[int]:
    with database.reading() as session:
        return [number for (number,) in session.execute("SELECT number FROM numbers ORDER BY 1")]


@pytest.fixture
def reopen(storage_address: str | None, tmp_path: Path) -> Iterator[Callable[..., Database]]:
    """Opens the database once more, with other words of its owner if any are given."""
    with mounted(tmp_path, storage_address):
        yield lambda **changes: open_database(
            tmp_path / "data" / "numbers.sqlite", replace(NUMBERS, **changes)
        )


@pytest.fixture
def database(reopen: Callable[..., Database]) -> Database:
    return reopen()


def test_before_the_first_writing_the_tables_are_empty_and_none_is_made(database: Database) -> None:
    with database.connected():
        assert read(database) == []
    assert (database.find_damage(), database.set_aside_if_damaged()) == (None, None)
    assert (database.exists(), database.measure()) == (False, 0)
    database.compact()
    assert not database.exists()


def test_tables_of_one_name_in_two_databases_do_not_mix(
    database: Database, tmp_path: Path, reopen: Callable[..., Database]
) -> None:
    other = open_database(
        tmp_path / "data" / "others.sqlite",
        replace(NUMBERS, schema="CREATE TABLE numbers (name REAL, kind TEXT, number INTEGER);"),
    )
    add(reopen(), 1)
    with other.writing() as session:
        session.execute("INSERT INTO numbers VALUES (?, ?, ?)", (0.5, "half", 2))
    for _ in range(8):  # a connection keeps the plan of what it was asked several times
        for each, expected in ((database, (1, "of the test")), (other, (0.5, "half", 2))):
            with each.reading() as session:
                assert session.execute("SELECT * FROM numbers").fetchall() == [expected]


def test_what_is_written_is_read_by_another_object(
    database: Database, reopen: Callable[..., Database]
) -> None:
    add(database, 1)
    add(reopen(), 2)
    assert read(database) == [1, 2]
    assert database.exists()
    assert database.measure() > 0
    assert database.find_damage() is None
    database.compact()
    assert read(database) == [1, 2]


def test_files_are_made_only_where_no_server_is_mounted(
    database: Database, storage_address: str | None
) -> None:
    add(database, 1)
    assert database.path.exists() == (storage_address is None)
    assert find_mount(database.path) == storage_address


def test_the_nearest_mount_counts(postgres_server: PostgresServer, tmp_path: Path) -> None:
    outer, inner = tmp_path, tmp_path / "inner"
    with (
        mounted(outer, postgres_server.socket_address),
        mounted(inner, postgres_server.loopback_address),
    ):
        assert find_mount(inner / "data" / "x.sqlite") == postgres_server.loopback_address
        assert find_mount(outer / "data" / "x.sqlite") == postgres_server.socket_address
    assert find_mount(inner / "data" / "x.sqlite") is None


def test_values_come_back_as_they_were_written(database: Database) -> None:
    rows = [("é", 0.5, b"\x00\xff"), ("a", None, None), ("B", -1.5, b""), ("a", 3.0, b"x" * 5000)]
    with database.writing() as session:
        session.executemany("INSERT INTO entries (part, weight, content) VALUES (?, ?, ?)", rows)
        session.execute("INSERT INTO numbers VALUES (?, ?)", (True, "it's 100 %, isn't it?"))
        session.execute("INSERT INTO numbers VALUES (?, ?)", (2**40, None))
    with database.reading() as session:
        query = "SELECT entry, part, weight, content FROM entries ORDER BY part, weight"
        found = sorted(session.execute(query).fetchall())
        assert found == [(number, *row) for number, row in enumerate(rows, 1)]
        parts = session.execute("SELECT DISTINCT part FROM entries ORDER BY part").fetchall()
        assert parts == [("B",), ("a",), ("é",)]
        [(total, count, weight)] = session.execute(
            "SELECT sum(number), count(*), coalesce(sum(weight), 0) FROM numbers LEFT JOIN entries ON number = entry"
        ).fetchall()
        assert (total, count, weight) == (2**40 + 1, 2, 0.5)
        assert all(isinstance(figure, int) for figure in (total, count))
        asked = "SELECT name FROM numbers WHERE name LIKE '%?' AND number = ?"
        assert session.execute(asked, (1,)).fetchone() == ("it's 100 %, isn't it?",)


def test_a_conflict_keeps_or_replaces_the_row(database: Database) -> None:
    with database.writing() as session:
        for name in ("first", "second"):
            session.execute("INSERT INTO single VALUES (1, ?) ON CONFLICT DO NOTHING", (name,))
        assert session.execute("SELECT name FROM single").fetchall() == [("first",)]
        replacing = "INSERT INTO single VALUES (1, ?) ON CONFLICT (number) DO UPDATE SET name = excluded.name"
        session.executemany(replacing, [("third",), ("fourth",)])
        assert session.execute("SELECT name FROM single").fetchall() == [("fourth",)]
        changed = session.execute("UPDATE single SET name = ? WHERE number = ? RETURNING name", ("fifth", 1))
        assert changed.fetchone() == ("fifth",)
        assert session.execute("DELETE FROM single WHERE number = ?", (2,)).rowcount == 0
        assert session.execute("DELETE FROM single").rowcount == 1


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_error_undoes_the_transaction(database: Database, is_kept: bool) -> None:
    def add_and_fail() -> None:
        with database.writing() as session:
            session.execute("INSERT INTO numbers VALUES (1, '')")
            raise ZeroDivisionError

    with database.connected() if is_kept else nullcontext():
        with pytest.raises(ZeroDivisionError):
            add_and_fail()
        add(database, 2)
        assert read(database) == [2]


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_reader_sees_one_moment(database: Database, reopen: Callable[..., Database], is_kept: bool) -> None:
    add(database, 1)
    with database.connected() if is_kept else nullcontext():
        with database.reading() as session:
            assert session.execute("SELECT count(*) FROM numbers").fetchone() == (1,)
            add(reopen(), 2)
            assert session.execute("SELECT count(*) FROM numbers").fetchone() == (1,)
        assert read(database) == [1, 2]


@pytest.mark.parametrize("change", [{"version": 3}, {"application_id": 8}])
def test_tables_of_another_format_are_named_and_stay_until_they_are_mended(
    database: Database, reopen: Callable[..., Database], change: dict[str, Any]
) -> None:
    add(database, 1)
    other = reopen(**change)
    for act in (read, partial(add, number=2)):
        with raises(StateError, "damaged_file", path=database.path) as raised:
            act(other)
        assert "count again" in str(raised.value)
    assert other.find_damage() is not None
    assert read(database) == [1]
    other.mend(partial(add, other, 2))
    assert read(other) == [2]
    other.compact()
    assert read(other) == [2]


def test_tables_of_a_later_release_are_left_alone(
    database: Database, reopen: Callable[..., Database]
) -> None:
    add(database, 1)
    earlier = reopen(version=1)
    acts = (
        partial(read, earlier),
        partial(add, earlier, 2),
        earlier.find_damage,
        earlier.set_aside_if_damaged,
    )
    for act in (*acts, lambda: earlier.mend(partial(read, earlier))):
        with raises(StateError, "later_format", path=database.path):
            act()
    assert read(database) == [1]


def test_a_table_that_is_absent_is_damage(database: Database) -> None:
    add(database, 1)
    with database.writing() as session:
        session.execute("DROP TABLE numbers")
    with raises(StateError, "damaged_file", path=database.path):
        read(database)
    database.mend(partial(add, database, 2))
    assert read(database) == [2]


def test_what_only_a_caller_can_see_as_damage_is_moved_aside_too(database: Database) -> None:
    add(database, 1)
    answers = iter(["a row is wrong", None])
    assert database.set_aside_if_damaged(lambda: next(answers)) is None
    assert database.set_aside_if_damaged(lambda: "a row is wrong") is not None
    assert read(database) == []


def test_a_mistake_in_a_statement_is_no_damage(database: Database) -> None:
    add(database, 1)

    def ask(statement: str) -> None:
        with database.reading() as session:
            session.execute(statement)

    for statement in ("SELECT nothing FROM numbers", "SELECT ("):
        with raises(StateError, "unusable_file", path=database.path):
            database.mend(partial(ask, statement))
    assert read(database) == [1]


def test_threads_take_turns(database: Database) -> None:
    with database.connected(), ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: add(database, number), range(100)))
    assert read(database) == list(range(100))


def test_both_processes_of_a_fork_use_tables_that_were_kept_open(database: Database) -> None:
    with database.connected():
        add(database, 0)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # other threads may run
            child = os.fork()
        if not child:
            try:
                for number in range(1, 20):
                    add(database, number)
                os._exit(0)  # without the end of the tests
            finally:
                os._exit(1)
        for number in range(20, 40):
            add(database, number)
        assert os.waitpid(child, 0)[1] == 0
        assert read(database) == list(range(40))
    assert database.find_damage() is None


_RIVAL = """
import sys
from pathlib import Path
from backstory.base.mounts import mount, open_database
from tests.base.test_database import NUMBERS, add

path, address, kind = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
mount(path.parent, address or None)
database = open_database(path, NUMBERS)
if kind == "hold":
    with database.writing():
        print("ready", flush=True)
        sys.stdin.readline()
else:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(10):
        add(database, number)
"""

Rival = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start(database: Database, storage_address: str | None) -> Iterator[Rival]:
    """Starts another process that uses the tables, and waits until it is ready."""
    with starting_ready() as start:
        yield lambda kind: start(_RIVAL, database.path, storage_address or "", kind)


def test_a_writer_in_another_process_is_waited_for_and_named_at_last(
    database: Database, start: Rival, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(database, 1)
    rival = start("hold")
    with monkeypatch.context() as patched:
        for module in (sqlite, postgres):
            patched.setattr(module, "BUSY_SECONDS", 0.05)
        with raises(StateError, "busy_file", path=database.path):
            add(database, 2)
    assert database.mend(lambda: read(database)) == [1]
    let_go(rival)
    add(database, 2)
    assert read(database) == [1, 2]


def test_processes_that_begin_at_once_make_the_tables_once(database: Database, start: Rival) -> None:
    rivals = [start("fill") for _ in range(2)]
    for rival in rivals:
        let_go(rival)
    for rival in rivals:
        rival.communicate()
        assert rival.returncode == 0
    assert read(database) == sorted(list(range(10)) * 2)
    assert database.find_damage() is None
