"""SQLite files: creating, opening, locking and sharing them, and detecting damage.

A :class:`Database` takes SQL with ``?`` for each parameter, in transactions. No caller imports ``sqlite3`` or catches
its errors, so that another database can stand behind the same calls.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from backstory.base.database_files import (
    BUSY_SECONDS,
    LOG_SUFFIX,
    SHARED_SUFFIX,
    DamagedDatabaseError,
    is_damage,
    make_private,
    name_aside,
    set_aside,
)
from backstory.base.errors import BackstoryError
from backstory.base.files.atomic import exclusive_temporary, publish
from backstory.base.files.disk_full import is_of_full_disk, naming_full_disk

Synchronous: TypeAlias = Literal["full", "normal", "off"]
"""What a power failure may take: nothing that was finished, the last transactions, or the whole file."""

Result = TypeVar("Result")

_MENDS: Final = 4
"""Times that a damaged file is moved aside; processes that find it at once may meet it more than once."""

logger = logging.getLogger(__name__)


class Rows(Protocol):
    """The rows that a statement gives, as PEP 249 describes a cursor."""

    @property
    def rowcount(self) -> int:
        """Number of rows that the statement changed."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchmany(self, size: int) -> list[Any]:
        """Return the next rows, ``size`` at most."""

    def fetchall(self) -> list[Any]:
        """Return all remaining rows."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the remaining rows."""


class Session(Protocol):
    """A transaction that is under way."""

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run a statement with a value for each ``?``."""

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> Rows:
        """Run a statement once for each row of values."""


class Database:
    """One file, opened for each transaction or once for many. Threads may share an object, and it survives a fork.

    The file may be replaced by another one at any time, and is made by the first :meth:`writing`. Every error of the
    file is raised as the class that the owner names; on a full disk as :class:`~backstory.base.errors.DiskFullError`.

    Attributes:
        path: The file.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        *,
        name: str,
        remedy: str,
        error: type[BackstoryError],
        access: str = "permit reading and writing it and its folder",
        application_id: int = 0,
        version: int = 0,
        synchronous: Synchronous = "normal",
        private: bool = False,
        replaces_bad_text: bool = False,
    ) -> None:
        """Describe the file; nothing is read or written yet.

        Args:
            path: The file, which need not exist.
            schema: Statements that make the tables of an empty file.
            name: What messages call it, such as ``the ledger``.
            remedy: Clause on what is done about a file that is damaged or of another format.
            error: Class of the errors; made of a message alone.
            access: Clause on what to do about a file that cannot be opened.
            application_id: Number in the header that tells the file from every other database.
            version: Number of the format, which is in the header. A file of a later one is left alone.
            synchronous: What a power failure may take.
            private: Whether only the owner may read the file.
            replaces_bad_text: Whether a text that is no UTF-8 is given with replacement characters, since a checksum
                shows the damage of its row. Otherwise the file counts as damaged.
        """
        self.path = path
        self._made = path.with_name(f".{path.name}.new")
        self._schema = schema
        self._name = name
        self._remedy = remedy
        self._error = error
        self._access = access
        self._application_id = application_id
        self._version = version
        self._synchronous = synchronous
        self._private = private
        self._replaces_bad_text = replaces_bad_text
        self._using = threading.RLock()
        self._keepers = 0
        self._shared: sqlite3.Connection | None = None
        self._shared_writes = False
        self._opened = 0
        self._file: tuple[int, int] | None = None
        with _registering:
            _all.add(self)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Read in a transaction, which sees the file as it is at one moment and whose changes are undone.

        Where there is no file, the tables are there without rows. A folder or disk that cannot be written is enough.

        Raises:
            BackstoryError: The file is damaged, of another format, or cannot be opened; of the class that the owner
                names.
        """
        with self._naming_errors(), self._connected(writes=False) as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Write in a transaction that excludes every other writer; an error undoes it. The file is made if absent.

        Raises:
            BackstoryError: The file is damaged, of another format, busy for :data:`BUSY_SECONDS`, or cannot be written;
                of the class that the owner names.
        """
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
        """Name the content as others left it: another name after anything but this object has changed it.

        Returns:
            The name, which costs less than reading a row; None unless one connection is used for all transactions.
        """
        with self._using:
            if not self._keepers:
                return None
            with self._naming_errors(), self._connected(writes=False) as connection:
                [(by_others,)] = connection.execute("PRAGMA data_version").fetchall()
                return self._opened, by_others

    def mend(self, act: Callable[[], Result]) -> Result:
        """Run a function that uses the file; if the file is damaged or of another format, set it aside and retry.

        Args:
            act: What to do, in transactions of this object.

        Raises:
            BackstoryError: The file cannot be opened, or is of a later format; of the class that the owner names.
        """
        for _ in range(_MENDS):
            try:
                return act()
            except self._error as error:
                if not isinstance(error.__cause__, DamagedDatabaseError):
                    raise
                self.set_aside_if_damaged()
        return act()

    def find_damage(self) -> str | None:
        """Read the whole file, and return what is wrong with it, or None; None if there is no file.

        Raises:
            BackstoryError: The file cannot be opened, or is of a later format; of the class that the owner names.
        """
        if not self.path.exists():
            return None
        try:
            with self._naming_errors(), self._connected(writes=False) as connection:
                [(found,), *_] = connection.execute("PRAGMA integrity_check").fetchall()
        except self._error as error:
            if not isinstance(error.__cause__, DamagedDatabaseError):
                raise
            return str(error)
        return None if found == "ok" else self.describe(f"damaged ({found})")

    def set_aside_if_damaged(self, find_damage: Callable[[], str | None] | None = None) -> Path | None:
        """Move a file that is damaged or of another format aside, and say so in the log.

        Args:
            find_damage: Says what is wrong with the file; :meth:`find_damage` if None. It is called a second time,
                since another process may have put a right file there.

        Returns:
            Where the file is now; None if nothing is wrong with it.

        Raises:
            BackstoryError: The folder cannot be written, or the file is of a later format; of the class that the owner
                names.
        """
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

    def describe(self, state: str) -> str:
        """Describe the state of the file, and what is done about that.

        Args:
            state: Such as ``damaged (a row differs from its checksum)``.
        """
        return f"{self._name} {self.path} is {state}; {self._remedy}"

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            with naming_full_disk(self.path.parent):
                yield
        except DamagedDatabaseError as error:
            raise self._error(self.describe(str(error)), code="damaged_file", path=self.path) from error
        except sqlite3.Error as error:
            if is_damage(error):
                damage = DamagedDatabaseError(f"damaged ({error})")
                raise self._error(self.describe(str(damage)), code="damaged_file", path=self.path) from damage
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> BackstoryError:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            return self._error(
                f"{self._name} {self.path} cannot be used ({error}): another process has been writing to it for "
                f"{BUSY_SECONDS:.0f} s; try again when it has ended",
                code="busy_file",
                path=self.path,
            )
        return self._error(
            f"{self._name} {self.path} cannot be used ({error}); {self._access}",
            code="unusable_file",
            path=self.path,
        )

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
                return self._connect_to_nothing()
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
            if self._replaces_bad_text:
                connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            connection.execute("PRAGMA temp_store = MEMORY")
            self._require_format(connection)
            if writes:
                [journal] = connection.execute("PRAGMA journal_mode").fetchone()
                # A rollback journal, which is used where processes cannot share memory, is safe only with full syncs.
                is_full = self._synchronous == "normal" and journal != "wal"
                connection.execute(f"PRAGMA synchronous = {'full' if is_full else self._synchronous}")
            failed.pop_all()
        return connection

    def _connect_to_nothing(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.executescript(self._schema)
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
        if application != self._application_id:
            raise DamagedDatabaseError("of another format (it was not made by Backstory)")
        if version > self._version:
            raise self._error(
                f"{self._name} {self.path} has format {version}, and this release reads {self._version}; upgrade "
                f"Backstory, or move the file away: {self._remedy}",
                code="later_format",
                path=self.path,
            )
        if version < self._version:
            raise DamagedDatabaseError(f"of another format ({version} in place of {self._version})")
        if absent := sorted(_list_tables(self._schema).difference(name for (name,) in found)):
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
            if self._private:
                make_private(made)
            with closing(sqlite3.connect(made, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(self._schema)
                connection.execute(f"PRAGMA application_id = {self._application_id}")
                connection.execute(f"PRAGMA user_version = {self._version}")
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


@cache
def _list_tables(schema: str) -> frozenset[str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema)
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return frozenset(name for (name,) in found)


_all: Final[weakref.WeakSet[Database]] = weakref.WeakSet()
_forking: Final[list[Database]] = []
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
