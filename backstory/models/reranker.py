"""What a reranker is shown of a window, the matrix of judgements that it gives back, and the cache of judgements."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from backstory.base.ids import digest, digest_json
from backstory.storage.cache import Cache
from backstory.storage.state import State

Matrix = NDArray[np.float64]

UNNAMED: Final = "a topic"
"""Label of a topic without a usable one."""
QUERY_CHARACTERS: Final = 24_000
"""Most characters of a window shown to a language model; the longest query chunks are shortened first."""
TEXT_CHARACTERS: Final = 2000
"""Most characters of each candidate shown to the reranker. `rerank.candidates` is what bounds the cost of a call."""


@dataclass(frozen=True)
class QueryChunk:
    """A part of a window: its id and its text."""

    query_chunk_id: str
    text: str


@dataclass(frozen=True)
class Candidate:
    """A stored chunk that may enter a window's context: its id, the title of its document, and its cut text."""

    chunk_id: str
    title: str
    text: str


@dataclass(frozen=True)
class RerankRequest:
    """One window and its candidates, each chunk once, in the order of the selection.

    The parts are the whole window in order, cut to :data:`QUERY_CHARACTERS`; the queries, not cut, are those that found
    a candidate. ``scores`` has a row for each query and a column for each candidate; -inf where the one did not find
    the other.
    """

    window_id: str
    parts: tuple[QueryChunk, ...]
    queries: tuple[QueryChunk, ...]
    candidates: tuple[Candidate, ...]
    scores: Matrix


@dataclass(frozen=True)
class Scale:
    """What a value means, the largest one, the smallest with which a candidate serves, and whether rows are topics.

    Rows that are single query chunks may be about the same.
    """

    unit: str
    most: float
    serves_from: float
    rates_topics: bool


RATING: Final = Scale(
    "rating from 0 (has nothing to do with it) to 5 (is about it)", 5.0, 3.0, rates_topics=True
)
"""The scale of language models, with the threshold of LANCER (ECIR 2026)."""

PROBABILITY: Final = Scale(
    "probability that the candidate is relevant to the query chunk", 1.0, 0.0, rates_topics=False
)
"""The scale of cross-encoders. What such a model calls probable depends on the texts that it was trained on, so there
is no threshold: on chats, which are unlike questions to a search engine, it would often leave nothing."""


@dataclass(frozen=True)
class Topic:
    """Topic of one row of judgements: an untrusted label, empty for a single query chunk, and its query chunks."""

    label: str
    query_chunk_ids: tuple[str, ...]


@dataclass(frozen=True)
class Judgements:
    """Ratings of one window: for each topic, a row, the value of each candidate on the scale; NaN where there is none.

    ``note`` says why there are no judgements, such as ``blocked (SAFETY)``; None if there are. ``unsent`` has the
    positions of the candidates that the rater was not shown, since their documents are withheld.
    """

    topics: tuple[Topic, ...]
    values: Matrix
    scale: Scale
    note: str | None = None
    unsent: tuple[int, ...] = ()

    @classmethod
    def withheld(cls, candidates: int, scale: Scale, note: str) -> Self:
        """Make the result of a rater that gave no judgements about a number of candidates, and say why."""
        return cls((), np.empty((0, candidates)), scale, note=note)

    @property
    def evidence(self) -> Matrix:
        """Share of the largest value, 0 below the threshold and where not rated, shape ``(topics, candidates)``."""
        values = np.nan_to_num(self.values, nan=0.0)
        return np.where(values >= self.scale.serves_from, values / self.scale.most, 0.0)

    @property
    def uncovered(self) -> tuple[Topic, ...]:
        """The topics that no candidate serves, of those that the rater has named."""
        reached = self.evidence.max(axis=1, initial=0.0) > 0
        return tuple(
            topic for topic, served in zip(self.topics, reached, strict=True) if topic.label and not served
        )


class Reranker(Protocol):
    """Judges how much each candidate helps to write about each topic of a window."""

    @property
    def id(self) -> str:
        """Name of the provider, the model, and everything else that the judgements depend on."""

    @property
    def api_calls(self) -> int:
        """Requests sent to a service so far, retries included; 0 for a local model."""

    def judge(self, requests: Sequence[RerankRequest]) -> list[Judgements]:
        """Judge the candidates of any number of windows: a result for each request, in the same order.

        An answer that is blocked, cut, broken or not complete is no error: its result holds no judgements but a note.
        """


class JudgementCache(Cache):
    """Stores the last judgements of each window, so that no call is paid for twice, with the hash of the request."""

    def __init__(self, state: State) -> None:
        """Use the cache of a workspace; the first :meth:`put` makes it."""
        super().__init__(state, "judgement")

    def get(self, requests: Mapping[str, str]) -> dict[str, Judgements]:
        """Return the judgements of windows whose last request had the given hash, :func:`hash_request`."""
        known = {}
        for key, value in self.find([window_id.encode() for window_id in requests]):
            fields = json.loads(value)
            if fields["request"] != requests[key.decode()]:
                continue
            topics = tuple(Topic(label, tuple(parts)) for label, *parts in fields["topics"])
            values = np.array(fields["values"], np.float64).reshape(len(topics), -1)
            scale = next(scale for scale in (RATING, PROBABILITY) if scale.unit == fields["unit"])
            known[key.decode()] = Judgements(topics, values, scale)
        return known

    def put(self, found: Mapping[str, tuple[str, Judgements]]) -> None:
        """Store, by window, the hash of a request and its judgements in place of earlier ones."""
        rows = []
        for window_id, (request, judgements) in found.items():
            fields = {
                "request": request,
                "topics": [[topic.label, *topic.query_chunk_ids] for topic in judgements.topics],
                "values": judgements.values.tolist(),
                "unit": judgements.scale.unit,
            }
            rows.append((window_id.encode(), window_id.encode(), json.dumps(fields).encode()))
        if rows:
            self.put_rows(rows, replace=True)


def hash_request(reranker_id: str, request: RerankRequest) -> str:
    """Hash a reranker's request about a window: its model and prompt, and every text and score that it is shown."""
    queries = [[chunk.query_chunk_id, chunk.text] for chunk in (*request.parts, *request.queries)]
    shown = [[chunk.chunk_id, chunk.title, chunk.text] for chunk in request.candidates]
    scores = hashlib.blake2b(np.ascontiguousarray(request.scores).tobytes(), digest_size=16).hexdigest()
    return digest([reranker_id, digest_json([len(request.parts), queries, shown]), scores])
