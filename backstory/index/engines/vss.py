"""Approximate search by DuckDB VSS: an HNSW graph (Malkov and Yashunin 2018) inside the snapshot's database."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from backstory.index.engines.matches import Matches, pair_similarities, take_best
from backstory.index.engines.scope import Scope
from backstory.index.request import SearchRequest
from backstory.index.snapshot.database import Database, vector_frame
from backstory.index.snapshot.shards import StoredVectors
from backstory.models.embeddings.protocol import Vectors
from backstory.storage.tables.duckdb_frames import register_frame

LOW_RECALL = 0.9
MOST_FETCHED = 1024
FILTERED_OVERFETCH = 4
_GROWTH = 4


class VssEngine:
    """Fetches candidates from the HNSW index, then applies threshold and filters.

    DuckDB 1.5 uses the index only for a bare nearest-neighbour join, so thresholds and filters are applied to its
    result. Queries that are left with too few hits fetch more candidates.

    Args:
        database: The snapshot's database.
        vectors: The same vectors, mapped, for true similarities.
        ef_search: Size of the candidate list while searching the graph.
    """

    def __init__(self, database: Database, vectors: StoredVectors, ef_search: int) -> None:
        self._database = database
        self._vectors = vectors
        self._ef_search = ef_search

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
        ef_search = request.nprobe or self._ef_search
        factor = request.overfetch or (FILTERED_OVERFETCH if scope.restricts else 1)
        fetch = min(limit * factor, max(limit, MOST_FETCHED), scope.row_count)
        waiting = np.arange(len(queries))
        found: list[Matches] = []
        while True:
            fetched = self._fetch(queries, waiting, fetch, ef_search)
            admitted = fetched.where(scope.admits(fetched.query, fetched.row))
            enough = self._satisfied(admitted, fetched, waiting, limit, min_similarity, scope)
            done = np.zeros(len(queries), np.bool_)
            done[waiting[enough]] = True
            found.append(admitted.where(done[admitted.query]))
            waiting = waiting[~enough]
            if not len(waiting):
                break
            if fetch >= min(max(limit, MOST_FETCHED), scope.row_count):
                return (
                    f"the HNSW index left {len(waiting)} of {len(queries)} queries short of {limit} hits "
                    f"after {fetch} rows were fetched for each"
                )
            fetch = min(fetch * _GROWTH, max(limit, MOST_FETCHED), scope.row_count)
        matches = Matches.joined(found)
        if min_similarity is not None:
            matches = matches.where(matches.score >= min_similarity)
        return take_best(matches, limit)

    def starves(self, limit: int, scope: Scope) -> str | None:
        """Return why the index would find too few of the rows that filters leave, or None if it finds enough."""
        reachable = max(limit, MOST_FETCHED)
        fewest = int(scope.allowed[scope.allowed > 0].min(initial=scope.row_count))
        if scope.row_count <= reachable or min(limit, fewest) * scope.row_count <= reachable * fewest:
            return None
        return f"the filters leave {fewest} of {scope.row_count} rows to a query, too few for the HNSW index"

    def _fetch(self, queries: Vectors, waiting: NDArray[np.int64], fetch: int, ef_search: int) -> Matches:
        connection = self._database.connection
        with self._database.lock:
            self._load_queries(queries[waiting])
            connection.execute(f"SET hnsw_ef_search = {int(ef_search)}")
            connection.execute(f"CREATE OR REPLACE TEMP TABLE hits AS {_nearest(fetch)}")
            columns = connection.execute("SELECT query, row FROM hits").fetchnumpy()
        query = waiting[np.asarray(columns["query"], np.int64)]
        row = np.asarray(columns["row"], np.int64)
        return Matches(query, row, pair_similarities(queries, self._vectors, query, row))

    def _load_queries(self, queries: Vectors) -> None:
        connection = self._database.connection
        # This optimizer pass rewrites the join so that DuckDB skips the index (duckdb/duckdb-vss issue 80).
        connection.execute("SET disabled_optimizers = 'top_n_window_elimination'")
        register_frame(connection, "query_rows", vector_frame(queries, "query"))
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE queries AS SELECT query, "  # noqa: S608 - a number only
            f"vector::FLOAT[{queries.shape[1]:d}] AS vector FROM query_rows"
        )
        connection.unregister("query_rows")

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


def _nearest(fetch: int) -> str:
    """Write the only join for which DuckDB 1.5 uses the index; any addition to it disables the index."""
    return (
        "SELECT q.query, nearest.row FROM queries q, LATERAL ("  # noqa: S608 - a number only
        "SELECT c.row, array_cosine_distance(c.vector, q.vector) AS distance "
        f"FROM chunks c ORDER BY distance LIMIT {fetch:d}) nearest"
    )
