"""The file of the history: SQLite, because several processes record runs and share the budget of a day."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from backstory.errors import RunHistoryError
from backstory.full_disks import naming_full_disk
from backstory.sqlite_files import BUSY_SECONDS, make_private, set_aside

STORE_FILE: Final = "runs.sqlite"
"""Name of the file in the folder ``.backstory`` of a workspace."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY,
    by TEXT NOT NULL,
    dagster_run_id TEXT,
    process INTEGER NOT NULL,
    started_at REAL NOT NULL,
    heartbeat_at REAL NOT NULL,
    ended_at REAL,
    status TEXT NOT NULL,
    first_partition TEXT,
    last_partition TEXT,
    partitions INTEGER NOT NULL,
    stage TEXT,
    partition TEXT,
    done INTEGER NOT NULL,
    total INTEGER NOT NULL,
    step TEXT,
    failures INTEGER NOT NULL,
    failure TEXT,
    currency TEXT NOT NULL,
    budget_left TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS usage (
    run_id TEXT NOT NULL,
    day TEXT NOT NULL,
    purpose TEXT NOT NULL,
    model TEXT NOT NULL,
    calls INTEGER NOT NULL,
    texts INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    cached INTEGER NOT NULL,
    cost REAL NOT NULL,
    unpriced INTEGER NOT NULL,
    PRIMARY KEY (run_id, day, purpose, model)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reservations (
    reservation_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    day TEXT NOT NULL,
    purpose TEXT NOT NULL,
    model TEXT NOT NULL,
    calls INTEGER NOT NULL,
    texts INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    cost REAL NOT NULL,
    unpriced INTEGER NOT NULL,
    expires_at REAL NOT NULL
) WITHOUT ROWID;
"""


class RunStore:
    """Opens the file for transactions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._anchor: sqlite3.Connection | None = None

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction that excludes every other writer, in this process or another.

        Raises:
            RunHistoryError: The file is damaged, or cannot be written.
        """
        with self._telling_errors(), closing(self._open()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection  # where it raises, closing the connection rolls back
            connection.execute("COMMIT")

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection | None]:
        """Open the file to read, also for a user who may not write to it; None if there is no file yet.

        Raises:
            RunHistoryError: The file is damaged.
        """
        if not self.path.is_file():
            yield None
            return
        with self._telling_errors(), closing(self._open_to_read()) as connection:
            yield connection

    def hold_open(self) -> None:
        """Keep a connection until :meth:`release`: the last one to close would write the whole log to the file."""
        with self._telling_errors():
            self._anchor = self._open()

    def release(self) -> None:
        """Close the connection of :meth:`hold_open`."""
        if self._anchor is not None:
            self._anchor.close()
            self._anchor = None

    def find_damage(self) -> str | None:
        """Read the whole file, and return what is wrong with it, or None."""
        try:
            with self.read() as connection:
                if connection is None:
                    return None
                [(found,), *_] = connection.execute("PRAGMA integrity_check").fetchall()
        except RunHistoryError as error:
            return str(error)
        return None if found == "ok" else self._damaged(found)

    def set_aside(self) -> Path:
        """Move the file aside, so that a new history begins."""
        return set_aside(self.path)

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        make_private(self.path)
        # Threads share only the connection that is held open, and none of them uses it.
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.executescript(_SCHEMA)
        except sqlite3.DatabaseError:
            connection.close()
            raise
        return connection

    def _open_to_read(self) -> sqlite3.Connection:
        if os.access(self.path.parent, os.W_OK) and os.access(self.path, os.W_OK):
            return self._open()
        in_use = self.path.with_name(f"{self.path.name}-wal").exists()
        mode = "mode=ro" if in_use else "mode=ro&immutable=1"
        return sqlite3.connect(f"{self.path.resolve().as_uri()}?{mode}", uri=True, timeout=BUSY_SECONDS)

    @contextmanager
    def _telling_errors(self) -> Iterator[None]:
        try:
            with naming_full_disk(self.path.parent):
                yield
        except sqlite3.OperationalError as error:
            raise RunHistoryError(
                f"the history of runs {self.path} cannot be used ({error}); permit writing to it"
            ) from error
        except sqlite3.DatabaseError as error:
            raise RunHistoryError(self._damaged(str(error))) from error
        except PermissionError as error:
            raise RunHistoryError(
                f"the history of runs {self.path} cannot be written ({error.strerror}); permit writing to it"
            ) from error

    def _damaged(self, what: str) -> str:
        return (
            f"the history of runs {self.path} is damaged ({what}); `backstory run` moves it aside and begins another, "
            "unless there is a budget per day"
        )
