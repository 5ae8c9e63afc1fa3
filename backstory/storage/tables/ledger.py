"""Records which inputs each partition was built from, so that unchanged partitions are skipped.

A database, because several processes materialize different partitions at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias

from backstory.base.database import Database, Description
from backstory.base.errors import LedgerError
from backstory.base.ids import digest
from backstory.base.sqlite import SqliteDatabase

LEDGER_FILE: Final = "ledger.sqlite"
"""Name of the ledger in the folder of the tables."""

_SCHEMA = """
CREATE TABLE entries (
    table_name TEXT NOT NULL,
    partition TEXT NOT NULL,
    inputs TEXT NOT NULL,
    content TEXT NOT NULL,
    rows INTEGER NOT NULL,
    checksum TEXT NOT NULL,
    PRIMARY KEY (table_name, partition)
) WITHOUT ROWID;
"""
_Row: TypeAlias = tuple[str, str, str, str, int, str]
_READ = "SELECT table_name, partition, inputs, content, rows, checksum FROM entries"


@dataclass(frozen=True)
class Entry:
    """One materialized partition.

    Attributes:
        inputs: Hash of everything that the partition was built from.
        content: Hash of the file that was written; empty for no rows.
        rows: Number of rows.
    """

    inputs: str
    content: str
    rows: int


@dataclass
class _File:
    """The file of a ledger, and what was read of it last.

    Attributes:
        database: The file.
        known: The entries that were read last, and after which changes, by table.
        changed: The last change of each table through this object.
    """

    database: Database
    known: dict[str, tuple[object, dict[str, Entry]]] = field(default_factory=dict)
    changed: dict[str, object] = field(default_factory=dict)


_connected: Final[dict[Path, _File]] = {}
"""The files that keep their connection, by path."""


class Ledger:
    """Reads and writes the entries of one workspace.

    An entry is removed before the file of its partition is written, and recorded after the file is in place. If a
    process is killed between the two, the next run rebuilds the partition, even if its inputs were restored meanwhile.
    Every entry carries a checksum, and an entry with a wrong checksum is an error.
    """

    def __init__(self, path: Path) -> None:
        # A file wherever the other databases are: it says which files are in place, which others cannot see.
        # A power failure may lose the last entries, in order; the next run makes their partitions again.
        self._file = _connected.get(path) or _File(
            SqliteDatabase(
                path,
                Description(
                    schema=_SCHEMA,
                    name="the ledger",
                    remedy="`backstory run` makes it and every table again",
                    error=LedgerError,
                ),
            )
        )
        self._database = self._file.database

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Use one connection for a run, as :meth:`kept_open` does, after a damaged ledger was moved aside."""
        self.set_aside_if_damaged()
        with self.kept_open():
            yield

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Use one connection from any thread, and remember the entries that were read until they change.

        Opening the file takes longer than reading an entry. Ledgers of the same file that are made meanwhile use the
        connection, too.
        """
        path = self._database.path
        try:
            with self._database.connected():
                _connected.setdefault(path, self._file)
                yield
        finally:
            if not self._database.is_connected and _connected.get(path) is self._file:
                del _connected[path]

    def read(self, table: str) -> dict[str, Entry]:
        """Return the entries of a table by partition.

        Raises:
            LedgerError: The ledger is damaged.
        """
        # A run reads the same entries hundreds of times.
        by_others, file = self._database.name_state(), self._file
        state = (by_others, file.changed.get(table))
        known = file.known.get(table)
        if by_others is not None and known is not None and known[0] == state:
            return dict(known[1])
        entries = self._read(f"{_READ} WHERE table_name = ?", (table,)).get(table, {})
        if by_others is not None:
            file.known[table] = (state, entries)
        return dict(entries)

    def read_all(self) -> dict[str, dict[str, Entry]]:
        """Return all entries by table and partition.

        Raises:
            LedgerError: The ledger is damaged.
        """
        return self._read(_READ, ())

    def record(self, table: str, entries: Mapping[str, Entry]) -> None:
        """Write the entries of partitions whose files are in place.

        Raises:
            LedgerError: The ledger is damaged.
        """
        rows = [
            (table, key, entry.inputs, entry.content, entry.rows, _checksum(table, key, entry))
            for key, entry in entries.items()
        ]
        with self._database.writing() as session:
            session.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", rows)
        self._file.changed[table] = object()

    def forget(self, table: str, partitions: Iterable[str]) -> None:
        """Remove the entries of partitions, so that the next run rebuilds them.

        Raises:
            LedgerError: The ledger is damaged.
        """
        if not self._database.path.is_file():
            return
        with self._database.writing() as session:
            session.executemany(
                "DELETE FROM entries WHERE table_name = ? AND partition = ?",
                [(table, key) for key in partitions],
            )
        self._file.changed[table] = object()

    def pending(self, table: str, inputs: Mapping[str, str], contents: Mapping[str, str]) -> list[str]:
        """List the partitions that must be rebuilt.

        Args:
            table: A name of :data:`backstory.storage.tables.schemas.TABLES`.
            inputs: Hash of the current inputs of each wanted partition.
            contents: Hash of the current file of each partition that has one.

        Returns:
            The wanted partitions whose inputs changed, or whose file differs from the one written, in the order
            of ``inputs``.

        Raises:
            LedgerError: The ledger is damaged.
        """
        known = self.read(table)
        return [
            key
            for key, value in inputs.items()
            if not _is_current(known.get(key), value, contents.get(key, ""))
        ]

    def find_damage(self) -> str | None:
        """Read the whole file, and return what is wrong with it, or None."""
        if damage := self._database.find_damage():
            return damage
        try:
            self.read_all()
        except LedgerError as error:
            return str(error)
        return None

    def set_aside_if_damaged(self) -> None:
        """Move a damaged ledger aside and log it, so that everything is rebuilt.

        Nothing is done while one connection is used for a run: that began with this, and every entry that is read is
        compared with its checksum.
        """
        if not self._database.is_connected:
            self._database.set_aside_if_damaged(self.find_damage)

    def _read(self, query: str, parameters: tuple[str, ...]) -> dict[str, dict[str, Entry]]:
        with self._database.reading() as session:
            rows: list[_Row] = session.execute(query, parameters).fetchall()
        found: dict[str, dict[str, Entry]] = {}
        for table, key, inputs, content, count, checksum in rows:
            entry = Entry(inputs, content, count)
            if checksum != _checksum(table, key, entry):
                what = f"damaged (the entry of {table} {key} differs from its checksum)"
                raise LedgerError(self._database.describe(what))
            found.setdefault(table, {})[key] = entry
        return found


@lru_cache(maxsize=16384)
def _checksum(table: str, key: str, entry: Entry) -> str:
    # Damage can turn a text into bytes.
    return digest(map(str, (table, key, entry.inputs, entry.content, entry.rows)), length=16)


def _is_current(entry: Entry | None, inputs: str, content: str) -> bool:
    return entry is not None and entry.inputs == inputs and entry.content == content
