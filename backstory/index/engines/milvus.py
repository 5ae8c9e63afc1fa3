"""Approximate search by a Milvus server: an HNSW graph over the rows of the snapshots of one folder.

Milvus finds candidates. Rows of other snapshots are left out of them. Similarities are those of the snapshot's own
vectors, as with every engine, and BM25 is that of the snapshot.
"""

from __future__ import annotations

import math
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import SearchIndexError
from backstory.index.engines.graph import MOST_FETCHED, GraphEngine, leaves_too_few
from backstory.index.engines.matches import Matches, pair_similarities
from backstory.index.engines.milvus_rows import CALL_SECONDS, MilvusRows
from backstory.index.engines.scope import Scope
from backstory.index.request import Filters, SearchRequest
from backstory.index.snapshot.row_keys import RowKeys
from backstory.index.snapshot.shards import StoredVectors
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import IndexSettings

QUERIES_AT_ONCE: Final = 1024
WIDENING: Final = (3_000, 0.6, 8, 4096)
"""Rows up to which `index.ef_search` is wide enough, the power of further rows by which a search is widened, the
candidates that each wanted hit adds, and the widest search, beyond which only `index.ef_search` goes
(docs/studies/approximate-search.md)."""


class MilvusEngine(GraphEngine):
    """Fetches candidates from a collection; Milvus applies the as-of time and the tenant, this process the rest.

    Args:
        settings: Address of the server, and settings of the HNSW index, whose ``ef_search`` is that of few rows.
        alias: The name by which the collection has all rows of the snapshot.
        vectors: The snapshot's vectors, for true similarities.
        keys: Keys of its rows.
        moments: When the document of each row was published.
    """

    name: ClassVar[str] = "milvus"

    def __init__(
        self,
        settings: IndexSettings,
        alias: str,
        vectors: StoredVectors,
        keys: RowKeys,
        moments: NDArray[np.int64],
    ) -> None:
        super().__init__(settings.ef_search)
        self._server = MilvusRows(settings, alias)
        self._vectors = vectors
        self._keys = keys
        self._moments = moments
        self.place = f"Milvus collection {alias}"

    def starves(self, limit: int, filters: Filters, scope: Scope) -> str | None:
        """Return why the filters that Milvus does not apply leave too few rows, or None if they do not."""
        return leaves_too_few(limit, scope) if filters.restrict_otherwise else None

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def search(self, queries: Vectors, request: SearchRequest, scope: Scope) -> Matches | str:
        """Find the best rows for each query.

        Args:
            queries: Unit rows, shape ``(queries, dimension)``.
            request: Number of candidates, threshold, and size of the candidate list.
            scope: The rows that each query may see.

        Returns:
            The matches, or the reason why the server found too few for some query, or let go of rows of the snapshot.

        Raises:
            SearchIndexError: The server cannot be reached, or refuses.
        """
        try:
            return super().search(queries, request, scope)
        except SearchIndexError:
            if self._server.has(self._server.collection):
                raise
            return (
                f"Milvus at {self._server.address} has let go of {self._server.collection}; `backstory run` brings a "
                "snapshot that it holds"
            )

    def _ef_of(self, request: SearchRequest) -> int:
        return request.nprobe or widen(self._ef_search, len(self._vectors), request.candidates)

    def _most_fetched(self, limit: int, scope: Scope) -> int:  # noqa: ARG002 - the collection has other rows, too
        return max(limit, MOST_FETCHED)

    def _fetch(
        self,
        queries: Vectors,
        waiting: NDArray[np.int64],
        fetch: int,
        ef_search: int,
        tenant: str | None,
        scope: Scope,
    ) -> Matches:
        found: list[Matches] = []
        stops = scope.stop[waiting]
        with self._server.calling():
            for stop in np.unique(stops[stops > 0]).tolist():
                same = waiting[stops == stop]
                conditions = [f"published <= {self._moments[stop - 1]}"] if stop < scope.row_count else []
                if tenant is not None:
                    conditions.append(f"tenant == {_quote(tenant)}")
                for start in range(0, len(same), QUERIES_AT_ONCE):
                    asked = same[start : start + QUERIES_AT_ONCE]
                    answers = self._server.client.search(
                        self._server.collection,
                        data=list(queries[asked]),
                        filter=" and ".join(conditions),
                        limit=fetch,
                        output_fields=["key"],
                        search_params={"params": {"ef": max(ef_search, fetch)}},
                        timeout=CALL_SECONDS,
                    )
                    keys = [np.array([hit["entity"]["key"] for hit in hits], np.int64) for hits in answers]
                    query = np.repeat(asked, [len(each) for each in keys])
                    row = self._keys.find_rows(np.concatenate(keys))
                    query, row = query[row >= 0], row[row >= 0]
                    found.append(Matches(query, row, pair_similarities(queries, self._vectors, query, row)))
        return Matches.joined(found)


def widen(ef_search: int, rows: int, hits: int) -> int:
    """Choose the candidates of a search: in a graph of more rows, it ends more often short of the best ones.

    Args:
        ef_search: Candidates among few rows.
        rows: Number of rows.
        hits: Number of hits that are wanted.
    """
    enough, power, for_each, widest = WIDENING
    widened = round(ef_search * math.pow(max(1.0, rows / enough), power)) + for_each * hits
    return max(ef_search, min(widened, widest))


def _quote(text: str) -> str:
    """Quote a text for a filter of Milvus."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
