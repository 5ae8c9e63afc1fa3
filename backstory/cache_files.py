"""Files of caches: rows by key, each with a checksum, in one SQLite file that runs and processes share.

A cache holds nothing that cannot be had again, so damage never stops a run. A damaged file is moved aside and a damaged
row is deleted; both are said in the log.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from backstory.atomic_files import exclusive_temporary, publish
from backstory.errors import CacheFileError
from backstory.sqlite_connections import Connections
from backstory.sqlite_files import BUSY_SECONDS, is_damage, name_aside, set_aside

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


_MENDS: Final = 4
"""Times that a damaged file is moved aside; processes that find it at once may meet it more than once."""


class _DamagedFileError(Exception):
    """What the file holds cannot be used."""


@dataclass(frozen=True, kw_only=True)
class CacheKind:
    """What one cache holds, and what becomes of it.

    Attributes:
        name: What messages call it, such as ``embedding cache``.
        table: Its table, named for what it holds, such as ``vectors``. It has a column ``checksum``.
        key: Column that identifies a row.
        hashed: Columns that the checksum covers.
        separator: Bytes between the columns when they are hashed; none are needed after a key of fixed width.
        again: How a lost row is replaced, such as ``computed again``.
        paid: Whether rows may have been paid for, so that a power failure must not take a finished one.
        application_id: Tells the file from every other database.
        format: Format of the file.
        schema: Makes the tables of an empty file.
        upgrades: Statements that raise the format by one, by the format that they raise. Files of format 0 are known
            by their table, since they have no ``application_id``.
    """

    name: str
    table: str
    key: str
    hashed: tuple[str, ...]
    separator: bytes
    again: str
    paid: bool
    application_id: int
    format: int
    schema: str
    upgrades: Mapping[int, Sequence[str]] = field(default_factory=dict)

    def checksum(self, *columns: str | bytes) -> bytes:
        """Hash the columns ``hashed`` of a row: 8 bytes of BLAKE2b."""
        parts = (part.encode() if isinstance(part, str) else part for part in columns)
        return hashlib.blake2b(self.separator.join(parts), digest_size=8).digest()


class CacheFile:
    """Opens the file of a cache for each act, or once for many; threads may share an object, and it survives a fork.

    Attributes:
        path: The SQLite file.
        kind: What it holds.
    """

    def __init__(self, path: Path, kind: CacheKind) -> None:
        """Set the path. The first :meth:`write` creates the file."""
        self.path = path
        self.kind = kind
        self._connections = Connections(path, self._connect)

    def kept_open(self) -> AbstractContextManager[None]:
        """Keep the file open from now on; see :meth:`backstory.sqlite_connections.Connections.kept_open`."""
        return self._connections.kept_open()

    def read(self, act: Callable[[sqlite3.Connection], Result], absent: Result) -> Result:
        """Act on the file. If it is damaged, it is moved aside.

        Args:
            act: What to do. It is done once more if another process has replaced a damaged file meanwhile.
            absent: The result if there is no file.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """

        def attempt() -> Result:
            if not self.path.exists():
                return absent
            with self._open() as connection:
                return act(connection)

        return self._mend(attempt)

    def write(self, act: Callable[[sqlite3.Connection], None]) -> None:
        """Act on the file in a transaction, after it was made if there is none, or if it is damaged.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """

        def attempt() -> None:
            if not self.path.exists():
                self._create()
            with self._open() as connection:
                connection.execute("BEGIN IMMEDIATE")
                act(connection)
                connection.execute("COMMIT")

        self._mend(attempt)

    def look(self, act: Callable[[sqlite3.Connection], Result], absent: Result) -> Result:
        """Read from the file, and leave it as it is: in its format, and in its place if it is damaged.

        Args:
            act: What to read.
            absent: The result if there is no file.

        Raises:
            CacheFileError: The file is damaged, cannot be used, or was made by a later release.
        """
        if not self.path.exists():
            return absent
        try:
            with self._open(upgrade=False) as connection:
                return act(connection)
        except _DamagedFileError as error:
            raise CacheFileError(self._describe_damage(str(error))) from error

    def count(self) -> int:
        """Count the rows.

        Raises:
            CacheFileError: The file is damaged, cannot be used, or was made by a later release.
        """

        def count(connection: sqlite3.Connection) -> int:
            (rows,) = connection.execute(f"SELECT count(*) FROM {self.kind.table}").fetchone()  # noqa: S608
            return int(rows)

        return self.look(count, 0)

    def find_damage(self) -> str | None:
        """Say what is wrong with the file, or None; every row is read.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """
        if not self.path.exists():
            return None
        try:
            with self._open(upgrade=False) as connection:
                wrong = self._count_wrong(connection)
        except _DamagedFileError as error:
            return self._describe_damage(str(error))
        if not wrong:
            return None
        return (
            f"the {self.kind.name} {self.path} is damaged: {wrong} {self.kind.table} differ from their checksums; the "
            f"next run deletes them, and they are {self.kind.again}"
        )

    def drop_damaged(
        self, connection: sqlite3.Connection, rows: Sequence[tuple[str | bytes | int, bytes | None]]
    ) -> None:
        """Delete rows that differ from their checksums, and say so in the log.

        Args:
            connection: The open file, outside of a transaction.
            rows: Key and checksum of each, as they were read. A row that was replaced meanwhile stays.
        """
        if not rows:
            return
        kind = self.kind
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            f"DELETE FROM {kind.table} WHERE {kind.key} = ? AND checksum IS ?",  # noqa: S608
            rows,
        )
        connection.execute("COMMIT")
        logger.warning(
            "%s that differ from their checksums and are %s: %d in %s",
            kind.table,
            kind.again,
            len(rows),
            self.path,
        )

    def keep_only(self, column: str, values: Collection[str] | Collection[bytes]) -> int:
        """Delete all rows but some, leaving nothing of the others on the disk, nor in a file that was moved aside.

        Args:
            column: A column of the table.
            values: Its values in the rows that stay.

        Returns:
            Number of deleted rows.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """
        table = self.kind.table

        def delete(connection: sqlite3.Connection) -> int:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TEMP TABLE kept (value PRIMARY KEY)")
            connection.executemany("INSERT OR IGNORE INTO kept VALUES (?)", ((value,) for value in values))
            deleted = connection.execute(
                f"DELETE FROM {table} WHERE {column} NOT IN (SELECT value FROM kept)"  # noqa: S608
            ).rowcount
            connection.execute("COMMIT")
            connection.execute("DROP TABLE kept")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return deleted

        deleted = self.read(delete, 0)
        name_aside(self.path).unlink(missing_ok=True)
        return deleted

    def _count_wrong(self, connection: sqlite3.Connection) -> int:
        """Count the rows that differ from their checksums, in a file that is otherwise whole."""
        [(found,), *_] = connection.execute("PRAGMA integrity_check").fetchall()
        if found != "ok":
            raise _DamagedFileError(found)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version < self.kind.format:
            return 0  # its rows may have no checksums
        (wrong,) = connection.execute(
            f"SELECT count(*) FROM {self.kind.table} "  # noqa: S608
            f"WHERE checksum IS NOT checksum_of({', '.join(f'CAST({name} AS BLOB)' for name in self.kind.hashed)})"
        ).fetchone()
        return int(wrong)

    def _mend(self, attempt: Callable[[], Result]) -> Result:
        for _ in range(_MENDS):
            try:
                return attempt()
            except _DamagedFileError as error:
                self._set_aside(error)
        return attempt()

    def _set_aside(self, damage: Exception) -> None:
        """Move a file that cannot be used out of the way, unless another process has put a right one there."""
        with exclusive_temporary(self.path):
            try:
                with self._open(upgrade=False) as connection:
                    if connection.execute("PRAGMA integrity_check").fetchone() == ("ok",):
                        return
            except _DamagedFileError:
                pass
            aside = set_aside(self.path)
        logger.warning(
            "the %s %s is damaged (%s); it was moved to %s, and its %s are %s",
            self.kind.name,
            self.path,
            damage,
            aside.name,
            self.kind.table,
            self.kind.again,
        )

    def _describe_damage(self, damage: str) -> str:
        return (
            f"the {self.kind.name} {self.path} is damaged: {damage}; the next run moves it aside, and its "
            f"{self.kind.table} are {self.kind.again}"
        )

    @contextmanager
    def _open(self, *, upgrade: bool = True) -> Iterator[sqlite3.Connection]:
        try:
            with self._connections.connected() as connection:
                if self._require_format(connection) < self.kind.format and upgrade:
                    self._upgrade(connection)
                yield connection
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                raise _DamagedFileError(str(error)) from error
            raise CacheFileError(f"the {self.kind.name} {self.path} cannot be used: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        # Threads that share a connection use it one after another.
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        with ExitStack() as failed:
            failed.callback(connection.close)
            connection.execute(f"PRAGMA synchronous = {'FULL' if self.kind.paid else 'NORMAL'}")
            connection.execute("PRAGMA temp_store = MEMORY")
            # Damage can make a text that is no UTF-8: its row then differs from its checksum.
            connection.text_factory = _read_text
            connection.create_function("checksum_of", -1, self.kind.checksum, deterministic=True)
            failed.pop_all()
        return connection

    def _create(self) -> None:
        """Make an empty database under a temporary name, so that no process sees one without tables."""
        # The locked file is another one: a thread may use the database before the descriptor of the lock is closed.
        with exclusive_temporary(self.path):
            if self.path.exists():
                return
            made = self.path.with_name(f".{self.path.name}.new")
            for suffix in ("", "-journal", "-wal", "-shm"):  # left by a process that was killed here
                made.with_name(made.name + suffix).unlink(missing_ok=True)
            with closing(sqlite3.connect(made, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(self.kind.schema)
                self._mark(connection)
            publish(made, self.path)

    def _require_format(self, connection: sqlite3.Connection) -> int:
        """Return the format of the file, which this release can read or upgrade."""
        kind = self.kind
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != (0 if version == 0 else kind.application_id):
            raise _DamagedFileError("it was not made by Backstory")
        if version > kind.format:
            raise CacheFileError(
                f"the {kind.name} {self.path} has format {version}, and this release reads {kind.format}; upgrade "
                f"Backstory, or move the file away, and its {kind.table} are {kind.again}"
            )
        tables = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        if kind.table not in tables or (version < kind.format and version not in kind.upgrades):
            raise _DamagedFileError("it was not made by Backstory")
        return int(version)

    def _upgrade(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        # Read again: another process may have been faster.
        for version in range(self._require_format(connection), self.kind.format):
            for statement in self.kind.upgrades[version]:
                connection.execute(statement)
        self._mark(connection)
        connection.execute("COMMIT")

    def _mark(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA application_id = {self.kind.application_id}")
        connection.execute(f"PRAGMA user_version = {self.kind.format}")


class KeptAnswers:
    """A cache of answers, of which each belongs to something that may be forgotten.

    Attributes:
        path: The SQLite file.
    """

    def __init__(self, path: Path, kind: CacheKind, *, owner: str) -> None:
        """Set the path. The first write creates the file.

        Args:
            path: The SQLite file.
            kind: What it holds.
            owner: The column that names what an answer belongs to.
        """
        self.path = path
        self._file = CacheFile(path, kind)
        self._owner = owner

    def find_damage(self) -> str | None:
        """Say what is wrong with the file, or None; every row is read.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """
        return self._file.find_damage()

    def count(self) -> int:
        """Return the number of answers.

        Raises:
            CacheFileError: The file is damaged, cannot be used, or was made by a later release.
        """
        return self._file.count()

    def keep_only(self, owners: Collection[str]) -> int:
        """Delete all answers but those that belong to some owners, leaving nothing of the others on the disk.

        Returns:
            Number of deleted answers.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """
        return self._file.keep_only(self._owner, owners)


def _read_text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")
