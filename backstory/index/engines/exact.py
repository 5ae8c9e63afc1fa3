"""Exact search: a blocked matrix product over the mapped rows, with a running threshold ("bar") for each query.

As in the exhaustive search of Johnson, Douze, Jégou, "Billion-scale similarity search with GPUs" (2017),
selection is cheap beside the product. It reads all scores once to find the peak of each short run of rows. It
reads a run again only if its peak exceeds the query's bar.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backstory.index.engines.matches import Matches, multiply, pair_similarities, rank_within, take_best
from backstory.index.engines.scope import Scope
from backstory.index.request import SearchRequest
from backstory.index.snapshot.shards import StoredVectors, list_blocks
from backstory.models.embeddings.protocol import Vectors

QUERIES_AT_ONCE = 2048
QUERIES_PER_POOL = 256
SCORES_AT_ONCE = 1 << 23
GATHERED_BYTES = 16 << 20
RUN_OF_ROWS = 512
LEAST_RUNS = 64
SAMPLED_SCORES = 1024
CROWD = 32
SELECTION_THREADS = 4
# Cost of a row, in products with one query: reading it in place, and copying it into a block.
READING_COST = 8
GATHERING_COST = 36
# Single-precision scores differ from the true similarity of unit vectors by less than half of this.
SLACK = 1e-5

Scores = NDArray[np.float32]
Positions = NDArray[np.int32]


class ExactEngine:
    """Compares every query with every row in its scope.

    Args:
        vectors: Unit rows, shape ``(rows, dimension)``, float32; usually mapped from a file.
    """

    def __init__(self, vectors: StoredVectors) -> None:
        self._vectors = vectors

    def search(self, queries: Vectors, request: SearchRequest, scope: Scope) -> Matches:
        """Find exactly the best rows for each query.

        Args:
            queries: Unit rows, shape ``(queries, dimension)``.
            request: Number of hits, and threshold.
            scope: The rows that each query may see.

        Returns:
            The best pairs of each query, best first, with their cosine similarity.
        """
        # Queries that may see most rows come first, so the queries that a block concerns are the leading ones.
        order = np.argsort(-scope.stop, kind="stable")
        rows = _Rows.of(self._vectors, scope, len(queries))
        compared = rows.narrow(scope.reordered(order))
        ordered = np.ascontiguousarray(queries[order], np.float32)
        pools = [
            _Pool(
                ordered[first : first + QUERIES_PER_POOL], first, rows, request.top_k, request.min_similarity
            )
            for first in range(0, len(ordered), QUERIES_PER_POOL)
        ]
        width = min(len(ordered), QUERIES_AT_ONCE)
        step = min(self._rows_at_once(width, rows.gathers), rows.count)
        buffer = np.empty(width * step, np.float32)
        with _selection_threads(len(pools)) as run:
            for start, stop in rows.list_blocks(int(compared.stop.max(initial=0)), max(1, step)):
                block = rows.block(start, stop)
                concerned = int(np.count_nonzero(compared.stop > start))
                for first in range(0, concerned, QUERIES_AT_ONCE):
                    last = min(first + QUERIES_AT_ONCE, concerned)
                    scores = buffer[: (last - first) * len(block)].reshape(last - first, len(block))
                    multiply(ordered[first:last], block, out=scores)
                    compared.hide(scores, first, start)
                    parts = [
                        scores[part : part + QUERIES_PER_POOL]
                        for part in range(0, len(scores), QUERIES_PER_POOL)
                    ]
                    some_pools = pools[first // QUERIES_PER_POOL :]
                    deque(run(_Pool.add, some_pools, parts, repeat(start)), maxlen=0)
            found = list(run(_Pool.finish, pools))
        best = Matches.joined(found)
        return take_best(Matches(order[best.query], best.row, best.score), request.top_k)

    def _rows_at_once(self, query_count: int, gathers: bool) -> int:
        step = SCORES_AT_ONCE // max(1, query_count)
        if gathers:
            step = min(step, GATHERED_BYTES // (4 * self._vectors.shape[1]))
        # A block that is searched by runs holds whole runs only, since a partial run is read score by score.
        return max(1, step - step % RUN_OF_ROWS if step >= LEAST_RUNS * RUN_OF_ROWS else step)


@contextmanager
def _selection_threads(pool_count: int) -> Iterator[Callable[..., Iterable[Any]]]:
    if pool_count < 2:
        yield map
        return
    with ThreadPoolExecutor(min(SELECTION_THREADS, os.cpu_count() or 1)) as threads:
        yield threads.map


@dataclass(frozen=True)
class _Rows:
    """The compared rows, numbered from 0.

    Attributes:
        vectors: All rows of the index.
        mask: Whether each row is compared; None if all are.
        chosen: Positions of the rows that are copied before the product; None if all are compared in place.
    """

    vectors: StoredVectors
    mask: NDArray[np.bool_] | None
    chosen: NDArray[np.int64] | None

    @classmethod
    def of(cls, vectors: StoredVectors, scope: Scope, query_count: int) -> _Rows:
        if scope.mask is None:
            return cls(vectors, None, None)
        product = query_count + READING_COST
        pays = np.count_nonzero(scope.mask) * (product + GATHERING_COST) < len(vectors) * product
        return cls(vectors, scope.mask, np.flatnonzero(scope.mask) if pays else None)

    @property
    def gathers(self) -> bool:
        return self.chosen is not None

    @property
    def count(self) -> int:
        return len(self.vectors) if self.chosen is None else len(self.chosen)

    def narrow(self, scope: Scope) -> Scope:
        return scope if self.chosen is None else scope.narrowed(self.chosen)

    def list_blocks(self, stop: int, step: int) -> Iterator[tuple[int, int]]:
        if self.chosen is None:
            return list_blocks(self.vectors, self.mask, stop, step)
        return ((start, min(start + step, stop)) for start in range(0, stop, step))

    def block(self, start: int, stop: int) -> Vectors:
        return self.vectors[start:stop] if self.chosen is None else self.vectors[self.chosen[start:stop]]

    def original(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return positions if self.chosen is None else self.chosen[positions]


class _Pool:
    """Candidates of a few queries, and the bar of each: the score that a further row must exceed."""

    def __init__(
        self, queries: Vectors, first: int, rows: _Rows, limit: int, min_similarity: float | None
    ) -> None:
        self._queries = queries
        self._first = first
        self._rows = rows
        self._limit = limit
        self._min_similarity = min_similarity
        lowest = -np.inf if min_similarity is None else min_similarity - SLACK
        self._bar = np.full(len(queries), lowest, np.float32)
        self._query = np.empty(0, np.int32)
        self._row = np.empty(0, np.int32)
        self._score = np.empty(0, np.float32)
        self._pending: list[tuple[Positions, Positions, Scores]] = []
        self._pending_count = 0
        self._is_empty = True

    def add(self, scores: Scores, start: int) -> None:
        """Take the scores above the bar.

        Args:
            scores: Scores of the leading queries of the pool with a block of rows.
            start: Number of the block's first row.
        """
        is_first = self._is_empty
        self._is_empty = False
        runs_of_rows = scores.shape[1] // RUN_OF_ROWS
        # A block of few rows (for many queries) has most peaks above the bar, so every score is read.
        whole = runs_of_rows * RUN_OF_ROWS if runs_of_rows >= LEAST_RUNS else 0
        runs = scores[:, :whole].reshape(len(scores), -1, RUN_OF_ROWS)
        peaks = runs.max(axis=2)
        if peaks.shape[1] >= self._limit:
            self._raise_bar(peaks)
        elif is_first:
            self._raise_bar(_sample(scores, self._limit))
        query, row, score = self._above_bar(scores, runs, peaks)
        if len(query) > CROWD * self._limit * len(scores) and not is_first:
            self._raise_bar(_sample(scores, self._limit))
            query, row, score = self._above_bar(scores, runs, peaks)
        self._pending.append((query, row + np.int32(start), score))
        self._pending_count += len(query)
        if is_first or self._pending_count > self._limit * len(scores):
            self._merge()

    def finish(self) -> Matches:
        """Return the best candidates with their true similarities."""
        self._merge()
        best = self._settle()
        if self._min_similarity is not None:
            best = best.where(best.score >= self._min_similarity)
        return Matches(best.query + self._first, self._rows.original(best.row), best.score)

    def _above_bar(self, scores: Scores, runs: Scores, peaks: Scores) -> tuple[Positions, Positions, Scores]:
        """Return query, row within the block, and value of every score above the bar."""
        bar = self._bar[: len(scores), None]
        query, run = (peaks > bar).nonzero()
        looked_at = runs[query, run]
        hit, place = (looked_at > bar[query]).nonzero()
        first_of_rest = runs.shape[1] * RUN_OF_ROWS
        rest = scores[:, first_of_rest:]
        rest_query, rest_row = np.divmod(np.flatnonzero(rest > bar), max(1, rest.shape[1]))
        return (
            np.concatenate([query[hit], rest_query]).astype(np.int32),
            np.concatenate([run[hit] * RUN_OF_ROWS + place, rest_row + first_of_rest]).astype(np.int32),
            np.concatenate([looked_at[hit, place], rest[rest_query, rest_row]]),
        )

    def _raise_bar(self, sample: Scores) -> None:
        """Raise each query's bar to the limit-th best score of a sample."""
        if sample.shape[1] >= self._limit:
            best = np.partition(sample, -self._limit, axis=1)[:, -self._limit]
            np.maximum(self._bar[: len(sample)], best - np.float32(SLACK), out=self._bar[: len(sample)])

    def _merge(self) -> None:
        """Merge the pending scores into the candidates, raise the bar, and drop candidates below it."""
        query = np.concatenate([self._query, *(query for query, _, _ in self._pending)])
        row = np.concatenate([self._row, *(row for _, row, _ in self._pending)])
        score = np.concatenate([self._score, *(score for _, _, score in self._pending)])
        self._pending.clear()
        self._pending_count = 0
        order = np.lexsort((-score, query))
        query, row, score = query[order], row[order], score[order]
        rank = rank_within(query)
        last = rank == self._limit - 1
        bar = self._bar
        bar[query[last]] = np.maximum(bar[query[last]], score[last] - np.float32(SLACK))
        above = score > bar[query]
        self._query, self._row, self._score = query[above], row[above], score[above]
        if len(self._query) > 4 * self._limit * len(bar) + SAMPLED_SCORES:
            # Repeated rows pile up at the bar, where single precision cannot rank them: compute true similarities.
            self._settle()

    def _settle(self) -> Matches:
        query, row = self._query.astype(np.int64), self._row.astype(np.int64)
        similarity = pair_similarities(self._queries, self._rows.vectors, query, self._rows.original(row))
        best = take_best(Matches(query, row, similarity), self._limit)
        self._query, self._row = best.query.astype(np.int32), best.row.astype(np.int32)
        self._score = best.score.astype(np.float32)
        return best


def _sample(scores: Scores, limit: int) -> Scores:
    """Take evenly spaced rows of a block."""
    return scores[:, :: max(1, scores.shape[1] // max(SAMPLED_SCORES, 16 * limit))]
