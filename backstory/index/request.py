"""Search requests: one for all queries of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Self, get_args

from backstory.base.errors import InputError
from backstory.index.calibration import Calibration
from backstory.settings.models import RAGSettings

Mode = Literal["ann", "exact"]
Ranking = Literal["dense", "keyword", "hybrid"]

KEYWORD_CANDIDATES = 100
KEYWORD_TERMS: Final = 32
"""Most distinct words of a query chunk that keywords compare.

On the labelled sets, 16 and 48 find about as much. Repeated and common words raise the BM25 of long messages without
naming their topic (docs/studies/defaults.md).
"""
_KEYWORD_OVERFETCH = 4


@dataclass(frozen=True)
class Filters:
    """Conditions that every hit must meet; an empty or absent condition does not restrict.

    Attributes:
        as_of: One time per query. A document qualifies if it is undated, or was published at or before that time.
            None, for one query or for all, does not restrict.
        kinds: The document's kind is one of these.
        tags: The document has at least one of these tags.
        document_ids: The document is one of these.
        tenant: The document belongs to this tenant.
        undated: Whether a document without a date qualifies.
        by_people: True for documents that people wrote, False for posts that Backstory wrote; None for both.
        pages: First and last page: the chunk holds text of one of these pages. A document without pages has none.
    """

    as_of: Sequence[datetime | None] | None = None
    kinds: Sequence[str] = ()
    tags: Sequence[str] = ()
    document_ids: Sequence[str] = ()
    tenant: str | None = None
    undated: bool = True
    by_people: bool | None = None
    pages: tuple[int, int] | None = None

    @property
    def restrict_otherwise(self) -> bool:
        """Whether anything but the times and the tenant may exclude a document."""
        named = self.kinds or self.tags or self.document_ids or self.pages
        return bool(named) or self.by_people is not None or not self.undated

    def __post_init__(self) -> None:
        for name in ("kinds", "tags", "document_ids"):
            if isinstance(getattr(self, name), str):
                raise InputError(
                    f"filter {name} is a single string; pass a list of strings", code="wrong_type"
                )
        if isinstance(self.as_of, datetime):
            raise InputError("filter as_of is a single time; pass one time per query", code="wrong_type")
        for moment in self.as_of or ():
            if moment is not None and moment.tzinfo is None:
                raise InputError(
                    f"filter as_of: {moment} has no time zone; pass an aware datetime, such as UTC",
                    code="no_time_zone",
                )


_NO_FILTERS = Filters()


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """How to search for a batch of queries.

    Attributes:
        top_k: Most hits for one query.
        min_similarity: Threshold: cosine similarity that every hit must reach under every ranking, or None.
        mode: ``exact`` compares with every chunk; ``ann`` allows the approximate index where it can answer.
        ranking: ``dense`` orders by similarity, ``keyword`` by BM25, ``hybrid`` by both. The exact engine ranks
            every chunk; the approximate index ranks the best 100 (or ``overfetch * top_k``) of each.
        keyword_weight: In ``hybrid``, weight of the square root of the BM25 score beside the cosine, 0 to 1.
        keyword_terms: Most distinct words of a query that keywords compare: the rarest, each counted once. None
            takes all, each with weight 1 + ln(its count), which suits a query as long as a window.
        filters: Which documents may be returned.
        nprobe: A parameter of IVF indexes; used as ``ef_search`` of the HNSW index, with a warning.
        overfetch: Multiple of ``top_k`` that the approximate index fetches; None for the default.

    Raises:
        InputError: A value is out of its range.
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

    @classmethod
    def from_settings(
        cls,
        settings: RAGSettings,
        *,
        top_k: int,
        calibration: Calibration,
        as_of: Sequence[datetime | None] | None = None,
        by_people: bool | None = None,
    ) -> Self:
        """Make the request that the settings describe, without a threshold.

        Args:
            settings: The ``rag`` settings.
            top_k: Most hits for one query.
            calibration: Gives the weight of keywords.
            as_of: One time per query; later documents are hidden from it. None does not restrict.
            by_people: See :class:`Filters`.
        """
        return cls(
            top_k=top_k,
            mode=settings.mode,
            ranking=settings.ranking,
            keyword_weight=calibration.keyword_weight,
            filters=Filters(
                as_of=as_of,
                kinds=settings.kinds,
                tags=settings.tags,
                document_ids=settings.document_ids,
                tenant=settings.tenant,
                undated=settings.undated == "serve",
                by_people=by_people,
            ),
            nprobe=settings.nprobe,
            overfetch=settings.overfetch,
        )

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("mode", self.mode, get_args(Mode)),
            ("ranking", self.ranking, get_args(Ranking)),
        ):
            if value not in choices:
                raise InputError(
                    f"{name} {value!r} is not known; use one of {', '.join(choices)}", code="unknown_value"
                )
        for name in ("top_k", "keyword_terms", "nprobe", "overfetch"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise InputError(f"{name} {count} must be at least 1", code="out_of_range")
        if self.min_similarity is not None and not -1 <= self.min_similarity <= 1:
            raise InputError(
                f"min_similarity {self.min_similarity} must be between -1 and 1", code="out_of_range"
            )
        if not 0 <= self.keyword_weight <= 1:
            raise InputError(
                f"keyword_weight {self.keyword_weight} must be between 0 and 1", code="out_of_range"
            )

    @property
    def candidates(self) -> int:
        """Number of rows that each ranking contributes to a query's candidates."""
        if self.ranking == "dense":
            return self.top_k
        return max(KEYWORD_CANDIDATES, self.top_k * (self.overfetch or _KEYWORD_OVERFETCH))
