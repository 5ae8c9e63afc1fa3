"""The result of a search: a table of hits, and the engine that found them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Polars imports masked arrays when it converts an array. Importing them here keeps that cost out of the first search.
import numpy.ma
import polars as pl

from backstory.base.errors import InputError, SearchIndexError
from backstory.index.engines.matches import (
    Matches,
    find_stray_vector,
    order_best,
    pair_similarities,
    rank_within,
)
from backstory.index.engines.scoring import fuse
from backstory.index.request import SearchRequest
from backstory.index.snapshot.manifest import REBUILD_COMMAND, Manifest
from backstory.models.embeddings.protocol import Vectors


@dataclass(frozen=True)
class SearchResult:
    """The hits of a search.

    Attributes:
        hits: One row per hit, ordered by query and rank: query (position), chunk_id, document_id, similarity
            (cosine), keyword_score (BM25; null if keywords did not find the chunk), score (the sort key of the
            ranking), rank (from 1 within the query).
        engine: Engine that answered: ``exact``, ``vss``, ``milvus``, or ``bm25`` for ranking ``keyword``.
        reason: Why that engine answered.
    """

    hits: pl.DataFrame
    engine: str
    reason: str


def tabulate(
    queries: Vectors,
    vectors: Vectors,
    pairs: Matches,
    request: SearchRequest,
    rows: pl.DataFrame,
    documents: pl.DataFrame,
) -> pl.DataFrame:
    """Make the table of hits from candidates and their score by keywords, 0 for one that keywords did not find."""
    similarity = pair_similarities(queries, vectors, pairs.query, pairs.row)
    score = pairs.score
    if request.ranking != "keyword":
        score = fuse(similarity, pairs.score, request.keyword_weight)
    order = order_best(pairs, similarity, score, request.top_k, request.min_similarity)
    query, row, found = pairs.query[order], pairs.row[order], pairs.score[order]
    # Series of their types, since a frame of arrays takes longer to make than one query to answer.
    return pl.DataFrame(
        [
            pl.Series("query", query, dtype=pl.Int64),
            rows["chunk_id"][row],
            documents["document_id"][rows["document"][row]],
            pl.Series("similarity", similarity[order]),
            pl.Series("keyword_score", np.where(found > 0, found, np.nan), nan_to_null=True),
            pl.Series("score", score[order]),
            pl.Series("rank", rank_within(query) + 1, dtype=pl.Int64),
        ]
    )


def check_queries(queries: Vectors, manifest: Manifest) -> None:
    """Check that queries can be compared with the vectors of a snapshot."""
    if queries.ndim != 2 or queries.dtype != np.float32:
        raise InputError(
            f"queries have shape {queries.shape} and type {queries.dtype}; pass float32 of shape "
            "(queries, dimension)",
            code="unusable_vectors",
        )
    if queries.shape[1] != manifest.dimension:
        raise SearchIndexError(
            f"queries are {queries.shape[1]} wide, and the index is {manifest.dimension} wide; embedder "
            f"{manifest.embedder_id!r} made it: use that embedder, or run `{REBUILD_COMMAND}` to rebuild the index",
            code="embedder_mismatch",
        )
    if (stray := find_stray_vector(queries)) is not None:
        raise InputError(
            f"query {stray} is not a finite unit vector; normalise the rows", code="no_unit_vector"
        )
