"""Judgements of a reranker -> the order of a window's candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backstory.rerankers.protocol import Judgements
from backstory.rerankers.reranking import Shortlist
from backstory.strategies import VectorSources, compare_queries, cover_evidence


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
    """Choose the candidates that serve the topics of a window best, as the rater judged them.

    Each step chooses the candidate that adds most to what the chosen ones give to each topic (LANCER, ECIR 2026). Rows
    that are single query chunks may be about the same, so their evidence is discounted by their likeness.

    Args:
        judgements: Of the listed candidates; without any, the order of the selection is kept.
        listed: The candidates of the window.
        count: Most candidates to choose.
        vectors: Gives the vectors of query chunks, if rows are compared.

    Returns:
        At most ``count`` chosen candidates, unless the order is kept.
    """
    if judgements.note is not None:
        return keep_order(listed)
    evidence = judgements.evidence
    serving = np.flatnonzero(evidence.any(axis=0))
    if not serving.size:
        return Order((), tuple(listed.chunk_ids))
    alike = None
    if not judgements.separate:
        rows = [query_id for topic in judgements.topics for query_id in topic.query_chunk_ids]
        alike = compare_queries(vectors.of_queries(rows))
    chosen = serving[cover_evidence(evidence[:, serving], min(count, len(serving)), rows_alike=alike)]
    rejected = np.setdiff1d(np.arange(len(listed.chunk_ids)), serving)
    return Order(
        tuple(listed.chunk_ids[place] for place in chosen),
        tuple(listed.chunk_ids[place] for place in rejected),
    )
