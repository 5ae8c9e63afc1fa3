"""What documents of different tools state of themselves: Jekyll, Hugo, Obsidian, Astro and their like."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import PurePosixPath

from backstory.documents.dates import parse_date
from backstory.documents.front_matter import FrontMatter

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
    """Give the date that a document states for its publication, else for its creation; None if it states neither.

    The first of these fields that is not blank counts, in this order, in any spelling (``pubDate``, ``pub_date``,
    ``Pub Date``): those of :data:`PUBLICATION_FIELDS`, ``published`` where it holds a date, :data:`DATE_FIELDS`,
    :data:`CREATION_FIELDS`. Where there is none, the date in the file's name counts, then that of its folders (see
    :func:`backstory.documents.dated_names.split_dated_name`), and last :func:`find_update_date`. A field of
    publication precedes ``date``, which Hugo takes for the day of writing where a post is to appear later.

    Raises:
        DocumentError: The field that counts holds no date; the message names it.
    """
    return (
        front.date(*PUBLICATION_FIELDS)
        or _date_in_published(front)
        or front.date(*DATE_FIELDS, *CREATION_FIELDS)
    )


def find_update_date(front: FrontMatter) -> datetime | None:
    """Give the date of a document's last change, of the first of :data:`UPDATE_FIELDS` that is not blank.

    A document that states no other date existed by then at the latest.

    Raises:
        DocumentError: The field holds no date; the message names it.
    """
    return front.date(*UPDATE_FIELDS)


def is_draft(front: FrontMatter) -> bool:
    """Say whether a document calls itself a draft.

    It does so by ``draft: true`` or ``isDraft: true``, by ``published: false`` or ``publish: false`` (true and false in
    any word of YAML, as a text, too), or by ``status: draft``.

    Raises:
        DocumentError: ``draft`` or ``isDraft`` is neither true nor false.
    """
    if any(front.strict_flag(name) for name in _DRAFT_FIELDS):
        return True
    if any(front.flag(name) is False for name in _PUBLISHED_FIELDS):
        return True
    status = front.fields.get("status")
    return status is not None and str(status.value).strip().lower() in _DRAFT_WORDS


def is_in_drafts(uri: str) -> bool:
    """Say whether a path lies in a folder ``_drafts``, as the drafts of Jekyll do."""
    return _DRAFT_FOLDER in PurePosixPath(uri).parts[:-1]


def list_tags(front: FrontMatter) -> tuple[str, ...]:
    """List the tags of the front matter, each once, without the ``#`` of Obsidian.

    They are a list, a text with commas, or the words of a text without any, as in Jekyll. A nested tag of Obsidian,
    such as ``house/garden``, is one tag.

    Raises:
        DocumentError: The field holds something else.
    """
    written = front.texts("tags") or front.texts("tag")
    return tuple(dict.fromkeys(tag for text in written if (tag := text.removeprefix("#").strip())))


def _date_in_published(front: FrontMatter) -> datetime | None:
    """Read ``published`` where it holds a date: Jekyll's holds true or false, and that of notes on books a year."""
    field = front.fields.get("published")
    with suppress(ValueError):
        return parse_date(field.value) if field is not None and isinstance(field.value, str) else None
    return None
