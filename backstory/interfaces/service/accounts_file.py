"""The file of the accounts: users, tokens, roles, and the sealed keys of tenants."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from backstory.base.errors import AccountError
from backstory.base.sqlite import Database

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
_APPLICATION_ID: Final = 0x62737372
_VERSION: Final = 1


def open_accounts_file(path: Path) -> Database:
    """Describe the file, which the first change makes, readable by its owner alone.

    Nothing sets it aside when it is damaged: that would let nobody in, and hide why.
    """
    return Database(
        path,
        _SCHEMA,
        name="the file of accounts",
        remedy="restore it from a copy, or move it away and add tenants, users and tokens again",
        error=AccountError,
        application_id=_APPLICATION_ID,
        version=_VERSION,
        synchronous="full",
        private=True,
    )
