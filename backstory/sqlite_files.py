"""What all SQLite files of the library have in common: how they are made, copied, read and moved, and signs of damage.

Only SQLite opens a file of a database. When a process closes a descriptor of a file, POSIX ends all locks that the
process has on that file, also those of connections in other threads. Other processes then take the file for unused, and
remove its log while it is written. SQLite knows all connections of its process and closes descriptors later; whatever
else reads bytes of a database must go through the functions of this module.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Final

DAMAGED_SUFFIX: Final = ".damaged"
"""Ending of the name of a file that was moved aside."""

BUSY_SECONDS: Final = 60.0
"""How long a process waits for another one that writes."""

_SUFFIXES: Final = (".sqlite", ".db")
_SHARED_SUFFIX: Final = "-shm"
_OWNER_ONLY: Final = 0o600
_DAMAGE_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)

_making = threading.Lock()


def is_database(path: Path) -> bool:
    """Say whether a file is one on which SQLite may hold locks, by its name: a database of ours or of Dagster's.

    A log holds none. The memory that processes share beside a log does; see :func:`is_shared_memory`.
    """
    return path.suffix in _SUFFIXES


def is_shared_memory(path: Path) -> bool:
    """Say whether a file is the index that processes share of a database's log, by its name; it holds no text."""
    return path.name.endswith(tuple(f"{suffix}{_SHARED_SUFFIX}" for suffix in _SUFFIXES))


def make_private(path: Path) -> None:
    """Make the empty file of a database that only its owner can read, if there is none.

    Call it before every connection to such a file, so that no thread connects before the descriptor is closed.
    """
    with _making:
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, _OWNER_ONLY))


def copy_database(path: Path, copy: Path) -> Path:
    """Copy a database as it is at one moment, whoever writes to it.

    Args:
        path: The database.
        copy: The file to write; it is replaced if it is there.

    Returns:
        The copy.

    Raises:
        sqlite3.DatabaseError: The database is damaged.
    """
    copy.unlink(missing_ok=True)
    # A connection that may only read leaves the log and its index behind, which it has to make if there is none.
    log = path.with_name(f"{path.name}-wal")
    reads = log.exists() or not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
    address = f"{path.resolve().as_uri()}?mode={'ro' if reads else 'rw'}"
    with (
        closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
    return copy


def read_stored(path: Path) -> bytes:
    """Read the bytes of the file of a database as they are on the disk, without its log and with its unused pages.

    Raises:
        sqlite3.DatabaseError: It is no database, or damaged.
    """
    # Immutable means that the log is not looked at.
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        return connection.serialize()


def is_damage(error: sqlite3.Error) -> bool:
    """Say whether an error means that the content of a file is damaged."""
    # An error without a code comes from the module itself: a text that is not UTF-8.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _DAMAGE_CODES


def name_aside(path: Path) -> Path:
    """Give the path to which :func:`set_aside` moves a file."""
    return path.with_name(path.name + DAMAGED_SUFFIX)


def set_aside(path: Path) -> Path:
    """Move a file that cannot be used out of the way, without the log that belongs to it.

    Returns:
        Where it is now.
    """
    path.replace(name_aside(path))
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return name_aside(path)


def measure_file(path: Path) -> int:
    """Return the bytes that a file takes, with its log; 0 if there is none."""
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
