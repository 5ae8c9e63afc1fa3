"""The status of every file in a folder of documents, as rows of the table ``sources``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from backstory.ingest.documents.reader import DocumentReader
from backstory.ingest.documents.revisions import Revision
from backstory.ingest.documents.written import name_source
from backstory.storage.tables.schemas import Sources
from backstory.text.encoding import describe_encoding

UNDATED = "it states no date; `rag: {undated: hide}` keeps such documents from all windows"
DRAFT = "draft; `documents: {drafts: true}` serves drafts, too"


@dataclass(frozen=True)
class DocumentSource:
    """The status of one file, or of a folder whose files are not listed one by one.

    Attributes:
        uri: Path relative to the folder of documents; ``""`` for the folder itself.
        status: As in :class:`backstory.storage.tables.schemas.Sources`.
        reason: Why the file was not fully read or what it lacks, and what to do; None if all is well.
        reader: The reader for the file's type; None if there is none.
        date: Date of the document.
        encoding: Encoding used to decode the document; None for a binary file, or one that was not read.
    """

    uri: str
    status: str
    reason: str | None
    reader: DocumentReader | None = None
    date: datetime | None = None
    encoding: str | None = None


def describe_error(uri: str, error: Exception) -> str:
    """Describe an error of a file with the line in words; the file name is omitted, since the row shows it."""
    found = re.fullmatch(rf"{re.escape(uri)}:(?:([0-9]+):)? (.*)", str(error), re.DOTALL)
    if found is None:
        return str(error)
    return f"line {found[1]}: {found[2]}" if found[1] else found[2]


def describe_served(revision: Revision, reader: DocumentReader) -> DocumentSource:
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
            "format": entry.reader.format if entry.reader else None,
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
