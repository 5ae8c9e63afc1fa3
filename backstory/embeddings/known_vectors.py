"""Which vectors a cache holds, looked up without writing to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from backstory.errors import CacheFileError
from backstory.sqlite_files import BUSY_SECONDS


def find_known(path: Path, keys: Sequence[bytes]) -> NDArray[np.bool_]:
    """Look up which vectors are stored.

    Args:
        path: File of an :class:`~backstory.embeddings.cache.EmbeddingCache`, which need not exist.
        keys: Distinct keys, from :func:`~backstory.embeddings.cache.embedding_key`.

    Returns:
        A mask of the stored keys, shape ``(len(keys),)``.

    Raises:
        CacheFileError: The file is damaged or cannot be read.
    """
    known = np.zeros(len(keys), np.bool_)
    if not path.exists():
        return known
    # SQLite makes files beside a database that it only reads, unless told that nobody writes to it.
    quiet = "" if path.with_name(path.name + "-wal").exists() else "&immutable=1"
    place = f"file:{quote(str(path))}?mode=ro{quiet}"
    try:
        with closing(
            sqlite3.connect(place, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        ) as connection:
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("CREATE TEMP TABLE wanted (position INTEGER PRIMARY KEY, key BLOB NOT NULL)")
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO wanted VALUES (?, ?)", enumerate(keys))
            found = connection.execute("SELECT position FROM wanted WHERE key IN (SELECT key FROM vectors)")
            known[[position for (position,) in found]] = True
    except sqlite3.DatabaseError as error:
        raise CacheFileError(
            f"the embedding cache {path} cannot be read: {error}; `backstory run` moves a damaged one aside"
        ) from error
    return known
