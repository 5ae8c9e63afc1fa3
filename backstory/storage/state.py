"""State: everything that changes and is no table of the user's, in SQLite, or in Postgres for several machines.

SQL is written once, in what both understand: ``?`` for each parameter, and ``ON CONFLICT``. No other module imports a
client of a database or catches its errors. SQLAlchemy would do the same, but its import takes a quarter of the time of
a search from the shell.
"""

from __future__ import annotations

import atexit
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import Any, Final, Protocol

from backstory.base.errors import StateError
from backstory.storage.schema import Part, Table

BUSY_SECONDS: Final = 60.0
"""How long a transaction waits for another one that writes."""

NO_LIMIT: Final = (1 << 63) - 1
"""For a LIMIT that takes all rows, since Postgres knows no negative one."""

_MOST_IDLE: Final = 8
"""Connections of a process that are kept open while nothing uses them."""


class Rows(Protocol):
    """The rows that a statement gives, as PEP 249 describes a cursor."""

    @property
    def rowcount(self) -> int:
        """Number of rows that the statement changed."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return all remaining rows."""

    def fetchmany(self, size: int, /) -> list[Any]:
        """Return at most a number of the remaining rows."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the remaining rows."""


class Session(Protocol):
    """A transaction that is under way."""

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run a statement with a value for each ``?``."""

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run a statement once for each row of values."""


class Locks(ABC):
    """Locks that one holder has, until it gives them back, closes them or ends."""

    @abstractmethod
    def take(self, name: str, *, wait: bool = True, shared: bool = False) -> bool:
        """Take a lock that this holder does not have, and return whether it was taken; see :meth:`State.lock`."""

    @abstractmethod
    def release(self, name: str) -> None:
        """Give a lock back."""

    @abstractmethod
    def close(self) -> None:
        """Give all locks back."""


class State(ABC):
    """A part of the state. Threads may share an object, and it survives a fork.

    Every error of a driver is raised as a :class:`~backstory.base.errors.StateError`, which names the place and says
    what to do.

    Attributes:
        place: Path or address, without any password.
        part: Its tables.
        address: Address of the server that several machines may share; None for a file.
    """

    def __init__(self, place: str, part: Part, address: str | None = None) -> None:
        self.place = place
        self.part = part
        self.address = address

    @abstractmethod
    def exists(self) -> bool:
        """Return whether the tables were made."""

    @abstractmethod
    def measure(self) -> int:
        """Return the bytes that the tables take; 0 before they are made."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """Read as the tables are at one moment; before they are made, they are there without rows.

        Raises:
            StateError: The tables are damaged, of another format, or cannot be reached.
        """

    @abstractmethod
    def begin(self) -> AbstractContextManager[Session]:
        """Write in a transaction that excludes every other writer; an error undoes it. The tables are made if absent.

        Raises:
            StateError: The tables are damaged, of another format, busy for :data:`BUSY_SECONDS`, or cannot be written.
        """

    @abstractmethod
    def open_locks(self, by: str = "") -> Locks:
        """Begin to hold locks.

        Args:
            by: Who holds them, for those who wait.
        """

    @contextmanager
    def lock(self, *names: str, by: str = "", wait: bool = True, shared: bool = False) -> Iterator[bool]:
        """Hold locks, which end with their holder, however that ends.

        Args:
            names: Names of locks, which are taken in order.
            by: Who holds them, for those who wait.
            wait: Whether to wait for other holders.
            shared: Whether others may hold them at the same time, if they share them, too.

        Yields:
            Whether all were taken; always true if ``wait``.
        """
        with closing(self.open_locks(by)) as locks:
            yield all(locks.take(name, wait=wait, shared=shared) for name in names)

    @abstractmethod
    def find_holder(self, name: str) -> str | None:
        """Return who holds a lock, as its holder said; None if nobody does. The lock is not taken."""

    @abstractmethod
    def find_damage(self) -> str | None:
        """Look at all tables, and return what is wrong with them and what to do, or None."""

    @abstractmethod
    def compact(self) -> None:
        """Remove deleted rows from the disk."""

    @abstractmethod
    def drop(self) -> int:
        """Remove the tables, and return the number of rows that they had."""

    def upsert(
        self, session: Session, table: Table, rows: Iterable[Mapping[str, Any]], *, replace: bool = True
    ) -> None:
        """Insert rows.

        Args:
            session: A transaction that writes.
            table: A table of this part.
            rows: Value of every column, by its name.
            replace: Whether a row replaces the one of the same key; else that one stays.
        """
        names = list(table.columns)
        changes = [f"{name} = excluded.{name}" for name in names if name not in table.key]
        action = f"DO UPDATE SET {', '.join(changes)}" if replace and changes else "DO NOTHING"
        session.executemany(
            f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "  # noqa: S608
            f"ON CONFLICT ({', '.join(table.key)}) {action}",
            ([row[name] for name in names] for row in rows),
        )

    def close(self) -> None:
        """Close the connections that nothing uses; the next transaction opens one again."""
        close_idle(self.place)

    def count_rows(self, session: Session) -> int:
        """Count the rows of all tables, in a transaction of this part."""
        counts = (
            session.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]  # noqa: S608 - declared names
            for table in self.part.tables
        )
        return sum(counts)

    def _error(self, code: str, what: str) -> StateError:
        """Make the error of a part, of the rest of a sentence that begins with its name."""
        return StateError(f"{self.part.title} {self.place} {what}", code=code)

    def _damaged(self, what: object) -> StateError:
        return self._error("damaged_file", f"is damaged ({what}); {self.part.remedy}")


@contextmanager
def lent(place: str, connect: Callable[[], Any], suits: Callable[[Any], bool]) -> Iterator[Any]:
    """Lend a connection, and keep it open afterwards. One that fails is closed, with whatever was begun in it.

    Args:
        place: Where it leads. The process keeps those that were used last.
        connect: Opens one.
        suits: Tells whether one that was kept may be used.
    """
    connection = _take_idle(place)
    while connection is not None and not suits(connection):
        connection.close()
        connection = _take_idle(place)
    connection = connection or connect()
    with ExitStack() as failed:
        failed.callback(connection.close)
        yield connection
        failed.pop_all()
    with _keeping:
        _idle.append((place, connection))
        surplus = _idle.pop(0)[1] if len(_idle) > _MOST_IDLE else None
    if surplus is not None:
        surplus.close()


def _take_idle(place: str) -> Any:
    with _keeping:
        for at in reversed(range(len(_idle))):
            if _idle[at][0] == place:
                return _idle.pop(at)[1]
    return None


def close_idle(place: str | None = None) -> None:
    """Close the connections that nothing uses, to one place or to all; transactions open others.

    Args:
        place: Path or address; None for all.
    """
    with _keeping:
        unused = [one for one in _idle if place in (None, one[0])]
        _idle[:] = [one for one in _idle if one not in unused]
    for _, connection in unused:
        connection.close()


def _before_fork() -> None:
    """Close what nothing uses: neither a file of SQLite nor a connection may be used on both sides of a fork."""
    close_idle()
    _keeping.acquire()


_idle: Final[list[tuple[str, Any]]] = []
_keeping: Final = threading.Lock()
atexit.register(close_idle)
os.register_at_fork(before=_before_fork, after_in_parent=_keeping.release, after_in_child=_keeping.release)
