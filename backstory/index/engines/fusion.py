"""Fusion of cosine similarity and keyword score into one score.

Fusing ranks would lose how much better the best hit is, and a search that found nothing good would weigh as much
as one that did. Fusing scores avoids both. The square root limits long texts, whose BM25 grows with every shared
word and would otherwise outweigh the cosine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from backstory.index.engines.matches import Matches


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
    """Add the weighted square root of the keyword score to the similarity.

    Args:
        similarity: Cosine similarity of each pair.
        keyword_score: BM25 score of each pair, 0 or more.
        keyword_weight: Weight of the square root of the BM25 score.

    Returns:
        One score per pair.
    """
    fused: NDArray[np.float64] = similarity + keyword_weight * np.sqrt(keyword_score)
    return fused
