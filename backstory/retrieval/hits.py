"""Query chunks x index -> hits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import polars as pl

from backstory.base.errors import InputError
from backstory.base.ids import WHOLE_WINDOW
from backstory.base.telemetry import log_event
from backstory.index.request import Filters, SearchRequest
from backstory.index.search import SearchIndex, SearchResult
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import RAGSettings
from backstory.storage.tables import schemas
from backstory.storage.tables.contracts import conform

logger = logging.getLogger(__name__)

PostsOf: TypeAlias = Callable[[str], Sequence[str]]
"""Gives the ids of the posts that the windows of a conversation may find."""


@dataclass(frozen=True)
class Queries:
    """The queries of a batch of windows, one row per query.

    Attributes:
        frame: ``query_chunk_id``, ``window_id``, ``conversation_id``, ``text`` and ``as_of`` of each query.
        vectors: Unit vectors of the queries, shape ``(queries, dimension)``, float32.
    """

    frame: pl.DataFrame
    vectors: Vectors

    def vectors_of(self, query_chunk_ids: Sequence[str]) -> Vectors:
        """Return the vectors of queries in the order of their ids, shape ``(len(ids), dimension)``.

        Raises:
            InputError: An id belongs to no query of this plan.
        """
        try:
            return self.vectors[[self._rows[query_chunk_id] for query_chunk_id in query_chunk_ids]]
        except KeyError as error:
            raise InputError(
                f"query chunk {error} is no query under these settings, so the hits were found with other "
                "settings; materialize `hits` first",
                code="unknown_query",
            ) from error

    def of(self, rows: pl.Series) -> Queries:
        """Return the queries of some rows, in the order of these."""
        return Queries(self.frame[rows], self.vectors[rows.to_numpy()])

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {query_chunk_id: row for row, query_chunk_id in enumerate(self.frame["query_chunk_id"])}


@dataclass(frozen=True)
class FoundHits:
    """The hits of a batch of windows.

    Attributes:
        frame: Table ``hits``.
        engine: Engine that searched.
        reason: Why this engine searched.
        queries: Number of queries.
    """

    frame: pl.DataFrame
    engine: str
    reason: str
    queries: int


def plan_queries(
    windows: pl.DataFrame, window_chunks: pl.DataFrame, vectors: Vectors, settings: RAGSettings
) -> Queries:
    """Choose the queries for each window.

    The plan ``chunked`` makes each query chunk a query. ``hybrid`` adds a query for the whole window, whose vector
    is the mean of its query chunks' vectors. ``adaptive`` makes one query of a whole window that has at most
    ``adaptive_max_messages`` messages, and queries of the chunks of longer windows.

    Args:
        windows: Table ``windows``.
        window_chunks: Table ``window_chunks``.
        vectors: Unit vectors of the query chunks, in the order of ``window_chunks``.
        settings: The ``rag`` settings.

    Returns:
        The queries, window by window.
    """
    chunks = window_chunks.select("chunk_id", "window_id", "text").with_row_index("row")
    starts = windows.select("window_id", "conversation_id", "started_at", "message_count")
    queried = chunks.join(starts, on="window_id", how="inner", maintain_order="left")
    if settings.plan == "chunked":
        return _queries(queried, vectors)
    whole, whole_vectors = _whole_windows(queried, vectors)
    if settings.plan == "adaptive":
        small = pl.col("message_count") <= settings.adaptive_max_messages
        whole_rows = whole.with_row_index("row")
        kept = whole_rows.filter(small)
        whole, whole_vectors = kept.drop("row"), whole_vectors[kept["row"].to_numpy()]
        queried = queried.filter(~small)
    parts = [_queries(queried, vectors), Queries(_columns(whole), whole_vectors)]
    return Queries(pl.concat([part.frame for part in parts]), np.vstack([part.vectors for part in parts]))


def _queries(queried: pl.DataFrame, vectors: Vectors) -> Queries:
    return Queries(_columns(queried), vectors[queried["row"].to_numpy()])


def _columns(queried: pl.DataFrame) -> pl.DataFrame:
    return queried.select(
        "window_id", "conversation_id", "text", query_chunk_id="chunk_id", as_of="started_at"
    )


def mean_vectors(keys: pl.Series, vectors: Vectors) -> tuple[pl.Series, Vectors]:
    """Average the vectors of each key.

    Args:
        keys: One key per vector.
        vectors: Unit rows, shape ``(len(keys), dimension)``.

    Returns:
        The distinct keys in the order of their first appearance, and one unit vector per key. A zero mean stays
        zero.
    """
    distinct = keys.unique(maintain_order=True)
    places = (
        keys.replace_strict(distinct, range(len(distinct)), return_dtype=pl.Int64).to_numpy().astype(np.int64)
    )
    sums = np.zeros((len(distinct), vectors.shape[1]), dtype=np.float32)
    np.add.at(sums, places, vectors)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return distinct, np.divide(sums, lengths, out=sums, where=lengths > 0)


def _whole_windows(queried: pl.DataFrame, vectors: Vectors) -> tuple[pl.DataFrame, Vectors]:
    frame = (
        queried.group_by("window_id", "conversation_id", "started_at", "message_count", maintain_order=True)
        .agg(text=pl.col("text").str.join("\n\n"))
        .with_columns(chunk_id=pl.col("window_id") + f"#{WHOLE_WINDOW}")
    )
    return frame, mean_vectors(queried["window_id"], vectors[queried["row"].to_numpy()])[1]


def find_hits(
    queries: Queries,
    index: SearchIndex,
    settings: RAGSettings,
    *,
    separate_posts: bool = False,
    posts_of: PostsOf | None = None,
) -> FoundHits:
    """Search for all queries of a batch at once.

    No threshold is applied here: :mod:`backstory.retrieval.selection.decisions` records each hit below it as dropped.

    Args:
        queries: Queries from :func:`plan_queries`.
        index: An open snapshot of the same embedding space.
        settings: The ``rag`` settings; ``chunks_per_query`` is the number of hits per query.
        separate_posts: Whether to search the posts that Backstory wrote by themselves, after what people wrote. A query
            then has as many hits again, of posts, unless ``posts_top_k`` is 0. Their ranks go on after the others.
        posts_of: Which posts a query may find; None for all.

    Returns:
        The hits, query by query, best first.
    """
    frame = queries.frame
    result = _search(queries, index, settings, by_people=True if separate_posts else None)
    found = result.hits
    if separate_posts and settings.posts_top_k:
        posts = _find_posts(queries, index, settings, posts_of)
        found = _append(found, pl.concat([found.clear(), *posts]))
    queried = frame.select("window_id", "query_chunk_id").with_row_index("query").cast({"query": pl.Int64})
    hits = queried.join(found, on="query", how="inner", maintain_order="left_right").with_columns(
        engine=pl.lit(result.engine), index_version=pl.lit(index.manifest.version)
    )
    log_event(
        logger, "searched", queries=len(frame), hits=len(hits), engine=result.engine, reason=result.reason
    )
    return FoundHits(conform(hits, schemas.Hits), result.engine, result.reason, len(frame))


def _search(
    queries: Queries, index: SearchIndex, settings: RAGSettings, *, by_people: bool | None
) -> SearchResult:
    frame = queries.frame
    filters = Filters(
        as_of=frame["as_of"].to_list() if settings.as_of else None,
        kinds=settings.kinds,
        tags=settings.tags,
        document_ids=settings.document_ids,
        tenant=settings.tenant,
        undated=settings.undated == "serve",
        by_people=by_people,
    )
    request = SearchRequest(
        top_k=settings.chunks_per_query,
        mode=settings.mode,
        ranking=settings.ranking,
        keyword_weight=index.manifest.calibration.keyword_weight,
        filters=filters,
        nprobe=settings.nprobe,
        overfetch=settings.overfetch,
    )
    texts = _keyword_texts(frame, settings) if settings.ranking != "dense" else None
    return index.search(queries.vectors, request, texts=texts)


def _find_posts(
    queries: Queries, index: SearchIndex, settings: RAGSettings, posts_of: PostsOf | None
) -> Iterator[pl.DataFrame]:
    """Search for the posts that each query may find: with ``posts_of``, conversation by conversation."""
    if posts_of is None:
        yield _search(queries, index, settings, by_people=False).hits
        return
    conversations = queries.frame["conversation_id"]
    for conversation in conversations.unique(maintain_order=True):
        admitted = set(settings.document_ids)
        posts = [each for each in posts_of(conversation) if not admitted or each in admitted]
        # An empty list of documents would admit all of them.
        if posts:
            rows = (conversations == conversation).arg_true()
            within = settings.model_copy(update={"document_ids": tuple(posts)})
            hits = _search(queries.of(rows), index, within, by_people=False).hits
            yield hits.with_columns(query=rows.cast(hits.schema["query"]).gather(hits["query"]))


def _append(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """Append the hits of each query to those of another search, with the ranks after theirs."""
    counted = first.group_by("query").agg(before=pl.len().cast(pl.Int64))
    later = (
        second.join(counted, on="query", how="left", maintain_order="left")
        .with_columns(rank=pl.col("rank") + pl.col("before").fill_null(0))
        .drop("before")
    )
    return pl.concat([first, later]).sort("query", "rank")


def _keyword_texts(queries: pl.DataFrame, settings: RAGSettings) -> list[str]:
    """Return the texts for the keyword search.

    BM25 grows with the number of words, so a whole window would beat its own chunks by length alone. In ``hybrid``
    ranking, a whole window is therefore compared by its vector only.
    """
    whole = pl.col("query_chunk_id").str.ends_with(f"#{WHOLE_WINDOW}")
    if settings.ranking == "keyword":
        return queries["text"].to_list()
    return queries.select(pl.when(whole).then(pl.lit("")).otherwise("text").alias("text"))["text"].to_list()
