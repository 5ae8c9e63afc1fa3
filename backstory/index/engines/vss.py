"""Approximate search by DuckDB VSS: an HNSW graph inside the snapshot's database."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from backstory.index.engines.graph import GraphEngine, leaves_too_few
from backstory.index.engines.matches import Matches, pair_similarities
from backstory.index.engines.scope import Scope
from backstory.index.request import Filters
from backstory.index.snapshot.database import Database, vector_frame
from backstory.index.snapshot.shards import StoredVectors
from backstory.models.embeddings.protocol import Vectors
from backstory.storage.tables.duckdb_frames import register_frame


class VssEngine(GraphEngine):
    """Fetches candidates from the HNSW index of DuckDB.

    DuckDB 1.5 uses the index only for a bare nearest-neighbour join, so thresholds and filters are applied to its
    result.

    Args:
        database: The snapshot's database.
        vectors: The same vectors, mapped, for true similarities.
        ef_search: Size of the candidate list while searching the graph.
    """

    name: ClassVar[str] = "vss"
    place = "HNSW index"

    def __init__(self, database: Database, vectors: StoredVectors, ef_search: int) -> None:
        super().__init__(ef_search)
        self._database = database
        self._vectors = vectors

    def starves(self, limit: int, filters: Filters, scope: Scope) -> str | None:  # noqa: ARG002 - for other engines
        """Return why the filters leave too few rows, or None if they do not."""
        return leaves_too_few(limit, scope)

    def close(self) -> None:
        """Leave the database open, which is the snapshot's."""

    def _fetch(
        self,
        queries: Vectors,
        waiting: NDArray[np.int64],
        fetch: int,
        ef_search: int,
        tenant: str | None,  # noqa: ARG002 - DuckDB takes no filter
        scope: Scope,  # noqa: ARG002
    ) -> Matches:
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


def _nearest(fetch: int) -> str:
    """Write the only join for which DuckDB 1.5 uses the index; any addition to it disables the index."""
    return (
        "SELECT q.query, nearest.row FROM queries q, LATERAL ("  # noqa: S608 - a number only
        "SELECT c.row, array_cosine_distance(c.vector, q.vector) AS distance "
        f"FROM chunks c ORDER BY distance LIMIT {fetch:d}) nearest"
    )
