"""Cache of the judgements of rerankers: one database, so no call is paid for twice.

Each window has one row, its last judgements, so the file does not grow with the changes of documents.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from backstory.base.database import Session
from backstory.base.ids import digest, digest_json
from backstory.models.rerankers.protocol import PROBABILITY, RATING, Judgements, RerankRequest, Topic
from backstory.storage.cache import CacheFile, CacheKind

JUDGEMENTS: Final = CacheKind(
    name="cache of judgements",
    table="judgements",
    key="window_id",
    owner="window_id",
    hashed=("window_id", "request", "judgements"),
    separator=b"\0",
    again="requested again",
    paid=True,
    application_id=0x42534A55,  # "BSJU" in the file's header
    format=1,
    schema="""
CREATE TABLE judgements (
    window_id TEXT PRIMARY KEY,
    request TEXT NOT NULL,
    judgements TEXT NOT NULL,
    checksum BLOB NOT NULL
);
""",
)

_SCALES: Final = {scale.unit: scale for scale in (RATING, PROBABILITY)}


class JudgementCache(CacheFile):
    """Stores judgements by the hash of the request. Damaged ones are requested again.

    Judgements belong to their window.
    """

    def __init__(self, path: Path) -> None:
        """Set the path. The first :meth:`put` creates the file."""
        super().__init__(path, JUDGEMENTS)

    def get(self, requests: Mapping[str, str]) -> dict[str, Judgements]:
        """Return the judgements of windows that were requested before in the same way.

        Args:
            requests: Hash of the request, :func:`hash_request`, by window.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """

        def look_up(session: Session) -> tuple[dict[str, Judgements], list[tuple[str, bytes | None]]]:
            found: dict[str, Judgements] = {}
            damaged: list[tuple[str, bytes | None]] = []
            for window_id, request in requests.items():
                row = session.execute(
                    "SELECT judgements, checksum FROM judgements WHERE window_id = ? AND request = ?",
                    (window_id, request),
                ).fetchone()
                if row is None:
                    continue
                text, checksum = row
                if checksum == JUDGEMENTS.checksum(window_id, request, text):
                    found[window_id] = _read(text)
                else:
                    damaged.append((window_id, checksum))
            return found, damaged

        found, damaged = self.read(look_up)
        self.drop_damaged(damaged)
        return found

    def put(self, found: Mapping[str, tuple[str, Judgements]]) -> None:
        """Store the judgements of windows in place of their earlier ones.

        Args:
            found: Hash of the request, and the judgements, by window.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """
        rows = []
        for window_id, (request, judgements) in found.items():
            text = _write(judgements)
            rows.append((window_id, request, text, JUDGEMENTS.checksum(window_id, request, text)))

        def store(session: Session) -> None:
            session.executemany(
                "INSERT INTO judgements VALUES (?, ?, ?, ?) ON CONFLICT (window_id) DO UPDATE SET "
                "request = excluded.request, judgements = excluded.judgements, checksum = excluded.checksum",
                rows,
            )

        if rows:
            self.write(store)


def hash_request(reranker_id: str, request: RerankRequest) -> str:
    """Hash a reranker's request about a window: its model and prompt, and every text and score that it is shown."""
    queries = [[chunk.query_chunk_id, chunk.text] for chunk in (*request.parts, *request.queries)]
    shown = [[chunk.chunk_id, chunk.title, chunk.text] for chunk in request.candidates]
    scores = hashlib.blake2b(np.ascontiguousarray(request.scores).tobytes(), digest_size=16).hexdigest()
    return digest([reranker_id, digest_json([len(request.parts), queries, shown]), scores])


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
