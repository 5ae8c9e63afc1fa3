"""The content of one file as returned by a reader."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from backstory.ingest.documents.metadata.last_change import UpdateOrigin
from backstory.settings.inputs import ChunkerName

Chunker: TypeAlias = ChunkerName
"""How a text is cut; the first line of each page cut by ``rows`` is its header."""


@dataclass(frozen=True)
class ParsedDocument:
    r"""One document; a value that its content does not state is None.

    Attributes:
        text: The body, newlines as ``\n``, never blank.
        title: Title, from a field or else from the first heading.
        slug: Slug.
        published_at: When it was published; without a zone if it states none.
        updated_at: By when it was written, likewise, where it states no date of publication.
        updated_by: What ``updated_at`` was taken from.
        tags: Tags in the order given, each once.
        kind: Kind.
        tenant: Tenant.
        conversation: Conversation of a written post; empty for a post that does not state it.
        page_starts: Character of ``text`` at which each page begins, the first at 0; empty for a document without
            pages. A slide and a sheet are pages.
        chunker: How the text is cut; see :data:`backstory.ingest.documents.parsed_document.Chunker`.
        confidences: For each page, the confidence (0 to 1) with which its text was recognised in an image, None for a
            page that held text; empty if no page was recognised.
        unread: What of the file was not read, and what to do; None if all was read.
    """

    text: str
    title: str | None = None
    slug: str | None = None
    published_at: datetime | None = None
    updated_at: datetime | None = None
    updated_by: UpdateOrigin = "changed"
    tags: tuple[str, ...] = ()
    kind: str | None = None
    tenant: str | None = None
    conversation: str | None = None
    page_starts: tuple[int, ...] = ()
    chunker: Chunker = "markdown"
    confidences: tuple[float | None, ...] = ()
    unread: str | None = None
