"""What a reader makes of one file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class ParsedDocument:
    r"""One document as its file states it.

    Attributes:
        title: Title, never empty.
        slug: Slug, never empty.
        published_at: When it was published, UTC, or None.
        tags: Tags in the order given, each once.
        kind: Kind, or None if the file does not name one.
        tenant: Tenant, or None if the file does not name one.
        text: The body, newlines as ``\n``.
    """

    title: str
    slug: str
    published_at: datetime | None
    tags: tuple[str, ...]
    kind: str | None
    tenant: str | None
    text: str
