"""What graphs of neighbours (HNSW, Malkov and Yashunin 2018) share: candidates, and their measured recall."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from backstory.index.request import Scope, SearchRequest
from backstory.index.scoring import Matches, find_best, pair_similarities, take_best
from backstory.models.embeddings.protocol import Vectors

logger = logging.getLogger(__name__)

LOW_RECALL: Final = 0.9
GOOD_RECALL: Final = 0.98
REMEDY: Final = (
    "raise index.ef_search (which costs time per query), or index.hnsw_m and index.hnsw_ef_construction"
)
SAMPLED_QUERIES = 500
MOST_FETCHED: Final = 1024

_FILTERED_OVERFETCH: Final = 4
_GROWTH: Final = 4
_BEST_FIVE: Final = SearchRequest(top_k=5)
_SEED: Final = 5
# Makes queries as hard as the small talk of real chats; a share of one half is far harder
# (docs/studies/approximate-search.md).
_OTHER_SHARE: Final = 0.35


class Graph(ABC):
    """Fetches candidates, then applies threshold and filters; queries that are left with too few fetch more.

    ``ef_search`` is the size of the candidate list while searching the graph, unless a request names another.
    """

    name: ClassVar[str]
    """The engine as results name it."""
    place: str
    """What holds the graph, in words."""

    def __init__(self, vectors: Vectors, ef_search: int) -> None:
        self._vectors = vectors
        self._ef_search = ef_search

    @abstractmethod
    def close(self) -> None:
        """Let go of what the graph alone holds."""

    def starves(self, limit: int, scope: Scope) -> str | None:  # noqa: ARG002 - for graphs that take no filter
        """Return why the graph would find too few of the rows that filters leave, or None if it finds enough."""
        return None

    @abstractmethod
    def _fetch(
        self, queries: Vectors, waiting: NDArray[np.int64], fetch: int, request: SearchRequest, scope: Scope
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Fetch the nearest rows of some queries: the query and the row of each pair, in any order."""

    def describe(self, request: SearchRequest, recall: float) -> str:
        """Describe how a request is answered by a graph with a recall that was measured when it was built."""
        return (
            f"{self.place} of {len(self._vectors)} rows with ef_search {self._ef_of(request)}, which found "
            f"{recall:.1%} of the best five when it was built"
        )

    def search(self, queries: Vectors, request: SearchRequest, scope: Scope) -> Matches | str:
        """Find the candidates of each query with their similarity, or say why the graph found too few for some."""
        limit, min_similarity = request.candidates, request.min_similarity
        if (reason := self.starves(limit, scope)) is not None:
            return reason
        most = min(max(limit, MOST_FETCHED), scope.row_count)
        restricts = bool((scope.allowed < scope.row_count).any())
        fetch = min(limit * (request.overfetch or (_FILTERED_OVERFETCH if restricts else 1)), most)
        waiting = np.arange(len(queries))
        found: list[Matches] = []
        while True:
            query, row = self._fetch(queries, waiting, fetch, request, scope)
            fetched = Matches(query, row, pair_similarities(queries, self._vectors, query, row))
            admitted = fetched.where(scope.admits(query, row))
            enough = _satisfied(admitted, fetched, waiting, request, scope)
            done = np.zeros(len(queries), np.bool_)
            done[waiting[enough]] = True
            found.append(admitted.where(done[admitted.query]))
            waiting = waiting[~enough]
            if not len(waiting):
                break
            if fetch >= most:
                return (
                    f"the HNSW index left {len(waiting)} of {len(queries)} queries short of {limit} hits "
                    f"after {fetch} rows were fetched for each"
                )
            fetch = min(fetch * _GROWTH, most)
        matches = Matches.joined(found)
        if min_similarity is not None:
            matches = matches.where(matches.score >= min_similarity)
        return take_best(matches, limit)

    def measure_recall(self) -> tuple[float, int]:
        """Return the share of the exact best five that the graph finds for realistic queries, and their number."""
        queries, count = make_queries(self._vectors, SAMPLED_QUERIES), len(self._vectors)
        scope = Scope(count, np.full(len(queries), count), None)
        best = find_best(queries, self._vectors, _BEST_FIVE, scope)
        exact = Matches(best.query, best.row, pair_similarities(queries, self._vectors, best.query, best.row))
        recall = share_found(self.search(queries, _BEST_FIVE, scope), exact)
        if recall < GOOD_RECALL:
            logger.warning("HNSW index has a low recall_at_5=%.4f; %s", recall, REMEDY)
        return recall, len(queries)

    def _ef_of(self, request: SearchRequest) -> int:
        return request.nprobe or self._ef_search


def _satisfied(
    admitted: Matches, fetched: Matches, waiting: NDArray[np.int64], request: SearchRequest, scope: Scope
) -> NDArray[np.bool_]:
    """Return which queries have all hits: as many as wanted or allowed, or all that reach the threshold."""
    count = np.bincount(admitted.query, minlength=len(scope.stop))[waiting]
    enough: NDArray[np.bool_] = count >= np.minimum(request.candidates, scope.allowed[waiting])
    if request.min_similarity is not None:
        lowest = np.full(len(scope.stop), np.inf)
        np.minimum.at(lowest, fetched.query, fetched.score)
        enough |= lowest[waiting] < request.min_similarity
    return enough


def make_queries(vectors: Vectors, count: int) -> Vectors:
    """Make unit vectors that resemble texts, but are not stored; the same for the same vectors.

    A stored row is no fair query: the graph leads to it, and it is one of its own best five. Random noise
    resembles no text. So each query mixes a row with a share of another row.
    """
    random = np.random.default_rng(_SEED)
    row = random.integers(0, len(vectors), count)
    other = (row + random.integers(1, max(2, len(vectors)), count)) % len(vectors)
    queries = (1 - _OTHER_SHARE) * vectors[row] + _OTHER_SHARE * vectors[other]
    # A mix is never zero, even of opposite rows, since the two shares differ.
    unit: Vectors = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32)
    return unit


def share_found(found: Matches | str, exact: Matches) -> float:
    """Return the share of the exact best matches that was found, rounded to four digits; 1 if there are none.

    A found row counts if it is as similar as the last exact match, so a repeated row counts as well.
    """
    if isinstance(found, str):
        return 0.0
    last = np.full(int(exact.query.max(initial=-1)) + 1, np.inf)
    np.minimum.at(last, exact.query, exact.score)
    hits = int(np.count_nonzero(found.score >= last[found.query]))
    return round(hits / len(exact), 4) if len(exact) else 1.0
