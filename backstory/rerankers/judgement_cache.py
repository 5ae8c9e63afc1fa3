"""The judgements that rerankers have given: one SQLite file, so that nothing is paid for twice.

Each window has one row, its last judgements, so the file does not grow with the changes of documents.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from backstory.errors import RerankError
from backstory.ids import digest, digest_json
from backstory.rerankers.protocol import PROBABILITY, RATING, Judgements, RerankRequest, Topic

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS judgements (
    window_id TEXT PRIMARY KEY,
    request TEXT NOT NULL,
    judgements TEXT NOT NULL,
    checksum BLOB NOT NULL
)
"""
_SCALES: Final = {scale.unit: scale for scale in (RATING, PROBABILITY)}
_DAMAGE_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_BUSY_SECONDS: Final = 60.0

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class JudgementCache:
    """Stores judgements by the hash of what was asked. Every call opens the file anew.

    A file that is damaged is deleted, and a row that differs from its checksum is not used; both are said in the log,
    and what was lost is asked for again.

    Attributes:
        path: The SQLite file.
    """

    def __init__(self, path: Path) -> None:
        """Set the path. The first :meth:`put` creates the file."""
        self.path = path

    def get(self, requests: Mapping[str, str]) -> dict[str, Judgements]:
        """Return the judgements of windows that were asked about before in the same way.

        Args:
            requests: Hash of what would be asked, :func:`hash_request`, by window.

        Raises:
            RerankError: The file cannot be used.
        """
        return self._mend(lambda: self._get(requests)) if self.path.exists() else {}

    def put(self, found: Mapping[str, tuple[str, Judgements]]) -> None:
        """Store the judgements of windows in place of their earlier ones.

        Args:
            found: Hash of what was asked, and the judgements, by window.

        Raises:
            RerankError: The file cannot be used.
        """
        rows = []
        for window_id, (request, judgements) in found.items():
            text = _write(judgements)
            rows.append((window_id, request, text, _checksum(window_id, request, text)))
        if rows:
            self._mend(lambda: self._put(rows))

    def keep_only(self, window_ids: Collection[str]) -> None:
        """Delete the judgements of all windows but some, leaving nothing of the others on the disk.

        Raises:
            RerankError: The file cannot be used.
        """
        if self.path.exists():
            self._mend(lambda: self._keep_only(window_ids))

    def _get(self, requests: Mapping[str, str]) -> dict[str, Judgements]:
        found: dict[str, Judgements] = {}
        damaged = 0
        with self._open() as connection:
            for window_id, request in requests.items():
                row = connection.execute(
                    "SELECT judgements, checksum FROM judgements WHERE window_id = ? AND request = ?",
                    (window_id, request),
                ).fetchone()
                if row is None:
                    continue
                if row[1] == _checksum(window_id, request, row[0]):
                    found[window_id] = _read(row[0])
                else:
                    damaged += 1
        if damaged:
            logger.warning("judgements that are damaged and asked for again: %d in %s", damaged, self.path)
        return found

    def _put(self, rows: list[tuple[str, str, str, bytes]]) -> None:
        with self._open() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO judgements VALUES (?, ?, ?, ?)", rows)

    def _keep_only(self, window_ids: Collection[str]) -> None:
        with self._open() as connection:
            stored = [window_id for (window_id,) in connection.execute("SELECT window_id FROM judgements")]
            gone = [(window_id,) for window_id in stored if window_id not in window_ids]
            with connection:
                connection.executemany("DELETE FROM judgements WHERE window_id = ?", gone)
            connection.execute("VACUUM")

    def _mend(self, act: Callable[[], Result]) -> Result:
        """Act on the file; delete it and act again if it is damaged."""
        try:
            return act()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in _DAMAGE_CODES:
                raise RerankError(f"the judgements {self.path} cannot be used: {error}") from error
            logger.warning(
                "the judgements %s are damaged (%s); the file was deleted, and they are asked for again",
                self.path,
                error,
            )
            self.path.unlink(missing_ok=True)
            return act()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS)) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA synchronous = FULL")  # a judgement may have been paid for
            connection.execute(_SCHEMA)
            yield connection


def hash_request(reranker_id: str, request: RerankRequest) -> str:
    """Hash what a reranker is asked about a window: its model and prompt, and every text and score that it is shown."""
    asked = [[chunk.query_chunk_id, chunk.text] for chunk in (*request.parts, *request.queries)]
    shown = [[chunk.chunk_id, chunk.title, chunk.text] for chunk in request.candidates]
    scores = hashlib.blake2b(np.ascontiguousarray(request.scores).tobytes(), digest_size=16).hexdigest()
    return digest([reranker_id, digest_json([len(request.parts), asked, shown]), scores])


def _write(judgements: Judgements) -> str:
    return json.dumps(
        {
            "topics": [[topic.label, *topic.query_chunk_ids] for topic in judgements.topics],
            "values": [
                [None if np.isnan(value) else value for value in row] for row in judgements.values.tolist()
            ],
            "unit": judgements.scale.unit,
            "separate": judgements.separate,
        }
    )


def _read(text: str) -> Judgements:
    fields = json.loads(text)
    topics = tuple(Topic(label, tuple(query_chunk_ids)) for label, *query_chunk_ids in fields["topics"])
    values = np.array(fields["values"], np.float64).reshape(len(topics), -1)
    return Judgements(topics, values, _SCALES[fields["unit"]], separate=fields["separate"])


def _checksum(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
