"""The history of one document: each content of its file is a revision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

_STATUS_ORDER = ("ok", "error", "deleted", "superseded")


@dataclass(frozen=True)
class Revision:
    """One row of the table ``documents``; see :class:`backstory.storage.tables.schemas.Documents`."""

    document_id: str
    revision: str
    uri: str
    title: str
    slug: str
    published_at: datetime | None
    date_origin: str | None
    tags: list[str]
    kind: str
    tenant: str
    conversation_id: str | None
    format: str
    size: int | None
    encoding: str | None
    page_starts: list[int]
    confidences: list[float | None]
    chunker: str | None
    text: str
    content_hash: str
    status: str
    error: str | None
    unread: str | None


def update_revisions(known: Mapping[str, Revision], current: Revision | None) -> list[Revision]:
    """Update the statuses of a document's revisions after its file was read.

    A readable content is ``ok`` and supersedes all others. An unreadable content is ``error``, and the ``ok`` revision
    is kept. When the file is gone, its last ``ok`` revision becomes ``deleted``, or the ``error`` revision if there was
    none, and the texts of all revisions are dropped. So each status except ``superseded`` has at most one revision.

    It returns all revisions, ``superseded`` ones last.
    """
    updated = {name: replace(revision, status="superseded") for name, revision in known.items()}
    by_status = {revision.status: revision for revision in known.values()}
    if current is None:
        last = next((by_status[status] for status in _STATUS_ORDER if status in by_status), None)
        if last is not None:
            updated[last.revision] = replace(last, status="deleted")
        updated = {name: replace(revision, text="") for name, revision in updated.items()}
    else:
        if current.status == "error" and "ok" in by_status:
            good = by_status["ok"]
            updated[good.revision] = good
        updated[current.revision] = current
    return _in_order(updated.values())


def keep_revisions(known: Mapping[str, Revision]) -> list[Revision]:
    """Return a document's earlier revisions unchanged and in order, for a file that cannot be accessed."""
    return _in_order(known.values())


def _in_order(revisions: Iterable[Revision]) -> list[Revision]:
    return sorted(revisions, key=lambda row: (_STATUS_ORDER.index(row.status), row.revision))
