"""What all SQLite files of the library have in common: signs of damage, size, and the way out of a damaged file."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

DAMAGED_SUFFIX: Final = ".damaged"
"""Ending of the name of a file that was moved aside."""

BUSY_SECONDS: Final = 60.0
"""How long a process waits for another one that writes."""

_DAMAGE_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


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
