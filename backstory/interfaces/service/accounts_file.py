"""The accounts: users, tokens, sessions of browsers, roles, and what is known of tenants, in a file or on a server."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from backstory.base.database import Database, Description, Session
from backstory.base.errors import AccountError
from backstory.base.mounts import find_mount, open_database_at
from backstory.base.row_copies import copy_rows

ACCOUNTS_FILE: Final = "service.db"
"""Its name in the folder of the service."""

_SCHEMA: Final = """
CREATE TABLE users (
    user_id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL
) STRICT;
CREATE TABLE tokens (
    token_id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    created_at TEXT NOT NULL,
    expires_at TEXT
) STRICT;
CREATE TABLE sessions (
    hash BLOB PRIMARY KEY,
    token_id TEXT NOT NULL,
    expires_at TEXT NOT NULL
) STRICT;
CREATE TABLE roles (
    user_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    role TEXT NOT NULL,
    PRIMARY KEY (user_id, tenant)
) STRICT;
CREATE TABLE sealed_keys (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT;
"""
_LATER: Final = {
    2: """
CREATE TABLE quotas (
    tenant TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT;
""",
    3: """
CREATE TABLE tenants (
    tenant TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL UNIQUE,
    is_removed INTEGER NOT NULL
) STRICT;
CREATE TABLE places (
    tenant_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    address TEXT NOT NULL,
    PRIMARY KEY (tenant_id, kind, address)
) STRICT;
""",
}
"""The tables that files of versions before lack, by the first version that has them."""
_OF_TENANTS: Final = ("roles", "sealed_keys", "quotas")
_APPLICATION_ID: Final = 0x62737372
_VERSION: Final = max(_LATER)
_MOVED: Final = ".moved"

logger = logging.getLogger(__name__)


def open_accounts_file(path: Path) -> Database:
    """Describe the tables, which the first change makes; a file is readable by its owner alone.

    Nothing sets it aside when it is damaged: that would let nobody in, and hide why.
    """
    return _open(find_mount(path), path)


def move_accounts(path: Path, address: str) -> None:
    """Copy the accounts of a file that was used before to a server, and move the file aside. Without one, do nothing.

    Args:
        path: The file, which no process uses any more.
        address: Address of a Postgres database.

    Raises:
        AccountError: The server has other accounts, or one of the two cannot be used.
    """
    if path.is_file():
        copied = copy_rows(_open(None, path), _open(address, path))
        aside = path.with_name(path.name + _MOVED)
        path.rename(aside)
        logger.warning("%d rows of accounts were copied to %s; delete %s", copied.rows, address, aside)


def _open(address: str | None, path: Path) -> Database:
    if address is None and path.is_file():
        _add_later_tables(path)
    return open_database_at(
        address,
        path,
        Description(
            schema=_SCHEMA + "".join(_LATER.values()),
            name="the list of accounts",
            remedy="restore it from a copy, or move it away and add tenants, users and tokens again",
            error=AccountError,
            application_id=_APPLICATION_ID,
            version=_VERSION,
            synchronous="full",
            private=True,
        ),
    )


def _add_later_tables(path: Path) -> None:
    """Add what files of versions before lack, so that nobody has to be let in again."""
    # What cannot be opened or written stays as it is; the first use of the file tells why.
    with (
        suppress(sqlite3.DatabaseError),
        closing(
            sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, isolation_level=None)
        ) as file,
        file,
    ):
        if _is_earlier(_read_format(file)):
            file.execute("BEGIN IMMEDIATE")
            found = _read_format(file)
            if _is_earlier(found):  # no other process was faster
                for version, tables in _LATER.items():
                    for statement in tables.split(";") if version > found[1] else ():
                        file.execute(statement)
                file.execute(f"PRAGMA user_version = {_VERSION}")


def _is_earlier(found: tuple[int, int]) -> bool:
    return found[0] == _APPLICATION_ID and min(_LATER) - 1 <= found[1] < _VERSION


def _read_format(file: sqlite3.Connection) -> tuple[int, int]:
    found: tuple[int, int] = file.execute(
        "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    return found


def forget_tenant(session: Session, tenant: str) -> None:
    """Remove the roles, the keys and the quota of a tenant, so that a later one of the same name begins with none."""
    for table in _OF_TENANTS:
        session.execute(f"DELETE FROM {table} WHERE tenant = ?", (tenant,))  # noqa: S608 - listed above


def count_rows(session: Session, tenant: str) -> int:
    """Count the roles, the keys and the quota of a tenant."""
    counts = (
        session.execute(f"SELECT count(*) FROM {table} WHERE tenant = ?", (tenant,)).fetchone()[0]  # noqa: S608 - listed
        for table in _OF_TENANTS
    )
    return sum(counts)


def read_sealed(session: Session, tenant: str) -> list[bytes]:
    """Read the sealed keys of a tenant, as they are stored."""
    rows = session.execute("SELECT sealed FROM sealed_keys WHERE tenant = ?", (tenant,)).fetchall()
    return [sealed for (sealed,) in rows]
