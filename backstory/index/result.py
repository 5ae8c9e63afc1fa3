"""The result of a search: a table of hits, and the engine that found them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Polars imports masked arrays when it converts an array. Importing them here keeps that cost out of the first search.
import numpy.ma
import polars as pl
from numpy.typing import NDArray

from backstory.index.engines.matches import Matches, order_best, rank_within
from backstory.index.request import SearchRequest


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
    ranked: Matches,
    similarity: NDArray[np.float64],
    keyword: NDArray[np.float64] | None,
    request: SearchRequest,
    rows: pl.DataFrame,
    documents: pl.DataFrame,
) -> pl.DataFrame:
    """Make the table of hits.

    Args:
        ranked: Candidates with the score of the ranking.
        similarity: Cosine similarity of each candidate.
        keyword: BM25 score of each candidate, 0 for one that keywords did not find; None if the ranking uses none.
        request: Threshold and number of hits.
        rows: chunk_id and document (position) of every row of the index.
        documents: document_id of every document.

    Returns:
        The hits. Equal scores are ordered by similarity, then by row.
    """
    order = order_best(ranked, similarity, ranked.score, request.top_k, request.min_similarity)
    query, row = ranked.query[order], ranked.row[order]
    chosen = pl.Series(row)
    found = np.full(len(order), np.nan) if keyword is None else keyword[order]
    # Series of their types, since a frame of arrays takes longer to make than one query to answer.
    return pl.DataFrame(
        [
            pl.Series("query", query, dtype=pl.Int64),
            rows["chunk_id"][chosen],
            documents["document_id"][rows["document"][chosen]],
            pl.Series("similarity", similarity[order]),
            pl.Series("keyword_score", np.where(found > 0, found, np.nan), nan_to_null=True),
            pl.Series("score", ranked.score[order]),
            pl.Series("rank", rank_within(query) + 1, dtype=pl.Int64),
        ]
    )
