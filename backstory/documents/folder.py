"""A folder of documents -> the table of their revisions, and what became of every file."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import polars as pl

from backstory.documents.dated_names import split_dated_name
from backstory.documents.dates import parse_date
from backstory.documents.file_kinds import HEAD_BYTES, name_binary_kind, name_kind
from backstory.documents.files import DocumentFile, FolderListing, list_files
from backstory.documents.limited_reading import read_document
from backstory.documents.parsed_document import ParsedDocument
from backstory.documents.reader import READERS, DocumentReader, find_reader
from backstory.documents.revisions import Revision, keep_revisions, update_revisions
from backstory.documents.sources import DRAFT, DocumentSource, describe_error, describe_served, list_sources
from backstory.documents.stated_fields import is_in_drafts
from backstory.errors import DocumentError, EmptyDocumentError
from backstory.ids import digest
from backstory.reading import ReadingLimits
from backstory.settings import DocumentSettings
from backstory.tables.contracts import conform, polars_schema
from backstory.tables.schemas import Documents

logger = logging.getLogger(__name__)

_REVISION_OF_READING = "2"
"""To be changed with what is read of a file: its title, date, tags, or whether it is a draft."""

_UNREADABLE = "unreadable"
"""Revision of a file whose content is not known."""


@dataclass(frozen=True)
class DocumentRead:
    """All documents of a folder.

    Attributes:
        documents: Table ``documents`` with all revisions, by uri; of one document, superseded revisions come last.
        sources: The rows of the documents in the table ``sources``: every file, by itself or by a folder above it.
        reading: Names how the files were read; see :func:`read_documents`.
        present: Whether the folder is there.
    """

    documents: pl.DataFrame
    sources: pl.DataFrame
    reading: str
    present: bool


def read_documents(
    folder: Path,
    settings: DocumentSettings,
    previous: pl.DataFrame | None = None,
    *,
    previous_reading: str = "",
    apart: Collection[Path] = (),
    readers: Sequence[DocumentReader] = READERS,
) -> DocumentRead:
    """Read every document of a folder, and keep what was known of them before.

    A document is named by its path and keeps its id across edits; each content of the file is a revision. Its date is
    that of its front matter (:func:`backstory.documents.stated_fields.find_date`), else of its name or its folders
    (:func:`backstory.documents.dated_names.split_dated_name`), else that of its last change. A file that cannot be
    read is a row with status ``error``, and never stops the others. Drafts are treated as if they were not there,
    unless the settings want them. What was known of the files in a folder that cannot be listed stays; a folder of
    documents that is not there has none.

    Args:
        folder: The folder.
        settings: Which files to read, and what is assumed of those that do not say.
        previous: Table ``documents`` of an earlier call.
        previous_reading: What that call gave as ``reading``. Where files are read in another way now, all are parsed
            again; else only those that changed.
        apart: Files and folders that belong to something else, and are skipped where they lie in the folder.
        readers: The readers, of which the first that takes a file reads it.

    Returns:
        The documents, and what became of every file.

    Raises:
        ContractError: ``previous`` is not a table ``documents``.
    """
    return read_listed_documents(
        list_files(folder, settings.pattern, apart),
        settings,
        previous,
        previous_reading=previous_reading,
        readers=readers,
    )


def read_listed_documents(
    listing: FolderListing,
    settings: DocumentSettings,
    previous: pl.DataFrame | None = None,
    *,
    previous_reading: str = "",
    readers: Sequence[DocumentReader] = READERS,
) -> DocumentRead:
    """Read files that are listed already; see :func:`read_documents`.

    Args:
        listing: The files.
        settings: What is assumed of those that do not say.
        previous: Table ``documents`` of an earlier call.
        previous_reading: What that call gave as ``reading``.
        readers: The readers, of which the first that takes a file reads it.

    Returns:
        The documents, and what became of every file.

    Raises:
        ContractError: ``previous`` is not a table ``documents``.
    """
    started = time.perf_counter()
    reading = name_reading(settings, readers)
    known = _group_revisions(previous)
    sources = [DocumentSource(entry.uri, entry.status, entry.reason) for entry in listing.left_out]
    rows: list[Revision] = []
    for file in listing.files:
        earlier = known.get(file.uri, {})
        try:
            current, source = _look_at(
                file, earlier if reading == previous_reading else {}, readers, settings
            )
        except FileNotFoundError:
            continue  # it was removed since the folder was listed
        sources.append(_mention_served(source, earlier))
        rows.extend(update_revisions(known.pop(file.uri, {}), current))
    for uri, revisions in known.items():
        hidden = uri.startswith(listing.unlisted)
        rows.extend(keep_revisions(revisions) if hidden else update_revisions(revisions, None))
    rows.sort(key=lambda row: row.uri)
    statuses = Counter(source.status for source in sources)
    counts = " ".join(f"{status}={count}" for status, count in sorted(statuses.items()))
    logger.info("read documents %s seconds=%.2f", counts, time.perf_counter() - started)
    return DocumentRead(
        documents=pl.DataFrame([vars(row) for row in rows], schema=polars_schema(Documents)),
        sources=list_sources(sources, settings.folder),
        reading=reading,
        present=listing.present,
    )


def name_reading(settings: DocumentSettings, readers: Sequence[DocumentReader] = READERS) -> str:
    """Name the way in which files are read; see :func:`read_documents`."""
    formats = (reader.format for reader in readers)
    return digest([_REVISION_OF_READING, settings.kind, settings.tenant, str(settings.drafts), *formats])


def _group_revisions(previous: pl.DataFrame | None) -> dict[str, dict[str, Revision]]:
    known: dict[str, dict[str, Revision]] = {}
    if previous is not None:
        for row in conform(previous, Documents).iter_rows(named=True):
            known.setdefault(row["uri"], {})[row["revision"]] = Revision(**row)
    return known


def _look_at(
    file: DocumentFile,
    earlier: Mapping[str, Revision],
    readers: Sequence[DocumentReader],
    settings: DocumentSettings,
) -> tuple[Revision | None, DocumentSource]:
    """Give the revision that a file has now, or None if it is no document, and what became of the file."""
    reader = find_reader(file.uri, readers)
    if reader is None:
        return None, _describe_foreign(file, readers)
    if is_in_drafts(file.uri) and not settings.drafts:
        return None, DocumentSource(file.uri, "ignored", DRAFT, reader)
    content: bytes | None = None
    limits = ReadingLimits(settings.read_seconds, settings.read_megabytes)
    try:
        content = file.read(most_bytes=limits.most_bytes)
        content_hash = hashlib.sha256(content).hexdigest()
        same = earlier.get(_revision_of(content_hash))
        if same is None or same.error is not None or not same.text or same.content_hash != content_hash:
            document = read_document(reader, content, file.uri, settings)
            if document is None:
                return None, DocumentSource(file.uri, "ignored", DRAFT, reader)
            same = _describe(file.uri, content_hash, document, settings)
    except DocumentError as error:
        return _describe_failure(file.uri, content, reader, settings, error)
    return replace(same, status="ok"), describe_served(same, reader, content)


def _describe_foreign(file: DocumentFile, readers: Sequence[DocumentReader]) -> DocumentSource:
    try:
        kind = name_kind(file.uri, file.read(HEAD_BYTES))
    except DocumentError as error:
        return DocumentSource(file.uri, "failed", describe_error(file.uri, error))
    return DocumentSource(file.uri, "unsupported", _refuse_kind(kind, readers))


def _refuse_kind(kind: str, readers: Sequence[DocumentReader]) -> str:
    formats = "; ".join(
        f"{reader.format.capitalize()} ({', '.join(sorted(reader.suffixes))})" for reader in readers
    )
    return f"this is {kind}; this version reads {formats}; save its text in such a file to have it read"


def _describe_failure(
    uri: str,
    content: bytes | None,
    reader: DocumentReader,
    settings: DocumentSettings,
    error: DocumentError,
) -> tuple[Revision, DocumentSource]:
    """Make the row of a file that could not be read, with what its name says."""
    content_hash = "" if content is None else hashlib.sha256(content).hexdigest()
    unread = replace(_describe(uri, content_hash, None, settings), status="error", error=str(error))
    if isinstance(error, EmptyDocumentError):
        return unread, DocumentSource(uri, "empty", describe_error(uri, error), reader)
    kind = name_binary_kind((content or b"")[:HEAD_BYTES])
    if kind is not None:
        return unread, DocumentSource(
            uri, "unsupported", _refuse_kind(f"{kind} in spite of its name", [reader])
        )
    return unread, DocumentSource(uri, "failed", describe_error(uri, error), reader)


def _mention_served(source: DocumentSource, earlier: Mapping[str, Revision]) -> DocumentSource:
    """Add that windows are still given what the file held before, where it cannot be read now."""
    served = any(revision.status == "ok" for revision in earlier.values())
    if source.reader is None or source.status not in ("failed", "empty") or not served:
        return source
    return replace(source, reason=f"{source.reason}; until then its last readable version is served")


def _describe(
    uri: str, content_hash: str, document: ParsedDocument | None, settings: DocumentSettings
) -> Revision:
    """Make the revision of a file; without a document, with what its name says."""
    dated, slug = split_dated_name(uri)
    stated = document or ParsedDocument(text="")
    published_at = stated.published_at
    if document is not None and published_at is None and dated is not None:
        published_at = _date_of_name(uri, dated)
    slug = stated.slug or slug
    return Revision(
        document_id=digest([uri], length=16),
        revision=_revision_of(content_hash),
        uri=uri,
        title=stated.title or slug,
        slug=slug,
        published_at=published_at or stated.updated_at,
        tags=list(stated.tags),
        kind=stated.kind or settings.kind,
        tenant=stated.tenant or settings.tenant,
        text=stated.text,
        content_hash=content_hash,
        status="ok",
        error=None,
    )


def _revision_of(content_hash: str) -> str:
    return content_hash[:12] or _UNREADABLE


def _date_of_name(uri: str, dated: str) -> datetime:
    try:
        return parse_date(dated)
    except ValueError as error:
        raise DocumentError(
            f"{uri}: {dated} in the file name is not a date; rename the file, or give a date in it"
        ) from error
