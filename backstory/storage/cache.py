"""Files of caches: rows by key, each with a checksum, in one database that runs and processes share.

A cache holds nothing that cannot be had again, so damage never stops a run. A damaged file, or one of another format,
is moved aside and a damaged row is deleted; both are said in the log.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from backstory.base.database import Description, Session
from backstory.base.errors import CacheFileError
from backstory.base.mounts import open_database

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class CacheKind:
    """Description of one kind of cache: its rows, and the remedy for damage.

    Attributes:
        name: What messages call it, such as ``embedding cache``.
        table: Its table, named for what it holds, such as ``vectors``. It has a column ``checksum``.
        key: Column that identifies a row.
        owner: Column that names what a row belongs to, which may be forgotten.
        hashed: Columns that the checksum covers.
        separator: Bytes between the columns when they are hashed; none are needed after a key of fixed width.
        again: How a lost row is replaced, such as ``computed again``.
        paid: Whether rows may have been paid for, so that a power failure must not take a finished one.
        application_id: Tells the file from every other database.
        format: Format of the file.
        schema: Makes the tables of an empty file.
    """

    name: str
    table: str
    key: str
    owner: str
    hashed: tuple[str, ...]
    separator: bytes
    again: str
    paid: bool
    application_id: int
    format: int
    schema: str

    def checksum(self, *columns: str | bytes) -> bytes:
        """Hash the columns ``hashed`` of a row: 8 bytes of BLAKE2b."""
        parts = (part.encode() if isinstance(part, str) else part for part in columns)
        return hashlib.blake2b(self.separator.join(parts), digest_size=8).digest()

    def is_sound(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row, by its columns, has its checksum."""
        return bool(row["checksum"] == self.checksum(*(_as_hashed(row[column]) for column in self.hashed)))


class CacheFile:
    """The file of a cache; threads may share an object, and it survives a fork.

    Attributes:
        path: The file.
        kind: What it holds.
        database: What the rows lie in.
    """

    def __init__(self, path: Path, kind: CacheKind) -> None:
        """Set the path. The first :meth:`write` creates the file."""
        self.path = path
        self.kind = kind
        self.database = open_database(
            path,
            Description(
                schema=kind.schema,
                name=f"the {kind.name}",
                remedy=f"the next run moves it aside, and its {kind.table} are {kind.again}",
                error=CacheFileError,
                application_id=kind.application_id,
                version=kind.format,
                synchronous="full" if kind.paid else "normal",
                replaces_bad_text=True,
                serves=kind.is_sound,
            ),
        )

    def connected(self) -> AbstractContextManager[None]:
        """Keep the file open from now on; see :meth:`backstory.base.database.Database.connected`."""
        return self.database.connected()

    def read(self, act: Callable[[Session], Result]) -> Result:
        """Read from the file; if it is damaged or of another format, it is moved aside, and nothing is found.

        Args:
            act: What to read. It is done again if the file was moved aside.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """
        return self.database.mend(lambda: self.look(act))

    def write(self, act: Callable[[Session], Result]) -> Result:
        """Act on the file in a transaction, after it was made if there is none, or if it is damaged.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """

        def attempt() -> Result:
            with self.database.writing() as session:
                return act(session)

        return self.database.mend(attempt)

    def look(self, act: Callable[[Session], Result]) -> Result:
        """Read from the file, and leave it in its place if it is damaged.

        Raises:
            CacheFileError: The file is damaged, cannot be used, or was made by a later release.
        """
        with self.database.reading() as session:
            return act(session)

    def count(self) -> int:
        """Count the rows.

        Raises:
            CacheFileError: The file is damaged, cannot be used, or was made by a later release.
        """
        query = f"SELECT count(*) FROM {self.kind.table}"  # noqa: S608 - a name of this library
        return self.look(lambda session: int(session.execute(query).fetchone()[0]))

    def measure(self) -> int:
        """Return the bytes that the rows take."""
        return self.database.measure()

    def find_damage(self) -> str | None:
        """Return what is wrong with the file, or None; every row is read.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """
        if damage := self.database.find_damage():
            return damage
        wrong = self.look(self._count_wrong)
        if not wrong:
            return None
        return (
            f"the {self.kind.name} {self.path} is damaged: {wrong} {self.kind.table} differ from their checksums; the "
            f"next run deletes them, and they are {self.kind.again}"
        )

    def drop_damaged(self, rows: Sequence[tuple[str | bytes | int, bytes | None]]) -> None:
        """Delete rows that differ from their checksums, and say so in the log.

        Args:
            rows: Key and checksum of each, as they were read. A row that was replaced meanwhile stays.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """
        if not rows:
            return
        kind = self.kind
        # No checksum is shorter than one, so that nothing stands for a row without any.
        delete = f"DELETE FROM {kind.table} WHERE {kind.key} = ? AND coalesce(checksum, ?) = ?"  # noqa: S608 - names
        known = [(key, b"", checksum or b"") for key, checksum in rows]
        self.write(lambda session: session.executemany(delete, known))
        logger.warning(
            "%s that differ from their checksums and are %s: %d in %s",
            kind.table,
            kind.again,
            len(rows),
            self.path,
        )

    def keep_only(self, owners: Collection[str] | Collection[bytes]) -> int:
        """Delete all rows but some, leaving nothing of the others on the disk, nor in a file that was moved aside.

        Args:
            owners: What the rows that stay belong to.

        Returns:
            Number of deleted rows.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """
        kept = set(owners)
        key, owner, table = self.kind.key, self.kind.owner, self.kind.table

        def delete(session: Session) -> int:
            rows = session.execute(f"SELECT {key}, {owner} FROM {table}")  # noqa: S608 - names of this library
            others = [(row_key,) for row_key, held_by in rows if held_by not in kept]
            session.executemany(f"DELETE FROM {table} WHERE {key} = ?", others)  # noqa: S608 - names of this library
            return len(others)

        deleted = self.write(delete) if self.database.exists() else 0
        self.database.compact()
        return deleted

    def _count_wrong(self, session: Session) -> int:
        hashed = ", ".join(self.kind.hashed)
        rows = session.execute(f"SELECT checksum, {hashed} FROM {self.kind.table}")  # noqa: S608 - names of this library
        return sum(checksum != self.kind.checksum(*map(_as_hashed, columns)) for checksum, *columns in rows)


def _as_hashed(value: object) -> str | bytes:
    """Give a value as it is hashed; damage may have made a number of it."""
    return value if isinstance(value, str | bytes) else str(value)
