"""What has been materialized from which inputs, so that unchanged work is not done again.

SQLite, because several processes materialize different partitions at the same time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS partitions (
    table_name TEXT NOT NULL,
    partition TEXT NOT NULL,
    inputs TEXT NOT NULL,
    content TEXT NOT NULL,
    rows INTEGER NOT NULL,
    PRIMARY KEY (table_name, partition)
) WITHOUT ROWID
"""
_BUSY_SECONDS = 60.0


@dataclass(frozen=True)
class Entry:
    """One materialized partition.

    Attributes:
        inputs: Hash of everything that the partition was made from.
        content: Hash of the rows that were written; empty for no rows.
        rows: Number of rows.
    """

    inputs: str
    content: str
    rows: int


class Ledger:
    """Reads and writes the entries of one workspace.

    A partition is recorded after its file is in place, so a process killed between the two does the work again
    rather than believing in a file that is not there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, table: str) -> dict[str, Entry]:
        """Give the entries of a table by partition."""
        if not self._path.is_file():
            return {}
        with closing(self._connect()) as connection:
            rows = connection.execute(
                "SELECT partition, inputs, content, rows FROM partitions WHERE table_name = ?", (table,)
            ).fetchall()
        return {partition: Entry(inputs, content, count) for partition, inputs, content, count in rows}

    def record(self, table: str, entries: Mapping[str, Entry]) -> None:
        """Write the entries of partitions whose files are in place."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with closing(self._connect()) as connection, connection:
            connection.executemany(
                "INSERT OR REPLACE INTO partitions VALUES (?, ?, ?, ?, ?)",
                [(table, key, entry.inputs, entry.content, entry.rows) for key, entry in entries.items()],
            )

    def forget(self, table: str, partitions: Iterable[str]) -> None:
        """Remove the entries of partitions, so that they are materialized again."""
        if not self._path.is_file():
            return
        with closing(self._connect()) as connection, connection:
            connection.executemany(
                "DELETE FROM partitions WHERE table_name = ? AND partition = ?",
                [(table, key) for key in partitions],
            )

    def pending(self, table: str, inputs: Mapping[str, str], present: Iterable[str]) -> list[str]:
        """Say which partitions must be materialized.

        Args:
            table: Name of the table.
            inputs: Hash of the present inputs of each wanted partition.
            present: Partitions of the table whose files exist.

        Returns:
            The wanted partitions whose inputs changed or whose file is gone, in the order of ``inputs``.
        """
        known = self.read(table)
        files = set(present)
        return [key for key, value in inputs.items() if not _is_current(known.get(key), value, key in files)]

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(_SCHEMA)
        return connection


def _is_current(entry: Entry | None, inputs: str, has_file: bool) -> bool:
    return entry is not None and entry.inputs == inputs and has_file == (entry.rows > 0)
