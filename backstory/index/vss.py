"""Approximate search by DuckDB VSS: an HNSW graph in a file of the snapshot."""

from __future__ import annotations

import threading
from contextlib import closing
from importlib.resources import as_file, files
from pathlib import Path
from typing import ClassVar

import duckdb
import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.errors import SearchIndexError
from backstory.index.graph import MOST_FETCHED, Graph
from backstory.index.request import Scope, SearchRequest
from backstory.index.snapshot import damaged
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import IndexSettings


class VssGraph(Graph):
    """Fetches candidates from the HNSW index of DuckDB, in a file from :func:`write_graph` of the same vectors.

    DuckDB 1.5 uses the index only for a bare nearest-neighbour join, so thresholds and filters are applied to its
    result.

    Raises:
        SearchIndexError: The extension of DuckDB is not installed, or the file is absent or damaged.
    """

    name: ClassVar[str] = "vss"
    place = "HNSW index"

    def __init__(self, path: Path, vectors: Vectors, ef_search: int) -> None:
        super().__init__(vectors, ef_search)
        try:
            self._connection = _open(path, "READ_ONLY")
        except duckdb.Error as error:
            raise damaged(path.parent, path.name, f"cannot be read ({error})") from error
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the file, after the query that runs."""
        with self._lock:
            self._connection.close()

    def starves(self, limit: int, scope: Scope) -> str | None:
        """Return why filters that are applied after the search leave too few rows, or None if they do not."""
        reachable = max(limit, MOST_FETCHED)
        fewest = int(scope.allowed[scope.allowed > 0].min(initial=scope.row_count))
        if scope.row_count <= reachable or min(limit, fewest) * scope.row_count <= reachable * fewest:
            return None
        return f"the filters leave {fewest} of {scope.row_count} rows to a query, too few for the HNSW index"

    def _fetch(
        self,
        queries: Vectors,
        waiting: NDArray[np.int64],
        fetch: int,
        request: SearchRequest,
        scope: Scope,  # noqa: ARG002 - DuckDB takes no filter
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        with self._lock:
            connection = self._connection
            # This optimizer pass rewrites the join so that DuckDB skips the index (duckdb/duckdb-vss issue 80).
            connection.execute("SET disabled_optimizers = 'top_n_window_elimination'")
            connection.register("query_rows", _stream(queries[waiting], "query"))
            connection.execute(
                "CREATE OR REPLACE TEMP TABLE queries AS SELECT query, "  # noqa: S608 - a number only
                f"vector::FLOAT[{queries.shape[1]:d}] AS vector FROM query_rows"
            )
            connection.unregister("query_rows")
            connection.execute(f"SET hnsw_ef_search = {int(self._ef_of(request))}")
            columns = connection.execute(_nearest(fetch)).fetchnumpy()
        return waiting[np.asarray(columns["query"], np.int64)], np.asarray(columns["row"], np.int64)


def write_graph(path: Path, vectors: Vectors, settings: IndexSettings) -> None:
    """Write the HNSW index of vectors to a file that does not exist.

    Raises:
        SearchIndexError: The extension of DuckDB is not installed.
    """
    with closing(_open(path, "READ_WRITE")) as connection:
        # One thread, so that the same content always gives the same graph, and with it the same hits.
        connection.execute("SET threads = 1")
        connection.execute("SET hnsw_enable_experimental_persistence = true")
        connection.register("vector_rows", _stream(np.asarray(vectors), "row"))
        connection.execute(
            "CREATE TABLE rows AS SELECT row::BIGINT AS row, "  # noqa: S608 - a number only
            f"vector::FLOAT[{vectors.shape[1]:d}] AS vector FROM vector_rows"
        )
        connection.unregister("vector_rows")
        connection.execute(
            f"CREATE INDEX rows_vector ON rows USING HNSW (vector) WITH (metric = 'cosine', "
            f"M = {settings.hnsw_m}, ef_construction = {settings.hnsw_ef_construction})"
        )
        connection.execute("CHECKPOINT attached")


def _open(path: Path, mode: str) -> duckdb.DuckDBPyConnection:
    """Open a file in a DuckDB with the extension of the installed wheel; nothing is ever downloaded."""
    settings = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    connection = duckdb.connect(config={**settings, "temp_directory": ""})
    version = f"v{duckdb.__version__}"
    try:
        with as_file(
            files("duckdb_extension_vss") / "extensions" / version / "vss.duckdb_extension"
        ) as extension:
            connection.load_extension(str(extension))
    except (ModuleNotFoundError, duckdb.IOException) as error:
        connection.close()
        message = (
            f"DuckDB {version} finds no vss extension; install duckdb-extension-vss=={duckdb.__version__} "
            "(`make install` does)"
        )
        raise SearchIndexError(message, code="no_vss_extension") from error
    literal = str(path).replace("'", "''")
    connection.execute(f"ATTACH '{literal}' AS attached ({mode})")
    connection.execute("USE attached")
    return connection


def _stream(vectors: Vectors, name: str) -> object:
    """Stream vectors to one query without a copy: the column ``name`` holds positions, ``vector`` the vectors.

    Of a frame, DuckDB would load PyArrow's data sets, and with them pandas, wherever these are installed.
    """
    return pl.DataFrame({name: np.arange(len(vectors)), "vector": vectors}).__arrow_c_stream__()


def _nearest(fetch: int) -> str:
    """Write the only join for which DuckDB 1.5 uses the index; any addition to it disables the index."""
    return (
        "SELECT q.query, nearest.row FROM queries q, LATERAL ("  # noqa: S608 - a number only
        "SELECT r.row, array_cosine_distance(r.vector, q.vector) AS distance "
        f"FROM rows r ORDER BY distance LIMIT {fetch:d}) nearest"
    )
