"""The recall of an HNSW index, measured on sampled queries when the index is built."""

from __future__ import annotations

import logging

import numpy as np
import polars as pl

from backstory.index.engines.exact import ExactEngine
from backstory.index.engines.graph import GraphEngine
from backstory.index.engines.matches import Matches
from backstory.index.engines.scope import scope_of
from backstory.index.request import Filters, SearchRequest
from backstory.index.snapshot.manifest import HnswRecord
from backstory.index.snapshot.shards import StoredVectors
from backstory.models.embeddings.protocol import Vectors

logger = logging.getLogger(__name__)

GOOD_RECALL = 0.98
SAMPLED_QUERIES = 500
REMEDY = "raise index.ef_search (which costs time per query), or index.hnsw_m and index.hnsw_ef_construction"

_BEST_FIVE = SearchRequest(top_k=5)
_SEED = 5
# Makes queries as hard as the small talk of real chats; a share of one half is far harder
# (docs/studies/approximate-search.md).
_OTHER_SHARE = 0.35


def measure_recall(engine: GraphEngine, vectors: StoredVectors) -> HnswRecord:
    """Compare an HNSW index with the exact search on realistic queries.

    Args:
        engine: Searches the HNSW index.
        vectors: All rows of the index, shape ``(rows, dimension)``.

    Returns:
        The share of the exact best five that it finds, and the number of queries.
    """
    queries = make_queries(vectors, SAMPLED_QUERIES)
    scope = scope_of(Filters(), pl.DataFrame(), np.zeros(len(vectors), np.int64), len(queries))
    recall = share_found(
        engine.search(queries, _BEST_FIVE, scope), ExactEngine(vectors).search(queries, _BEST_FIVE, scope)
    )
    if recall < GOOD_RECALL:
        logger.warning("HNSW index has a low recall_at_5=%.4f; %s", recall, REMEDY)
    return HnswRecord(recall_at_5=recall, sampled_rows=len(queries))


def make_queries(vectors: StoredVectors, count: int) -> Vectors:
    """Make vectors that resemble texts, but are not stored.

    A stored row is no fair query: the graph leads to it, and it is one of its own best five. Random noise
    resembles no text. So each query mixes a row with a share of another row.

    Args:
        vectors: The rows, shape ``(rows, dimension)``.
        count: Number of queries.

    Returns:
        Unit rows, shape ``(count, dimension)``, the same for the same vectors.
    """
    random = np.random.default_rng(_SEED)
    row = random.integers(0, len(vectors), count)
    other = (row + random.integers(1, max(2, len(vectors)), count)) % len(vectors)
    queries = (1 - _OTHER_SHARE) * vectors[row] + _OTHER_SHARE * vectors[other]
    # A mix is never zero, even of opposite rows, since the two shares differ.
    unit: Vectors = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32)
    return unit


def share_found(found: Matches | str, exact: Matches) -> float:
    """Return the share of the exact best matches that was found.

    A found row counts if it is as similar as the last exact match, so a repeated row counts as well.

    Args:
        found: Matches of the HNSW index, or the reason why it could not answer.
        exact: All exact best matches of each query.

    Returns:
        A number from 0 to 1, rounded to four digits; 1 if there was nothing to find.
    """
    if isinstance(found, str):
        return 0.0
    last = np.full(int(exact.query.max(initial=-1)) + 1, np.inf)
    np.minimum.at(last, exact.query, exact.score)
    hits = int(np.count_nonzero(found.score >= last[found.query]))
    return round(hits / len(exact), 4) if len(exact) else 1.0


def describe_recall(record: HnswRecord) -> str:
    """Describe the measured recall in words."""
    return f"the HNSW index finds {record.recall_at_5:.1%} of the best five of {record.sampled_rows} queries"
