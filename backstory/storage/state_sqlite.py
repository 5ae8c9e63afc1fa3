"""State in a file of SQLite, its locks in files beside it, and the bytes of such files."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote

from backstory.base.errors import naming_faults_of_system
from backstory.base.files.atomic import exclusive_temporary, is_named, lock, publish
from backstory.storage.schema import Part
from backstory.storage.state import BUSY_SECONDS, Session, State, lent

_APPLICATION: Final = 0x42535452  # "BSTR" in the header of a file
_HEADER_OF_LOG: Final = slice(18, 20)
"""The two bytes of the header of a file that say, if they are 2, that it is used with a log."""
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_CLOSED: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_PROBE_SECONDS: Final = 0.1
"""How long who does not wait for a lock tries it again, since whoever probes it shares it for a moment."""


class SqliteState(State):
    """One file with a write-ahead log. It may be removed or replaced at any time."""

    def __init__(self, path: Path, part: Part) -> None:
        super().__init__(str(path), part)
        self.path = path

    def exists(self) -> bool:
        """Return whether there is a file."""
        return self.path.exists()

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

    @contextmanager
    def lock(self, *names: str, by: str = "", wait: bool = True, shared: bool = False) -> Iterator[bool]:
        """Lock files beside the database. A killed holder leaves its files, but not the locks."""
        with ExitStack() as held:
            with self._naming_errors():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                taken = all(self._take(held, self._lock_path(name), by, wait, shared) for name in names)
            yield taken

    def find_holder(self, name: str) -> str | None:
        """Return what is in the file of a lock while it is locked."""
        try:
            with self._naming_errors(), self._lock_path(name).open("rb") as file:
                return None if lock(file, shared=True, wait=False) else file.read().decode()
        except FileNotFoundError:
            return None

    def examine(self) -> None:
        """Read the whole file, and raise the error of what is wrong with it."""
        with self.reading() as session:
            [(found,), *_] = session.execute("PRAGMA integrity_check").fetchall()
            if found != "ok":
                raise self.damaged(found)

    def compact(self) -> None:
        """Write the file anew without its deleted rows, and empty its log."""
        if self.exists():
            with self._naming_errors(), lent(self.place, self._connect, self._is_of_file) as connection:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            with naming_faults_of_system(self.path.parent):
                yield
        except sqlite3.Error as error:
            if _number_of(error) in _DAMAGE:
                raise self.damaged(error) from error
            if _number_of(error) == sqlite3.SQLITE_BUSY:
                raise self._busy() from error
            is_closed = _number_of(error) in _CLOSED
            what = f"cannot be used ({error}); permit reading and writing it and its folder"
            raise self._error("unwritable" if is_closed else "unusable_state", what) from error

    @contextmanager
    def _connected_to_read(self) -> Iterator[sqlite3.Connection]:
        if not self.path.exists():
            with closing(make_empty(self.part)) as nothing:
                yield nothing
        elif os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK):
            with lent(self.place, self._connect, self._is_of_file) as connection:
                yield connection
        else:
            # A log that nobody may write beside the file is needed only if it holds something.
            log = self.path.with_name(f"{self.path.name}-wal")
            mode = "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
            with closing(self._connect(mode)) as connection:
                yield connection

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
            query = "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version"
            [found] = connection.execute(query).fetchall()
            if found != (_APPLICATION, self.part.format):
                raise self._of_other_format(found[1])
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
            with closing(make_empty(self.part)) as tables:
                content = bytearray(tables.serialize())
            content[_HEADER_OF_LOG] = b"\2\2"
            made.unlink(missing_ok=True)  # left by a process that was killed here
            mode = 0o600 if self.part.is_private else 0o666
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
            for suffix in ("-wal", "-shm"):  # of a file that somebody deleted
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            publish(made, self.path)

    def _lock_path(self, name: str) -> Path:
        """Return the file of a lock, which is there while somebody holds it."""
        return self.path.with_name(f".{quote(name, safe='')}.lock")

    def _take(self, held: ExitStack, path: Path, by: str, wait: bool, shared: bool) -> bool:
        """Lock a file until the stack ends, and write the holder into it."""
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
        held.callback(_release, file, path)
        if not shared:
            file.truncate(0)
            file.write(by.encode())
            file.flush()
        return True


def _release(file: IO[bytes], path: Path) -> None:
    """Give a lock back, and remove its file unless others share it."""
    with file:
        if lock(file, wait=False) and is_named(file, path):
            path.unlink()


def make_empty(part: Part) -> sqlite3.Connection:
    """Make the tables of a part in memory, where nothing was stored yet."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for table in part.tables:
        for statement in table.define({}):
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {part.format}")
    return connection


class _Connection(sqlite3.Connection):
    """A connection that knows the file that it was opened on."""

    file: tuple[int, int] | None = None


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _number_of(error: sqlite3.Error) -> int:
    """Return the number that SQLite gives its errors; that of damage for a text that is no UTF-8."""
    # Of the operational errors, the module itself raises only this one, without a number.
    unnumbered = sqlite3.SQLITE_CORRUPT if isinstance(error, sqlite3.OperationalError) else 0
    return int(getattr(error, "sqlite_errorcode", unnumbered)) & 0xFF
