"""The places of state: files of SQLite, or a Postgres server."""

from __future__ import annotations

from pathlib import Path

from backstory.base.extras import require_extra
from backstory.storage.schema import Part
from backstory.storage.state import State
from backstory.storage.state_sqlite import SqliteState


def open_state(folder: Path, address: str | None, part: Part) -> State:
    """Open a part of the state; nothing is read or written yet.

    Args:
        folder: Folder of the file of SQLite.
        address: Address of a Postgres database, in place of the file; None for the file.
        part: The part.

    Raises:
        MissingExtraError: The packages of Postgres are not installed.
    """
    if address is None:
        return SqliteState(folder / f"{part.name}.sqlite", part)
    require_extra("postgres", "storage.database", "remove the setting, so that state is kept in files")
    from backstory.storage.state_postgres import PostgresState

    return PostgresState(address, part)
