"""The places of state: files of SQLite, or a Postgres server; opening them, and copying from one to the other."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from backstory.base.extras import require_extra
from backstory.storage.schema import Part
from backstory.storage.state import State
from backstory.storage.state_sqlite import SqliteState

_ROWS_AT_ONCE: Final = 1000


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


def copy_state(source: State, target: State) -> tuple[int, int]:
    """Copy all rows to a place of the same part; a row that is there already stays.

    Args:
        source: Where the rows are.
        target: Where they are copied to, all of them or none.

    Returns:
        Number of rows that were read, and of those that were not there before.
    """
    read = 0
    if not source.exists():
        return 0, 0
    with source.reading() as reader, target.begin() as writer:
        before = target.count_rows(writer)
        for table in source.part.tables:
            names = list(table.columns)
            found = reader.execute(f"SELECT {', '.join(names)} FROM {table.name}")  # noqa: S608 - declared names
            while rows := found.fetchmany(_ROWS_AT_ONCE):
                read += len(rows)
                target.upsert(
                    writer, table, (dict(zip(names, row, strict=True)) for row in rows), replace=False
                )
        copied = target.count_rows(writer) - before
    target.close()  # which moves the log of a file into it
    return read, copied
