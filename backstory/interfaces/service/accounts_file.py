"""The file of the accounts: users, tokens, sessions of browsers, roles, and the sealed keys and quotas of tenants."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from backstory.base.database import Database, Description, Session
from backstory.base.errors import AccountError
from backstory.base.mounts import find_mount, open_database

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
_QUOTAS: Final = """
CREATE TABLE quotas (
    tenant TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT;
"""
"""The table that files of the version before lack."""
_OF_TENANTS: Final = ("roles", "sealed_keys", "quotas")
_APPLICATION_ID: Final = 0x62737372
_VERSION: Final = 2


def open_accounts_file(path: Path) -> Database:
    """Describe the file, which the first change makes, readable by its owner alone.

    Nothing sets it aside when it is damaged: that would let nobody in, and hide why.
    """
    if find_mount(path) is None and path.is_file():
        _add_quotas(path)
    return open_database(
        path,
        Description(
            schema=_SCHEMA + _QUOTAS,
            name="the file of accounts",
            remedy="restore it from a copy, or move it away and add tenants, users and tokens again",
            error=AccountError,
            application_id=_APPLICATION_ID,
            version=_VERSION,
            synchronous="full",
            private=True,
        ),
    )


def _add_quotas(path: Path) -> None:
    """Add the table of quotas to a file of the version before, so that nobody has to be let in again."""
    # What cannot be opened or written stays as it is; the first use of the file tells why.
    with (
        suppress(sqlite3.DatabaseError),
        closing(
            sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, isolation_level=None)
        ) as file,
        file,
    ):
        if _read_format(file) == (_APPLICATION_ID, _VERSION - 1):
            file.execute("BEGIN IMMEDIATE")
            if _read_format(file) == (_APPLICATION_ID, _VERSION - 1):  # no other process was faster
                file.execute(_QUOTAS)
                file.execute(f"PRAGMA user_version = {_VERSION}")


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
