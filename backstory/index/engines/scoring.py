"""The scoring of rows: similarity, plus the weighted square root of BM25. Without words the ranking is dense.

Fusing ranks would lose how much better the best hit is, and a search that found nothing good would weigh as much
as one that did. Fusing scores avoids both. The square root limits long texts, whose BM25 grows with every shared
word and would otherwise outweigh the cosine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.index.engines.keywords import CELLS_AT_ONCE
from backstory.index.engines.matches import Matches, cells_of_best, multiply, order_best, pair_similarities
from backstory.index.engines.scope import Scope
from backstory.index.request import SearchRequest
from backstory.models.embeddings.protocol import Vectors

# With fewer queries per group, the matrix product spends most of its time reading the vectors.
LEAST_QUERIES = 64
# Single-precision scores differ from the true similarity of unit vectors by less than half of this.
SLACK: Final = 1e-5
_CROWD: Final = 32
"""Rows for each wanted one among which the best are chosen block by block, such as of repeated texts."""

ScoreWords: TypeAlias = Callable[[int, int, int, int], NDArray[np.float32]]
"""Gives the BM25 scores of a range of rows for a range of queries: first query, stop, first row, stop."""


def find_best(
    queries: Vectors,
    vectors: Vectors,
    request: SearchRequest,
    scope: Scope,
    score_words: ScoreWords | None = None,
) -> Matches:
    """Find exactly the best rows for each query.

    Args:
        queries: Unit rows, shape ``(queries, dimension)``, float32.
        vectors: Unit rows, shape ``(rows, dimension)``, float32; usually mapped from a file.
        request: Number of hits, threshold and weight of keywords.
        scope: The rows that each query may see.
        score_words: Scores words; None if the ranking is dense.

    Returns:
        The best pairs of each query, best first, with their keyword score, 0 without words.
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
    fused = multiply(queries, vectors)
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
    best = order_best(pairs, similarity, score, request.top_k, request.min_similarity)
    return Matches(pairs.query[best], pairs.row[best], pairs.score[best])


def unite(dense: Matches, keyword: Matches) -> Matches:
    """Merge the pairs of two searches, each pair once.

    Args:
        dense: Pairs found by similarity.
        keyword: Pairs found or scored by keywords.

    Returns:
        All pairs, by query and row, with their keyword score, 0 if keywords did not find the pair.
    """
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
