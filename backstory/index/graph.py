"""Graphs of neighbours (HNSW, Malkov and Yashunin 2018), their measured recall, and the graph of DuckDB VSS."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.errors import SearchIndexError
from backstory.index.request import Scope, SearchRequest
from backstory.index.scoring import Matches, find_best, pair_similarities, take_best
from backstory.index.snapshot import damaged
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import IndexSettings

if TYPE_CHECKING:  # loaded with the first graph, since it takes as long as a search
    import duckdb

logger = logging.getLogger(__name__)

LOW_RECALL: Final = 0.9
GOOD_RECALL: Final = 0.98
REMEDY: Final = "raise index.ef_search (which takes time), or index.hnsw_m and index.hnsw_ef_construction"
SAMPLED_QUERIES = 500
MOST_FETCHED: Final = 1024
_FILTERED_OVERFETCH: Final = 4
_BEST_FIVE: Final = SearchRequest(top_k=5)
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

    def __init__(self, close: Callable[[], None], vectors: Vectors, ef_search: int) -> None:
        self._close = close
        self._vectors = vectors
        self._ef_search = ef_search
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of what the graph alone holds, after the query that has it."""
        with self._lock:
            self._close()

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
        limit, lowest = request.candidates, request.min_similarity
        most = min(max(limit, MOST_FETCHED), scope.row_count)
        is_filtered = bool((scope.allowed < scope.row_count).any())
        few = limit * (request.overfetch or (_FILTERED_OVERFETCH if is_filtered else 1))
        found, waiting = [], np.arange(len(queries))
        for fetch in sorted({min(few, most), most}):
            query, row = self._fetch(queries, waiting, fetch, request, scope)
            fetched = Matches(query, row, pair_similarities(queries, self._vectors, query, row))
            admitted = fetched.where(scope.admits(query, row))
            counts = np.bincount(admitted.query, minlength=len(queries))
            is_short = counts < np.minimum(limit, scope.allowed)
            if lowest is not None:
                # What was not fetched is farther than what was, and below the threshold, too.
                is_short[query[fetched.score < lowest]] = False
                admitted = admitted.where(admitted.score >= lowest)
            found.append(admitted.where(~is_short[admitted.query]))
            waiting = waiting[is_short[waiting]]
            if not len(waiting):
                return take_best(Matches.joined(found), limit)
        return (
            f"the HNSW index left {len(waiting)} of {len(queries)} queries short of {limit} hits "
            f"after {most} rows were fetched for each"
        )

    def measure_recall(self, queries: Vectors | None = None) -> float:
        """Return the share of the exact best five that the graph finds, of queries like texts unless some are given.

        A found row counts if it is as similar as the last exact one, so a repeated row counts as well.
        """
        queries = make_queries(self._vectors, SAMPLED_QUERIES) if queries is None else queries
        scope = Scope(len(self._vectors), np.full(len(queries), len(self._vectors)), None)
        best = find_best(queries, self._vectors, _BEST_FIVE, scope)
        least = np.full(len(queries), np.inf)
        np.minimum.at(least, best.query, pair_similarities(queries, self._vectors, best.query, best.row))
        found = self.search(queries, _BEST_FIVE, scope)
        hits = 0 if isinstance(found, str) else np.count_nonzero(found.score >= least[found.query])
        recall = round(int(hits) / len(best), 4)
        if recall < GOOD_RECALL:
            logger.warning("HNSW index has a low recall_at_5=%.4f; %s", recall, REMEDY)
        return recall

    def _ef_of(self, request: SearchRequest) -> int:
        return request.nprobe or self._ef_search


def make_queries(vectors: Vectors, count: int) -> Vectors:
    """Make unit vectors that resemble texts, but are not stored; the same for the same vectors.

    A stored row is no fair query, since the graph leads to it. Noise resembles no text. So each query mixes two rows.
    """
    random = np.random.default_rng(5)
    row = random.integers(0, len(vectors), count)
    other = (row + random.integers(1, max(2, len(vectors)), count)) % len(vectors)
    queries = (1 - _OTHER_SHARE) * vectors[row] + _OTHER_SHARE * vectors[other]
    # A mix is never zero, even of opposite rows, since the two shares differ.
    unit: Vectors = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32)
    return unit


class VssGraph(Graph):
    """Fetches candidates from the HNSW index of DuckDB, in a file from :func:`write_graph` of the same vectors.

    DuckDB 1.5 uses it only for a bare nearest-neighbour join, so thresholds and filters are applied to the result.
    """

    name: ClassVar[str] = "vss"
    place = "HNSW index"

    def __init__(self, path: Path, vectors: Vectors, ef_search: int) -> None:
        import duckdb

        try:
            self._connection = _open(path, "READ_ONLY")
        except duckdb.Error as error:
            raise damaged(path.parent, path.name, f"cannot be read ({error})") from error
        # This optimizer pass rewrites the join so that DuckDB skips the index (duckdb/duckdb-vss issue 80).
        self._connection.execute("SET disabled_optimizers = 'top_n_window_elimination'")
        super().__init__(self._connection.close, vectors, ef_search)

    def _fetch(
        self, queries: Vectors, waiting: NDArray[np.int64], fetch: int, request: SearchRequest, scope: Scope
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        del scope  # DuckDB takes no filter
        with self._lock:
            _store(self._connection, "TEMP TABLE queries", queries[waiting])
            self._connection.execute(f"SET hnsw_ef_search = {int(self._ef_of(request))}")
            columns = self._connection.execute(_nearest(fetch)).fetchnumpy()
        return waiting[np.asarray(columns["query"], np.int64)], np.asarray(columns["row"], np.int64)


def write_graph(path: Path, vectors: Vectors, settings: IndexSettings) -> None:
    """Write the HNSW index of vectors to a file that does not exist."""
    with closing(_open(path, "READ_WRITE")) as connection:
        # One thread, so that the same content always gives the same graph, and with it the same hits.
        connection.execute("SET threads = 1")
        connection.execute("SET hnsw_enable_experimental_persistence = true")
        _store(connection, "TABLE rows", np.asarray(vectors))
        connection.execute(
            f"CREATE INDEX rows_vector ON rows USING HNSW (vector) WITH (metric = 'cosine', "
            f"M = {settings.hnsw_m}, ef_construction = {settings.hnsw_ef_construction})"
        )
        connection.execute("CHECKPOINT attached")


def _open(path: Path, mode: str) -> duckdb.DuckDBPyConnection:
    """Open a file in a DuckDB with the extension of the installed wheel; nothing is ever downloaded."""
    import duckdb

    settings = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    connection = duckdb.connect(config={**settings, "temp_directory": ""})
    version = f"v{duckdb.__version__}"
    extension = f"extensions/{version}/vss.duckdb_extension"
    try:
        with as_file(files("duckdb_extension_vss") / extension) as file:
            connection.load_extension(str(file))
    except (ModuleNotFoundError, duckdb.IOException) as error:
        connection.close()
        raise SearchIndexError(
            f"DuckDB {version} finds no vss extension; install duckdb-extension-vss=={duckdb.__version__} "
            "(`make install` does)",
            code="no_vss_extension",
        ) from error
    literal = str(path).replace("'", "''")
    connection.execute(f"ATTACH '{literal}' AS attached ({mode}); USE attached")
    return connection


def _store(connection: duckdb.DuckDBPyConnection, table: str, vectors: Vectors) -> None:
    """Put vectors into a table, each with its position."""
    # A stream: of a frame, DuckDB would load PyArrow's data sets, and with them pandas, wherever these are installed.
    given = pl.DataFrame({"row": np.arange(len(vectors)), "vector": vectors}).__arrow_c_stream__()
    connection.register("given", given)
    columns = f"row::BIGINT AS row, vector::FLOAT[{vectors.shape[1]:d}] AS vector"
    connection.execute(f"CREATE OR REPLACE {table} AS SELECT {columns} FROM given")  # noqa: S608 - a number only
    connection.unregister("given")


def _nearest(fetch: int) -> str:
    """Write the only join for which DuckDB 1.5 uses the index; any addition to it disables the index."""
    return (
        "SELECT q.row AS query, nearest.row FROM queries q, LATERAL ("  # noqa: S608 - a number only
        "SELECT r.row, array_cosine_distance(r.vector, q.vector) AS distance "
        f"FROM rows r ORDER BY distance LIMIT {fetch:d}) nearest"
    )
