"""The matches that engines find, pairs of a query and a row, and the one definition of their similarity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backstory.models.embeddings.protocol import Vectors

SIMILARITY_DECIMALS = 9
UNIT_TOLERANCE = 1e-3
_BYTES_AT_ONCE = 8 << 20
_ROWS_AT_ONCE = 8192
_RUN_OF_ROWS = 64
_FEW_NUMBERS = 1 << 22


@dataclass(frozen=True)
class Matches:
    """Pairs of a query and a row, ordered by query, then score (best first), then row.

    Attributes:
        query: Positions of queries, int64.
        row: Positions of rows, int64.
        score: Cosine similarity or keyword score, float64.
    """

    query: NDArray[np.int64]
    row: NDArray[np.int64]
    score: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.query)

    @classmethod
    def none(cls) -> Matches:
        """Make an empty set of pairs."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64))

    @classmethod
    def joined(cls, parts: Iterable[Matches]) -> Matches:
        """Concatenate the pairs of several searches."""
        found = [cls.none(), *parts]
        return cls(
            np.concatenate([matches.query for matches in found]),
            np.concatenate([matches.row for matches in found]),
            np.concatenate([matches.score for matches in found]),
        )

    def where(self, mask: NDArray[np.bool_] | slice) -> Matches:
        """Keep the pairs that a mask or a slice selects, in order."""
        return Matches(self.query[mask], self.row[mask], self.score[mask])


def multiply(queries: Vectors, rows: Vectors, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """Multiply queries and rows in single precision.

    Args:
        queries: Shape ``(queries, dimension)``.
        rows: Shape ``(rows, dimension)``.
        out: Where to write the products; None for another array.

    Returns:
        The products, shape ``(queries, rows)``.
    """
    products = np.empty((len(queries), len(rows)), np.float32) if out is None else out
    if len(queries) > 1 or rows.size > _FEW_NUMBERS:
        np.matmul(queries, rows.T, out=products)
    else:
        # To wake the threads of the linear algebra library, and to wait for them, takes longer than this product.
        np.einsum("ij,kj->ki", rows, queries, out=products)
    return products


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
    """Find the positions of the best scores of each query, and of few more.

    The bar is the ``limit``-th best peak of short runs of rows, which cannot exceed the ``limit``-th best score.

    Args:
        scores: Shape ``(queries, rows)``.
        limit: Number of best scores wanted per query.
        slack: How far below the bar a score may lie.
        above: Value that a score must exceed.

    Returns:
        Query and row of each query's scores above ``above``: at least the ``limit`` best, or all if there are
        fewer. Ordered by query, then row.
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
    """Order pairs by score and keep the best of each query; among equal scores the lower row comes first.

    Args:
        matches: Pairs in any order.
        limit: Most pairs to keep for one query.

    Returns:
        The kept pairs in order.
    """
    order = np.lexsort((matches.row, -matches.score, matches.query))
    best = order[rank_within(matches.query[order]) < limit]
    return Matches(matches.query[best], matches.row[best], matches.score[best])


def order_best(
    matches: Matches,
    similarity: NDArray[np.float64],
    score: NDArray[np.float64],
    limit: int,
    min_similarity: float | None,
) -> NDArray[np.int64]:
    """Find the order of the hits.

    Args:
        matches: Pairs in any order.
        similarity: Cosine similarity of each pair.
        score: Sort key of each pair.
        limit: Most pairs of one query.
        min_similarity: Threshold: similarity that a pair must reach, or None.

    Returns:
        Positions of the best pairs of each query, best first. Equal scores are ordered by similarity, then by row.
    """
    order = np.lexsort((matches.row, -similarity, -score, matches.query))
    if min_similarity is not None:
        order = order[similarity[order] >= min_similarity]
    return order[rank_within(matches.query[order]) < limit]


def find_stray_vector(vectors: Vectors) -> int | None:
    """Find the first row that is not a finite unit vector.

    Args:
        vectors: Rows, shape ``(rows, dimension)``.

    Returns:
        Its position, or None if all rows are finite unit vectors.
    """
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        block = vectors[start : start + _ROWS_AT_ONCE]
        squared = np.einsum("ij,ij->i", block, block)
        strays = np.flatnonzero(~(np.abs(squared - 1.0) <= 2 * UNIT_TOLERANCE))
        if len(strays):
            return start + int(strays[0])
    return None


def pair_similarities(
    queries: Vectors, vectors: Vectors, query: NDArray[np.int64], row: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compute the cosine similarity of given pairs.

    The sums are in double precision and rounded, so that a pair has the same similarity with every engine, batch
    and number of threads, and equal vectors tie.

    Args:
        queries: Unit rows, shape ``(queries, dimension)``.
        vectors: Unit rows, shape ``(rows, dimension)``.
        query: Positions of queries, one per pair.
        row: Positions of rows, one per pair.

    Returns:
        One similarity per pair, within -1 and 1.
    """
    similarities = np.empty(len(query), np.float64)
    step = max(1, _BYTES_AT_ONCE // (8 * max(1, queries.shape[1])))
    for start in range(0, len(query), step):
        part = slice(start, start + step)
        left = queries[query[part]].astype(np.float64)
        left *= vectors[row[part]]
        similarities[part] = left.sum(axis=1)
    return np.clip(similarities, -1.0, 1.0).round(SIMILARITY_DECIMALS)
