"""Date, tags and draft status in the front matter of different tools: Jekyll, Hugo, Obsidian, Astro and others."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import PurePosixPath

from backstory.ingest.documents.metadata.dates import parse_date
from backstory.ingest.documents.metadata.front_matter import FrontMatter

PUBLICATION_FIELDS = (
    "publishDate",
    "pubDate",
    "publishedAt",
    "publishedOn",
    "publishedDate",
    "datePublished",
)
DATE_FIELDS = ("date",)
CREATION_FIELDS = ("created", "createdAt", "createdOn", "createdDate", "dateCreated", "creationDate")
UPDATE_FIELDS = (
    "updated", "updatedAt", "updatedOn", "updatedDate", "dateUpdated", "lastmod", "lastModified", "lastModifiedAt",
    "lastUpdated", "modified", "modifiedAt", "modifiedDate", "dateModified",
)  # fmt: skip
_DRAFT_FIELDS = ("draft", "isDraft")
_PUBLISHED_FIELDS = ("published", "publish")
_DRAFT_WORDS = frozenset(("draft", "unpublished"))
_DRAFT_FOLDER = "_drafts"


def find_date(front: FrontMatter) -> datetime | None:
    """Return the stated date of publication, else of creation; None if the document states neither.

    The first of these fields that is not blank is used, in any spelling (``pubDate``, ``pub_date``, ``Pub Date``):
    :data:`PUBLICATION_FIELDS`, ``published`` if it contains a date, :data:`DATE_FIELDS`, :data:`CREATION_FIELDS`.
    If there is none, callers use the date in the file name, then in its folders (see
    :func:`backstory.ingest.documents.metadata.dated_names.split_dated_name`), then :func:`find_update_date`.
    Publication fields precede ``date``, because in Hugo ``date`` is the day of writing if a post is published later.

    It raises ``ReadError`` if the field does not contain a date; the message names the field.
    """
    return (
        front.date(*PUBLICATION_FIELDS)
        or _date_in_published(front)
        or front.date(*DATE_FIELDS, *CREATION_FIELDS)
    )


def find_update_date(front: FrontMatter) -> datetime | None:
    """Return the date of the last change: the first of :data:`UPDATE_FIELDS` that is not blank.

    The date is an upper bound for the creation of a document that states no other date.

    It raises ``ReadError`` if the field does not contain a date; the message names the field.
    """
    return front.date(*UPDATE_FIELDS)


def is_draft(front: FrontMatter) -> bool:
    """Return whether the front matter marks the document as a draft.

    The marks are ``draft: true``, ``isDraft: true``, ``published: false``, ``publish: false`` and ``status: draft``.
    True and false may be any YAML word for them, also in quotes.

    It raises ``ReadError`` if ``draft`` or ``isDraft`` is neither true nor false.
    """
    if any(front.strict_flag(name) for name in _DRAFT_FIELDS):
        return True
    if any(front.flag(name) is False for name in _PUBLISHED_FIELDS):
        return True
    status = front.fields.get("status")
    return status is not None and str(status.value).strip().lower() in _DRAFT_WORDS


def is_in_drafts(uri: str) -> bool:
    """Return whether a path is in a folder ``_drafts``, where Jekyll keeps drafts."""
    return _DRAFT_FOLDER in PurePosixPath(uri).parts[:-1]


def list_tags(front: FrontMatter) -> tuple[str, ...]:
    """List the tags of the front matter, each once, without the ``#`` of Obsidian.

    The field is a list, or a text separated by commas, or else by spaces, as in Jekyll. A nested tag of Obsidian, such
    as ``house/garden``, is one tag.

    It raises ``ReadError`` if the field has any other content.
    """
    written = front.texts("tags") or front.texts("tag")
    return tuple(dict.fromkeys(tag for text in written if (tag := text.removeprefix("#").strip())))


def _date_in_published(front: FrontMatter) -> datetime | None:
    """Read ``published`` if it contains a date; in Jekyll it is true or false, in notes on books a year."""
    field = front.fields.get("published")
    with suppress(ValueError):
        return parse_date(field.value) if field is not None and isinstance(field.value, str) else None
    return None
