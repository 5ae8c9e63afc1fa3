"""Copies the rows of one database into another, whatever stands behind each, and reads every row where it arrived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, Final, TypeAlias

from backstory.base.database import Database, Session
from backstory.base.sqlite import connect_to_nothing

_BATCH: Final = 500
"""Rows of one transaction: with vectors, a megabyte; SQLite knows some 30,000 parameters."""

_Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class RowsCopied:
    """What a copy of rows did.

    Attributes:
        rows: Number of rows of the source, all of which are in the target now.
        copied: Number of rows that were not there before.
    """

    rows: int
    copied: int


@dataclass(frozen=True)
class _Table:
    """A table, whose columns begin with those of its key, in their order.

    Attributes:
        name: Its name.
        columns: Its columns.
        keys: Number of columns of its key.
    """

    name: str
    columns: tuple[str, ...]
    keys: int

    @property
    def selection(self) -> str:
        """The beginning of a statement that reads rows."""
        return f"SELECT {', '.join(self.columns)} FROM {self.name}"  # noqa: S608 - names of this library

    @property
    def key(self) -> str:
        """The columns of the key, as one value."""
        return f"({', '.join(self.columns[: self.keys])})"


def copy_rows(source: Database, target: Database) -> RowsCopied:
    """Copy all rows, in transactions of some hundred, and read each one back. A copy that was stopped goes on.

    Rows of the target that the source does not have stay.

    Args:
        source: The database that is read. Each of its tables has a key. If they were not made, nothing is done.
        target: The database that is written, of the same owner.

    Raises:
        BackstoryError: The target holds another row under a key of the source (code ``other_rows``), or one of the two
            cannot be used; of the class that the owner names.
    """
    rows = copied = 0
    for table in _list_tables(source.description.schema) if source.exists() else ():
        for batch in _read_batches(source, table):
            rows += len(batch)
            found = _find(target, table, batch)
            missing = [row for row in batch if row[: table.keys] not in found]
            if missing:
                with target.writing() as session:
                    _insert(session, table, missing)
                    target.number_on(session, table.name, table.columns[0])
                found = _find(target, table, batch)
            if any(found.get(row[: table.keys]) != _as_stored(row) for row in batch):
                raise target.make_error(
                    f"holds another row of the table {table.name} than {source.place}: one of the two was used since "
                    "they were the same, or they were never; remove the one that is out of date, name an empty place, "
                    "or set storage.database without a copy, by which what the database lacks is made again",
                    "other_rows",
                )
            copied += len(missing)
    return RowsCopied(rows, copied)


@cache
def _list_tables(schema: str) -> tuple[_Table, ...]:
    with closing(connect_to_nothing(schema)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        tables = []
        for (name,) in names.fetchall():
            columns = connection.execute("SELECT name, pk FROM pragma_table_info(?)", (name,)).fetchall()
            keys = sorted((place, column) for column, place in columns if place)
            others = [column for column, place in columns if not place]
            tables.append(_Table(name, (*(column for _, column in keys), *others), len(keys)))
    return tuple(tables)


def _read_batches(database: Database, table: _Table) -> Iterator[list[_Row]]:
    """Yield the rows in the order of their keys, so that no transaction lasts longer than one batch."""
    places = ", ".join("?" * table.keys)
    after, last = "", ()
    while True:
        with database.reading() as session:
            query = f"{table.selection}{after} ORDER BY {table.key[1:-1]} LIMIT {_BATCH}"
            batch = [tuple(row) for row in session.execute(query, last).fetchall()]
        if not batch:
            return
        yield batch
        after, last = f" WHERE {table.key} > ({places})", batch[-1][: table.keys]


def _find(database: Database, table: _Table, rows: Sequence[_Row]) -> dict[_Row, _Row]:
    """Find the rows that have the keys of others, by key."""
    places = ", ".join(f"({', '.join('?' * table.keys)})" for _ in rows)
    keys = list(chain.from_iterable(row[: table.keys] for row in rows))
    with database.reading() as session:
        found = session.execute(f"{table.selection} WHERE {table.key} IN (VALUES {places})", keys).fetchall()
    return {tuple(row[: table.keys]): tuple(row) for row in found}


def _insert(session: Session, table: _Table, rows: Sequence[_Row]) -> None:
    """Write rows, but those that another process has written meanwhile."""
    places = ", ".join("?" * len(table.columns))
    statement = (
        f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({places}) ON CONFLICT DO NOTHING"  # noqa: S608 - names of this library
    )
    session.executemany(statement, rows)


def _as_stored(row: _Row) -> _Row:
    """Return a row as every database stores it: no text of Postgres can hold the character 0."""
    return tuple(
        value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value for value in row
    )
