"""Databases as their owners use them, whatever stands behind a path; :mod:`backstory.base.mounts` opens them.

Every owner describes its tables once, and writes SQL that SQLite and Postgres understand: ``?`` for each parameter, and
``ON CONFLICT``. No owner imports a client of a database or catches its errors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from backstory.base.database_files import BUSY_SECONDS, DamagedDatabaseError
from backstory.base.errors import BackstoryError

Synchronous: TypeAlias = Literal["full", "normal", "off"]
"""What a power failure may take: nothing that was finished, the last transactions, or the whole file."""

Result = TypeVar("Result")

NO_LIMIT: Final = (1 << 63) - 1
"""For a LIMIT that takes all rows, since Postgres knows no negative one."""

_MENDS: Final = 4
"""Times that a damaged file is moved aside; processes that find it at once may meet it more than once."""


patience: Final = ContextVar("patience", default=BUSY_SECONDS)
"""Seconds for which a server that was there before is waited for, since it may be starting again."""


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Wait no longer than this for a server, for who can do without it."""
    token = patience.set(seconds)
    try:
        yield
    finally:
        patience.reset(token)


class Rows(Protocol):
    """The rows that a statement gives, as PEP 249 describes a cursor."""

    @property
    def rowcount(self) -> int:
        """Number of rows that the statement changed."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return all remaining rows."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the remaining rows."""


class Session(Protocol):
    """A transaction that is under way."""

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run a statement with a value for each ``?``."""

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run a statement once for each row of values."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """What an owner says of its database.

    Attributes:
        schema: Statements that make its tables, with the types INTEGER, REAL, TEXT and BLOB.
        name: What messages call it, such as ``the ledger``.
        remedy: Clause on what is done about one that is damaged or of another format.
        error: Class of the errors; made of a message alone.
        access: Clause on what to do about a file that cannot be opened.
        application_id: Number in the header that tells it from every other database.
        version: Number of the format. One of a later format is left alone.
        synchronous: What a power failure may take of a file.
        private: Whether only the owner of the file may read it.
        replaces_bad_text: Whether a text that is no UTF-8 is given with replacement characters, since a checksum shows
            the damage of its row. Otherwise the file counts as damaged.
        serves: Tells of a row, by its columns, whether it does as well as another one in its place, as any sound
            answer of a cache does.
    """

    schema: str
    name: str
    remedy: str
    error: type[BackstoryError]
    access: str = "permit reading and writing it and its folder"
    application_id: int = 0
    version: int = 0
    synchronous: Synchronous = "normal"
    private: bool = False
    replaces_bad_text: bool = False
    serves: Callable[[Mapping[str, Any]], bool] = lambda _: False


class Database(ABC):
    """The tables of one owner, used in transactions. Threads may share an object, and it survives a fork.

    Others may replace the tables at any time, and the first :meth:`writing` makes them. Every error is raised as the
    class that the owner names; on a full disk as :class:`~backstory.base.errors.DiskFullError`.

    Attributes:
        path: The file, or the path at which it would lie if its folder were not mounted.
        description: What the owner says of it.
    """

    def __init__(self, path: Path, description: Description) -> None:
        self.path = path
        self.description = description

    @property
    @abstractmethod
    def place(self) -> str:
        """Where the tables are, as messages name it; without any password."""

    @abstractmethod
    def exists(self) -> bool:
        """Return whether the tables were made."""

    @abstractmethod
    def measure(self) -> int:
        """Return the bytes that the tables take; 0 before they are made."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """Read in a transaction, which sees the tables as they are at one moment and whose changes are undone.

        Before the tables are made, they are there without rows.

        Raises:
            BackstoryError: The tables are damaged, of another format, or cannot be reached; of the class that the owner
                names.
        """

    @abstractmethod
    def writing(self) -> AbstractContextManager[Session]:
        """Write in a transaction that excludes every other writer; an error undoes it. The tables are made if absent.

        Raises:
            BackstoryError: The tables are damaged, of another format, busy for
                :data:`~backstory.base.database_files.BUSY_SECONDS`, or cannot be written; of the class that the owner
                names.
        """

    @abstractmethod
    def connected(self) -> AbstractContextManager[None]:
        """Keep what is opened from now on, which makes transactions shorter. Several such contexts may overlap."""

    @property
    @abstractmethod
    def is_connected(self) -> bool:
        """Whether one connection is used for all transactions."""

    @abstractmethod
    def name_state(self) -> tuple[int, int] | None:
        """Name the content as others left it: another name after anything but this object has changed it.

        Returns:
            The name, which costs less than reading a row; None if there is none that is so cheap.
        """

    @abstractmethod
    def read_clock(self, session: Session) -> float | None:
        """Return seconds since 1970 by the clock that all who use the database share.

        Args:
            session: A transaction of this database.

        Returns:
            The time; None if all of them are on this machine, and share its clock.
        """

    @abstractmethod
    def number_on(self, session: Session, table: str, column: str) -> None:
        """Let rows that are added without a number go on after those that were written with theirs.

        Args:
            session: A transaction that writes.
            table: A table that is not empty.
            column: The first column of its key; if rows of the table have no numbers, nothing is done.
        """

    @abstractmethod
    def find_damage(self) -> str | None:
        """Look at all tables, and return what is wrong with them, or None; None before they are made.

        Raises:
            BackstoryError: They cannot be reached, or are of a later format; of the class that the owner names.
        """

    @abstractmethod
    def set_aside_if_damaged(self, find_damage: Callable[[], str | None] | None = None) -> Path | None:
        """Move tables that are damaged or of another format aside, and say so in the log.

        Args:
            find_damage: Says what is wrong with them; :meth:`find_damage` if None. It is called a second time, since
                another process may have put right ones there.

        Returns:
            Where they are now; None if nothing is wrong with them.

        Raises:
            BackstoryError: They cannot be moved, or are of a later format; of the class that the owner names.
        """

    @abstractmethod
    def compact(self) -> None:
        """Remove deleted rows and tables that were set aside from the disk."""

    def mend(self, act: Callable[[], Result]) -> Result:
        """Run a function that uses the tables; if they are damaged or of another format, set them aside and retry.

        Args:
            act: What to do, in transactions of this object.

        Raises:
            BackstoryError: They cannot be reached, or are of a later format; of the class that the owner names.
        """
        for _ in range(_MENDS):
            try:
                return act()
            except self.description.error as error:
                if not isinstance(error.__cause__, DamagedDatabaseError):
                    raise
                self.set_aside_if_damaged()
        return act()

    def describe(self, state: str) -> str:
        """Describe the state of the tables, and what is done about that.

        Args:
            state: Such as ``damaged (a row differs from its checksum)``.
        """
        return f"{self.description.name} {self.place} is {state}; {self.description.remedy}"

    def make_error(self, what: str, code: str) -> BackstoryError:
        """Make an error of the owner's class.

        Args:
            what: What is wrong and what to do, as the rest of a sentence that begins with the tables.
            code: Name of the cause.
        """
        message = f"{self.description.name} {self.place} {what}"
        return self.description.error(message, code=code, path=self.path)
