"""The data of a window's page: its messages, its queries, and the found documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Message:
    """One message of the window; ``document`` is the position of the document that serves it best."""

    timestamp: datetime
    author: str | None
    text: str | None
    kind: str
    document: int | None


@dataclass(frozen=True)
class Query:
    """One query: a run of messages ``first`` to ``last`` (positions, inclusive), or the whole window.

    Attributes:
        chunk_id: Its id in ``window_chunks``.
        granularity: Messages per part, in words.
        first: Position of its first message.
        last: Position of its last message.
        text: Its text.
        state: One of :data:`backstory.retrieval.assessment.PART_STATES`.
        document: Position of the document of the context that serves it best; None if none does.
        documents: Positions of all documents of the context that serve it.
    """

    chunk_id: str
    granularity: str
    first: int
    last: int
    text: str
    state: str
    document: int | None
    documents: tuple[int, ...]


@dataclass(frozen=True)
class Document:
    """One document that was found; ``ranks`` are those of its kept chunks, empty if it was dropped.

    ``served_messages`` counts the messages of all parts that it serves, whether or not another serves them better.
    """

    document_id: str
    title: str
    uri: str | None
    published_at: datetime | None
    ranks: tuple[int, ...]
    similarity: float
    score: float
    served_messages: int


@dataclass(frozen=True)
class Cell:
    """The most probable hit of a query in a document.

    Attributes:
        query: Position of the query.
        document: Position of the document.
        score: Score of the hit.
        similarity: Its cosine similarity.
        keyword_score: Its BM25 score; None if keywords did not find it.
        probability: Probability that the chunk tells something about the query.
        passed: Whether it is evidence: probable enough to be chosen.
        kept: Whether its document is in the context.
    """

    query: int
    document: int
    score: float
    similarity: float
    keyword_score: float | None
    probability: float
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
        probability: Highest probability over them.
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
    probability: float
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
        learned: What `backstory learn` fitted of the context; empty for nothing, or if the settings have changed.
    """

    window: Mapping[str, Any]
    summary: Mapping[str, Any]
    messages: tuple[Message, ...]
    queries: tuple[Query, ...]
    documents: tuple[Document, ...]
    cells: tuple[Cell, ...]
    candidates: tuple[Candidate, ...]
    learned: str = ""

    @property
    def kept_documents(self) -> tuple[Document, ...]:
        """The documents of the context, by rank."""
        return tuple(document for document in self.documents if document.ranks)
