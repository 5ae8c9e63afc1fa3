"""Approximate search by a Milvus server: an HNSW graph over the rows of a snapshot, in a collection of its own.

A snapshot never changes, and neither does its collection, which belongs to one folder alone. Milvus finds candidates.
Their similarities are those of the snapshot's own vectors, as with every engine, and BM25 is that of the snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.environment import read_milvus_token
from backstory.base.errors import SearchIndexError
from backstory.base.extras import require_extra
from backstory.index.engines.graph import GraphEngine, leaves_too_few
from backstory.index.engines.matches import Matches, pair_similarities
from backstory.index.engines.scope import Scope
from backstory.index.request import Filters
from backstory.index.snapshot.shards import StoredVectors
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import IndexSettings

if TYPE_CHECKING:
    from pymilvus import MilvusClient

ROWS_AT_ONCE: Final = 2048
QUERIES_AT_ONCE: Final = 1024
CONNECT_SECONDS: Final = 10.0
CALL_SECONDS: Final = 120.0
_TENANT_BYTES: Final = 65_535
"""Milvus' limit of a text."""
NO_VECTORS: Final = np.empty((0, 0), np.float32)


class MilvusEngine(GraphEngine):
    """Fetches candidates from a collection; Milvus applies the as-of time and the tenant, this process the rest.

    Args:
        settings: Address of the server, and settings of the HNSW index.
        collection: Name of the snapshot's collection.
        vectors: The snapshot's vectors, for true similarities.
    """

    name: ClassVar[str] = "milvus"

    def __init__(self, settings: IndexSettings, collection: str, vectors: StoredVectors) -> None:
        super().__init__(settings.ef_search)
        self._settings = settings
        self._vectors = vectors
        self._address = settings.uri or ""
        self.collection = collection
        self.place = f"Milvus collection {collection}"

    def starves(self, limit: int, filters: Filters, scope: Scope) -> str | None:
        """Return why the filters that Milvus does not apply leave too few rows, or None if they do not."""
        return leaves_too_few(limit, scope) if filters.restrict_otherwise else None

    def close(self) -> None:
        """Close the connection."""
        if "_client" in self.__dict__:
            self._client.close()

    def holds(self, rows: int) -> bool:
        """Return whether the server has the collection with all its rows.

        Raises:
            SearchIndexError: The server cannot be reached, or refuses.
        """
        with _calling(self._address):
            if not self._client.has_collection(self.collection, timeout=CALL_SECONDS):
                return False
            return self._count() == rows

    def upload(self, tenants: pl.Series) -> None:
        """Write the rows into a collection, in place of one that was left unfinished.

        Args:
            tenants: Tenant of each row.

        Raises:
            SearchIndexError: The server cannot be reached, refuses, or does not hold all rows afterwards.
        """
        with _calling(self._address):
            self._client.drop_collection(self.collection, timeout=CALL_SECONDS)
            self._create()
            for start in range(0, len(self._vectors), ROWS_AT_ONCE):
                vectors = self._vectors[start : start + ROWS_AT_ONCE]
                of_rows = tenants[start : start + ROWS_AT_ONCE].fill_null("").to_list()
                rows = [
                    {"row": start + place, "tenant": tenant, "vector": vector}
                    for place, (tenant, vector) in enumerate(zip(of_rows, vectors, strict=True))
                ]
                self._client.insert(self.collection, rows, timeout=CALL_SECONDS)
            self._client.flush(self.collection, timeout=CALL_SECONDS)
            self._client.load_collection(self.collection, timeout=CALL_SECONDS)
            count = self._count()
        if count != len(self._vectors):
            raise SearchIndexError(
                f"Milvus at {self._address} holds {count} rows of {self.collection} after {len(self._vectors)} were "
                "written; build the index again",
                code="incompletely_written",
                address=self._address,
            )

    def drop(self) -> None:
        """Delete the collection, if it is there.

        Raises:
            SearchIndexError: The server cannot be reached, or refuses.
        """
        with _calling(self._address):
            self._client.drop_collection(self.collection, timeout=CALL_SECONDS)

    @cached_property
    def _client(self) -> MilvusClient:
        require_milvus()
        from pymilvus import MilvusClient

        # Its errors are raised here; its own log repeats each with a traceback.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        token = read_milvus_token()
        secret = "" if token is None else token.get_secret_value()
        return MilvusClient(uri=self._address, token=secret, timeout=CONNECT_SECONDS)

    def _create(self) -> None:
        from pymilvus import DataType

        settings = self._settings
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("row", DataType.INT64, is_primary=True)
        schema.add_field("tenant", DataType.VARCHAR, max_length=_TENANT_BYTES)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=self._vectors.shape[1])
        index = self._client.prepare_index_params()
        index.add_index(
            "vector",
            index_type="HNSW",
            metric_type="COSINE",
            params={"M": settings.hnsw_m, "efConstruction": settings.hnsw_ef_construction},
        )
        self._client.create_collection(
            self.collection,
            schema=schema,
            index_params=index,
            consistency_level="Strong",
            timeout=CALL_SECONDS,
        )

    def _count(self) -> int:
        counted = self._client.query(
            self.collection, filter="", output_fields=["count(*)"], timeout=CALL_SECONDS
        )
        return int(counted[0]["count(*)"])

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
        with _calling(self._address):
            for stop in np.unique(stops[stops > 0]).tolist():
                same = waiting[stops == stop]
                conditions = [f"row < {stop}"] if stop < scope.row_count else []
                if tenant is not None:
                    conditions.append(f"tenant == {_quote(tenant)}")
                for start in range(0, len(same), QUERIES_AT_ONCE):
                    asked = same[start : start + QUERIES_AT_ONCE]
                    answers = self._client.search(
                        self.collection,
                        data=list(queries[asked]),
                        filter=" and ".join(conditions),
                        limit=fetch,
                        search_params={"params": {"ef": max(ef_search, fetch)}},
                        timeout=CALL_SECONDS,
                    )
                    rows = [np.array([hit["row"] for hit in hits], np.int64) for hits in answers]
                    query = np.repeat(asked, [len(each) for each in rows])
                    row = np.concatenate(rows)
                    found.append(Matches(query, row, pair_similarities(queries, self._vectors, query, row)))
        return Matches.joined(found)


def are_in_milvus(settings: IndexSettings, collection: str, rows: int) -> bool:
    """Return whether the server holds all vectors of a snapshot.

    Raises:
        SearchIndexError: The server cannot be reached, or refuses.
    """
    with closing(MilvusEngine(settings, collection, NO_VECTORS)) as engine:
        return engine.holds(rows)


def drop_from_milvus(settings: IndexSettings, collection: str) -> None:
    """Delete the vectors of a snapshot from the server.

    Raises:
        SearchIndexError: The server cannot be reached, or refuses.
    """
    with closing(MilvusEngine(settings, collection, NO_VECTORS)) as engine:
        engine.drop()


def require_milvus() -> None:
    """Raise an error if the client of Milvus is not installed.

    Raises:
        MissingExtraError: It is not.
    """
    require_extra("milvus", "`index.engine: milvus`", "set it to `embedded`")


@contextmanager
def _calling(address: str) -> Iterator[None]:
    """Raise errors of the client as errors of the index.

    Raises:
        SearchIndexError: The server cannot be reached, or refuses.
    """
    require_milvus()
    from grpc import RpcError
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except (MilvusException, RpcError) as error:
        raise SearchIndexError(
            f"Milvus at {address} does not answer as it should: {error}. Start the server, or set index.engine to "
            "embedded, and run `backstory run`",
            code="unusable_server",
            address=address,
        ) from error


def _quote(text: str) -> str:
    """Quote a text for a filter of Milvus."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
