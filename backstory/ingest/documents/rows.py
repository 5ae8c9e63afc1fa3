"""The rows of a document: its revisions in the table ``documents``, and the status of its file in ``sources``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import polars as pl

from backstory.ingest.documents.parsed_document import DocumentFormat
from backstory.ingest.documents.written import name_source
from backstory.storage.tables.schemas import Sources
from backstory.text.encoding import describe_encoding

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


UNDATED = "it states no date; `rag: {undated: hide}` keeps such documents from all windows"
DRAFT = "draft; `documents: {drafts: true}` serves drafts, too"


@dataclass(frozen=True)
class DocumentSource:
    """The status of one file, or of a folder whose files are not listed one by one, and why it is not fully read."""

    uri: str
    status: str
    reason: str | None
    reader: DocumentFormat | None = None
    date: datetime | None = None
    encoding: str | None = None


def describe_served(revision: Revision, reader: DocumentFormat) -> DocumentSource:
    """Describe a file that was read."""
    date, encoding = revision.published_at, revision.encoding
    reason = _join_reasons(revision.unread, describe_encoding(encoding))
    return DocumentSource(revision.uri, "read", reason, reader, date, encoding)


def list_sources(
    found: Iterable[DocumentSource], folder: str, *, mentions_undated: bool = True
) -> pl.DataFrame:
    """Build the rows of the documents in the table ``sources``.

    It returns table :class:`~backstory.storage.tables.schemas.Sources`, by ``source``. A folder's ends with ``/``.
    """
    rows = [
        {
            "source": name_source(folder, entry.uri),
            "folder": "documents",
            "status": entry.status,
            "format": entry.reader.name if entry.reader else None,
            "reason": _join_reasons(
                entry.reason, UNDATED if mentions_undated and _lacks_date(entry) else None
            ),
            "rows": int(entry.status == "read"),
            "unread": 0,
            "first": entry.date,
            "last": entry.date,
            "encoding": entry.encoding,
        }
        for entry in found
    ]
    return pl.DataFrame(rows, schema=Sources.schema).sort("source")


def _lacks_date(entry: DocumentSource) -> bool:
    return entry.status == "read" and entry.date is None


def _join_reasons(*reasons: str | None) -> str | None:
    return "; ".join(filter(None, reasons)) or None
