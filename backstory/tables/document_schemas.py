"""Contracts of the tables of documents and their chunks."""

from __future__ import annotations

from typing import get_args

import pandera.polars as pa

from backstory.settings.chunks import ChunkerName
from backstory.tables.columns import NumberList, ShareList, StringList, Table, UtcDatetime

DOCUMENT_STATUSES = ("ok", "error", "superseded", "deleted")
CHUNKERS = get_args(ChunkerName)


class Documents(Table):
    """One row is one revision of a document.

    ``status`` is ``ok`` for the revision that is searched, ``error`` for a revision that could not be read,
    ``superseded`` for an earlier revision, and ``deleted`` for the tombstone of a document whose file is gone or has
    become a draft.
    """

    document_id: str = pa.Field(description="Id of the document, stable across edits: a hash of its uri.")
    revision: str = pa.Field(description="Id of this content of the document.")
    uri: str = pa.Field(
        description="Path in the folder of documents; of a further source, its name, `://` and the path below it."
    )
    title: str = pa.Field(description="Title: front matter, else first heading, else slug.")
    slug: str = pa.Field(description="Slug: front matter, else file name.")
    published_at: UtcDatetime = pa.Field(
        nullable=True,
        description="Date that the document states, UTC (docs/documents.md); null if it states none.",
    )
    tags: StringList = pa.Field(description="Tags.")
    kind: str = pa.Field(description="Kind, such as post.")
    tenant: str = pa.Field(description="Owner of the document.")
    format: str = pa.Field(description="Reader of its format, such as markdown.")
    size: int = pa.Field(
        nullable=True, ge=0, description="Bytes of the file; null if it could not be opened."
    )
    encoding: str = pa.Field(nullable=True, description="Encoding of the file; null if binary or not read.")
    page_starts: NumberList = pa.Field(
        description="Character of the text at which each page begins; empty without pages. Slides and sheets are pages."
    )
    confidences: ShareList = pa.Field(
        description="Per page the confidence, 0 to 1, with which its text was recognised in an image, null for a page "
        "that held text; empty if no page was recognised."
    )
    chunker: str = pa.Field(
        nullable=True,
        isin=CHUNKERS,
        description="How its reader has it cut, unless `chunks.chunkers` says otherwise; null if it was not read.",
    )
    text: str = pa.Field(
        description="Body without front matter, newlines as \\n; empty for all revisions of a deleted document."
    )
    content_hash: str = pa.Field(description="Hash of the file.")
    status: str = pa.Field(isin=DOCUMENT_STATUSES, description="ok, error, superseded or deleted.")
    error: str = pa.Field(nullable=True, description="Why the file could not be read, for status error.")
    unread: str = pa.Field(
        nullable=True, description="What of the file was not read, and what to do; null if all was read."
    )

    class Config:
        unique = ["document_id", "revision"]


class DocumentChunks(Table):
    """One row is one stored chunk: characters ``char_start`` to ``char_end`` of its document's text."""

    chunk_id: str = pa.Field(description="{document_id}#rev:{revision}#p:{page}#m:{method}#c:{index}.")
    document_id: str = pa.Field(description="Document.")
    revision: str = pa.Field(description="Revision that was cut.")
    chunk_index: int = pa.Field(ge=0, description="Position in the document, from 0.")
    page_start: int = pa.Field(nullable=True, description="First page, from 1; null without pages.")
    page_end: int = pa.Field(nullable=True, description="Last page, inclusive; null without pages.")
    line_start: int = pa.Field(
        ge=1, description="First line in the document's text, from 1, counted through all pages."
    )
    line_end: int = pa.Field(ge=1, description="Last line in the document's text, inclusive.")
    char_start: int = pa.Field(ge=0, description="First character in the document's text.")
    char_end: int = pa.Field(ge=0, description="Character after the last one.")
    heading: str = pa.Field(
        description='Headings above it, outermost first, joined by " > "; definition of code; header of rows.'
    )
    confidence: float = pa.Field(
        nullable=True,
        ge=0,
        le=1,
        description="Least confidence of its pages whose text was recognised in an image; null if none was.",
    )
    text: str = pa.Field(description="Characters char_start to char_end of the document's text.")
    token_count: int = pa.Field(ge=0, description="Tokens by the embedder's tokenizer.")

    class Config:
        unique = ["chunk_id"]
