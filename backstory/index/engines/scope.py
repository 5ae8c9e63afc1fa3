"""The scope of a search: the rows that each query may see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.errors import InputError
from backstory.index.request import Filters

UNDATED: Final = -(1 << 62)
"""The time of undated documents, in microseconds: earlier than any."""


@dataclass(frozen=True)
class Scope:
    """The rows that each query may see.

    Rows are ordered by date of publication, undated rows first, so an as-of time admits a number of leading rows.

    Attributes:
        row_count: Number of rows of the index.
        stop: Number of leading rows that the as-of time of each query admits, int64.
        mask: Whether the other filters admit each row; None if they admit all rows.
        allowed: Number of rows that each query may see, int64.
    """

    row_count: int
    stop: NDArray[np.int64]
    mask: NDArray[np.bool_] | None
    allowed: NDArray[np.int64]

    @property
    def restricts(self) -> bool:
        """Whether any row is hidden from any query."""
        return bool((self.allowed < self.row_count).any())

    def groups(self, cells: int, *, least: int = 1) -> Iterator[tuple[int, int]]:
        """Split the queries into groups whose pairs of query and row stay below a ceiling.

        Args:
            cells: Most pairs of a query and a row in one group of more than ``least`` queries.
            least: Least number of queries in a group, except the last.

        Yields:
            The first query of a group, and the query after its last.
        """
        first = 0
        while first < len(self.stop):
            most = np.maximum.accumulate(self.stop[first : first + max(1, cells)])
            fitting = np.count_nonzero(most * np.arange(1, len(most) + 1) <= cells)
            last = min(first + max(least, int(fitting)), len(self.stop))
            yield first, last
            first = last

    def hide(self, scores: NDArray[np.float32], first: int, start: int) -> None:
        """Set the scores of rows that a query may not see to minus infinity.

        Args:
            scores: Scores of consecutive queries with consecutive rows, shape ``(queries, rows)``; changed in place.
            first: The first of these queries.
            start: The first of these rows.
        """
        stop_row = start + scores.shape[1]
        if self._penalty is not None:
            scores += self._penalty[start:stop_row]
        stops = self.stop[first : first + len(scores)]
        for query in np.flatnonzero(stops < stop_row).tolist():
            scores[query, max(0, stops[query] - start) :] = -np.inf

    @cached_property
    def _penalty(self) -> NDArray[np.float32] | None:
        # Adding a penalty takes a fraction of the time of assigning by a mask.
        return None if self.mask is None else np.where(self.mask, np.float32(0), np.float32(-np.inf))

    def admits(self, query: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each pair whether the query may see the row."""
        admitted = row < self.stop[query]
        return admitted if self.mask is None else admitted & self.mask[row]


def scope_of(
    filters: Filters,
    documents: pl.DataFrame,
    row_documents: NDArray[np.int64],
    query_count: int,
    *,
    on_pages: NDArray[np.bool_] | None = None,
) -> Scope:
    """Resolve filters into rows.

    Args:
        filters: Conditions on the documents.
        documents: The indexed documents: document_id, kind, tags, tenant, published_at; and by_people if the filters
            name it.
        row_documents: Position of each row's document, int64; rows are ordered by date of publication.
        query_count: Number of queries.
        on_pages: Whether each row is on the pages of the filters; None if these name no pages.

    Returns:
        The rows that each query may see.

    Raises:
        InputError: The number of as-of times is not the number of queries.
    """
    row_count = len(row_documents)
    stop = np.full(query_count, row_count, np.int64)
    if filters.as_of is not None:
        if len(filters.as_of) != query_count:
            raise InputError(
                f"filter as_of has {len(filters.as_of)} times for {query_count} queries; pass one each",
                code="wrong_count",
            )
        stop = _leading_rows(filters.as_of, documents, row_documents)
    mask = _row_mask(filters, documents, row_documents)
    if on_pages is not None:
        mask = on_pages if mask is None else mask & on_pages
    allowed = stop if mask is None else np.r_[0, np.cumsum(mask)][stop]
    return Scope(row_count, stop, mask, allowed)


def list_moments(documents: pl.DataFrame) -> NDArray[np.int64]:
    """List when documents were published, in microseconds since 1970."""
    return documents["published_at"].dt.timestamp("us").fill_null(UNDATED).to_numpy()


def _leading_rows(
    as_of: Sequence[datetime | None], documents: pl.DataFrame, row_documents: NDArray[np.int64]
) -> NDArray[np.int64]:
    published = list_moments(documents)[row_documents]
    moments = pl.Series(as_of, dtype=pl.Datetime("us", "UTC")).dt.timestamp("us")
    latest = moments.fill_null(np.iinfo(np.int64).max).to_numpy()
    return np.searchsorted(published, latest, side="right").astype(np.int64)


def _row_mask(
    filters: Filters, documents: pl.DataFrame, row_documents: NDArray[np.int64]
) -> NDArray[np.bool_] | None:
    conditions = []
    if filters.kinds:
        conditions.append(pl.col("kind").is_in(list(filters.kinds)))
    if filters.tags:
        conditions.append(pl.any_horizontal(pl.col("tags").list.contains(tag) for tag in filters.tags))
    if filters.document_ids:
        conditions.append(pl.col("document_id").is_in(list(filters.document_ids)))
    if filters.tenant is not None:
        conditions.append(pl.col("tenant") == filters.tenant)
    if not filters.undated:
        conditions.append(pl.col("published_at").is_not_null())
    if filters.by_people is not None:
        conditions.append(pl.col("by_people") == filters.by_people)
    if not conditions:
        return None
    qualifies = documents.select(pl.all_horizontal(conditions).fill_null(value=False).alias("qualifies"))
    mask: NDArray[np.bool_] = qualifies["qualifies"].to_numpy()[row_documents]
    return mask
