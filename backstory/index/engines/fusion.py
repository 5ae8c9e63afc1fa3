"""One score out of two: cosine similarity and keywords.

Ranks forget how much better the best hit is, and let a leg that found nothing good drag a good one down. Scores
keep both; the square root keeps long texts, whose BM25 grows with every shared word, from drowning the cosine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from backstory.index.engines.matches import Matches


def unite(dense: Matches, keyword: Matches) -> Matches:
    """Put the pairs of two finds together, each once.

    Args:
        dense: Pairs found by similarity.
        keyword: Pairs found by keywords, or scored by them.

    Returns:
        All pairs, by query and row, with their keyword score; 0 where keywords did not find them.
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
    """Add a share of the keyword score to the similarity.

    Args:
        similarity: Cosine similarity of each pair.
        keyword_score: BM25 score of each pair, 0 or more.
        keyword_weight: Weight of its square root.

    Returns:
        One score per pair.
    """
    fused: NDArray[np.float64] = similarity + keyword_weight * np.sqrt(keyword_score)
    return fused
