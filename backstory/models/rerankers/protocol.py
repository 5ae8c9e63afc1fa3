"""The protocol of rerankers: what a rater is shown of a window, and the matrix of judgements that it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

UNNAMED: Final = "a topic"
"""Label of a topic without a usable one."""
QUERY_CHARACTERS: Final = 24_000
"""Most characters of a window shown to a language model; the longest query chunks are shortened first."""
TEXT_CHARACTERS: Final = 2000
"""Most characters of each candidate shown to the reranker. `rerank.candidates` is what bounds the cost of a call."""


@dataclass(frozen=True)
class QueryChunk:
    """A part of a window.

    Attributes:
        query_chunk_id: Its id.
        text: Its text.
    """

    query_chunk_id: str
    text: str


@dataclass(frozen=True)
class Candidate:
    """One stored chunk that may enter a window's context.

    Attributes:
        chunk_id: Id of the chunk.
        title: Title of its document.
        text: Text of the chunk, cut to :data:`TEXT_CHARACTERS`.
    """

    chunk_id: str
    title: str
    text: str


@dataclass(frozen=True)
class RerankRequest:
    """One window and its candidates.

    Attributes:
        window_id: Id of the window.
        parts: The whole window in order, cut to :data:`QUERY_CHARACTERS`.
        queries: The queries of the window that found a candidate, not cut.
        candidates: In the order of the selection, each chunk once.
        scores: Score of each candidate for each query, shape ``(queries, candidates)``; -inf where the query did not
            find the candidate.
    """

    window_id: str
    parts: tuple[QueryChunk, ...]
    queries: tuple[QueryChunk, ...]
    candidates: tuple[Candidate, ...]
    scores: Matrix


@dataclass(frozen=True)
class Scale:
    """The unit of judgements.

    Attributes:
        unit: What a value means.
        most: Largest value.
        serves_from: Smallest value with which a candidate serves a topic; every lower one counts as nothing.
    """

    unit: str
    most: float
    serves_from: float


RATING: Final = Scale("rating from 0 (has nothing to do with it) to 5 (is about it)", 5.0, 3.0)
"""The scale of language models, with the threshold of LANCER (ECIR 2026)."""

PROBABILITY: Final = Scale("probability that the candidate is relevant to the query chunk", 1.0, 0.0)
"""The scale of cross-encoders. What such a model calls probable depends on the texts that it was trained on, so there
is no threshold: on chats, which are unlike questions to a search engine, it would often leave nothing."""


@dataclass(frozen=True)
class Topic:
    """Topic of one row of judgements.

    Attributes:
        label: A few words that name it, untrusted; empty if the row is a single query chunk.
        query_chunk_ids: The query chunks that it consists of.
    """

    label: str
    query_chunk_ids: tuple[str, ...]


@dataclass(frozen=True)
class Judgements:
    """Ratings of one window.

    Attributes:
        topics: The rows.
        values: Judgement of each candidate for each topic in the unit of ``scale``, shape ``(topics, candidates)``; NaN
            where the rater gave none.
        scale: Unit and threshold of the values.
        separate: Whether the rows are separate topics. Rows that are single query chunks may be about the same.
        note: Why there are no judgements, such as ``blocked (SAFETY)``; None if there are.
        unsent: Positions of the candidates that the rater was not shown, since their documents are withheld.
    """

    topics: tuple[Topic, ...]
    values: Matrix
    scale: Scale
    separate: bool
    note: str | None = None
    unsent: tuple[int, ...] = ()

    @classmethod
    def withheld(cls, candidates: int, scale: Scale, note: str) -> Self:
        """Make the result of a rater that gave no judgements about a number of candidates, and say why."""
        return cls((), np.empty((0, candidates)), scale, separate=True, note=note)

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
        ...

    @property
    def api_calls(self) -> int:
        """Requests sent to a service so far, retries included; 0 for a local model."""
        ...

    def judge(self, requests: Sequence[RerankRequest]) -> list[Judgements]:
        """Judge the candidates of any number of windows.

        Args:
            requests: One request per window.

        Returns:
            One result per request, in the same order. If an answer is blocked, cut, broken or not complete, its result
            holds no judgements but a note; this is no error.

        Raises:
            ModelError: The model could not be used.
        """
        ...
