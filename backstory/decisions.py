"""Hits -> decisions: what is judged, with the index that the hits came from."""

from __future__ import annotations

import polars as pl

from backstory.contexts import entry_budget, make_entry_counter
from backstory.index import SearchIndex
from backstory.reranking import Reranking
from backstory.selection import judge_hits
from backstory.settings import ContextSettings, RAGSettings
from backstory.strategies import FindVectors, VectorSources


def make_decisions(
    hits: pl.DataFrame,
    index: SearchIndex,
    query_vectors: FindVectors,
    rag: RAGSettings,
    context: ContextSettings,
    *,
    min_similarity: float,
    max_tokens: int | None = None,
    reranking: Reranking | None = None,
) -> pl.DataFrame:
    """Judge hits; vectors and texts of what they found are taken from the index.

    Args:
        hits: Table ``hits``.
        index: The snapshot that they were found in.
        query_vectors: Gives the unit vectors of query chunks by id, shape ``(len(ids), dimension)``.
        rag: How hits are judged.
        context: How entries are written, which says what tokens they take.
        min_similarity: Cosine below which a hit is no evidence.
        max_tokens: Token budget of one context; None for what the settings leave beside the heading.
        reranking: The last step, or None for the order of the strategy.

    Returns:
        Table ``decisions``, one row per hit, in the order of ``hits``.

    Raises:
        InputError: A hit is not of this index, or not of these queries.
        ModelError: The reranker could not be used, or gave no usable answer.
    """
    found = index.describe(hits["chunk_id"].unique(maintain_order=True))
    return judge_hits(
        hits,
        rag,
        min_similarity=min_similarity,
        vectors=VectorSources(query_vectors, index.vectors_of),
        entry_tokens=make_entry_counter(found, context),
        max_tokens=entry_budget(context) if max_tokens is None else max_tokens,
        reranking=reranking,
    )
