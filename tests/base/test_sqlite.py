"""What every user of a database relies on: damage, formats, rights, rivals, threads, forks, and replaced files."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from backstory.base.database import Database, Description
from backstory.base.database_files import name_aside
from backstory.base.errors import StateError
from backstory.base.sqlite import SqliteDatabase
from tests.errors import raises
from tests.started_python import let_go, starting_ready

SCHEMA = "CREATE TABLE numbers (number INTEGER, name TEXT);"


def open_numbers(path: Path, **options: Any) -> Database:
    given = {"name": "the numbers", "remedy": "count again", "error": StateError, "version": 2, **options}
    return SqliteDatabase(path, Description(schema=SCHEMA, application_id=7, **given))


def add(database: Database, number: int) -> None:
    with database.writing() as session:
        session.execute("INSERT INTO numbers VALUES (?, 'of the test')", (number,))


def read(database: Database) -> list[int]:
    with database.reading() as session:
        return [number for (number,) in session.execute("SELECT number FROM numbers ORDER BY 1")]


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return open_numbers(tmp_path / "data" / "numbers.sqlite")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of all connections since."""
    addresses: list[str] = []
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def connect_and_note(address: str | Path, **options: Any) -> sqlite3.Connection:
        addresses.append(str(address))
        return connect(address, **options)

    monkeypatch.setattr(sqlite3, "connect", connect_and_note)
    return addresses


def test_without_a_file_the_tables_are_empty_and_none_is_made(database: Database) -> None:
    assert (read(database), database.find_damage(), database.set_aside_if_damaged()) == ([], None, None)
    with database.connected():
        assert read(database) == []
    assert not database.path.parent.exists()


def test_what_is_written_is_read_by_another_object(database: Database) -> None:
    add(database, 1)
    add(database, 2)
    assert read(open_numbers(database.path)) == [1, 2]
    assert database.find_damage() is None
    assert [path.name for path in database.path.parent.iterdir()] == ["numbers.sqlite"]


def write_garbage(path: Path) -> None:
    path.write_bytes(b"<html>not found</html>" * 500)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def make_foreign(path: Path) -> None:
    path.unlink()
    with raw(path) as connection:
        connection.execute("CREATE TABLE numbers (text TEXT)")
        connection.execute("PRAGMA user_version = 2")


def make_earlier(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("PRAGMA user_version = 1")


def drop_table(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("ALTER TABLE numbers RENAME TO others")


HARMS = (write_garbage, cut, make_foreign, make_earlier, drop_table)


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_file_and_one_of_another_format_are_named_and_stay(
    database: Database, harm: Callable[[Path], None], is_kept: bool
) -> None:
    add(database, 1)
    harm(database.path)
    left = database.path.read_bytes()
    with database.connected() if is_kept else nullcontext():
        for act in (read, lambda database: add(database, 2)):
            with raises(StateError, "damaged_file", path=database.path) as raised:
                act(database)
            assert "count again" in str(raised.value)
        assert str(database.path) in (database.find_damage() or "")
    assert database.path.read_bytes() == left


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("harm", HARMS)
def test_a_mended_file_is_moved_aside_with_one_line_in_the_log(
    database: Database, harm: Callable[[Path], None], is_kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    add(database, 1)
    harm(database.path)
    left = database.path.read_bytes()
    with database.connected() if is_kept else nullcontext():
        database.mend(lambda: add(database, 2))
        assert database.mend(lambda: read(database)) == [2]
    assert name_aside(database.path).read_bytes() == left
    [line] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert str(database.path) in line.getMessage()
    assert name_aside(database.path).name in line.getMessage()


def test_a_text_that_is_no_utf8_is_damage_unless_a_checksum_shows_it(database: Database) -> None:
    add(database, 1)
    with raw(database.path) as connection:
        connection.execute("UPDATE numbers SET name = CAST(x'66FF' AS TEXT)")

    def read_name(database: Database) -> str:
        with database.reading() as session:
            [(name,)] = session.execute("SELECT name FROM numbers").fetchall()
        return str(name)

    with raises(StateError, "damaged_file", path=database.path):
        read_name(database)
    assert read_name(open_numbers(database.path, replaces_bad_text=True)) == "f\N{REPLACEMENT CHARACTER}"


@pytest.fixture
def read_only(database: Database) -> Iterator[Database]:
    add(database, 1)
    if os.geteuid() == 0:
        pytest.skip("the rights of files do not bind root")
    database.path.parent.chmod(0o500)
    yield database
    database.path.parent.chmod(0o700)


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_folder_that_cannot_be_written_is_read(read_only: Database, is_kept: bool) -> None:
    with read_only.connected() if is_kept else nullcontext():
        assert (read(read_only), read_only.find_damage()) == ([1], None)
        with raises(StateError, "unusable_file", path=read_only.path):
            add(read_only, 2)
        assert read(read_only) == [1]


def test_a_file_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "numbers.sqlite", tmp_path / "folder"):
        with raises(StateError, "unusable_file", path=path) as raised:
            add(open_numbers(path, access="name another"), 1)
        assert "name another" in str(raised.value)


def test_a_private_file_is_for_its_owner_only_from_the_first_moment(
    tmp_path: Path, opened: list[str]
) -> None:
    add(open_numbers(tmp_path / "private.sqlite", private=True), 1)
    assert (tmp_path / "private.sqlite").stat().st_mode & 0o777 == 0o600
    assert opened[0].endswith(".private.sqlite.new")  # which exists before it is opened, see make_private


def test_what_is_deleted_leaves_the_disk_with_what_was_set_aside(database: Database) -> None:
    add(database, 1)
    assert b"of the test" in database.path.read_bytes()
    name_aside(database.path).write_bytes(b"of the test")
    with database.connected():
        with database.writing() as session:
            assert session.execute("DELETE FROM numbers").rowcount == 1
        database.compact()
        assert not any(b"of the test" in path.read_bytes() for path in database.path.parent.iterdir())


@pytest.mark.parametrize(
    ("synchronous", "number"), [("full", 2), ("normal", 1), ("off", 0)], ids=["full", "normal", "off"]
)
def test_a_power_failure_takes_what_the_owner_permits(tmp_path: Path, synchronous: str, number: int) -> None:
    path = tmp_path / "numbers.sqlite"
    with open_numbers(path, synchronous=synchronous).writing() as session:
        assert session.execute("PRAGMA synchronous").fetchone() == (number,)
    with raw(path) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    with open_numbers(path, synchronous=synchronous).writing() as session:
        assert session.execute("PRAGMA synchronous").fetchone() == (2 if synchronous == "normal" else number,)


def test_a_kept_file_is_opened_once_until_the_last_that_keeps_it_ends(
    database: Database, opened: list[str]
) -> None:
    add(database, 0)
    opened.clear()
    first, second = database.connected(), database.connected()
    with first:
        add(database, 1)
        second.__enter__()
    add(database, 2)
    assert (read(database), len(opened)) == ([0, 1, 2], 1)
    second.__exit__(None, None, None)
    assert (read(database), len(opened)) == ([0, 1, 2], 2)


@pytest.mark.parametrize("is_made_here", [False, True])
def test_a_kept_file_that_is_replaced_is_opened_again(
    database: Database, tmp_path: Path, is_made_here: bool
) -> None:
    with database.connected():
        add(database, 1)
        database.path.replace(tmp_path / "aside")
        for suffix in ("-wal", "-shm"):
            database.path.with_name(database.path.name + suffix).unlink()
        if not is_made_here:
            assert read(database) == []
            add(open_numbers(database.path), 3)
        add(database, 2)
        assert read(database) == ([2] if is_made_here else [2, 3])
    assert read(open_numbers(database.path)) == ([2] if is_made_here else [2, 3])


_RIVAL = """
import sys
from pathlib import Path
from tests.base.test_sqlite import add, open_numbers

database, kind = open_numbers(Path(sys.argv[1])), sys.argv[2]
if kind == "hold":
    with database.writing():
        print("ready", flush=True)
        sys.stdin.readline()
else:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(20):
        database.mend(lambda: add(database, number))
"""

Rival = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start(database: Database) -> Iterator[Rival]:
    """Starts another process that uses the database, and waits until it is ready."""
    with starting_ready() as start:
        yield lambda kind: start(_RIVAL, database.path, kind)


@pytest.mark.parametrize("harm", [None, write_garbage, make_earlier, make_foreign])
def test_processes_that_begin_at_once_make_one_file(
    database: Database, start: Rival, harm: Callable[[Path], None] | None
) -> None:
    if harm is not None:
        add(database, 0)
        harm(database.path)
    rivals = [start("fill") for _ in range(3)]
    for rival in rivals:
        let_go(rival)
    for rival in rivals:
        rival.communicate()
        assert rival.returncode == 0
    assert read(database) == sorted(list(range(20)) * 3)
    assert database.find_damage() is None


def test_its_state_has_another_name_after_others_have_changed_it(database: Database) -> None:
    add(database, 1)
    assert database.name_state() is None
    with database.connected():
        state = database.name_state()
        read(database)
        assert database.name_state() == state is not None
        with raw(database.path) as connection:
            connection.execute("INSERT INTO numbers VALUES (2, 'of another')")
        assert database.name_state() != state
        shutil.copyfile(database.path, other := database.path.with_name("other"))
        state = database.name_state()
        other.replace(database.path)
        assert database.name_state() != state
