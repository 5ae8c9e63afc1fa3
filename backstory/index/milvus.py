"""Approximate search by a Milvus server, for an index that outgrows one machine: an HNSW graph in one collection.

The collection of a workspace has one row for each chunk of its current snapshot, under a hash of the chunk's id. A
build sends the rows that changed. An alias says of which snapshot the rows are: it goes before the first row changes
and comes after the last. The server gets numbers alone: vectors, times, pages, and hashes of ids and labels. Milvus
applies the filters, and finds candidates; similarities and BM25 are those of the snapshot's own files.
"""

from __future__ import annotations

import hashlib
import logging
import math
import secrets
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.environment import MILVUS_VARIABLE, find_key
from backstory.base.errors import MissingExtraError, SearchIndexError
from backstory.base.extras import require_extra
from backstory.base.files.atomic import write_file
from backstory.base.ids import digest, is_written
from backstory.index.graph import Graph
from backstory.index.request import UNDATED, Filters, Scope, SearchRequest, list_moments
from backstory.index.scoring import Matches
from backstory.index.snapshot import current_version, read_manifest
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import IndexSettings

if TYPE_CHECKING:
    from pymilvus import MilvusClient

logger = logging.getLogger(__name__)

COLLECTION_FILE: Final = ".collection"
"""The file that holds the address of the server and the name of the collection, written before the server gets it."""
WIDENING: Final = (3_000, 0.6, 8, 4096)
"""Rows up to which `index.ef_search` is wide enough, the power of further rows by which a search is widened, the
candidates that each wanted hit adds, and the widest search, beyond which only `index.ef_search` goes
(docs/studies/approximate-search.md)."""
AT_ONCE = 2048
"""Rows, keys or queries of one call."""
_CALL: Final[dict[str, Any]] = {"timeout": 120.0}
_CONNECT_SECONDS: Final = 10.0
# Milvus can leave rows pending without end.
_INDEX_SECONDS, _INDEX_SECONDS_OF_ROW = 600.0, 0.01
_POLL_SECONDS: Final = 0.2
_MOST_TAGS: Final = 4096


class Collection:
    """A collection on a server, and the alias that it has as long as its rows are those of a snapshot."""

    def __init__(self, settings: IndexSettings, name: str, version: str) -> None:
        require_milvus()
        from pymilvus import MilvusClient

        # Its errors are raised here; its own log repeats each with a traceback.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        self.settings = settings
        self.name = name
        self.alias = f"{name}_{version}"
        token = find_key(MILVUS_VARIABLE)
        secret = "" if token is None else token.get_secret_value()
        with self.calling():
            self.client: MilvusClient = MilvusClient(settings.uri, token=secret, timeout=_CONNECT_SECONDS)
        self.close = self.client.close

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Raise errors of the client as errors of the index."""
        from grpc import RpcError
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except (MilvusException, RpcError) as error:
            raise self._fail(f"does not answer as it should ({error})", "unusable_server") from error

    def list_aliases(self) -> list[str]:
        """List the aliases of the collection; none if it is not there."""
        with self.calling():
            is_there = self.client.has_collection(self.name, **_CALL)
            return list(self.client.list_aliases(self.name, **_CALL)["aliases"]) if is_there else []

    def upload(self, rows: Iterator[dict[str, Any]], dimension: int) -> int:
        """Make the rows those of the snapshot; return how many were sent, when all are indexed."""
        client, name = self.client, self.name
        with self.changing():
            if not client.has_collection(name, **_CALL):
                self._create(dimension)
            client.load_collection(name, **_CALL)
            states, sent = self._read_states(), 0
            while block := list(islice(rows, AT_ONCE)):
                changed = [row for row in block if states.pop(row["key"], None) != row["state"]]
                if changed:
                    client.upsert(name, changed, **_CALL)
                sent += len(changed)
            gone = list(states)
            for start in range(0, len(gone), AT_ONCE):
                client.delete(name, ids=gone[start : start + AT_ONCE], **_CALL)
            client.flush(name, **_CALL)
            self._wait_for_index(sent)
            client.load_collection(name, **_CALL)
            client.create_alias(name, self.alias, **_CALL)
        return sent

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change the rows, which are those of no snapshot meanwhile."""
        aliases = self.list_aliases()
        with self.calling():
            for alias in aliases:
                self.client.drop_alias(alias, **_CALL)
            yield

    def _create(self, dimension: int) -> None:
        from pymilvus import DataType

        schema = self.client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", DataType.INT64, is_primary=True)
        for name in ("state", "published", "document_id", "tenant", "kind"):
            schema.add_field(name, DataType.INT64)
        schema.add_field("tags", DataType.ARRAY, element_type=DataType.INT64, max_capacity=_MOST_TAGS)
        schema.add_field("by_people", DataType.BOOL)
        for name in ("first_page", "last_page"):
            schema.add_field(name, DataType.INT64, nullable=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
        index = self.client.prepare_index_params()
        graph = {"M": self.settings.hnsw_m, "efConstruction": self.settings.hnsw_ef_construction}
        index.add_index("vector", index_type="HNSW", metric_type="COSINE", params=graph)
        how = {"schema": schema, "index_params": index, "consistency_level": "Strong"}
        self.client.create_collection(self.name, **how, **_CALL)

    def _read_states(self) -> dict[int, int]:
        """Read the key and the state of every row."""
        states: dict[int, int] = {}
        query = self.client.query_iterator(self.name, AT_ONCE, output_fields=["key", "state"], **_CALL)
        with closing(query) as rows:
            while batch := rows.next():
                states.update((row["key"], row["state"]) for row in batch)
        return states

    def _wait_for_index(self, sent: int) -> None:
        # Rows that are not indexed are compared one by one, and their recall would be measured in place of the graph's.
        deadline = time.monotonic() + _INDEX_SECONDS + sent * _INDEX_SECONDS_OF_ROW
        while pending := self.client.describe_index(self.name, "vector", **_CALL)["pending_index_rows"]:
            if time.monotonic() >= deadline:
                raise self._fail(f"has {pending} rows still to index", "unindexed_rows")
            time.sleep(_POLL_SECONDS)

    def _fail(self, what: str, code: str) -> SearchIndexError:
        return SearchIndexError(
            f"Milvus at {self.settings.uri}, collection {self.name}: it {what}. Look into its log and restart it, or "
            "set index.engine to embedded, and run `backstory run`, which sends no row again that is there",
            code=code,
        )


class MilvusGraph(Graph):
    """Fetches candidates of a snapshot from its collection, which applies the filters and closes with the graph."""

    name: ClassVar[str] = "milvus"

    def __init__(
        self, collection: Collection, vectors: Vectors, chunks: pl.DataFrame, documents: pl.DataFrame
    ) -> None:
        super().__init__(collection.close, vectors, collection.settings.ef_search)
        self._collection = collection
        self.place = f"Milvus collection {collection.alias}"
        self._moments = list_moments(documents)[chunks["document"].to_numpy()]
        keys = np.fromiter(map(_hash, chunks["chunk_id"]), np.int64, len(chunks))
        self._rows = np.argsort(keys)
        self._keys = keys[self._rows]

    def search(self, queries: Vectors, request: SearchRequest, scope: Scope) -> Matches | str:
        """Find the candidates of each query; see :meth:`backstory.index.graph.Graph.search`."""
        try:
            return super().search(queries, request, scope)
        except SearchIndexError:
            if self._collection.alias in self._collection.list_aliases():
                raise
            return f"{self.place} is gone, since another snapshot is being built; `backstory run` brings one"

    def _ef_of(self, request: SearchRequest) -> int:
        return request.nprobe or widen(self._ef_search, len(self._vectors), request.candidates)

    def _fetch(
        self, queries: Vectors, waiting: NDArray[np.int64], fetch: int, request: SearchRequest, scope: Scope
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        collection, width = self._collection, {"params": {"ef": max(self._ef_of(request), fetch)}}
        found = [(waiting[:0], waiting[:0])]
        stops = scope.stop[waiting]
        for stop in np.unique(stops[stops > 0]).tolist():
            same = waiting[stops == stop]
            moment = self._moments[stop - 1].item() if stop < scope.row_count else None
            how = {"filter": write_filter(request.filters, moment), "limit": fetch, "search_params": width}
            for asked in np.split(same, range(AT_ONCE, len(same), AT_ONCE)):
                with collection.calling():
                    answers = collection.client.search(collection.alias, list(queries[asked]), **how, **_CALL)
                keys = np.array([key for hits in answers for key in hits.ids], np.int64)
                places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
                query, known = np.repeat(asked, [len(hits) for hits in answers]), self._keys[places] == keys
                found.append((query[known], self._rows[places[known]]))
        query, row = map(np.concatenate, zip(*found, strict=True))
        return query, row


def tell_rows(chunks: pl.DataFrame, documents: pl.DataFrame, vectors: Vectors) -> Iterator[dict[str, Any]]:
    """Give what the server is told of each row: the fields that filters need, its vector, and a hash of both."""
    labels = zip(list_moments(documents).tolist(), documents.iter_rows(named=True), strict=True)
    facts = [
        {
            **{name: _hash(row[name] or "") for name in ("document_id", "tenant", "kind")},
            "tags": sorted(map(_hash, row["tags"])),
            "by_people": not is_written(row["uri"]),
            "published": moment,
        }
        for moment, row in labels
    ]
    rows = chunks.select("chunk_id", "document", "page_start", "page_end").iter_rows()
    for (chunk_id, document, first, last), vector in zip(rows, vectors, strict=True):
        told = {**facts[document], "first_page": first, "last_page": last}
        state = _hash(f"{told}{vector.tobytes().hex()}")
        yield {"key": _hash(chunk_id), "state": state, **told, "vector": vector}


def write_filter(filters: Filters, moment: int | None) -> str:
    """Write filters as an expression of Milvus, with the latest time of publication in place of their times."""
    conditions = [] if moment is None else [f"published <= {moment}"]
    if not filters.undated:
        conditions.append(f"published > {UNDATED}")
    if filters.kinds:
        conditions.append(f"kind in {[*map(_hash, filters.kinds)]}")
    if filters.tags:
        conditions.append(f"array_contains_any(tags, {[*map(_hash, filters.tags)]})")
    if filters.document_ids:
        conditions.append(f"document_id in {[*map(_hash, filters.document_ids)]}")
    if filters.tenant is not None:
        conditions.append(f"tenant == {_hash(filters.tenant)}")
    if filters.by_people is not None:
        conditions.append(f"by_people == {str(filters.by_people).lower()}")
    if filters.pages is not None:
        conditions.append(f"first_page <= {filters.pages[1]} and last_page >= {filters.pages[0]}")
    return " and ".join(conditions)


def _hash(text: str) -> int:
    """Return the number by which the server knows an id or a label."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def widen(ef_search: int, rows: int, hits: int) -> int:
    """Choose the candidates of a search: in a graph of more rows, it ends more often short of the best ones."""
    enough, power, for_each, widest = WIDENING
    widened = round(ef_search * math.pow(max(1.0, rows / enough), power)) + for_each * hits
    return max(ef_search, min(widened, widest))


def require_milvus() -> None:
    """Raise an error if the client of Milvus is not installed."""
    require_extra("milvus", "`index.engine: milvus`", "set it to `embedded`")


def choose_collection(folder: Path, settings: IndexSettings, embedder_id: str, dimension: int) -> str:
    """Choose the collection for the rows of a snapshot: that of the snapshot before, unless it does not fit.

    Then it is deleted. One that another folder uses, such as a copy of this one that was built since, is left to that.
    """
    graph = (dimension, settings.hnsw_m, settings.hnsw_ef_construction)
    kind = digest([embedder_id, *map(str, graph)], length=8)
    address, name = read_collection(folder)
    if address != settings.uri or not name.endswith(f"_{kind}"):
        release_collection(folder)
        name = ""
    elif not _is_free(settings, name, current_version(folder)):
        logger.warning("%s at %s is left to another folder, such as a copy of %s", name, address, folder)
        name = ""
    name = name or f"backstory_{secrets.token_hex(8)}_{kind}"
    write_file(folder / COLLECTION_FILE, f"{settings.uri} {name}".encode())
    return name


def read_collection(folder: Path) -> tuple[str, str]:
    """Read the address of the server and the name of the collection that a folder has; empty if it has none."""
    if (folder / COLLECTION_FILE).exists():
        address, name = (folder / COLLECTION_FILE).read_text(encoding="utf-8").split(" ")
        return address, name
    with suppress(SearchIndexError):
        # Another machine may have made the snapshot.
        manifest = read_manifest(folder / current_version(folder))
        return manifest.settings.uri or "", manifest.collection or ""
    return "", ""


def release_collection(folder: Path, *, must_succeed: bool = False) -> None:
    """Delete the collection of a folder, if it has one.

    That the server cannot be reached is a warning, which names the collection, or if ``must_succeed`` an error:
    :class:`SearchIndexError`, or :class:`MissingExtraError` without its client.
    """
    address, name = read_collection(folder)
    if not name:
        return
    try:
        settings = IndexSettings(engine="milvus", uri=address, allow_http=True)
        with closing(Collection(settings, name, "")) as collection, collection.changing():
            collection.client.drop_collection(name, **_CALL)
    except (SearchIndexError, MissingExtraError) as error:
        if must_succeed:
            raise
        logger.warning("collection %s is still at %s; delete it there (%s)", name, address, error)
    (folder / COLLECTION_FILE).unlink(missing_ok=True)


def _is_free(settings: IndexSettings, name: str, version: str) -> bool:
    """Return whether the rows of a collection are those of a snapshot, or of none."""
    with closing(Collection(settings, name, version)) as collection:
        return collection.list_aliases() in ([], [collection.alias])


def is_served(snapshot: Path) -> bool:
    """Return whether the server of a snapshot, if it has one, holds its rows."""
    manifest = read_manifest(snapshot)
    if manifest.collection is None:
        return True
    with closing(Collection(manifest.settings, manifest.collection, manifest.version)) as collection:
        return collection.alias in collection.list_aliases()
