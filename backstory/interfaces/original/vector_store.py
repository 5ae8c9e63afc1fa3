"""The store of the original design: one search over its ``chunks.parquet``, or over a folder of published snapshots."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from backstory.base.errors import SearchIndexError, WorkspaceError
from backstory.index.request import Mode, Scope, SearchRequest
from backstory.index.scoring import find_best, pair_similarities
from backstory.index.search import SearchIndex, open_index
from backstory.models.embeddings.protocol import Vectors

logger = logging.getLogger(__name__)

_REQUIRED = ("chunk_id", "document_id", "content", "embedding")
_OPTIONAL: dict[str, pl.DataType | type[pl.DataType]] = {
    "post_slug": pl.String,
    "post_title": pl.String,
    "post_date": pl.String,
    "tags": pl.List(pl.String),
    "chunk_index": pl.Int64,
    "document_type": pl.String,
    "category": pl.String,
    "authors": pl.List(pl.String),
}
_RESULT_COLUMNS = (
    "query_chunk",
    "content",
    "similarity",
    "document_id",
    "post_slug",
    "post_title",
    "post_date",
    "tags",
    "chunk_id",
    "chunk_index",
    "metadata",
)


class VectorStore:
    """A searchable store of chunks.

    Args:
        path: A ``chunks.parquet`` of the original design, or a folder that
            :func:`backstory.index.build.publish_content` publishes to.

    Raises:
        WorkspaceError: There is no such file or folder.
        SearchIndexError: The file is not a store of chunks, or the snapshot is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise WorkspaceError(
                f"{self.path} does not exist; pass a chunks.parquet or the index folder of a workspace",
                code="absent_file",
            )
        if self.path.is_dir():
            self._index: SearchIndex | None = open_index(self.path, embedder_id=None)
            self._chunks = pl.DataFrame()
            self._vectors = np.empty((0, self._index.manifest.dimension), dtype=np.float32)
        else:
            self._index = None
            self._chunks, self._vectors = _read_chunks(self.path)

    @property
    def dimension(self) -> int:
        """Number of values in a vector."""
        return self._index.manifest.dimension if self._index else self._vectors.shape[1]

    @property
    def embedder_id(self) -> str | None:
        """The embedding space of the vectors; None for a ``chunks.parquet``, which does not record it."""
        return self._index.manifest.embedder_id if self._index else None

    def search(
        self,
        query_vec: Any,
        top_k: int = 5,
        min_similarity_threshold: float = 0.7,
        mode: Mode = "ann",
        nprobe: int | None = None,
        overfetch: int | None = None,
    ) -> pl.DataFrame:
        """Find the chunks most similar to one vector.

        Args:
            query_vec: The query's vector, shape ``(dimension,)``; it need not have unit length.
            top_k: Most results.
            min_similarity_threshold: Least cosine similarity.
            mode: ``ann`` allows approximation, ``exact`` does not.
            nprobe: Accepted for compatibility; mapped to ``ef_search``, with a warning.
            overfetch: Factor by which an approximate search takes more candidates than ``top_k``.

        Returns:
            Results, best first, with the columns of :func:`backstory.query_rag_per_chunk`.

        Raises:
            SearchIndexError: The vector and the store have different dimensions.
        """
        vector = np.asarray(query_vec, dtype=np.float32).reshape(1, -1)
        return self.search_batch(vector, top_k, min_similarity_threshold, mode, nprobe, overfetch)

    def search_batch(
        self,
        query_vecs: Vectors,
        top_k: int = 5,
        min_similarity_threshold: float = 0.7,
        mode: Mode = "ann",
        nprobe: int | None = None,
        overfetch: int | None = None,
    ) -> pl.DataFrame:
        """Find the chunks most similar to each of many vectors, in one batch.

        Args:
            query_vecs: Shape ``(queries, dimension)``.
            top_k: Most results per query.
            min_similarity_threshold: Least cosine similarity.
            mode: As for :meth:`search`.
            nprobe: As for :meth:`search`.
            overfetch: As for :meth:`search`.

        Returns:
            Results by ``query_chunk`` (position of the query), best first.

        Raises:
            SearchIndexError: The vectors and the store have different dimensions.
        """
        queries = _as_unit_rows(np.asarray(query_vecs, dtype=np.float32))
        if queries.shape[1] != self.dimension:
            raise SearchIndexError(
                f"the query is {queries.shape[1]} wide and {self.path} is {self.dimension} wide; "
                "use the model that built the store",
                code="embedder_mismatch",
            )
        request = SearchRequest(
            top_k=top_k,
            min_similarity=min_similarity_threshold,
            mode=mode,
            nprobe=nprobe,
            overfetch=overfetch,
        )
        if self._index is not None:
            return _search_snapshot(self._index, queries, request)
        if nprobe is not None:
            warnings.warn("nprobe has no effect: a chunks.parquet is searched exactly", stacklevel=2)
        return self._search_chunks(queries, request)

    def _search_chunks(self, queries: Vectors, request: SearchRequest) -> pl.DataFrame:
        count = np.full(len(queries), len(self._chunks), dtype=np.int64)
        scope = Scope(len(self._chunks), count, None)
        matches = find_best(queries, self._vectors, request, scope)
        similarity = pair_similarities(queries, self._vectors, matches.query, matches.row)
        logger.debug(
            "searched store=%s queries=%d engine=exact results=%d", self.path, len(queries), len(matches)
        )
        return (
            self._chunks[matches.row]
            .with_columns(query_chunk=pl.Series(matches.query), similarity=pl.Series(similarity))
            .select(_RESULT_COLUMNS)
        )


def _search_snapshot(index: SearchIndex, queries: Vectors, request: SearchRequest) -> pl.DataFrame:
    result = index.search(queries, request)
    described = index.describe(result.hits["chunk_id"].unique(maintain_order=True)).drop("document_id")
    rows = result.hits.join(described, on="chunk_id", maintain_order="left")
    return rows.select(
        "similarity",
        "document_id",
        "tags",
        "chunk_id",
        "chunk_index",
        query_chunk="query",
        content="text",
        post_slug="slug",
        post_title="title",
        post_date=pl.col("published_at").dt.strftime("%Y-%m-%d"),
        metadata=pl.struct("revision", "uri", "kind", "heading", "char_start", "char_end"),
    ).select(_RESULT_COLUMNS)


def _read_chunks(path: Path) -> tuple[pl.DataFrame, Vectors]:
    try:
        frame = pl.read_parquet(path)
    except pl.exceptions.ComputeError as error:
        raise SearchIndexError(f"{path} is not a Parquet file ({error})", code="damaged_file") from error
    absent = [name for name in _REQUIRED if name not in frame.columns]
    if absent:
        raise SearchIndexError(
            f"{path}: column {', '.join(absent)} is absent; a chunks.parquet holds {', '.join(_REQUIRED)}",
            code="absent_column",
        )
    widths = frame["embedding"].list.len().unique()
    if len(widths) > 1:
        raise SearchIndexError(f"{path}: embeddings of {len(widths)} widths; all must be equal")
    width = int(widths[0]) if len(widths) else 0
    flat = frame["embedding"].explode().cast(pl.Float32).to_numpy()
    vectors = flat.reshape(len(frame), width).astype(np.float32)
    if not np.isfinite(vectors).all():
        raise SearchIndexError(f"{path}: an embedding holds a value that is not a finite number")
    known = frame.with_columns(
        pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in _OPTIONAL.items()
    ).with_columns(metadata=pl.struct("document_type", "category", "authors"))
    return known, _as_unit_rows(vectors)


def _as_unit_rows(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit
