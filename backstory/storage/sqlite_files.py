"""Files of SQLite as others than their owners see them: names, copies and bytes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from backstory.storage.state import BUSY_SECONDS

LOG_SUFFIX: Final = "-wal"
"""Ending of the name of the log that belongs to a database."""

SHARED_SUFFIX: Final = "-shm"
"""Ending of the name of the memory that processes share beside a log."""

_SUFFIXES: Final = (".sqlite", ".db")
_DAMAGE_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


class DamagedDatabaseError(Exception):
    """What a file holds cannot be used: it is damaged, or of another format. The text says what it is."""


def is_database(path: Path) -> bool:
    """Return whether a file is one on which SQLite may hold locks, by its name: a database of ours or of Dagster's.

    A log holds none. The memory that processes share beside a log does; see :func:`is_shared_memory`.
    """
    return path.suffix in _SUFFIXES


def is_shared_memory(path: Path) -> bool:
    """Return whether a file is the index that processes share of a database's log, by its name; it holds no text."""
    return path.name.endswith(tuple(f"{suffix}{SHARED_SUFFIX}" for suffix in _SUFFIXES))


def copy_database(path: Path, copy: Path) -> Path:
    """Copy a database as it is at one moment, whoever writes to it.

    Args:
        path: The database.
        copy: The file to write; it is replaced if it is there.

    Returns:
        The copy.

    Raises:
        DamagedDatabaseError: It is no database, or damaged.
    """
    copy.unlink(missing_ok=True)
    # A connection that may only read leaves the log and its index behind, which it has to make if there is none.
    log = path.with_name(f"{path.name}{LOG_SUFFIX}")
    reads = log.exists() or not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
    address = f"{path.resolve().as_uri()}?mode={'ro' if reads else 'rw'}"
    with (
        _naming_damage(),
        closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
    return copy


def read_stored(path: Path) -> bytes:
    """Read the bytes of the file of a database as they are on the disk, without its log and with its unused pages.

    Raises:
        DamagedDatabaseError: It is no database, or damaged.
    """
    # Immutable means that the log is not looked at.
    address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    with _naming_damage(), closing(sqlite3.connect(address, uri=True)) as connection:
        return connection.serialize()


def read_texts(path: Path) -> Iterator[list[str]]:
    """Yield the texts of each column of each table of a database."""
    with closing(sqlite3.connect(path)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows = connection.execute(f'SELECT * FROM "{name}"').fetchall()  # noqa: S608 - a name of its own
            for values in zip(*rows, strict=True):
                yield [value for value in values if isinstance(value, str)]


@contextmanager
def _naming_damage() -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        raise DamagedDatabaseError(f"damaged ({error})") from error


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error says that a file is damaged, or no database."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # from the module itself, whose one operational error is of a text that is no UTF-8
        return isinstance(error, sqlite3.OperationalError)
    return code & 0xFF in _DAMAGE_CODES
