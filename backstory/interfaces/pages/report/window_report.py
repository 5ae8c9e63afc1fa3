"""The data of a window's page: its messages, its queries, and the found documents."""

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
    """One document that was found; ``ranks`` are those of its kept chunks, empty if it was dropped."""

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
    """The best hit of a query in a document.

    Attributes:
        query: Position of the query.
        document: Position of the document.
        score: Score of the hit.
        similarity: Its cosine similarity.
        keyword_score: Its BM25 score; None if keywords did not find it.
        passed: Whether its similarity reaches the threshold.
        kept: Whether its chunk was kept.
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
    """One stored chunk that was found, and whether it was kept.

    Attributes:
        chunk_id: Its id in ``document_chunks``.
        document: Position of its document.
        heading: Headings above it.
        text: Its text; None if the chunk is no longer in the tables.
        cause: One of :data:`backstory.storage.tables.schemas.CAUSES`.
        rank: Rank in the context, from 1; None if dropped.
        similarity: Best cosine similarity over the queries that found it.
        score: Best score over them.
        because_of: Id of the chunk that was kept instead.
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
    """One window with its queries, and with the documents that were found and kept.

    Attributes:
        window: The row of ``windows``.
        summary: The row of ``window_contexts``.
        messages: Its messages, in order.
        queries: Its queries: granularity by granularity, each in order, the whole window last.
        documents: Kept documents by rank, then dropped ones by falling score.
        cells: One for each query and each document that it found.
        candidates: Kept chunks by rank, then dropped ones by falling score.
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
