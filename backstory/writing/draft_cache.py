"""The drafts that writers have made: one SQLite file, so that nothing is paid for twice, whatever else is lost.

Each draft is written as soon as it is there, so a killed process loses at most the drafts under way.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final, TypeVar

from backstory.atomic_files import exclusive_temporary, publish, temporary_path
from backstory.errors import DraftFileError
from backstory.writing.draft import Draft

APPLICATION_ID: Final = 0x42534452  # "BSDR" in the file's header
FORMAT: Final = 1
DAMAGED_SUFFIX: Final = ".damaged"

_SCHEMA: Final = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
PRAGMA journal_mode = WAL;
CREATE TABLE drafts (
    number INTEGER PRIMARY KEY,
    request TEXT NOT NULL,
    context_hash TEXT NOT NULL,
    draft TEXT NOT NULL,
    checksum BLOB NOT NULL
);
CREATE INDEX drafts_of_request ON drafts (request);
"""
_DAMAGE_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_BUSY_SECONDS: Final = 60.0

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class _DamagedDraftsError(Exception):
    """What the file holds cannot be used."""


class DraftCache:
    """Stores drafts by the hash of what was asked. Every call opens the file anew, so threads may share an object.

    A file that is damaged is moved aside, and a draft that differs from its checksum is deleted; both are said in the
    log, and what was lost is asked for again.

    Attributes:
        path: The SQLite file.
    """

    def __init__(self, path: Path) -> None:
        """Set the path. The first :meth:`put` creates the file."""
        self.path = path

    def get(self, request: str) -> list[Draft]:
        """Return the drafts of a request, in the order in which they were made.

        Raises:
            DraftFileError: The file cannot be used, or was made by a later release.
        """
        return self._mend(lambda: self._get(request))

    def put(self, request: str, context_hash: str, draft: Draft) -> None:
        """Store one more draft of a request.

        Args:
            request: Hash of what was asked.
            context_hash: Hash of what the writer was shown, :func:`backstory.writing.material.hash_material`.
            draft: The draft.

        Raises:
            DraftFileError: The file cannot be used, or was made by a later release.
        """
        self._mend(lambda: self._put(request, context_hash, json.dumps(asdict(draft))))

    def find_damage(self) -> str | None:
        """Say what is wrong with the file, or None; every draft is read.

        Raises:
            DraftFileError: The file cannot be used, or was made by a later release.
        """
        if not self.path.exists():
            return None
        try:
            with self._open() as connection:
                [(found,), *_] = connection.execute("PRAGMA integrity_check").fetchall()
                rows = connection.execute("SELECT request, draft, checksum FROM drafts").fetchall()
        except _DamagedDraftsError as error:
            return (
                f"{self.path} is damaged ({error}); the next run moves it aside and asks for the drafts again"
            )
        wrong = sum(checksum != _checksum(request, text) for request, text, checksum in rows)
        if found == "ok" and not wrong:
            return None
        what = found if found != "ok" else f"{wrong} drafts differ from their checksums"
        return f"{self.path} is damaged ({what}); the next run asks for these drafts again"

    def count(self) -> int:
        """Return the number of drafts."""
        if not self.path.exists():
            return 0
        with self._open() as connection:
            return int(connection.execute("SELECT count(*) FROM drafts").fetchone()[0])

    def keep_only(self, context_hashes: Collection[str]) -> int:
        """Delete all drafts but those of some contexts, leaving nothing of the others on the disk.

        Args:
            context_hashes: Hashes of what the writer was shown, of the drafts that stay.

        Returns:
            Number of deleted drafts.

        Raises:
            DraftFileError: The file cannot be used, or was made by a later release.
        """
        deleted = self._mend(lambda: self._keep_only(context_hashes))
        self._damaged.unlink(missing_ok=True)
        return deleted

    @property
    def _damaged(self) -> Path:
        return self.path.with_name(self.path.name + DAMAGED_SUFFIX)

    def _get(self, request: str) -> list[Draft]:
        if not self.path.exists():
            return []
        with self._open() as connection:
            rows = connection.execute(
                "SELECT number, draft, checksum FROM drafts WHERE request = ? ORDER BY number", (request,)
            ).fetchall()
            damaged = [(number,) for number, text, checksum in rows if checksum != _checksum(request, text)]
            connection.executemany("DELETE FROM drafts WHERE number = ?", damaged)
        if damaged:
            logger.warning(
                "drafts that differ from their checksums and are asked for again: %d in %s",
                len(damaged),
                self.path,
            )
        return [_read_draft(text) for number, text, _ in rows if (number,) not in damaged]

    def _put(self, request: str, context_hash: str, text: str) -> None:
        with self._open(create=True) as connection:
            connection.execute(
                "INSERT INTO drafts (request, context_hash, draft, checksum) VALUES (?, ?, ?, ?)",
                (request, context_hash, text, _checksum(request, text)),
            )

    def _keep_only(self, context_hashes: Collection[str]) -> int:
        if not self.path.exists():
            return 0
        with self._open() as connection:
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TEMP TABLE kept (context_hash TEXT PRIMARY KEY)")
            connection.executemany(
                "INSERT OR IGNORE INTO kept VALUES (?)", ((key,) for key in context_hashes)
            )
            deleted = connection.execute(
                "DELETE FROM drafts WHERE context_hash NOT IN (SELECT context_hash FROM kept)"
            ).rowcount
            connection.execute("COMMIT")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return deleted

    def _mend(self, act: Callable[[], Result]) -> Result:
        """Act on the file; move it aside and act again if it is damaged."""
        try:
            return act()
        except _DamagedDraftsError as error:
            self._set_aside(error)
            return act()

    def _set_aside(self, damage: Exception) -> None:
        """Move a file that cannot be used out of the way, unless another process has put a right one there."""
        with exclusive_temporary(self.path):
            try:
                with self._open() as connection:
                    if connection.execute("PRAGMA integrity_check").fetchone() == ("ok",):
                        return
            except _DamagedDraftsError:
                pass
            self.path.replace(self._damaged)
            for suffix in ("-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        logger.warning(
            "the file of drafts %s is damaged (%s); it was moved to %s, and its drafts are asked for again",
            self.path,
            damage,
            self._damaged.name,
        )

    @contextmanager
    def _open(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        if create and not self.path.exists():
            self._create()
        try:
            with closing(
                sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            ) as connection:
                connection.execute("PRAGMA synchronous = FULL")  # a draft may have been paid for
                self._require_format(connection)
                yield connection
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF in _DAMAGE_CODES:
                raise _DamagedDraftsError(str(error)) from error
            raise DraftFileError(f"the drafts {self.path} cannot be used: {error}") from error

    def _create(self) -> None:
        """Make an empty database under a temporary name, so that no process sees one without tables."""
        with exclusive_temporary(self.path):
            if self.path.exists():
                return
            temporary = temporary_path(self.path)
            for suffix in ("-journal", "-wal", "-shm"):  # left by a process that was killed here
                temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)
            with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
                connection.executescript(_SCHEMA)
            publish(temporary, self.path)

    def _require_format(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise _DamagedDraftsError("it was not made by Backstory")
        if version > FORMAT:
            raise DraftFileError(
                f"the drafts {self.path} have format {version}, and this release reads {FORMAT}; upgrade Backstory, or "
                "move the file away, which asks for the drafts again"
            )


def _checksum(request: str, text: str) -> bytes:
    return hashlib.blake2b(f"{request}\0{text}".encode(), digest_size=8).digest()


def _read_draft(text: str) -> Draft:
    fields = json.loads(text)
    return Draft(**{**fields, "tags": tuple(fields["tags"])})
