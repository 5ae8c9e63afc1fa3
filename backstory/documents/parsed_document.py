"""The content of one file as returned by a reader."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class ParsedDocument:
    r"""One document; a value that its content does not state is None.

    Attributes:
        text: The body, newlines as ``\n``, never blank.
        title: Title, from a field or else from the first heading.
        slug: Slug.
        published_at: When it was published, UTC.
        updated_at: When it was last changed, UTC, where it states no date of publication.
        tags: Tags in the order given, each once.
        kind: Kind.
        tenant: Tenant.
    """

    text: str
    title: str | None = None
    slug: str | None = None
    published_at: datetime | None = None
    updated_at: datetime | None = None
    tags: tuple[str, ...] = ()
    kind: str | None = None
    tenant: str | None = None
