"""The history of one document: every content that its file had is a revision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

_STATUS_ORDER = ("ok", "error", "deleted", "superseded")


@dataclass(frozen=True)
class Revision:
    """One row of the table ``documents``; see :class:`backstory.tables.schemas.Documents`."""

    document_id: str
    revision: str
    uri: str
    title: str
    slug: str
    published_at: datetime | None
    tags: list[str]
    kind: str
    tenant: str
    text: str
    content_hash: str
    status: str
    error: str | None


def update_revisions(known: Mapping[str, Revision], current: Revision | None) -> list[Revision]:
    """Set the statuses of a document's revisions after a look at its file.

    A content that can be read is ``ok`` and supersedes all others. One that cannot is ``error``, and the
    revision that was ``ok`` stays. When the file is gone, its last good revision is ``deleted``, or the
    broken one if there was none, and the texts of all of them are dropped. So there is at most one revision of
    each status but ``superseded``.

    Args:
        known: The revisions before, by their id.
        current: The revision that the file has now, or None if it is gone.

    Returns:
        All revisions, ``superseded`` ones last.
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
    """Give a document's revisions as they were, in their order, where its file cannot be looked at."""
    return _in_order(known.values())


def _in_order(revisions: Iterable[Revision]) -> list[Revision]:
    return sorted(revisions, key=lambda row: (_STATUS_ORDER.index(row.status), row.revision))
