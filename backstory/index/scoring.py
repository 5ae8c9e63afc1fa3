"""The pairs of a query and a row that searches find, their one definition of similarity, and the exact search.

A row scores its similarity plus the weighted square root of BM25; without words the ranking is dense. Fusing ranks
would lose how much better the best hit is, and a search that found nothing good would weigh as much as one that did.
Fusing scores avoids both. The square root limits long texts, whose BM25 grows with every shared word and would
otherwise outweigh the cosine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.index.request import Scope, SearchRequest
from backstory.models.embeddings.protocol import Vectors

CELLS_AT_ONCE = 1 << 22
"""Scores of queries with rows that are in memory at once."""
# With fewer queries per group, the matrix product spends most of its time reading the vectors.
LEAST_QUERIES = 64
# Single-precision scores differ from the true similarity of unit vectors by less than half of this.
SLACK: Final = 1e-5
SIMILARITY_DECIMALS = 9
_CROWD: Final = 32
"""Rows for each wanted one among which the best are chosen block by block, such as of repeated texts."""
_BYTES_AT_ONCE = 8 << 20
_RUN_OF_ROWS = 64
_FEW_NUMBERS = 1 << 22

ScoreWords: TypeAlias = Callable[[int, int, int, int], NDArray[np.float32]]
"""Gives the BM25 scores of a range of rows for a range of queries: first query, stop, first row, stop."""


@dataclass(frozen=True)
class Matches:
    """Pairs of a query and a row by their positions, each with a cosine similarity or a keyword score."""

    query: NDArray[np.int64]
    row: NDArray[np.int64]
    score: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.query)

    @classmethod
    def joined(cls, parts: Iterable[Matches]) -> Matches:
        """Concatenate the pairs of several searches."""
        found = [cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64)), *parts]
        return cls(
            np.concatenate([matches.query for matches in found]),
            np.concatenate([matches.row for matches in found]),
            np.concatenate([matches.score for matches in found]),
        )

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Matches:
        """Take the pairs that a mask, positions or a slice choose."""
        return Matches(self.query[chosen], self.row[chosen], self.score[chosen])


def rank_within(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the members of each run of equal values from 0."""
    if not len(groups):
        return np.empty(0, np.int64)
    opens = np.ones(len(groups), bool)
    np.not_equal(groups[1:], groups[:-1], out=opens[1:])
    starts = np.flatnonzero(opens)
    places: NDArray[np.int64] = np.arange(len(groups)) - starts[np.cumsum(opens) - 1]
    return places


def cells_of_best(
    scores: NDArray[np.float32], limit: int, *, slack: float = 0.0, above: float = -np.inf
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the query and row of the best ``limit`` scores of each query above ``above``, and of few more.

    The bar is the ``limit``-th best peak of short runs of rows, but for ``slack``: it cannot exceed that best score.
    """
    if limit >= scores.shape[1]:
        query, row = (scores > above).nonzero()
        return query, row
    runs, peaks = scores.shape[1] // _RUN_OF_ROWS, scores
    if runs >= limit:
        peaks = scores[:, : runs * _RUN_OF_ROWS].reshape(len(scores), runs, _RUN_OF_ROWS).max(axis=2)
    bar = np.partition(peaks, -limit, axis=1)[:, -limit] - np.float32(slack)
    least = np.nextafter(np.float32(above), np.float32(np.inf))
    query, row = (scores >= np.maximum(bar, least)[:, None]).nonzero()
    return query, row


def take_best(matches: Matches, limit: int) -> Matches:
    """Keep the best pairs of each query, best first; among equal scores the lower row comes first."""
    order = np.lexsort((matches.row, -matches.score, matches.query))
    return matches.where(order[rank_within(matches.query[order]) < limit])


def order_best(
    matches: Matches, similarity: NDArray[np.float64], score: NDArray[np.float64], request: SearchRequest
) -> NDArray[np.int64]:
    """Find the positions of the best pairs of each query that reach the threshold, best first.

    Equal scores are ordered by similarity, then by row.
    """
    order = np.lexsort((matches.row, -similarity, -score, matches.query))
    if request.min_similarity is not None:
        order = order[similarity[order] >= request.min_similarity]
    return order[rank_within(matches.query[order]) < request.top_k]


def pair_similarities(
    queries: Vectors, vectors: Vectors, query: NDArray[np.int64], row: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compute the cosine similarity of pairs, given as positions in ``queries`` and ``vectors``, which are unit rows.

    In double precision and rounded, a pair has the same one with every engine, batch and number of threads.
    """
    similarities = np.empty(len(query), np.float64)
    step = max(1, _BYTES_AT_ONCE // (8 * max(1, queries.shape[1])))
    for start in range(0, len(query), step):
        part = slice(start, start + step)
        left = queries[query[part]].astype(np.float64)
        left *= vectors[row[part]]
        similarities[part] = left.sum(axis=1)
    return np.clip(similarities, -1.0, 1.0).round(SIMILARITY_DECIMALS)


def find_best(
    queries: Vectors,
    vectors: Vectors,
    request: SearchRequest,
    scope: Scope,
    score_words: ScoreWords | None = None,
) -> Matches:
    """Find exactly the best rows for each query, best first, with their keyword score, 0 without words.

    Queries and vectors are unit rows, float32. The vectors are usually mapped from a file.
    """
    found = []
    for first, last in scope.groups(CELLS_AT_ONCE, least=LEAST_QUERIES):
        row_count = int(scope.stop[first:last].max(initial=0))
        step = max(1, CELLS_AT_ONCE // (last - first))
        blocks = []
        for start in range(0, row_count, step):
            stop = min(start + step, row_count)
            if scope.mask is not None and not scope.mask[start:stop].any():
                continue
            words = None if score_words is None else score_words(first, last, start, stop)
            fused = _score_block(queries[first:last], vectors[start:stop], request, words)
            scope.hide(fused, first, start)
            query, row = cells_of_best(fused, request.top_k, slack=SLACK)
            score = np.zeros(len(query)) if words is None else words[query, row].astype(np.float64)
            pairs = Matches(query + first, row + start, score)
            is_crowd = len(pairs) > _CROWD * request.top_k * len(fused)
            blocks.append(_choose(queries, vectors, request, pairs) if is_crowd else pairs)
        found.append(_choose(queries, vectors, request, Matches.joined(blocks)))
    return Matches.joined(found)


def _score_block(
    queries: Vectors, vectors: Vectors, request: SearchRequest, words: NDArray[np.float32] | None
) -> NDArray[np.float32]:
    """Score a block of rows for a group of queries in single precision."""
    fused = np.empty((len(queries), len(vectors)), np.float32)
    if len(queries) > 1 or vectors.size > _FEW_NUMBERS:
        np.matmul(queries, vectors.T, out=fused)
    else:
        # To wake the threads of the linear algebra library, and to wait for them, takes longer than this product.
        np.einsum("ij,kj->ki", vectors, queries, out=fused)
    if request.min_similarity is not None:
        fused[fused < request.min_similarity - SLACK] = -np.inf
    if words is not None:
        bonus = np.sqrt(words)
        bonus *= np.float32(request.keyword_weight)
        fused += bonus
    return fused


def _choose(queries: Vectors, vectors: Vectors, request: SearchRequest, pairs: Matches) -> Matches:
    """Choose the best pairs of each query by their true scores."""
    similarity = pair_similarities(queries, vectors, pairs.query, pairs.row)
    score = fuse(similarity, pairs.score, request.keyword_weight)
    return pairs.where(order_best(pairs, similarity, score, request))


def unite(dense: Matches, keyword: Matches) -> Matches:
    """Merge the pairs found by similarity and by keywords, each once, with their keyword score or 0."""
    query = np.concatenate([dense.query, keyword.query])
    row = np.concatenate([dense.row, keyword.row])
    keyword_scores = np.concatenate([np.zeros(len(dense)), keyword.score])
    width = int(row.max(initial=0)) + 1
    pairs, position = np.unique(query * width + row, return_inverse=True)
    scores = np.zeros(len(pairs))
    np.maximum.at(scores, position, keyword_scores)
    return Matches(pairs // width, pairs % width, scores)


def fuse(
    similarity: NDArray[np.float64], keyword_score: NDArray[np.float64], keyword_weight: float
) -> NDArray[np.float64]:
    """Add the weighted square root of the keyword score, 0 or more, to the similarity of each pair."""
    fused: NDArray[np.float64] = similarity + keyword_weight * np.sqrt(keyword_score)
    return fused
