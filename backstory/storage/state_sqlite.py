"""State in a file of SQLite, and its locks in files beside it."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote

from backstory.base.errors import BackstoryError
from backstory.base.files.atomic import exclusive_temporary, is_named, lock, publish
from backstory.base.files.disk_full import naming_full_disk
from backstory.storage.schema import FORMAT, Part
from backstory.storage.state import BUSY_SECONDS, Locks, Session, State, lent

_APPLICATION: Final = 0x42535452  # "BSTR" in the header of a file
_TYPES: Final = {str: "TEXT", int: "INTEGER", float: "REAL", bytes: "BLOB"}
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_PROBE_SECONDS: Final = 0.1
"""How long who does not wait for a lock tries it again, since whoever probes it shares it for a moment."""


class SqliteState(State):
    """One file with a write-ahead log. It may be removed or replaced at any time.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path, part: Part) -> None:
        super().__init__(str(path), part)
        self.path = path

    def exists(self) -> bool:
        """Return whether there is a file."""
        return self.path.exists()

    def measure(self) -> int:
        """Return the bytes of the file, with its log."""
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Read in a transaction. A folder or disk that cannot be written is enough."""
        with self._naming_errors(), self._connected_to_read() as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("ROLLBACK")

    @contextmanager
    def begin(self) -> Iterator[Session]:
        """Write in a transaction, after the file was made if there is none."""
        with self._naming_errors():
            self._make_if_absent()
            with lent(self.place, self._connect, self._is_of_file) as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")

    def open_locks(self, by: str = "") -> FileLocks:
        """Lock files beside the database."""
        with self._naming_errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
        return FileLocks(self, by)

    def find_holder(self, name: str) -> str | None:
        """Return what is in the file of a lock while it is locked."""
        try:
            with self.lock_path(name).open("rb") as file:
                return None if lock(file, shared=True, wait=False) else file.read().decode()
        except FileNotFoundError:
            return None

    def find_damage(self) -> str | None:
        """Read the whole file, and return what is wrong with it and what to do, or None."""
        try:
            with self.reading() as session:
                [(found,), *_] = session.execute("PRAGMA integrity_check").fetchall()
        except BackstoryError as error:
            return str(error)
        return None if found == "ok" else str(self._damaged(found))

    def compact(self) -> None:
        """Write the file anew without its deleted rows, and empty its log."""
        if self.exists():
            with self._naming_errors(), lent(self.place, self._connect, self._is_of_file) as connection:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def drop(self) -> int:
        """Delete the file, and return the number of rows that it had."""
        if not self.exists():
            return 0
        with self.reading() as session:
            count = self.count_rows(session)
        self.close()
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        return count

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            with naming_full_disk(self.path.parent):
                yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            # A text that is no UTF-8 has no code.
            if code in _DAMAGE or (not code and isinstance(error, sqlite3.OperationalError)):
                raise self._damaged(error) from error
            if code == sqlite3.SQLITE_BUSY:
                what = f"has been busy for {BUSY_SECONDS:.0f} s; try again when the other process has ended"
                raise self._error("busy_file", what) from error
            what = f"cannot be used ({error}); permit reading and writing it and its folder"
            raise self._error("unusable_file", what) from error
        except PermissionError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> BackstoryError:
        return self._error(
            "unusable_file", f"cannot be used ({error}); permit reading and writing it and its folder"
        )

    @contextmanager
    def _connected_to_read(self) -> Iterator[sqlite3.Connection]:
        if not self.path.exists():
            with closing(make_empty(self.part)) as nothing:
                yield nothing
        elif self._is_writable():
            with lent(self.place, self._connect, self._is_of_file) as connection:
                yield connection
        else:
            # A log that nobody may write beside the file is needed only if it holds something.
            log = self.path.with_name(f"{self.path.name}-wal")
            mode = "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
            with closing(self._connect(mode)) as connection:
                yield connection

    def _is_writable(self) -> bool:
        return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)

    def _connect(self, mode: str = "rw") -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.resolve().as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=_Connection,
        )
        with ExitStack() as failed:
            failed.callback(connection.close)
            connection.file = _identify(self.path)
            connection.execute("PRAGMA temp_store = MEMORY")
            [found] = connection.execute(
                "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version"
            ).fetchall()
            if found != (_APPLICATION, FORMAT):
                what = f"is of another format ({found[1]} in place of {FORMAT}); {self.part.remedy}"
                raise self._error("other_format", what)
            failed.pop_all()
        return connection

    def _is_of_file(self, connection: _Connection) -> bool:
        return connection.file == _identify(self.path)

    def _make_if_absent(self) -> None:
        """Make an empty file under a temporary name, so that no process sees one without tables."""
        if self.path.exists():
            return
        made = self.path.with_name(f".{self.path.name}.new")
        # The locked file is another one: a thread may use the database before the descriptor of the lock is closed.
        with exclusive_temporary(made):
            if self.path.exists():
                return
            for suffix in ("", "-journal", "-wal", "-shm"):  # left by a process that was killed here
                made.with_name(made.name + suffix).unlink(missing_ok=True)
            if self.part.is_private:
                os.close(os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            with closing(sqlite3.connect(made, isolation_level=None)) as connection:
                _define(self.part, connection)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
                # Last, so that nothing waits in a log, which a full disk would leave behind without a word.
                connection.execute("PRAGMA journal_mode = WAL")
            for suffix in ("-wal", "-shm"):  # of a file that somebody deleted
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            publish(made, self.path)

    def lock_path(self, name: str) -> Path:
        """Return the file of a lock, which is there while somebody holds it."""
        return self.path.with_name(f".{quote(name, safe='')}.lock")


class FileLocks(Locks):
    """Locked files. A killed holder leaves its files, but not the locks."""

    def __init__(self, state: SqliteState, by: str) -> None:
        self._state = state
        self._by = by
        self._held: dict[str, IO[bytes]] = {}

    def take(self, name: str, *, wait: bool = True, shared: bool = False) -> bool:
        """Lock the file of a name, and write the holder into it."""
        path = self._state.lock_path(name)
        until = time.monotonic() + _PROBE_SECONDS
        while True:
            file = path.open("a+b")
            is_locked = lock(file, shared=shared, wait=wait)
            if is_locked and is_named(file, path):
                break
            file.close()  # its holder has ended, and removed it, or still has it
            if not is_locked and time.monotonic() > until:
                return False
            if not is_locked:
                time.sleep(_PROBE_SECONDS / 20)
        if not shared:
            file.truncate(0)
            file.write(self._by.encode())
            file.flush()
        self._held[name] = file
        return True

    def release(self, name: str) -> None:
        """Remove the file, unless others share the lock."""
        with self._held.pop(name) as file:
            if lock(file, wait=False) and is_named(file, self._state.lock_path(name)):
                self._state.lock_path(name).unlink()

    def close(self) -> None:
        """Give all locks back, the last one first."""
        for name in reversed(list(self._held)):
            self.release(name)


def make_empty(part: Part) -> sqlite3.Connection:
    """Make the tables of a part in memory, where nothing was stored yet."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _define(part, connection)
    return connection


def _define(part: Part, connection: sqlite3.Connection) -> None:
    for table in part.tables:
        for statement in table.define(_TYPES):
            connection.execute(statement)


class _Connection(sqlite3.Connection):
    """A connection that knows the file that it was opened on."""

    file: tuple[int, int] | None = None


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
