"""What is asked of a search, and the table that answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

# Polars asks for masked arrays when it takes a plain one: loaded here, so that the first search need not wait for it.
import numpy.ma
import polars as pl
from numpy.typing import NDArray

from backstory.embeddings.protocol import Vectors
from backstory.errors import EmbedderMismatchError, InputError
from backstory.index.matches import Matches, find_stray_vector, order_best, rank_within
from backstory.index.snapshot.manifest import REBUILD_COMMAND, Manifest

Mode = Literal["ann", "exact"]
Ranking = Literal["dense", "keyword", "hybrid"]

KEYWORD_CANDIDATES = 100
_KEYWORD_OVERFETCH = 4


@dataclass(frozen=True)
class SearchRequest:
    """The arguments of a search that are the same for every query; see :meth:`SearchIndex.search`.

    Raises:
        InputError: One of them is out of its range.
    """

    top_k: int
    min_similarity: float | None
    mode: Mode
    ranking: Ranking
    keyword_weight: float
    keyword_terms: int | None
    nprobe: int | None
    overfetch: int | None

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("mode", self.mode, get_args(Mode)),
            ("ranking", self.ranking, get_args(Ranking)),
        ):
            if value not in choices:
                raise InputError(f"{name} {value!r} is not known; use one of {', '.join(choices)}")
        for name in ("top_k", "keyword_terms", "nprobe", "overfetch"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise InputError(f"{name} {count} must be at least 1")
        if self.min_similarity is not None and not -1 <= self.min_similarity <= 1:
            raise InputError(f"min_similarity {self.min_similarity} must lie within -1 and 1")
        if not 0 <= self.keyword_weight <= 1:
            raise InputError(f"keyword_weight {self.keyword_weight} must lie within 0 and 1")

    @property
    def candidates(self) -> int:
        """Number of rows that each ranking contributes for a query."""
        if self.ranking == "dense":
            return self.top_k
        return max(KEYWORD_CANDIDATES, self.top_k * (self.overfetch or _KEYWORD_OVERFETCH))


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        hits: One row per hit, ordered by query and rank: query (position), chunk_id, document_id, similarity
            (cosine), keyword_score (BM25; null where keywords did not find the chunk), score (what the
            ranking orders by), rank (from 1 within the query).
        engine: What answered: ``exact``, ``vss``, or ``bm25`` where only keywords were asked for.
        reason: Why that engine answered.
    """

    hits: pl.DataFrame
    engine: str
    reason: str


def check_queries(queries: Vectors, manifest: Manifest) -> None:
    """See that queries can be compared with the vectors of a snapshot.

    Args:
        queries: What was passed as queries.
        manifest: The snapshot's manifest.

    Raises:
        EmbedderMismatchError: They have another width.
        InputError: They are not finite unit rows of float32.
    """
    if queries.ndim != 2 or queries.dtype != np.float32:
        raise InputError(
            f"queries have shape {queries.shape} and type {queries.dtype}; pass float32 of shape "
            "(queries, dimension)"
        )
    if queries.shape[1] != manifest.dimension:
        raise EmbedderMismatchError(
            f"queries are {queries.shape[1]} wide, and the index {manifest.dimension}, made with embedder "
            f"{manifest.embedder_id!r}; use that embedder, or run `{REBUILD_COMMAND}` to build it again"
        )
    if (stray := find_stray_vector(queries)) is not None:
        raise InputError(f"query {stray} is not a finite unit vector; normalise the rows")


def tabulate(
    ranked: Matches,
    similarity: NDArray[np.float64],
    keyword: Matches | None,
    request: SearchRequest,
    rows: pl.DataFrame,
    documents: pl.DataFrame,
) -> pl.DataFrame:
    """Make the table of hits.

    Args:
        ranked: Candidates with the score to order by.
        similarity: Cosine similarity of each candidate.
        keyword: What keywords found, or None if they were not asked.
        request: Threshold and number of hits.
        rows: chunk_id and document (position) of every row of the index.
        documents: document_id of every document.

    Returns:
        The hits; equal scores are ordered by similarity, then by row.
    """
    order = order_best(ranked, similarity, ranked.score, request.top_k, request.min_similarity)
    query, row = ranked.query[order], ranked.row[order]
    columns: dict[str, Any] = {
        "query": query,
        "chunk_id": rows["chunk_id"][row],
        "document_id": documents["document_id"][rows["document"][row]],
        "similarity": similarity[order],
        "keyword_score": [None] * len(query),
        "score": ranked.score[order],
        "rank": rank_within(query) + 1,
    }
    schema = {"query": pl.Int64, "keyword_score": pl.Float64, "rank": pl.Int64}
    hits = pl.DataFrame(columns, schema_overrides=schema)
    if keyword is None:
        return hits
    scores = pl.DataFrame({"query": keyword.query, "row": keyword.row, "keyword_score": keyword.score})
    return (
        hits.drop("keyword_score")
        .with_columns(row=pl.Series(row, dtype=pl.Int64))
        .join(scores, on=["query", "row"], how="left", maintain_order="left")
        .select(hits.columns)
    )
