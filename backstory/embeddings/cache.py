"""The cache of computed vectors: one SQLite file that partitions, runs and processes share.

The format is SQLite and not Parquet, since many processes append one batch at a time, and a killed process may
lose only the batch that it was computing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backstory.atomic_files import exclusive_temporary, publish, temporary_path
from backstory.embeddings.protocol import Task, Vectors
from backstory.errors import CacheFileError
from backstory.ids import digest

APPLICATION_ID = 0x42535456  # "BSTV" in the file's header identifies the database as a cache of Backstory
FORMAT = 1

_SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
PRAGMA journal_mode = WAL;
CREATE TABLE embedders (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
CREATE TABLE vectors (
    key BLOB PRIMARY KEY,
    embedder INTEGER NOT NULL REFERENCES embedders,
    vector BLOB NOT NULL
);
"""
_BUSY_SECONDS = 60.0
_ROWS_AT_ONCE = 4096
_NUMBER = np.dtype("<f4")


def embedding_key(embedder_id: str, task: Task, text: str) -> bytes:
    """Make the key of a text's vector: 16 bytes of BLAKE2b over embedder, task and text."""
    return bytes.fromhex(digest([embedder_id, task, text], length=32))


class EmbeddingCache:
    """Stores vectors by key.

    Every call opens the file anew, so threads may share an object, and it survives a fork. If two processes
    store the same key, the first vector stays.

    Attributes:
        path: The SQLite file.
    """

    def __init__(self, path: Path) -> None:
        """Set the path. The first :meth:`put` creates the file.

        Args:
            path: The SQLite file, which need not exist.
        """
        self.path = path

    def get(self, keys: Sequence[bytes], dimension: int) -> tuple[NDArray[np.bool_], Vectors]:
        """Look up many keys at once.

        Args:
            keys: Distinct keys, from :func:`embedding_key`.
            dimension: Width of a vector.

        Returns:
            A mask of the known keys, shape ``(len(keys),)``, and the vectors, shape ``(len(keys), dimension)``.
            The rows of unknown keys are undefined.

        Raises:
            CacheFileError: The file is damaged, not a cache, or cannot be used.
        """
        known = np.zeros(len(keys), np.bool_)
        vectors = np.empty((len(keys), dimension), np.float32)
        if not self.path.exists():
            return known, vectors
        with self._open() as connection:
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("BEGIN")
            connection.execute("CREATE TEMP TABLE wanted (position INTEGER PRIMARY KEY, key BLOB NOT NULL)")
            connection.executemany("INSERT INTO wanted VALUES (?, ?)", enumerate(keys))
            found = connection.execute(
                "SELECT position, vector FROM wanted CROSS JOIN vectors USING (key) ORDER BY position"
            )
            while block := found.fetchmany(_ROWS_AT_ONCE):
                positions = [position for position, _ in block]
                vectors[positions] = self._decode([blob for _, blob in block], dimension)
                known[positions] = True
            connection.execute("ROLLBACK")
        return known, vectors

    def put(self, embedder_id: str, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Store vectors, all of them or none.

        Args:
            embedder_id: Embedding space of the vectors, for statistics and pruning.
            keys: Key of each vector, from :func:`embedding_key`.
            vectors: Shape ``(len(keys), dimension)``.

        Raises:
            CacheFileError: The file is damaged, not a cache, or cannot be used.
        """
        blobs = map(bytes, np.ascontiguousarray(vectors, _NUMBER))
        with self._open(create=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT OR IGNORE INTO embedders (id) VALUES (?)", (embedder_id,))
            (number,) = connection.execute(
                "SELECT number FROM embedders WHERE id = ?", (embedder_id,)
            ).fetchone()
            connection.executemany(
                "INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)",
                ((key, number, blob) for key, blob in zip(keys, blobs, strict=True)),
            )
            connection.execute("COMMIT")

    def count(self) -> dict[str, int]:
        """Count the stored vectors.

        Returns:
            Number of vectors by embedder id, sorted by id.

        Raises:
            CacheFileError: The file is damaged, not a cache, or cannot be used.
        """
        if not self.path.exists():
            return {}
        with self._open() as connection:
            return dict(
                connection.execute(
                    "SELECT id, count(key) FROM embedders LEFT JOIN vectors ON embedder = number "
                    "GROUP BY number ORDER BY id"
                ).fetchall()
            )

    def prune(self, keep: Collection[str]) -> int:
        """Delete the vectors of embedders that are no longer used, and free their space on disk.

        Args:
            keep: Ids of the embedders whose vectors stay.

        Returns:
            Number of deleted vectors.

        Raises:
            CacheFileError: The file is damaged, not a cache, or cannot be used.
        """
        if not self.path.exists():
            return 0
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            dropped = [
                (number,)
                for number, embedder_id in connection.execute("SELECT number, id FROM embedders").fetchall()
                if embedder_id not in keep
            ]
            deleted = connection.executemany("DELETE FROM vectors WHERE embedder = ?", dropped).rowcount
            connection.executemany("DELETE FROM embedders WHERE number = ?", dropped)
            connection.execute("COMMIT")
            connection.execute("VACUUM")
        return max(deleted, 0)

    def keep_only(self, keys: Collection[bytes]) -> int:
        """Delete all vectors but some, leaving nothing of the others on the disk.

        Args:
            keys: Keys of the vectors that stay, from :func:`embedding_key`.

        Returns:
            Number of deleted vectors.

        Raises:
            CacheFileError: The file is damaged, not a cache, or cannot be used.
        """
        if not self.path.exists():
            return 0
        with self._open() as connection:
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TEMP TABLE kept (key BLOB PRIMARY KEY)")
            connection.executemany("INSERT OR IGNORE INTO kept VALUES (?)", ((key,) for key in keys))
            deleted = connection.execute(
                "DELETE FROM vectors WHERE key NOT IN (SELECT key FROM kept)"
            ).rowcount
            connection.execute("COMMIT")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return deleted

    @contextmanager
    def _open(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        if create and not self.path.exists():
            self._create()
        try:
            with closing(
                sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            ) as connection:
                connection.execute("PRAGMA synchronous = NORMAL")
                self._require_format(connection)
                yield connection
        except sqlite3.OperationalError as error:
            raise CacheFileError(f"the embedding cache {self.path} cannot be used: {error}") from error
        except sqlite3.DatabaseError as error:
            raise self._unusable(str(error)) from error

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

    def _decode(self, blobs: list[bytes], dimension: int) -> Vectors:
        for size in set(map(len, blobs)):
            if size != dimension * _NUMBER.itemsize:
                raise self._unusable(f"a vector has {size} bytes instead of {dimension} float32 numbers")
        return np.frombuffer(b"".join(blobs), _NUMBER).reshape(len(blobs), dimension)

    def _require_format(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise self._unusable("it was not made by Backstory")
        if version != FORMAT:
            raise self._unusable(f"its format is {version}, this release reads {FORMAT}")

    def _unusable(self, reason: str) -> CacheFileError:
        return CacheFileError(
            f"{self.path} is not a usable embedding cache: {reason}. It holds only what can be "
            "computed again: move it away, and the next run makes a new one"
        )
