"""Documents and their chunks."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import polars as pl

from backstory.storage.tables.schemas import DocumentChunks, Documents
from tests.builders.rows import Row, make_rows

_DOCUMENT: Final[Row] = {
    "document_id": "d",
    "revision": "r1",
    "uri": "d.md",
    "title": "",
    "slug": "d",
    "published_at": datetime(2025, 1, 1, tzinfo=UTC),
    "date_origin": "stated",
    "tags": [],
    "kind": "post",
    "tenant": "",
    "conversation_id": None,
    "format": "markdown",
    "size": 4,
    "encoding": "utf-8",
    "page_starts": [],
    "confidences": [],
    "chunker": "markdown",
    "language": None,
    "text": "text",
    "content_hash": "h",
    "status": "ok",
    "error": None,
    "unread": None,
}

_CHUNK: Final[Row] = {
    "document_id": "d",
    "revision": "r1",
    "chunk_index": 0,
    "page_start": None,
    "page_end": None,
    "line_start": 1,
    "line_end": 1,
    "char_start": 0,
    "char_end": 4,
    "heading": "",
    "confidence": None,
    "text": "text",
    "token_count": 1,
}


def make_documents(rows: Iterable[Row], **common: object) -> pl.DataFrame:
    """Make a table of documents; ``common`` holds for all rows that do not say otherwise."""
    return make_rows(Documents, rows, {**_DOCUMENT, **common})


def make_document_chunks(rows: Iterable[Row], **common: object) -> pl.DataFrame:
    """Make a table of chunks of documents; ``common`` holds for all rows that do not say otherwise."""
    return make_rows(DocumentChunks, rows, {**_CHUNK, **common})
