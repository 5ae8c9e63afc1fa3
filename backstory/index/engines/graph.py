"""What engines with an HNSW graph (Malkov and Yashunin 2018) share: fetching candidates until filters are satisfied."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from backstory.index.engines.matches import Matches, take_best
from backstory.index.engines.scope import Scope
from backstory.index.request import Filters, SearchRequest
from backstory.models.embeddings.protocol import Vectors

LOW_RECALL = 0.9
MOST_FETCHED = 1024
FILTERED_OVERFETCH = 4
_GROWTH = 4


class GraphEngine(ABC):
    """Fetches candidates from an HNSW index, then applies threshold and filters.

    Queries that are left with too few hits fetch more candidates.

    Args:
        ef_search: Size of the candidate list while searching the graph, unless a request names another.

    Attributes:
        name: The engine as results name it.
        place: What holds the graph, in words.
    """

    name: ClassVar[str]
    place: str

    def __init__(self, ef_search: int) -> None:
        self._ef_search = ef_search

    def describe(self, request: SearchRequest, rows: int, recall: float) -> str:
        """Describe how a request is answered.

        Args:
            request: The request.
            rows: Number of rows of the index.
            recall: Share of the exact best five that the index found when it was built.
        """
        return (
            f"{self.place} of {rows} rows with ef_search {self._ef_of(request)}, which found {recall:.1%} of the best "
            "five when it was built"
        )

    @abstractmethod
    def starves(self, limit: int, filters: Filters, scope: Scope) -> str | None:
        """Return why the index would find too few of the rows that filters leave, or None if it finds enough."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what the engine alone holds."""

    @abstractmethod
    def _fetch(
        self,
        queries: Vectors,
        waiting: NDArray[np.int64],
        fetch: int,
        ef_search: int,
        tenant: str | None,
        scope: Scope,
    ) -> Matches:
        """Fetch the nearest rows of some queries, with their true similarities.

        Args:
            queries: Unit rows, shape ``(queries, dimension)``.
            waiting: Positions of the queries to ask for.
            fetch: Most rows of one query.
            ef_search: Size of the candidate list.
            tenant: The tenant of the request's filters.
            scope: The rows that each query may see; an engine may leave out some that it hides.
        """

    def search(self, queries: Vectors, request: SearchRequest, scope: Scope) -> Matches | str:
        """Find the best rows for each query.

        Args:
            queries: Unit rows, shape ``(queries, dimension)``.
            request: Number of candidates, threshold, size of the candidate list, and overfetch of the first attempt.
            scope: The rows that each query may see.

        Returns:
            The matches, or the reason why the index found too few for some query.
        """
        limit, min_similarity = request.candidates, request.min_similarity
        ef_search = self._ef_of(request)
        factor = request.overfetch or (FILTERED_OVERFETCH if scope.restricts else 1)
        most = self._most_fetched(limit, scope)
        fetch = min(limit * factor, most)
        waiting = np.arange(len(queries))
        found: list[Matches] = []
        while True:
            fetched = self._fetch(queries, waiting, fetch, ef_search, request.filters.tenant, scope)
            admitted = fetched.where(scope.admits(fetched.query, fetched.row))
            enough = self._satisfied(admitted, fetched, waiting, limit, min_similarity, scope)
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

    def _most_fetched(self, limit: int, scope: Scope) -> int:
        return min(max(limit, MOST_FETCHED), scope.row_count)

    def _ef_of(self, request: SearchRequest) -> int:
        return request.nprobe or self._ef_search

    @staticmethod
    def _satisfied(
        admitted: Matches,
        fetched: Matches,
        waiting: NDArray[np.int64],
        limit: int,
        min_similarity: float | None,
        scope: Scope,
    ) -> NDArray[np.bool_]:
        count = np.bincount(admitted.query, minlength=len(scope.stop))[waiting]
        enough: NDArray[np.bool_] = count >= np.minimum(limit, scope.allowed[waiting])
        if min_similarity is not None:
            lowest = np.full(len(scope.stop), np.inf)
            np.minimum.at(lowest, fetched.query, fetched.score)
            enough |= lowest[waiting] < min_similarity
        return enough


def leaves_too_few(limit: int, scope: Scope) -> str | None:
    """Return why filters that are applied after the search of a graph leave too few rows, or None if they do not."""
    reachable = max(limit, MOST_FETCHED)
    fewest = int(scope.allowed[scope.allowed > 0].min(initial=scope.row_count))
    if scope.row_count <= reachable or min(limit, fewest) * scope.row_count <= reachable * fewest:
        return None
    return f"the filters leave {fewest} of {scope.row_count} rows to a query, too few for the HNSW index"
