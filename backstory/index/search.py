"""The search over a published snapshot, and what is known of its chunks."""

from __future__ import annotations

import heapq
import logging
import threading
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

# Polars imports masked arrays when it converts an array. Importing them here keeps that cost out of the first search.
import numpy.ma
import polars as pl
from numpy.typing import NDArray

from backstory.base.errors import InputError, SearchIndexError
from backstory.base.ids import WRITTEN_PREFIX, digest_each
from backstory.base.telemetry import log_event
from backstory.index.keywords import IndexedWords
from backstory.index.request import Filters, Scope, SearchRequest, scope_of
from backstory.index.scoring import (
    Matches,
    find_best,
    fuse,
    order_best,
    pair_similarities,
    rank_within,
    unite,
)
from backstory.index.snapshot import GRAPH_FILE, REBUILD_COMMAND, HeldRows, Manifest, Snapshot, open_current
from backstory.models.embeddings.protocol import Vectors, find_stray_vector

if TYPE_CHECKING:  # loaded with DuckDB or the client of Milvus, when an HNSW index is first searched
    from backstory.index.graph import Graph

logger = logging.getLogger(__name__)

_FACTS = ("uri", "title", "slug", "published_at", "tags", "kind", "tenant")


@dataclass(frozen=True)
class SearchResult:
    """The hits of a search, the engine that found them, and why this engine: exact, vss, milvus or bm25.

    ``hits`` has one row per hit, by query (position) and rank (from 1): similarity (cosine), keyword_score (BM25; null
    if keywords did not find the chunk), and score, the sort key of the ranking.
    """

    hits: pl.DataFrame
    engine: str
    reason: str


def open_index(folder: Path, *, embedder_id: str | None = None) -> SearchIndex:
    """Open the current snapshot of the search index in a folder, and compare the sizes of its files.

    Vectors of another space than that of ``embedder_id`` are an error, as is damage.
    """
    index = SearchIndex(open_current(folder))
    made_by = index.manifest.embedder_id
    if embedder_id not in (None, made_by):
        index.close()
        raise SearchIndexError(
            f"search index {folder} was made with embedder {made_by!r}, not {embedder_id!r}; run "
            f"`{REBUILD_COMMAND}` to rebuild it, or set the embedder to that of the index",
            code="embedder_mismatch",
        )
    return index


class SearchIndex:
    """An open snapshot of the search index; use as a context manager, or call :meth:`close`. Threads may share it.

    Methods that take ids of chunks raise :class:`InputError` for a chunk that is not in the snapshot.
    """

    def __init__(self, snapshot: Snapshot | HeldRows) -> None:
        self.snapshot = snapshot
        self._lock = threading.Lock()
        self._graph: Graph | None = None
        self._samples: dict[int, NDArray[np.float64]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the snapshot; the index cannot be searched afterwards."""
        with self._lock:
            if self._graph is not None:
                self._graph.close()
        self.snapshot.close()

    @property
    def manifest(self) -> Manifest:
        """Content and origin of the snapshot."""
        return self.snapshot.manifest

    def __contains__(self, chunk_id: str) -> bool:
        """Return whether a chunk is in the index."""
        return chunk_id in self._row_of_chunk

    def search(
        self, queries: Vectors, request: SearchRequest, *, texts: Sequence[str] | None = None
    ) -> SearchResult:
        """Find the best chunks for each query of a batch, given as unit rows.

        All rankings but ``dense`` need their ``texts``. Equal scores are ordered by similarity, date of publication and
        id.
        """
        started = time.perf_counter()
        manifest = self.manifest
        if queries.shape[1] != manifest.dimension:
            raise SearchIndexError(
                f"queries are {queries.shape[1]} wide, and the index is {manifest.dimension} wide; embedder "
                f"{manifest.embedder_id!r} made it: use that embedder, or run `{REBUILD_COMMAND}` to rebuild the index",
                code="embedder_mismatch",
            )
        if (stray := find_stray_vector(queries)) is not None:
            raise InputError(f"query {stray} is not a finite unit vector", code="unusable_vectors")
        if request.nprobe is not None:
            warnings.warn(
                "nprobe is a parameter of IVF indexes. The HNSW index uses it as ef_search, and the exact "
                "search ignores it. Set index.ef_search instead",
                stacklevel=2,
            )
        scope = self._scope_of(request.filters, len(queries))
        engine, reason, pairs = self._find(queries, texts, request, scope)
        hits = self._tabulate(queries, pairs, request)
        figures = {"queries": len(queries), "hits": hits.height, "engine": engine, "reason": reason}
        log_event(logger, "search", figures, seconds=time.perf_counter() - started)
        return SearchResult(hits, engine, reason)

    def count_admitted(self, filters: Filters) -> int:
        """Count the chunks that filters admit to a query, with its time or none."""
        return int(self._scope_of(filters, 1).allowed[0])

    @cached_property
    def documents(self) -> pl.DataFrame:
        """The documents by uri, with everything that is told of them."""
        return self.snapshot.documents.sort("uri", "document_id")

    def describe(self, chunk_ids: Iterable[str]) -> pl.DataFrame:
        """Read chunks as ``document_chunks`` has them, in the order of their ids, with the facts of their documents."""
        rows = self._rows_of(chunk_ids)
        documents = self.snapshot.documents[self._row_documents[rows]]
        chunks = self.snapshot.chunks[rows].drop("document")
        texts = pl.Series("text", self.snapshot.read_texts(rows), dtype=pl.String)
        keyed = chunks.with_columns(documents["document_id"], documents["revision"], texts)
        return keyed.hstack(documents.select(_FACTS))

    def read_around(self, chunk_ids: Iterable[str]) -> pl.DataFrame:
        """Read chunks, which do not repeat, and those before and after each in its document and on its pages."""
        rows = self._rows_of(chunk_ids)
        columns = ("document", "chunk_index", "page_start", "page_end")
        wanted = self.snapshot.chunks[rows].select("chunk_id", *columns).with_row_index("position")
        of_documents = np.flatnonzero(np.isin(self._row_documents, self._row_documents[rows]))
        others = (
            self.snapshot.chunks[of_documents].select(*columns, "char_start").with_columns(row=of_documents)
        )
        distance = pl.col("chunk_index_right").cast(pl.Int64) - pl.col("chunk_index").cast(pl.Int64)
        # A passage is cited by the pages of its chunk.
        is_inside = pl.col("page_start").is_null() | (
            (pl.col("page_start_right") >= pl.col("page_start"))
            & (pl.col("page_end_right") <= pl.col("page_end"))
        )
        near = (
            wanted.join(others, on="document")
            .filter(distance.abs() <= 1, is_inside)
            .sort("position", "chunk_index_right")
        )
        texts = self.snapshot.read_texts(near["row"].to_numpy())
        return near.select("chunk_id", "char_start", text=pl.Series(texts, dtype=pl.String))

    def terms_of(self, texts: Sequence[str]) -> pl.DataFrame:
        """Find the distinct indexed words of texts; see :meth:`backstory.index.keywords.KeywordIndex.terms_of`."""
        return self.snapshot.keywords.terms_of(texts)

    def words_of(self, texts: Sequence[str]) -> IndexedWords:
        """Find the indexed words of texts in their order, numbered and weighed as in :meth:`terms_of`."""
        return self.snapshot.keywords.words_of(texts)

    def sample_vectors(self, most: int) -> NDArray[np.float64]:
        """Read the vectors of at most ``most`` chunks that people wrote, in double precision and read-only.

        Hashes of their ids choose, so that an added chunk changes one of them at most.
        """
        sample = self._samples.get(most)
        if sample is None:
            by_people = np.flatnonzero(self._is_row_by_people)
            hashes = digest_each(self.snapshot.rows["chunk_id"].gather(by_people))
            chosen = [row for _, row in heapq.nsmallest(most, zip(hashes, by_people.tolist(), strict=True))]
            sample = self.snapshot.vectors[chosen].astype(np.float64)
            sample.setflags(write=False)
            self._samples[most] = sample
        return sample

    def vectors_of(self, chunk_ids: Iterable[str]) -> Vectors:
        """Read the vectors of chunks in the order of their ids, unit rows of shape ``(chunks, dimension)``."""
        vectors: Vectors = np.array(self.snapshot.vectors[self._rows_of(chunk_ids)])
        return vectors

    def list_posts(self, chunk_ids: Iterable[str]) -> list[str]:
        """List those of some chunks, in their order, that are of posts that Backstory wrote."""
        ids = list(chunk_ids)
        by_people = self._is_row_by_people[self._rows_of(ids)].tolist()
        return [chunk_id for chunk_id, is_by_people in zip(ids, by_people, strict=True) if not is_by_people]

    @cached_property
    def _row_documents(self) -> NDArray[np.int64]:
        return self.snapshot.rows["document"].to_numpy()

    @cached_property
    def _is_row_by_people(self) -> NDArray[np.bool_]:
        is_post = self.snapshot.documents["uri"].str.starts_with(WRITTEN_PREFIX).to_numpy()
        by_people: NDArray[np.bool_] = ~is_post[self._row_documents]
        return by_people

    @cached_property
    def _row_of_chunk(self) -> dict[str, int]:
        return {chunk_id: row for row, chunk_id in enumerate(self.snapshot.rows["chunk_id"])}

    def _rows_of(self, chunk_ids: Iterable[str]) -> NDArray[np.int64]:
        try:
            return np.array([self._row_of_chunk[chunk_id] for chunk_id in chunk_ids], np.int64)
        except KeyError as error:
            message = f"chunk {error} is not in search index {self.manifest.version}"
            raise InputError(message, code="unknown_chunk") from error

    def _scope_of(self, filters: Filters, query_count: int) -> Scope:
        chunks = self.snapshot.rows if filters.pages is None else self.snapshot.chunks
        return scope_of(filters, self.snapshot.documents, chunks, query_count)

    def _find(
        self, queries: Vectors, texts: Sequence[str] | None, request: SearchRequest, scope: Scope
    ) -> tuple[str, str, Matches]:
        """Find candidates: the engine, the reason for its choice, and the pairs with their score by keywords."""
        keywords, words = None, None
        if request.ranking != "dense":
            if texts is None or len(texts) != len(queries):
                what = f"ranking {request.ranking} needs one text for each of {len(queries)} queries"
                raise InputError(what, code="wrong_count")
            keywords = self.snapshot.keywords
            terms = keywords.find_terms(texts, request.keyword_terms)
            if request.ranking == "keyword":
                return "bm25", "ranking keyword compares words only", keywords.search(terms, request, scope)
            words = partial(keywords.score, terms)
        engine, reason, near = self._approximate(queries, request, scope)
        if near is None:
            return engine, reason, find_best(queries, self.snapshot.vectors, request, scope, words)
        if keywords is None:
            return engine, reason, replace(near, score=np.zeros(len(near)))
        return engine, reason, unite(near, keywords.search(terms, request, scope, besides=near))

    def _approximate(
        self, queries: Vectors, request: SearchRequest, scope: Scope
    ) -> tuple[str, str, Matches | None]:
        """Search the HNSW index; if it cannot answer, give the reason and no pairs."""
        recall, snapshot = self.manifest.recall_at_5, self.snapshot
        if request.mode == "exact":
            return "exact", "the request sets mode exact", None
        if not self.manifest.rows:
            return "exact", "the index is empty", None
        if recall is None or not isinstance(snapshot, Snapshot):
            least = self.manifest.settings.ann_min_rows
            return "exact", f"{self.manifest.rows} rows are below ann_min_rows {least}", None
        from backstory.index.graph import LOW_RECALL

        if recall < LOW_RECALL:
            return "exact", f"the HNSW index found only {recall:.0%} of the best five when it was built", None
        with self._lock:
            self._graph = self._graph or _open_graph(snapshot)
        found = self._graph.search(queries, request, scope)
        if isinstance(found, str):
            return "exact", found, None
        return self._graph.name, self._graph.describe(request, recall), found

    def _tabulate(self, queries: Vectors, pairs: Matches, request: SearchRequest) -> pl.DataFrame:
        """Make the table of hits from candidates and their score by keywords, 0 for one that keywords did not find."""
        snapshot = self.snapshot
        similarity = pair_similarities(queries, snapshot.vectors, pairs.query, pairs.row)
        score = pairs.score
        if request.ranking != "keyword":
            score = fuse(similarity, pairs.score, request.keyword_weight)
        order = order_best(pairs, similarity, score, request)
        best = pairs.where(order)
        # Series of their types, since a frame of arrays takes longer to make than one query to answer.
        return pl.DataFrame(
            [
                pl.Series("query", best.query, dtype=pl.Int64),
                snapshot.rows["chunk_id"][best.row],
                snapshot.documents["document_id"][snapshot.rows["document"][best.row]],
                pl.Series("similarity", similarity[order]),
                pl.Series("keyword_score", np.where(best.score > 0, best.score, np.nan), nan_to_null=True),
                pl.Series("score", score[order]),
                pl.Series("rank", rank_within(best.query) + 1, dtype=pl.Int64),
            ]
        )


def _open_graph(snapshot: Snapshot) -> Graph:
    manifest = snapshot.manifest
    if manifest.collection is None:
        from backstory.index.graph import VssGraph

        return VssGraph(snapshot.folder / GRAPH_FILE, snapshot.vectors, manifest.settings.ef_search)
    from backstory.index.milvus import Collection, MilvusGraph

    collection = Collection(manifest.settings, manifest.collection, manifest.version)
    return MilvusGraph(collection, snapshot.vectors, snapshot.rows, snapshot.documents)
