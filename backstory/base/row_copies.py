"""Copies the rows of one database into another, whatever stands behind each, and reads every row where it arrived."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
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
_Named: TypeAlias = Mapping[_Row, set[_Row]]
"""Rows without their numbers, by what any database knows them by."""


@dataclass(frozen=True)
class RowsCopied:
    """What a copy of rows did.

    Attributes:
        rows: Number of rows of the source, all of which are in the target now, or have another one there that serves.
        copied: Number of rows that were not there before.
        kept: Number of rows in whose place another one serves.
    """

    rows: int
    copied: int
    kept: int


@dataclass(frozen=True)
class _Table:
    """A table, whose columns begin with its number, if it has one, and then with those that any database knows rows by.

    Attributes:
        name: Its name.
        columns: Its columns.
        names: Number of columns that any database knows a row by: those of its key, or of the first index if the key is
            a number, which each database gives by itself.
        is_numbered: Whether the first column is such a number.
        references: The numbered tables that columns refer to, by the places of the columns.
    """

    name: str
    columns: tuple[str, ...]
    names: int
    is_numbered: bool
    references: Mapping[int, str]

    @property
    def selection(self) -> str:
        """The beginning of a statement that reads rows."""
        return f"SELECT {', '.join(self.columns)} FROM {self.name}"  # noqa: S608 - names of this library

    @property
    def named_by(self) -> tuple[str, ...]:
        """The columns that any database knows a row by."""
        return self.columns[self.is_numbered : self.is_numbered + self.names]

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key."""
        return self.columns[:1] if self.is_numbered else self.named_by

    def name_row(self, row: _Row) -> _Row:
        """Return what any database knows a row by."""
        return row[self.is_numbered : self.is_numbered + self.names]

    def strip(self, row: _Row) -> _Row:
        """Return a row without its number."""
        return row[self.is_numbered :]


def copy_rows(source: Database, target: Database) -> RowsCopied:
    """Copy all rows, in transactions of some hundred, and read each one back. A copy that was stopped goes on.

    Rows of the target that the source does not have stay. A row gets another number if the target has given its own to
    another row. Where the target has another answer under the key of a cache, it serves, and stays.

    Args:
        source: The database that is read. Each of its tables has a key. If they were not made, nothing is done.
        target: The database that is written, of the same owner.

    Raises:
        BackstoryError: The target holds another row in the place of one of the source, and it does not serve (code
            ``other_rows``); or one of the two cannot be used; of the class that the owner names.
    """
    rows = copied = kept = 0
    tables = _list_tables(source.description.schema) if source.exists() else {}
    for table in tables.values():
        numbers = {
            place: _match_numbers(source, target, tables[name]) for place, name in table.references.items()
        }
        for batch in _read_batches(source, table):
            missing, replaced = _bring(
                source, target, table, [_renumber(source, row, numbers) for row in batch]
            )
            rows, copied, kept = rows + len(batch), copied + missing, kept + replaced
    return RowsCopied(rows, copied, kept)


@cache
def _list_tables(schema: str) -> Mapping[str, _Table]:
    """List the tables by name, those that others refer to before them."""
    with closing(connect_to_nothing(schema)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        tables = []
        for (name,) in names.fetchall():
            columns = connection.execute(
                "SELECT name, type, pk FROM pragma_table_info(?)", (name,)
            ).fetchall()
            keys = [column for _, column in sorted((place, column) for column, _, place in columns if place)]
            is_numbered = len(keys) == 1 and (keys[0], "INTEGER", 1) in columns
            named_by = keys
            if is_numbered:
                # SQLite lists the first index last.
                first = "SELECT name FROM pragma_index_list(?) ORDER BY seq DESC LIMIT 1"
                indexed = f"SELECT name FROM pragma_index_info(({first})) ORDER BY seqno"  # noqa: S608 - a constant
                named_by = [column for (column,) in connection.execute(indexed, (name,))]
            first_ones = list(dict.fromkeys([*keys, *named_by]))
            ordered = (*first_ones, *(column for column, *_ in columns if column not in first_ones))
            references = connection.execute(
                'SELECT "from", "table" FROM pragma_foreign_key_list(?)', (name,)
            ).fetchall()
            tables.append((name, ordered, len(named_by), is_numbered, references))
    numbered = {name for name, _, _, is_numbered, _ in tables if is_numbered}
    found = [
        _Table(
            name, columns, names, is_numbered, {columns.index(at): to for at, to in refers if to in numbered}
        )
        for name, columns, names, is_numbered, refers in tables
    ]
    return {table.name: table for table in sorted(found, key=lambda table: len(table.references))}


def _read_batches(database: Database, table: _Table) -> Iterator[list[_Row]]:
    """Yield the rows in the order of their keys, so that no transaction lasts longer than one batch."""
    key, places = ", ".join(table.key), ", ".join("?" * len(table.key))
    after, last = "", ()
    while True:
        with database.reading() as session:
            query = f"{table.selection}{after} ORDER BY {key} LIMIT {_BATCH}"
            batch = [tuple(row) for row in session.execute(query, last).fetchall()]
        if not batch:
            return
        yield batch
        after, last = f" WHERE ({key}) > ({places})", batch[-1][: len(table.key)]


def _match_numbers(source: Database, target: Database, table: _Table) -> dict[int, int]:
    """Return the number in the target of each row of a small table, by the number in the source."""
    with target.reading() as session:
        rows = session.execute(table.selection).fetchall()
        theirs = {table.name_row(tuple(row)): row[0] for row in rows}
    with source.reading() as session:
        rows = session.execute(table.selection).fetchall()
    named = [(row[0], table.name_row(_as_stored(tuple(row)))) for row in rows]
    return {number: theirs[name] for number, name in named if name in theirs}


def _renumber(source: Database, row: _Row, numbers: Mapping[int, Mapping[int, int]]) -> _Row:
    """Give a row as the target stores it, with the target's numbers of what it refers to."""
    stored = list(_as_stored(row))
    for place, known in numbers.items():
        if stored[place] not in known:
            raise source.make_error("was written to meanwhile; run the same command again", "busy_file")
        stored[place] = known[stored[place]]
    return tuple(stored)


def _bring(source: Database, target: Database, table: _Table, rows: Sequence[_Row]) -> tuple[int, int]:
    """Write the rows that the target lacks, and return how many these were, and in whose place others serve."""
    ours = _group(table, rows)
    if table.is_numbered:
        # Several rows may have one name, and stand in different batches.
        with source.reading() as session:
            ours = _find(session, table, ours)
    copied = 0
    with target.reading() as session:
        theirs = _find(session, table, ours)
    if missing := _pick_missing(table, rows, ours, theirs):
        with target.writing() as session:
            missing = _pick_missing(table, rows, ours, _find(session, table, ours))
            if missing:
                _insert(target, session, table, missing)
        copied = len(missing)
        with target.reading() as session:
            theirs = _find(session, table, ours)
    replaced = [row for row in rows if table.strip(row) not in theirs.get(table.name_row(row), ())]
    columns = table.columns[table.is_numbered :]
    serves = target.description.serves
    for name in {table.name_row(row) for row in replaced}:
        others = theirs.get(name, set()) - ours.get(name, set())
        if not others or not all(serves(dict(zip(columns, other, strict=True))) for other in others):
            raise target.make_error(
                f"holds another row of the table {table.name} than {source.description.name} "
                f"{source.place}: one of the two was used since they were the same, or it "
                "is damaged; remove the one that is out of date, name an empty place, or set "
                "storage.database without a copy, by which what the database lacks is made again",
                "other_rows",
            )
    return copied, len(replaced)


def _pick_missing(table: _Table, rows: Sequence[_Row], ours: _Named, theirs: _Named) -> list[_Row]:
    """Pick the rows that the target lacks, but where it has one in their place that the source lacks."""
    return [
        row
        for row in rows
        if table.strip(row) not in theirs.get(table.name_row(row), ())
        and not theirs.get(table.name_row(row), set()) - ours.get(table.name_row(row), set())
    ]


def _group(table: _Table, rows: Sequence[_Row]) -> dict[_Row, set[_Row]]:
    grouped = defaultdict[_Row, set[_Row]](set)
    for row in rows:
        grouped[table.name_row(row)].add(table.strip(row))
    return grouped


def _find(session: Session, table: _Table, names: Collection[_Row]) -> dict[_Row, set[_Row]]:
    """Find the rows of some names."""
    places = ", ".join(f"({', '.join('?' * table.names)})" for _ in names)
    query = f"{table.selection} WHERE ({', '.join(table.named_by)}) IN (VALUES {places})"
    found = session.execute(query, list(chain.from_iterable(names))).fetchall()
    return _group(table, [_as_stored(tuple(row)) for row in found])


def _insert(target: Database, session: Session, table: _Table, rows: Sequence[_Row]) -> None:
    """Write rows, those of a numbered table with their numbers where these are free."""
    if not table.is_numbered:
        _write(session, table.name, table.columns, rows)
        return
    number, *others = table.columns
    places = ", ".join("(?)" for _ in rows)
    query = f"SELECT {number} FROM {table.name} WHERE {number} IN (VALUES {places})"  # noqa: S608 - names of this library
    taken = {found for (found,) in session.execute(query, [row[0] for row in rows]).fetchall()}
    _write(session, table.name, table.columns, [row for row in rows if row[0] not in taken])
    target.number_on(session, table.name, number)
    _write(session, table.name, others, [row[1:] for row in rows if row[0] in taken])


def _write(session: Session, table: str, columns: Sequence[str], rows: Sequence[_Row]) -> None:
    places = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places}) ON CONFLICT DO NOTHING"  # noqa: S608 - names of this library
    session.executemany(statement, rows)


def _as_stored(row: _Row) -> _Row:
    """Return a row as every database stores it: no text of Postgres can hold the character 0."""
    return tuple(
        value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value for value in row
    )
