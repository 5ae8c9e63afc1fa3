"""What stands behind the path of a database: a file of SQLite, or a server that several machines share.

A mount of a folder decides for all paths below it, on every machine in the same way.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from backstory.base.database import Database, Description
from backstory.base.extras import require_extra
from backstory.base.sqlite import SqliteDatabase

_mounts: Final[dict[Path, str]] = {}
_mounting: Final = threading.Lock()


def mount(folder: Path, address: str | None) -> None:
    """Keep the databases below a folder on a server from now on; those that were opened before stay where they are.

    Args:
        folder: A folder. A mount of a folder inside it counts more.
        address: Address of a Postgres database; None to end the mount, so that they are files again.

    Raises:
        MissingExtraError: The packages of Postgres are not installed.
    """
    if address is not None:
        require_extra("postgres", "storage.database", "remove the setting, so that state is kept in files")
    with _mounting:
        if address is None:
            _mounts.pop(folder.absolute(), None)
        else:
            _mounts[folder.absolute()] = address


def find_mount(path: Path) -> str | None:
    """Return the address of the database that stands behind a path; None if files do."""
    if not _mounts:
        return None
    place = path.absolute()
    return next((_mounts[folder] for folder in (place, *place.parents) if folder in _mounts), None)


def open_database(path: Path, description: Description) -> Database:
    """Return the database of a path; nothing is read or written yet.

    Args:
        path: The file, which need not exist. On a server, its name without the ending names the tables.
        description: What the owner says of it.
    """
    return open_database_at(find_mount(path), path, description)


def open_database_at(address: str | None, path: Path, description: Description) -> Database:
    """Return the database of a path as it is on a server, or as a file, whatever is mounted.

    Args:
        address: Address of a Postgres database; None for the file.
        path: The file, which need not exist.
        description: What the owner says of it.
    """
    if address is None:
        return SqliteDatabase(path, description)
    from backstory.base.postgres import PostgresDatabase

    return PostgresDatabase(path, description, address)


def measure_server(address: str) -> tuple[float, float]:
    """Measure a server.

    Args:
        address: Address of a Postgres database.

    Returns:
        Seconds of one question, and seconds by which its clock is ahead of this machine's.

    Raises:
        ServerError: It cannot be used.
    """
    from backstory.base.postgres_server import find_server

    return find_server(address).measure()
