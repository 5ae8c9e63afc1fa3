"""Cache of the judgements of rerankers, so no call is paid for twice.

Each window has its last judgements alone, so that the cache does not grow with the changes of documents.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from backstory.base.ids import digest, digest_json
from backstory.models.rerankers.protocol import PROBABILITY, RATING, Judgements, RerankRequest, Topic
from backstory.storage.cache import Cache
from backstory.storage.state import State

_SCALES: Final = {scale.unit: scale for scale in (RATING, PROBABILITY)}


class JudgementCache(Cache):
    """Stores judgements by window, with the hash of the request."""

    def __init__(self, state: State) -> None:
        """Use the cache of a workspace; the first :meth:`put` makes it."""
        super().__init__(state, "judgement")

    def get(self, requests: Mapping[str, str]) -> dict[str, Judgements]:
        """Return the judgements of windows whose last request had the given hash, :func:`hash_request`."""
        found = self.find([window_id.encode() for window_id in requests])
        stored = {key.decode(): json.loads(value) for key, value in found}
        return {
            window_id: _read(stored[window_id])
            for window_id, request in requests.items()
            if window_id in stored and stored[window_id]["request"] == request
        }

    def put(self, found: Mapping[str, tuple[str, Judgements]]) -> None:
        """Store, by window, the hash of a request and its judgements in place of earlier ones."""
        rows = []
        for window_id, (request, judgements) in found.items():
            value = json.dumps({"request": request, **_describe(judgements)}).encode()
            rows.append((window_id.encode(), window_id.encode(), value))
        if rows:
            self.put_rows(rows, replace=True)


def hash_request(reranker_id: str, request: RerankRequest) -> str:
    """Hash a reranker's request about a window: its model and prompt, and every text and score that it is shown."""
    queries = [[chunk.query_chunk_id, chunk.text] for chunk in (*request.parts, *request.queries)]
    shown = [[chunk.chunk_id, chunk.title, chunk.text] for chunk in request.candidates]
    scores = hashlib.blake2b(np.ascontiguousarray(request.scores).tobytes(), digest_size=16).hexdigest()
    return digest([reranker_id, digest_json([len(request.parts), queries, shown]), scores])


def _describe(judgements: Judgements) -> dict[str, Any]:
    return {
        "topics": [[topic.label, *topic.query_chunk_ids] for topic in judgements.topics],
        "values": [
            [None if np.isnan(value) else value for value in row] for row in judgements.values.tolist()
        ],
        "unit": judgements.scale.unit,
        "separate": judgements.separate,
    }


def _read(fields: Mapping[str, Any]) -> Judgements:
    topics = tuple(Topic(label, tuple(query_chunk_ids)) for label, *query_chunk_ids in fields["topics"])
    values = np.array(fields["values"], np.float64).reshape(len(topics), -1)
    return Judgements(topics, values, _SCALES[fields["unit"]], separate=fields["separate"])
