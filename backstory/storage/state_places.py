"""The places of state: files of SQLite, or a Postgres server."""

from __future__ import annotations

from pathlib import Path

from backstory.base.extras import require_extra
from backstory.storage.schema import Part
from backstory.storage.state import State
from backstory.storage.state_sqlite import SqliteState


def open_state(folder: Path, address: str | None, part: Part) -> State:
    """Open a part of the state in the file of a folder, or in a Postgres database; nothing is read or written yet."""
    if address is None:
        return SqliteState(folder / f"{part.name}.sqlite", part)
    require_extra("postgres", "storage.database", "remove the setting, so that state is kept in files")
    from backstory.storage.state_postgres import PostgresState

    return PostgresState(address, part)
