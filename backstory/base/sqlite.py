"""SQLite files: creating, opening, locking and sharing them, and detecting damage."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Final

from backstory.base.database import Database, Description, Session
from backstory.base.database_files import (
    BUSY_SECONDS,
    LOG_SUFFIX,
    SHARED_SUFFIX,
    DamagedDatabaseError,
    is_damage,
    make_private,
    measure_file,
    name_aside,
    set_aside,
)
from backstory.base.errors import BackstoryError
from backstory.base.files.atomic import exclusive_temporary, publish
from backstory.base.files.disk_full import is_of_full_disk, naming_full_disk

logger = logging.getLogger(__name__)


class SqliteDatabase(Database):
    """One file, opened for each transaction or once for many; it may be replaced by another one at any time."""

    def __init__(self, path: Path, description: Description) -> None:
        super().__init__(path, description)
        self._made = path.with_name(f".{path.name}.new")
        self._using = threading.RLock()
        self._keepers = 0
        self._shared: sqlite3.Connection | None = None
        self._shared_writes = False
        self._opened = 0
        self._file: tuple[int, int] | None = None
        with _registering:
            _all.add(self)

    @property
    def place(self) -> str:
        """The path."""
        return str(self.path)

    def exists(self) -> bool:
        """Return whether there is a file."""
        return self.path.exists()

    def measure(self) -> int:
        """Return the bytes of the file, with its log."""
        return measure_file(self.path)

    def read_clock(self, session: Session) -> None:
        """Return None: whoever uses the file is on this machine."""

    def number_on(self, session: Session, table: str, column: str) -> None:
        """Do nothing: SQLite counts from the highest number."""

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Read in a transaction. A folder or disk that cannot be written is enough."""
        with self._naming_errors(), self._connected(writes=False) as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Write in a transaction, after the file was made if there is none."""
        with self._naming_errors(), self._connected(writes=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Use one connection for all transactions from now on, one after another. Several such contexts may overlap.

        SQLite would else move its log into the file, and flush both to the disk, after each transaction that writes.
        """
        with self._using:
            self._keepers += 1
        try:
            yield
        finally:
            with self._using:
                self._keepers -= 1
                if not self._keepers:
                    self._close_shared()

    @property
    def is_connected(self) -> bool:
        """Whether one connection is used for all transactions."""
        return self._keepers > 0

    def name_state(self) -> tuple[int, int] | None:
        """Name the content as others left it; None unless one connection is used for all transactions."""
        with self._using:
            if not self._keepers:
                return None
            # A run asks thousands of times, and nearly always finds the connection open. An error is told below.
            with suppress(sqlite3.Error):
                if self._shared is not None and self._identify_file() == self._file:
                    [(by_others,)] = self._shared.execute("PRAGMA data_version").fetchall()
                    return self._opened, by_others
            with self._naming_errors(), self._connected(writes=False) as connection:
                [(by_others,)] = connection.execute("PRAGMA data_version").fetchall()
                return self._opened, by_others

    def find_damage(self) -> str | None:
        """Read the whole file, and return what is wrong with it, or None; None if there is no file."""
        if not self.path.exists():
            return None
        try:
            with self._naming_errors(), self._connected(writes=False) as connection:
                [(found,), *_] = connection.execute("PRAGMA integrity_check").fetchall()
        except self.description.error as error:
            if not isinstance(error.__cause__, DamagedDatabaseError):
                raise
            return str(error)
        return None if found == "ok" else self.describe(f"damaged ({found})")

    def set_aside_if_damaged(self, find_damage: Callable[[], str | None] | None = None) -> Path | None:
        """Move a file that is damaged or of another format aside, and say so in the log."""
        look = self.find_damage if find_damage is None else find_damage
        if look() is None:
            return None
        with self._naming_errors(), self._alone():
            damage = look()
            if damage is None:
                return None
            with self._using:
                self._close_shared()
            aside = set_aside(self.path)
        logger.warning("%s. It was moved to %s.", damage, aside.name)
        return aside

    def compact(self) -> None:
        """Remove deleted rows and files that were set aside from the disk."""
        if self.path.exists():
            with self._naming_errors(), self._connected(writes=True) as connection:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        name_aside(self.path).unlink(missing_ok=True)

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            with naming_full_disk(self.path.parent):
                yield
        except DamagedDatabaseError as error:
            raise self.description.error(
                self.describe(str(error)), code="damaged_file", path=self.path
            ) from error
        except sqlite3.Error as error:
            if is_damage(error):
                damage = DamagedDatabaseError(f"damaged ({error})")
                raise self.description.error(
                    self.describe(str(damage)), code="damaged_file", path=self.path
                ) from damage
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> BackstoryError:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            return self.make_error(
                f"cannot be used ({error}): another process has been writing to it for {BUSY_SECONDS:.0f} s; try again "
                "when it has ended",
                "busy_file",
            )
        return self.make_error(f"cannot be used ({error}); {self.description.access}", "unusable_file")

    @contextmanager
    def _connected(self, *, writes: bool) -> Iterator[sqlite3.Connection]:
        """Provide a connection. If what uses it fails, the connection is closed, with whatever was begun in it."""
        with self._using:
            if self._keepers:
                with ExitStack() as failed:
                    failed.callback(self._close_shared)
                    yield self._open_shared(writes=writes)
                    failed.pop_all()
                return
        with closing(self._connect(writes=writes)) as connection:
            yield connection

    def _open_shared(self, *, writes: bool) -> sqlite3.Connection:
        if writes:
            self._make_if_absent()
        found = self._identify_file()
        if found != self._file or (writes and not self._shared_writes):
            self._close_shared()
        if self._shared is None:
            self._shared_writes = writes or (found is not None and self._is_writable())
            self._shared, self._file = self._connect(writes=self._shared_writes), found
            self._opened += 1
        return self._shared

    def _close_shared(self) -> None:
        if self._shared is not None:
            self._shared.close()
            self._shared = None

    def _identify_file(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _connect(self, *, writes: bool) -> sqlite3.Connection:
        while True:
            if writes:
                self._make_if_absent()
            elif not self.path.exists():
                return connect_to_nothing(self.description.schema)
            try:
                return self._connect_to("mode=rw" if writes else self._choose_reading_mode(), writes=writes)
            except sqlite3.OperationalError as error:
                if not writes and is_of_full_disk(error, self.path.parent):
                    return self._connect_to("mode=ro&immutable=1", writes=False)
                if self.path.exists():
                    raise
                # Another process has moved the file aside since.

    def _connect_to(self, mode: str, *, writes: bool) -> sqlite3.Connection:
        # Threads that share a connection use it one after another.
        connection = sqlite3.connect(
            f"{self.path.resolve().as_uri()}?{mode}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        with ExitStack() as failed:
            failed.callback(connection.close)
            if self.description.replaces_bad_text:
                connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            connection.execute("PRAGMA temp_store = MEMORY")
            self._require_format(connection)
            if writes:
                [journal] = connection.execute("PRAGMA journal_mode").fetchone()
                # A rollback journal, which is used where processes cannot share memory, is safe only with full syncs.
                is_full = self.description.synchronous == "normal" and journal != "wal"
                connection.execute(
                    f"PRAGMA synchronous = {'full' if is_full else self.description.synchronous}"
                )
            failed.pop_all()
        return connection

    def _choose_reading_mode(self) -> str:
        """Choose how to open the file to read, also where SQLite cannot write its log beside it."""
        log = self.path.with_name(self.path.name + LOG_SUFFIX)
        try:
            # On a full disk, an attempt to open the file leaves an empty log.
            if log.stat().st_size > 0:
                return "mode=ro"
        except FileNotFoundError:  # or another process has just closed the file, and removed its log
            pass
        return "mode=rw" if self._is_writable() else "mode=ro&immutable=1"

    def _is_writable(self) -> bool:
        return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)

    def _require_format(self, connection: sqlite3.Connection) -> None:
        application, version = connection.execute(
            "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version"
        ).fetchone()
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if application != self.description.application_id:
            raise DamagedDatabaseError("of another format (it was not made by Backstory)")
        if version > self.description.version:
            raise self.make_error(
                f"has format {version}, and this release reads {self.description.version}; upgrade Backstory, or move "
                f"the file away: {self.description.remedy}",
                "later_format",
            )
        if version < self.description.version:
            raise DamagedDatabaseError(
                f"of another format ({version} in place of {self.description.version})"
            )
        if absent := sorted(list_tables(self.description.schema).difference(name for (name,) in found)):
            raise DamagedDatabaseError(f"of another format (it has no table {absent[0]})")

    def _make_if_absent(self) -> None:
        """Make an empty file under a temporary name, so that no process sees one without tables."""
        if self.path.exists():
            return
        with self._alone():
            if self.path.exists():
                return
            made = self._made
            for suffix in (
                "",
                "-journal",
                LOG_SUFFIX,
                SHARED_SUFFIX,
            ):  # left by a process that was killed here
                made.with_name(made.name + suffix).unlink(missing_ok=True)
            if self.description.private:
                make_private(made)
            with closing(sqlite3.connect(made, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(self.description.schema)
                connection.execute(f"PRAGMA application_id = {self.description.application_id}")
                connection.execute(f"PRAGMA user_version = {self.description.version}")
            publish(made, self.path)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Exclude every thread and process that makes the file or sets it aside."""
        try:
            # The locked file is another one: a thread may use the database before the descriptor of the lock is closed.
            with exclusive_temporary(self._made):
                yield
        except OSError as error:
            if is_of_full_disk(error, self.path.parent):
                raise
            raise self._unusable(error) from error

    def before_fork(self) -> None:
        """Close the kept connection, since SQLite must not be forked with one, and let no thread make another."""
        self._using.acquire()
        self._close_shared()

    def after_fork(self) -> None:
        """Let transactions connect again."""
        self._using.release()


def connect_to_nothing(schema: str) -> sqlite3.Connection:
    """Connect to tables in memory that hold no rows."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.executescript(schema)
    return connection


@cache
def list_tables(schema: str) -> frozenset[str]:
    """List the tables that a schema makes."""
    with closing(connect_to_nothing(schema)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return frozenset(name for (name,) in found)


_all: Final[weakref.WeakSet[SqliteDatabase]] = weakref.WeakSet()
_forking: Final[list[SqliteDatabase]] = []
_registering: Final = threading.Lock()


def _before_fork() -> None:
    _registering.acquire()
    _forking.extend(_all)
    for database in _forking:
        database.before_fork()


def _after_fork() -> None:
    while _forking:
        _forking.pop().after_fork()
    _registering.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
