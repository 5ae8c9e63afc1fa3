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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from backstory.base.errors import StateError
from backstory.storage.schema import Part, Table

BUSY_SECONDS: Final = 60.0
"""How long a transaction waits for another one that writes."""

NO_LIMIT: Final = (1 << 63) - 1
"""For a LIMIT that takes all rows, since Postgres knows no negative one."""

_ROWS_AT_ONCE: Final = 1000
_MOST_IDLE: Final = 8
"""Connections of a process that are kept open while nothing uses them."""


class Session(Protocol):
    """A transaction that is under way."""

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Any:
        """Run a statement with a value for each ``?``, and return its cursor, as PEP 249 describes one."""

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> Any:
        """Run a statement once for each row of values, and return the cursor."""


class State(ABC):
    """A part of the state. Threads may share an object, and it survives a fork.

    Every error of a driver is a :class:`~backstory.base.errors.StateError`, which names the place without any password.
    """

    def __init__(self, place: str, part: Part, address: str | None = None) -> None:
        self.place = place
        self.part = part
        self.address = address

    @abstractmethod
    def exists(self) -> bool:
        """Return whether the tables were made."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """Read as the tables are at one moment; before they are made, they are there without rows."""

    @abstractmethod
    def begin(self) -> AbstractContextManager[Session]:
        """Write in a transaction that excludes every other writer; an error undoes it. Absent tables are made."""

    @abstractmethod
    def lock(
        self, *names: str, by: str = "", wait: bool = True, shared: bool = False
    ) -> AbstractContextManager[bool]:
        """Hold named locks, which end with their holder, and yield whether all were taken.

        Who does not wait may get none. Shared locks have several holders, and ``by`` tells those who wait whom for.
        """

    def read_clock(self) -> float:
        """Return the time by the clock of the database: those of the machines that share one may differ."""
        with self.reading() as session:
            moment = datetime.fromisoformat(str(session.execute("SELECT CURRENT_TIMESTAMP").fetchone()[0]))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    @abstractmethod
    def find_holder(self, name: str) -> str | None:
        """Return who holds a lock, as its holder said; None if nobody does. The lock is not taken."""

    @abstractmethod
    def examine(self) -> None:
        """Look at all tables, and raise the error of what is wrong with them."""

    @abstractmethod
    def compact(self) -> None:
        """Remove deleted rows from the disk."""

    def upsert(
        self, session: Session, table: Table, rows: Iterable[Sequence[Any]], *, replace: bool = True
    ) -> int:
        """Insert rows, each with a value of every column; one replaces the row of the same key, or leaves it there.

        Returns the number of rows that were inserted or replaced.
        """
        changes = [f"{name} = excluded.{name}" for name in table.names if name not in table.key.split(", ")]
        action = f"DO UPDATE SET {', '.join(changes)}" if replace and changes else "DO NOTHING"
        marks = ", ".join("?" * len(table.names))
        statement = f"INSERT INTO {table.name} VALUES ({marks}) ON CONFLICT ({table.key}) {action}"  # noqa: S608
        return int(session.executemany(statement, rows).rowcount)

    def close(self) -> None:
        """Close the connections that nothing uses; the next transaction opens one again."""
        close_idle(self.place)

    def damaged(self, what: object) -> StateError:
        """Make the error of damage."""
        return self._error("damaged_file", f"is damaged ({what}); {self.part.remedy}")

    def _error(self, code: str, what: str) -> StateError:
        """Make the error of a part, of the rest of a sentence that begins with its name."""
        return StateError(f"{self.part.title} {self.place} {what}", code=code)

    def _of_other_format(self, found: object) -> StateError:
        part = self.part
        return self._error(
            "other_format", f"is of another format ({found} in place of {part.format}); {part.remedy}"
        )

    def _busy(self) -> StateError:
        what = f"has been busy for {BUSY_SECONDS:.0f} s; try again when the other process has ended"
        return self._error("busy_file", what)


def copy_state(source: State, target: State) -> tuple[int, int]:
    """Copy all rows to a place of the same part, or none; a row that is there already stays.

    Returns the number of rows that were read, and of those that were not there before.
    """
    read = copied = 0
    if not source.exists():
        return 0, 0
    with source.reading() as reader, target.begin() as writer:
        for table in source.part.tables:
            found = reader.execute(f"SELECT * FROM {table.name}")  # noqa: S608 - a declared name
            while rows := found.fetchmany(_ROWS_AT_ONCE):
                read += len(rows)
                copied += target.upsert(writer, table, rows, replace=False)
    target.close()  # which moves the log of a file into it
    return read, copied


@contextmanager
def lent(place: str, connect: Callable[[], Any], suits: Callable[[Any], bool]) -> Iterator[Any]:
    """Lend a connection to a place, and keep it open afterwards, if it suits whoever takes it next.

    One that fails is closed, with whatever was begun in it.
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
        found = next((one for one in reversed(_idle) if one[0] == place), None)
        if found is not None:
            _idle.remove(found)
    return found and found[1]


def close_idle(place: str | None = None) -> None:
    """Close the connections that nothing uses, to one place or to all; transactions open others."""
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
