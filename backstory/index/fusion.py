"""One ranking out of two: weighted reciprocal rank fusion (Cormack, Clarke, Büttcher 2009)."""

from __future__ import annotations

import numpy as np

from backstory.index.matches import Matches, take_best

RANK_CONSTANT = 60


def fuse(dense: Matches, keyword: Matches, keyword_weight: float) -> Matches:
    """Merge two rankings of the same queries.

    In each ranking that holds it, a row scores ``weight / (60 + rank)``; a ranking of weight zero is ignored.

    Args:
        dense: Ranking by similarity.
        keyword: Ranking by keywords.
        keyword_weight: Weight of the keywords, 0 to 1; the similarity has the rest.

    Returns:
        The rows of both rankings with their fused score.
    """
    weighted = [(dense, 1.0 - keyword_weight), (keyword, keyword_weight)]
    parts = [
        (matches, weight / (RANK_CONSTANT + matches.ranks())) for matches, weight in weighted if weight > 0
    ]
    query = np.concatenate([matches.query for matches, _ in parts])
    row = np.concatenate([matches.row for matches, _ in parts])
    width = int(row.max(initial=0)) + 1
    pairs, position = np.unique(query * width + row, return_inverse=True)
    scores = np.bincount(position, np.concatenate([score for _, score in parts]), len(pairs)).astype(
        np.float64
    )
    return take_best(Matches(pairs // width, pairs % width, scores), len(pairs))
