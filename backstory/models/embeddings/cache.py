"""The cache of computed vectors: one database that partitions, runs and processes share.

The format is SQLite and not Parquet, since many processes append one batch at a time, and a killed process may
lose only the batch that it was computing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from backstory.base.database import Session
from backstory.base.ids import digest
from backstory.models.embeddings.protocol import Task, Vectors
from backstory.storage.cache import CacheFile, CacheKind

VECTORS: Final = CacheKind(
    name="embedding cache",
    table="vectors",
    key="key",
    owner="key",
    hashed=("key", "vector"),
    separator=b"",
    again="computed again",
    paid=False,
    application_id=0x42535456,  # "BSTV" in the file's header
    format=2,
    schema="""
CREATE TABLE embedders (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
CREATE TABLE vectors (
    key BLOB PRIMARY KEY,
    embedder INTEGER NOT NULL REFERENCES embedders,
    vector BLOB NOT NULL,
    checksum BLOB
);
""",
)

_KEYS_AT_ONCE: Final = 256
"""Keys that one statement asks for. A table of all keys would take longer to make than a question to answer."""
_NUMBER: Final = np.dtype("<f4")


def embedding_key(embedder_id: str, task: Task, text: str) -> bytes:
    """Make the key of a text's vector: 16 bytes of BLAKE2b over embedder, task and text."""
    return bytes.fromhex(digest([embedder_id, task, text], length=32))


class EmbeddingCache(CacheFile):
    """Stores vectors by key.

    If two processes store the same key, the first vector stays. What is damaged is computed again. A vector belongs to
    its key, from :func:`embedding_key`.
    """

    def __init__(self, path: Path) -> None:
        """Set the path. The first :meth:`put` creates the file.

        Args:
            path: The SQLite file, which need not exist.
        """
        super().__init__(path, VECTORS)

    def get(self, keys: Sequence[bytes], dimension: int) -> tuple[NDArray[np.bool_], Vectors]:
        """Look up many keys at once.

        Args:
            keys: Distinct keys, from :func:`embedding_key`.
            dimension: Width of a vector.

        Returns:
            A mask of the known keys, shape ``(len(keys),)``, and the vectors, shape ``(len(keys), dimension)``.
            The rows of unknown keys are undefined.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """
        known = np.zeros(len(keys), np.bool_)
        vectors = np.empty((len(keys), dimension), np.float32)
        size = dimension * _NUMBER.itemsize

        def look_up(session: Session) -> list[tuple[bytes, bytes | None]]:
            damaged: list[tuple[bytes, bytes | None]] = []
            known[:] = False
            for position, key, blob, checksum in _ask_for(session, keys, "key, vector, checksum"):
                known[position] = len(blob) == size and checksum == VECTORS.checksum(key, blob)
                if known[position]:
                    vectors[position] = np.frombuffer(blob, _NUMBER)
                else:
                    damaged.append((key, checksum))
            return damaged

        self.drop_damaged(self.read(look_up))
        return known, vectors

    def find_known(self, keys: Sequence[bytes]) -> NDArray[np.bool_]:
        """Look up which vectors are stored, without reading them and without writing.

        Args:
            keys: Distinct keys, from :func:`embedding_key`.

        Returns:
            A mask of the stored keys, shape ``(len(keys),)``.

        Raises:
            CacheFileError: The file is damaged, cannot be used, or was made by a later release.
        """

        def look_up(session: Session) -> NDArray[np.bool_]:
            known = np.zeros(len(keys), np.bool_)
            known[[position for position, _ in _ask_for(session, keys, "key")]] = True
            return known

        return self.look(look_up)

    def put(self, embedder_id: str, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Store vectors, all of them or none.

        Args:
            embedder_id: Embedding space of the vectors, for statistics and pruning.
            keys: Key of each vector, from :func:`embedding_key`.
            vectors: Shape ``(len(keys), dimension)``.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """
        blobs = list(map(bytes, np.ascontiguousarray(vectors, _NUMBER)))

        def store(session: Session) -> None:
            session.execute("INSERT INTO embedders (id) VALUES (?) ON CONFLICT DO NOTHING", (embedder_id,))
            (number,) = session.execute(
                "SELECT number FROM embedders WHERE id = ?", (embedder_id,)
            ).fetchone()
            session.executemany(
                "INSERT INTO vectors VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (
                    (key, number, blob, VECTORS.checksum(key, blob))
                    for key, blob in zip(keys, blobs, strict=True)
                ),
            )

        self.write(store)

    def count_by_embedder(self) -> dict[str, int]:
        """Count the stored vectors.

        Returns:
            Number of vectors by embedder id, sorted by id.

        Raises:
            CacheFileError: The file is damaged, cannot be used, or was made by a later release.
        """

        def count(session: Session) -> dict[str, int]:
            return dict(
                session.execute(
                    "SELECT id, count(*) FROM embedders JOIN vectors ON embedder = number GROUP BY number ORDER BY id"
                ).fetchall()
            )

        return self.look(count)


def _ask_for(session: Session, keys: Sequence[bytes], columns: str) -> Iterator[tuple[Any, ...]]:
    """Select the position and some columns of the keys that are stored."""
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        block = keys[start : start + _KEYS_AT_ONCE]
        wanted = ", ".join(f"({place}, ?)" for place in range(len(block)))
        found = session.execute(
            f"WITH wanted (place, wanted_key) AS (VALUES {wanted}) "  # noqa: S608 - numbers, and names of this module
            f"SELECT place, {columns} FROM wanted CROSS JOIN vectors WHERE key = wanted_key",
            block,
        )
        yield from ((start + place, *values) for place, *values in found)
