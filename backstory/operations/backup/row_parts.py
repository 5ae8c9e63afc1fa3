"""Databases of SQLite in parts of rows, so that a backup writes only the rows that the one before lacks."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

PART_BYTES: Final = 8_000_000
"""Bytes of the rows of one part. Parts of less than half of it are written again with what has come."""

NAME_BYTES: Final = 16
"""Bytes of the hash of a row."""

_Row: TypeAlias = tuple[Any, ...]


class Part(NamedTuple):
    """Some rows of a database.

    Attributes:
        content: A database of SQLite that holds them.
        names: Their hashes.
        size: Bytes of the rows.
    """

    content: bytes
    names: tuple[bytes, ...]
    size: int


def read_schema(path: Path) -> str:
    """Return the statements that make the tables of a database, with its format."""
    with closing(_connect(path)) as connection:
        statements = connection.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type = 'table' DESC, name"
        )
        [[journal]] = connection.execute("PRAGMA journal_mode").fetchall()
        [[application]] = connection.execute("PRAGMA application_id").fetchall()
        [[version]] = connection.execute("PRAGMA user_version").fetchall()
        return ";\n".join(
            [
                f"PRAGMA journal_mode = {journal}",
                f"PRAGMA application_id = {application}",
                f"PRAGMA user_version = {version}",
                *(statement for (statement,) in statements.fetchall()),
            ]
        )


def split_rows(
    path: Path, known: Mapping[bytes, int], write: Callable[[Part], None], size: int = PART_BYTES
) -> set[int]:
    """Write the rows of a database that no part has, and tell which parts need not be written again.

    Args:
        path: The database, to which nobody writes.
        known: The part that has a row, by the hash of the row.
        write: Takes a part of the other rows.
        size: Bytes of the rows of one part.

    Returns:
        The parts of which the database still has every row.
    """
    with closing(_connect(path)) as connection:
        found = Counter(known[name] for name, _, _ in _read_rows(connection) if name in known)
        whole = {part for part, count in Counter(known.values()).items() if found[part] == count}
        batch: list[tuple[bytes, str, _Row]] = []
        filled = 0
        for name, table, row in _read_rows(connection):
            if known.get(name) in whole:
                continue
            batch.append((name, table, row))
            filled += _measure(row)
            if filled >= size:
                write(_make_part(connection, batch, filled))
                batch, filled = [], 0
        if batch:
            write(_make_part(connection, batch, filled))
    return whole


def join_rows(schema: str, parts: Iterable[Path], path: Path) -> int:
    """Make a database of its parts, and return the number of its rows.

    Args:
        schema: What :func:`read_schema` gave.
        parts: The parts.
        path: The database to make.
    """
    path.touch(mode=0o600)
    with closing(_connect(path)) as connection:
        connection.executescript(schema)
        tables = _list_tables(connection)
        for part in parts:
            connection.execute("ATTACH DATABASE ? AS part", (str(part),))
            with connection:
                for table in tables:
                    connection.execute(f'INSERT INTO main."{table}" SELECT * FROM part."{table}"')  # noqa: S608 - a name of its schema
            connection.execute("DETACH DATABASE part")
        return sum(
            connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]  # noqa: S608 - a name of its schema
            for table in tables
        )


def _connect(path: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    # A damaged text is told by the checksum of its row, as where the database is used.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def _list_tables(connection: sqlite3.Connection) -> list[str]:
    query = (
        "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
    )
    return [name for (name,) in connection.execute(query).fetchall()]


def _read_rows(connection: sqlite3.Connection) -> Iterator[tuple[bytes, str, _Row]]:
    """Yield the hash, the table and the values of each row."""
    for table in _list_tables(connection):
        for row in connection.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - a name of its schema
            yield hashlib.blake2b(repr((table, row)).encode(), digest_size=NAME_BYTES).digest(), table, row


def _measure(row: _Row) -> int:
    return sum(len(value) if isinstance(value, str | bytes) else NAME_BYTES for value in row)


def _make_part(source: sqlite3.Connection, rows: list[tuple[bytes, str, _Row]], size: int) -> Part:
    query = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    with closing(_connect(":memory:")) as connection:
        for (statement,) in source.execute(query).fetchall():
            connection.execute(statement)
        with connection:
            for _, table, row in rows:
                places = ", ".join("?" * len(row))
                connection.execute(f'INSERT INTO "{table}" VALUES ({places})', row)  # noqa: S608 - a name of its schema
        return Part(connection.serialize(), tuple(name for name, _, _ in rows), size)
