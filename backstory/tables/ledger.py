"""Records which inputs each partition was built from, so that unchanged partitions are skipped.

SQLite, because several processes materialize different partitions at the same time.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from backstory.atomic_files import lock
from backstory.errors import LedgerError
from backstory.full_disks import is_of_full_disk, naming_full_disk
from backstory.ids import digest
from backstory.sqlite_files import BUSY_SECONDS, is_damage, set_aside

LEDGER_FILE: Final = "ledger.sqlite"
"""Name of the ledger in the folder of the tables."""

# Ledgers of earlier releases, which recorded no checksums, had one table `partitions`.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    table_name TEXT NOT NULL,
    partition TEXT NOT NULL,
    inputs TEXT NOT NULL,
    content TEXT NOT NULL,
    rows INTEGER NOT NULL,
    checksum TEXT NOT NULL,
    PRIMARY KEY (table_name, partition)
) WITHOUT ROWID;
DROP TABLE IF EXISTS partitions;
"""
_COLUMNS = "table_name, partition, inputs, content, rows, checksum"

logger = logging.getLogger(__name__)


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


class Ledger:
    """Reads and writes the entries of one workspace.

    An entry is removed before the file of its partition is written, and recorded after the file is in place. If a
    process is killed between the two, the next run rebuilds the partition, even if its inputs were restored meanwhile.
    Every entry carries a checksum, and an entry with a wrong checksum is an error.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: sqlite3.Connection | None = None
        self._using = threading.RLock()

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Use one connection for a run, from any thread; within another such context, that one's.

        SQLite would else move its log into the file, and flush both, after each entry. Opening the file takes longer
        than reading an entry.
        """
        if self._kept is not None:
            yield
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.set_aside_if_damaged()
        with self._naming_damage():
            self._kept = self._open(to_read=False)
        try:
            yield
        finally:
            self._close_kept()

    def _close_kept(self) -> None:
        with self._using:
            if self._kept is not None:
                self._kept.close()
                self._kept = None

    def read(self, table: str) -> dict[str, Entry]:
        """Return the entries of a table by partition.

        Raises:
            LedgerError: The ledger is damaged.
        """
        if not self._path.is_file():
            return {}
        query = f"SELECT {_COLUMNS} FROM entries WHERE table_name = ?"  # noqa: S608 - columns are constants
        return self._read(query, (table,)).get(table, {})

    def read_all(self) -> dict[str, dict[str, Entry]]:
        """Return all entries by table and partition.

        Raises:
            LedgerError: The ledger is damaged.
        """
        if not self._path.is_file():
            return {}
        return self._read(f"SELECT {_COLUMNS} FROM entries", ())  # noqa: S608 - columns are constants

    def record(self, table: str, entries: Mapping[str, Entry]) -> None:
        """Write the entries of partitions whose files are in place.

        Raises:
            LedgerError: The ledger is damaged.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        rows = [
            (table, key, entry.inputs, entry.content, entry.rows, _checksum(table, key, entry))
            for key, entry in entries.items()
        ]
        with self._connect() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", rows)

    def forget(self, table: str, partitions: Iterable[str]) -> None:
        """Remove the entries of partitions, so that the next run rebuilds them.

        Raises:
            LedgerError: The ledger is damaged.
        """
        if not self._path.is_file():
            return
        with self._connect() as connection, connection:
            connection.executemany(
                "DELETE FROM entries WHERE table_name = ? AND partition = ?",
                [(table, key) for key in partitions],
            )

    def pending(self, table: str, inputs: Mapping[str, str], contents: Mapping[str, str]) -> list[str]:
        """List the partitions that must be rebuilt.

        Args:
            table: A name of :data:`backstory.tables.schemas.TABLES`.
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
        if not self._path.is_file():
            return None
        try:
            with self._connect(to_read=True) as connection:
                [(found,), *_] = connection.execute("PRAGMA integrity_check").fetchall()
            self.read_all()
        except LedgerError as error:
            return str(error)
        return None if found == "ok" else self._damaged(found)

    def set_aside_if_damaged(self) -> None:
        """Move a damaged ledger aside and log it, so that everything is rebuilt."""
        if self.find_damage() is None:
            return
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            lock(folder)
            damage = self.find_damage()
            if damage is None:
                return  # another process has already moved it
            self._close_kept()
            aside = set_aside(self._path)
        finally:
            os.close(folder)
        logger.warning("%s It was moved to %s, and every table is made again.", damage, aside.name)

    def _read(self, query: str, parameters: tuple[str, ...]) -> dict[str, dict[str, Entry]]:
        with self._connect(to_read=True) as connection:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'entries'").fetchone() is None:
                return {}
            rows = connection.execute(query, parameters).fetchall()
        found: dict[str, dict[str, Entry]] = {}
        for table, key, inputs, content, count, checksum in rows:
            entry = Entry(inputs, content, count)
            if checksum != _checksum(table, key, entry):
                raise LedgerError(self._damaged(f"the entry of {table} {key} differs from its checksum"))
            found.setdefault(table, {})[key] = entry
        return found

    @contextmanager
    def _connect(self, *, to_read: bool = False) -> Iterator[sqlite3.Connection]:
        with self._naming_damage(), self._using:
            if self._kept is not None:
                yield self._kept
                return
        with self._naming_damage(), closing(self._open(to_read=to_read)) as connection:
            yield connection

    @contextmanager
    def _naming_damage(self) -> Iterator[None]:
        try:
            with naming_full_disk(self._path.parent):
                yield
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                raise LedgerError(self._damaged(str(error))) from error
            raise

    def _open(self, *, to_read: bool) -> sqlite3.Connection:
        if not os.access(self._path.parent, os.W_OK):
            return self._open_to_read()
        # The lock keeps the threads of a run apart.
        connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, check_same_thread=False)
        try:
            if to_read:
                connection.execute("PRAGMA schema_version").fetchone()  # the first statement opens the file
                return connection
            # A file system without shared memory keeps the rollback journal, which is safe only with full syncs.
            [mode] = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            if mode == "wal":
                # A power failure may lose the last entries, in order; the next run makes their partitions again.
                connection.execute("PRAGMA synchronous=NORMAL")
            connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            connection.close()
            if to_read and is_of_full_disk(error, self._path.parent):
                return self._open_to_read()  # without the files that SQLite writes beside it
            raise
        return connection

    def _open_to_read(self) -> sqlite3.Connection:
        """Open the file, also where nothing can be written beside it, which SQLite would otherwise need."""
        wal = self._path.with_name(f"{self._path.name}-wal")
        # On a full disk, an attempt to open the file leaves an empty one.
        in_use = wal.exists() and wal.stat().st_size > 0
        mode = "mode=ro" if in_use else "mode=ro&immutable=1"
        return sqlite3.connect(f"{self._path.resolve().as_uri()}?{mode}", uri=True, timeout=BUSY_SECONDS)

    def _damaged(self, what: str) -> str:
        return f"the ledger {self._path} is damaged ({what}); `backstory run` makes it and every table again."


@lru_cache(maxsize=16384)
def _checksum(table: str, key: str, entry: Entry) -> str:
    # Damage can turn a text into bytes.
    return digest(map(str, (table, key, entry.inputs, entry.content, entry.rows)), length=16)


def _is_current(entry: Entry | None, inputs: str, content: str) -> bool:
    return entry is not None and entry.inputs == inputs and entry.content == content
