"""Which documents a search may return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.errors import InputError

_UNDATED = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Filters:
    """Conditions that every hit has to meet; an empty or absent one does not restrict.

    Attributes:
        as_of: One time per query. A document qualifies if it is undated, or was published by then.
            None in the sequence, or instead of it, does not restrict.
        kinds: The document's kind is one of these.
        tags: The document has at least one of these tags.
        document_ids: The document is one of these.
        tenant: The document belongs to this tenant.
        undated: Whether a document without a date qualifies.
    """

    as_of: Sequence[datetime | None] | None = None
    kinds: Sequence[str] = ()
    tags: Sequence[str] = ()
    document_ids: Sequence[str] = ()
    tenant: str | None = None
    undated: bool = True

    def __post_init__(self) -> None:
        for name in ("kinds", "tags", "document_ids"):
            if isinstance(getattr(self, name), str):
                raise InputError(f"filter {name} is a single string; pass a sequence of strings")
        if isinstance(self.as_of, datetime):
            raise InputError("filter as_of is a single time; pass one time per query")
        for moment in self.as_of or ():
            if moment is not None and moment.tzinfo is None:
                raise InputError(
                    f"filter as_of: {moment} has no time zone; pass an aware datetime, such as UTC"
                )


@dataclass(frozen=True)
class Scope:
    """The rows that each query may be given.

    Rows are ordered by date of publication, undated ones first, so an as-of time is a number of leading rows.

    Attributes:
        row_count: Number of rows of the index.
        stop: For each query the number of leading rows that it may be given, int64.
        mask: For each row whether any query may be given it; None if all may.
        allowed: For each query the number of rows that it may be given, int64.
    """

    row_count: int
    stop: NDArray[np.int64]
    mask: NDArray[np.bool_] | None
    allowed: NDArray[np.int64]

    @property
    def restricts(self) -> bool:
        """Whether any query is kept from any row."""
        return bool((self.allowed < self.row_count).any())

    def groups(self, cells: int, *, least: int = 1) -> Iterator[tuple[int, int]]:
        """Part the queries so that a group and the rows that it may be given have at most so many cells.

        Args:
            cells: Most pairs of a query and a row in one group of more than ``least`` queries.
            least: Queries that a group has at least, if there are as many.

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

    def hide(self, scores: NDArray[np.float32], first: int, start: int, *, hidden: float) -> None:
        """Give rows that a query may not be given a score of no account.

        Args:
            scores: Scores of consecutive queries with consecutive rows, shape ``(queries, rows)``; changed.
            first: The first of these queries.
            start: The first of these rows.
            hidden: The score of no account.
        """
        row_count = scores.shape[1]
        if self.mask is not None:
            hidden_rows = ~self.mask[start : start + row_count]
            np.copyto(scores, hidden, where=hidden_rows, casting="same_kind")
        for query, stop in enumerate(self.stop[first : first + len(scores)].tolist()):
            if stop < start + row_count:
                scores[query, max(0, stop - start) :] = hidden

    def admits(self, query: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say for each pair whether the query may be given the row."""
        admitted = row < self.stop[query]
        return admitted if self.mask is None else admitted & self.mask[row]


def scope_of(
    filters: Filters, documents: pl.DataFrame, row_documents: NDArray[np.int64], query_count: int
) -> Scope:
    """Resolve filters into rows.

    Args:
        filters: The conditions.
        documents: The indexed documents: document_id, kind, tags, tenant, published_at.
        row_documents: For each row of the index the position of its document, ordered by date of publication.
        query_count: Number of queries.

    Returns:
        The rows that each query may be given.

    Raises:
        InputError: The number of as-of times is not the number of queries.
    """
    row_count = len(row_documents)
    stop = np.full(query_count, row_count, np.int64)
    if filters.as_of is not None:
        if len(filters.as_of) != query_count:
            raise InputError(
                f"filter as_of has {len(filters.as_of)} times for {query_count} queries; pass one each"
            )
        stop = _leading_rows(filters.as_of, documents, row_documents)
    mask = _row_mask(filters, documents, row_documents)
    allowed = stop if mask is None else np.r_[0, np.cumsum(mask)][stop]
    return Scope(row_count, stop, mask, allowed)


def _leading_rows(
    as_of: Sequence[datetime | None], documents: pl.DataFrame, row_documents: NDArray[np.int64]
) -> NDArray[np.int64]:
    published = documents["published_at"].dt.timestamp("us").fill_null(_UNDATED).to_numpy()[row_documents]
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
    if not conditions:
        return None
    qualifies = documents.select(pl.all_horizontal(conditions).fill_null(value=False).alias("qualifies"))
    mask: NDArray[np.bool_] = qualifies["qualifies"].to_numpy()[row_documents]
    return mask
