"""A SQLite file that is kept open: the same answers, in any thread, after a fork, and where the file is replaced."""

from __future__ import annotations

import os
import sqlite3
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from backstory.sqlite_connections import Connections


class Counted:
    """Connections to a file of numbers, which count how often the file was opened."""

    def __init__(self, path: Path) -> None:
        self.opened = 0
        self._path = path
        self.connections = Connections(path, self._connect)

    def _connect(self) -> sqlite3.Connection:
        self.opened += 1
        return sqlite3.connect(self._path, timeout=30, isolation_level=None, check_same_thread=False)

    def add(self, number: int) -> None:
        with self.connections.connected() as connection:
            connection.execute("INSERT INTO numbers VALUES (?)", (number,))

    def read(self) -> list[int]:
        with self.connections.connected() as connection:
            return [number for (number,) in connection.execute("SELECT * FROM numbers ORDER BY 1")]


def make_file(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE numbers (number INTEGER)")


@pytest.fixture
def numbers(tmp_path: Path) -> Counted:
    make_file(tmp_path / "numbers.sqlite")
    return Counted(tmp_path / "numbers.sqlite")


def test_a_kept_file_is_opened_once_until_the_last_that_keeps_it_ends(numbers: Counted) -> None:
    first, second = numbers.connections.kept_open(), numbers.connections.kept_open()
    with first:
        numbers.add(1)
        second.__enter__()
    numbers.add(2)
    assert (numbers.read(), numbers.opened) == ([1, 2], 1)
    second.__exit__(None, None, None)
    assert (numbers.read(), numbers.opened) == ([1, 2], 2)


def test_threads_take_turns_with_a_kept_file(numbers: Counted) -> None:
    with numbers.connections.kept_open(), ThreadPoolExecutor(4) as threads:
        list(threads.map(numbers.add, range(200)))
    assert numbers.read() == list(range(200))


def add_and_fail(numbers: Counted) -> None:
    with numbers.connections.connected() as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO numbers VALUES (1)")
        raise ZeroDivisionError


def test_what_a_failed_act_began_is_undone(numbers: Counted) -> None:
    with numbers.connections.kept_open():
        with pytest.raises(ZeroDivisionError):
            add_and_fail(numbers)
        numbers.add(2)
        assert numbers.read() == [2]


def test_a_kept_file_that_is_replaced_is_opened_again(numbers: Counted, tmp_path: Path) -> None:
    path = tmp_path / "numbers.sqlite"
    with numbers.connections.kept_open():
        numbers.add(1)
        path.replace(tmp_path / "aside")
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink()
        make_file(path)
        numbers.add(2)
        assert numbers.read() == [2]
    assert Counted(path).read() == [2]


def test_both_processes_of_a_fork_use_a_file_that_was_kept_open(numbers: Counted, tmp_path: Path) -> None:
    with numbers.connections.kept_open():
        numbers.add(0)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # other threads may run
            child = os.fork()
        if not child:
            try:
                for number in range(1, 50):
                    numbers.add(number)
                os._exit(0)  # without the end of the tests
            finally:
                os._exit(1)
        for number in range(50, 100):
            numbers.add(number)
        assert os.waitpid(child, 0)[1] == 0
        assert numbers.read() == list(range(100))
    with closing(sqlite3.connect(tmp_path / "numbers.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
