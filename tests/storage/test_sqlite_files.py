"""What reads, copies or makes the file of a database leaves the locks of this process on it."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from backstory.storage.sqlite_files import copy_database, is_database, is_shared_memory, read_stored

WRITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute("BEGIN IMMEDIATE")
    print("free")
except sqlite3.OperationalError as error:
    print(error)
"""


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE texts (text TEXT)")
        connection.execute("INSERT INTO texts VALUES ('an old text')")
    return path


@pytest.mark.parametrize(
    ("act", "seen"),
    [
        (lambda path: copy_database(path, path.with_name("copy.sqlite")), "database is locked"),
        (read_stored, "database is locked"),
        (Path.read_bytes, "free"),  # what the others are for
    ],
)
def test_another_process_still_finds_the_database_locked(
    texts: Path, act: Callable[[Path], object], seen: str
) -> None:
    with closing(sqlite3.connect(texts, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        act(texts)
        other = subprocess.run(
            [sys.executable, "-c", WRITE, str(texts)], capture_output=True, text=True, check=True
        )
        assert other.stdout.strip() == seen


def test_what_was_deleted_is_read_as_long_as_it_is_on_the_disk(texts: Path) -> None:
    with closing(sqlite3.connect(texts)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        with connection:
            connection.execute("DELETE FROM texts")
        assert read_stored(texts) == texts.read_bytes()
        assert b"an old text" in read_stored(texts)
        connection.execute("VACUUM")
    assert b"an old text" not in read_stored(texts)


def test_databases_and_their_shared_memory_are_known_by_their_names() -> None:
    names = ("runs.sqlite", "index.db", "runs.sqlite-shm", "index.db-shm", "runs.sqlite-wal", "all.parquet")
    paths = [Path("data") / name for name in names]
    assert [is_database(path) for path in paths] == [True, True, False, False, False, False]
    assert [is_shared_memory(path) for path in paths] == [False, False, True, True, False, False]
