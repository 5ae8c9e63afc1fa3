"""Judgements of a reranker -> the order of a window's candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from backstory.models.reranker import Judgements, Matrix
from backstory.models.reranking import Shortlist
from backstory.retrieval.selection.strategies import VectorSources, compare_queries, cover_evidence

_FURTHER: Final = 0.1
"""Share of what a candidate gives to topics other than the one it serves best; see docs/studies/rerankers.md."""


@dataclass(frozen=True)
class Order:
    """The order of a window's candidates.

    Attributes:
        chunk_ids: The candidates that may be kept, best first.
        rejected: The candidates that the rater found to serve no topic.
    """

    chunk_ids: tuple[str, ...]
    rejected: tuple[str, ...] = ()


def keep_order(listed: Shortlist) -> Order:
    """Keep the order of the selection."""
    return Order(tuple(listed.chunk_ids))


def order_judged(judgements: Judgements, listed: Shortlist, count: int, vectors: VectorSources) -> Order:
    """Choose the candidates that serve a window best, as the rater judged them.

    Args:
        judgements: Of the listed candidates; without any, the order of the selection is kept.
        listed: The candidates of the window.
        count: Most candidates to choose.
        vectors: Gives the vectors of query chunks, if the rows are query chunks: these may be about the same.

    Returns:
        At most ``count`` chosen candidates, unless the order is kept, and between them those that the rater was not
        shown.
    """
    if judgements.note is not None:
        return keep_order(listed)
    evidence = judgements.evidence
    serving = np.flatnonzero(evidence.max(axis=0, initial=0.0) > 0)
    rejected = np.setdiff1d(np.arange(len(listed.chunk_ids)), [*serving, *judgements.unsent])
    if not serving.size:
        return _keep_unsent((), judgements, listed, rejected)
    most = min(count, len(serving))
    if judgements.scale.rates_topics:
        chosen = cover_topics(evidence[:, serving], most, weights=count / (count + serving))
    else:
        rows = [query_id for topic in judgements.topics for query_id in topic.query_chunk_ids]
        chosen = cover_evidence(
            evidence[:, serving], most, rows_alike=compare_queries(vectors.of_queries(rows))
        )
    return _keep_unsent([listed.chunk_ids[place] for place in serving[chosen]], judgements, listed, rejected)


def _keep_unsent(
    chosen: Sequence[str], judgements: Judgements, listed: Shortlist, rejected: NDArray[np.int64]
) -> Order:
    """Order what was chosen, between the candidates that the rater was not shown, which keep their places."""
    unsent, order, left = set(judgements.unsent), list[str](), list(chosen)
    for place, chunk_id in enumerate(listed.chunk_ids):
        if place in unsent:
            order.append(chunk_id)
        elif left:
            order.append(left.pop(0))
    return Order(tuple(order), tuple(listed.chunk_ids[place] for place in rejected))


def cover_topics(evidence: Matrix, count: int, *, weights: Matrix) -> NDArray[np.int64]:
    """Choose candidates that serve every topic before any topic twice.

    Each step chooses the candidate that adds most to the best of what is chosen, as in LANCER (ECIR 2026). A rater
    errs, and among many pairs its errors are as frequent as what is relevant. So of a candidate's gains the largest
    counts in full and the others by a tenth, since a document that is said to serve many topics is more often
    misjudged; and the gain is weighted. A gain for a topic that is served already counts by a tenth, too, so that no
    better document for it comes before the first one for another topic. When no candidate adds anything, a further
    round begins.

    Args:
        evidence: Ratings from 0 to 1, 0 where a candidate does not serve a topic, shape ``(topics, candidates)``; no
            column is all 0.
        count: Number of candidates to choose, at most all.
        weights: What is known of the candidates without the rater, above 0, shape ``(candidates,)``.

    Returns:
        Positions of the chosen candidates, in the order of the choice, shape ``(count,)``.
    """
    best = np.zeros(len(evidence))
    chosen: list[int] = []
    while len(chosen) < count:
        added = np.maximum(evidence - best[:, None], 0)
        first = np.where(best[:, None] > 0, 0, added).max(axis=0)
        gain = (first + _FURTHER * (added.sum(axis=0) - first)) * weights
        gain[chosen] = 0
        pick = int(np.argmax(gain))
        if gain[pick] <= 0:
            best[:] = 0
            continue
        chosen.append(pick)
        best = np.maximum(best, evidence[:, pick])
    return np.array(chosen, dtype=np.int64)
