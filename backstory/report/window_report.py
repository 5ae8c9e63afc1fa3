"""What is shown of one window, from its messages to what was kept for it: the data of its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Message:
    """One message of the window; ``document`` is the position of the kept document that serves it best."""

    timestamp: datetime
    author: str | None
    text: str | None
    kind: str
    document: int | None


@dataclass(frozen=True)
class Query:
    """One query: a run of messages ``first`` to ``last`` (positions, inclusive), or the whole window.

    ``document`` is the position of the kept document that serves it best; None where no kept one was found.
    """

    chunk_id: str
    granularity: str
    first: int
    last: int
    text: str
    document: int | None


@dataclass(frozen=True)
class Document:
    """One document that was found; ``ranks`` are its places in the context, none if it was dropped."""

    document_id: str
    title: str
    slug: str
    uri: str | None
    published_at: datetime | None
    tags: tuple[str, ...]
    ranks: tuple[int, ...]
    similarity: float
    score: float
    served_messages: int


@dataclass(frozen=True)
class Cell:
    """What a query found of a document: its best hit there.

    Attributes:
        query: Position of the query.
        document: Position of the document.
        score: Score of the hit.
        similarity: Its cosine similarity.
        keyword_score: Its BM25 score; None where keywords did not find it.
        passed: Whether it is at or above the threshold.
        kept: Whether it is a hit of a kept chunk.
    """

    query: int
    document: int
    score: float
    similarity: float
    keyword_score: float | None
    passed: bool
    kept: bool


@dataclass(frozen=True)
class Candidate:
    """One stored chunk that was found, and what became of it.

    Attributes:
        chunk_id: The chunk.
        document: Position of its document.
        heading: Headings above it.
        text: Its text; None if the chunk is no longer in the tables.
        cause: One of :data:`backstory.tables.schemas.CAUSES`.
        rank: Place in the context, from 1; None if dropped.
        similarity: Best cosine similarity over the queries that found it.
        score: Best score over them.
        because_of: Chunk that it gave way to.
        queries: Positions of the queries that found it, best first.
    """

    chunk_id: str
    document: int
    heading: str
    text: str | None
    cause: str
    rank: int | None
    similarity: float
    score: float
    because_of: str | None
    queries: tuple[int, ...]


@dataclass(frozen=True)
class WindowReport:
    """One window, what it asked, what was found, and what was kept.

    Attributes:
        window: The row of ``windows``.
        summary: The row of ``window_contexts``.
        messages: Its messages, in order.
        queries: Its queries: granularity by granularity, each in order, the whole window last.
        documents: What was found: kept documents by rank, then the dropped ones by falling score.
        cells: One per query and document that it found.
        candidates: Every chunk that was found: kept by rank, then the dropped ones by falling score.
    """

    window: Mapping[str, Any]
    summary: Mapping[str, Any]
    messages: tuple[Message, ...]
    queries: tuple[Query, ...]
    documents: tuple[Document, ...]
    cells: tuple[Cell, ...]
    candidates: tuple[Candidate, ...]

    @property
    def kept_documents(self) -> tuple[Document, ...]:
        """The documents of the context, by rank."""
        return tuple(document for document in self.documents if document.ranks)
