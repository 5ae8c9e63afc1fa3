"""What is searched for in a batch of queries, and the rows that each query may find."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import cached_property
from typing import Final, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.errors import InputError
from backstory.base.ids import WRITTEN_PREFIX
from backstory.settings.models import RAGSettings

Mode = Literal["ann", "exact"]
Ranking = Literal["dense", "keyword", "hybrid"]

KEYWORD_TERMS: Final = 32
"""Most distinct words of a query chunk that keywords compare.

On the labelled sets, 16 and 48 find about as much. Repeated and common words raise the BM25 of long messages without
naming their topic (docs/studies/defaults.md).
"""
UNDATED: Final = -(1 << 62)
"""The time of undated documents, in microseconds: earlier than any."""
_KEYWORD_CANDIDATES = 100
_KEYWORD_OVERFETCH = 4
_RANGES: Final = {
    "top_k": (1, math.inf),
    "keyword_terms": (1, math.inf),
    "nprobe": (1, math.inf),
    "overfetch": (1, math.inf),
    "min_similarity": (-1, 1),
    "keyword_weight": (0, 1),
}
_MOST_NEAREST: Final = 3


@dataclass(frozen=True)
class Filters:
    """Conditions that every hit must meet; an empty or absent condition does not restrict.

    ``as_of`` has one time per query: a document qualifies if it is undated, or was published at or before that time.
    It has at least one of the tags. ``by_people`` is True for documents that people wrote, and False for posts that
    Backstory wrote. ``pages`` are the first and last one, of which the chunk holds text; a document without pages has
    none.
    """

    as_of: Sequence[datetime | None] | None = None
    kinds: Sequence[str] = ()
    tags: Sequence[str] = ()
    document_ids: Sequence[str] = ()
    tenant: str | None = None
    undated: bool = True
    by_people: bool | None = None
    pages: tuple[int, int] | None = None


_NO_FILTERS = Filters()


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """How to search for a batch of queries; a number out of its range is an :class:`InputError`.

    Every hit reaches the cosine ``min_similarity``. The mode ``ann`` allows an HNSW index where it can answer. The
    ranking ``dense`` orders by similarity, ``keyword`` by BM25, and ``hybrid`` by both: with an HNSW index, it ranks
    the best 100 (or ``overfetch * top_k``) of each. ``keyword_weight`` is that of the square root of BM25 beside the
    cosine. Keywords compare the ``keyword_terms`` rarest words of a query; None takes all, each with weight 1 + ln(its
    count), which suits a query as long as a window. ``nprobe``, a parameter of IVF indexes, is used as ``ef_search``,
    with a warning.
    """

    top_k: int
    min_similarity: float | None = None
    mode: Mode = "ann"
    ranking: Ranking = "dense"
    keyword_weight: float = 0.1
    keyword_terms: int | None = KEYWORD_TERMS
    filters: Filters = _NO_FILTERS
    nprobe: int | None = None
    overfetch: int | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise InputError(f"{name} {value} must be between {least} and {most}", code="out_of_range")

    @property
    def candidates(self) -> int:
        """Number of rows that each ranking contributes to a query's candidates."""
        if self.ranking == "dense":
            return self.top_k
        return max(_KEYWORD_CANDIDATES, self.top_k * (self.overfetch or _KEYWORD_OVERFETCH))


@dataclass(frozen=True)
class Scope:
    """The rows that each query may see.

    They are ordered by date, so an as-of time admits a number of leading rows, ``stop``. ``mask`` has the other
    filters.
    """

    row_count: int
    stop: NDArray[np.int64]
    mask: NDArray[np.bool_] | None

    @cached_property
    def allowed(self) -> NDArray[np.int64]:
        """Number of rows that each query may see."""
        return self.stop if self.mask is None else np.r_[0, np.cumsum(self.mask)][self.stop]

    def groups(self, cells: int, *, least: int = 1) -> Iterator[tuple[int, int]]:
        """Split the queries into groups of at most ``cells`` pairs of query and row, or of ``least`` queries.

        Gives the first query of each group, and the query after its last.
        """
        first = 0
        while first < len(self.stop):
            most = np.maximum.accumulate(self.stop[first : first + max(1, cells)])
            fitting = np.count_nonzero(most * np.arange(1, len(most) + 1) <= cells)
            last = min(first + max(least, int(fitting)), len(self.stop))
            yield first, last
            first = last

    def hide(self, scores: NDArray[np.float32], first: int, start: int) -> None:
        """Set scores of what may not be seen to minus infinity, of queries from ``first`` and rows from ``start``."""
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


def scope_of(filters: Filters, documents: pl.DataFrame, chunks: pl.DataFrame, query_count: int) -> Scope:
    """Resolve filters into rows, which have the position of their document, and pages if the filters name any."""
    row_documents = chunks["document"].to_numpy()
    stop = np.full(query_count, len(row_documents), np.int64)
    if filters.as_of is not None:
        if len(filters.as_of) != query_count:
            raise InputError(
                f"as_of has {len(filters.as_of)} times for {query_count} queries", code="wrong_count"
            )
        moments = pl.Series(filters.as_of, dtype=pl.Datetime("us", "UTC")).dt.timestamp("us")
        latest = moments.fill_null(np.iinfo(np.int64).max).to_numpy()
        published = list_moments(documents)[row_documents]
        stop = np.searchsorted(published, latest, side="right").astype(np.int64)
    mask = None
    if conditions := _list_conditions(filters):
        qualifies = documents.select(pl.all_horizontal(conditions).fill_null(value=False)).to_series()
        mask = qualifies.to_numpy()[row_documents]
    if filters.pages is not None:
        is_on_pages = (pl.col("page_start") <= filters.pages[1]) & (pl.col("page_end") >= filters.pages[0])
        on_pages = chunks.select(is_on_pages.fill_null(value=False)).to_series().to_numpy()
        mask = on_pages if mask is None else mask & on_pages
    return Scope(len(row_documents), stop, mask)


def list_moments(documents: pl.DataFrame) -> NDArray[np.int64]:
    """List when documents were published, in microseconds since 1970."""
    return documents["published_at"].dt.timestamp("us").fill_null(UNDATED).to_numpy()


def admit_documents(filters: Filters, documents: pl.DataFrame) -> pl.DataFrame:
    """Return the documents that the filters of one query admit, by the rules of a search, whatever their pages."""
    conditions = _list_conditions(filters)
    latest = filters.as_of[0] if filters.as_of else None
    if latest is not None:
        [moment] = pl.Series([latest], dtype=pl.Datetime("us", "UTC")).dt.timestamp("us")
        published = pl.col("published_at").dt.timestamp("us")
        conditions.append(published.is_null() | (published <= moment))
    return documents.filter(*conditions) if conditions else documents


def _list_conditions(filters: Filters) -> list[pl.Expr]:
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
        conditions.append(pl.col("uri").str.starts_with(WRITTEN_PREFIX) != filters.by_people)
    return conditions


class UnknownLabel(NamedTuple):
    """A ``kind``, ``tag`` or ``metadata`` that no document has, and those that are spelled most alike."""

    name: str
    value: str
    nearest: list[str]

    def describe(self) -> str:
        """Say that no document has it, and name the nearest."""
        such = self.name if self.name == "metadata" else f"a {self.name}"
        told = f"the nearest: {', '.join(self.nearest)}" if self.nearest else f"no document has {such} at all"
        return f"no document has the {self.name} {self.value!r}; {told}"


def list_unknown_labels(
    documents: pl.DataFrame, kinds: Sequence[str], tags: Sequence[str], tenant: str | None
) -> list[UnknownLabel]:
    """List the kinds and tags that none of a tenant's documents has; none if it has no documents."""
    owned = documents if tenant is None else documents.filter(pl.col("tenant") == tenant)
    if owned.is_empty() or not (kinds or tags):
        return []
    named = (("kind", kinds, owned["kind"]), ("tag", tags, owned["tags"].explode()))
    return [
        UnknownLabel(name, value, find_nearest(value, [label for label in known.unique().sort() if label]))
        for name, values, known in named
        for value in values
        if value not in known
    ]


def describe_unknown_settings(documents: pl.DataFrame, rag: RAGSettings) -> list[str]:
    """Describe the kinds and tags of the settings that no document has, and that let a search find nothing."""
    unknown = list_unknown_labels(documents, rag.kinds, rag.tags, rag.tenant)
    return [f"the setting rag.{each.name}s names {each.value!r}, but {each.describe()}" for each in unknown]


def find_nearest(value: str, known: Sequence[str]) -> list[str]:
    """Find the known names that are spelled most alike, whatever their case; all of a few."""
    if len(known) <= _MOST_NEAREST:
        return list(known)
    folded = {name.casefold(): name for name in known}
    return [folded[each] for each in get_close_matches(value.casefold(), folded, _MOST_NEAREST, 0.0)]
