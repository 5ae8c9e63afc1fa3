"""A folder of documents -> the table of their revisions, and the status of every file."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import polars as pl

from backstory.base.errors import ReadError
from backstory.base.extras import is_installed
from backstory.base.ids import digest, document_id_of, is_written
from backstory.base.local_times import put_in_zone
from backstory.base.progress import announce_name
from backstory.base.sandbox import ReadingLimits
from backstory.base.telemetry import log_event
from backstory.ingest.documents.dates import parse_date, split_dated_name
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.ingest.documents.file_rules import make_rules
from backstory.ingest.documents.files import DocumentFile, FolderListing, list_files
from backstory.ingest.documents.formats.texts import UNREADABLE_DRAFT
from backstory.ingest.documents.front_matter import is_in_drafts
from backstory.ingest.documents.opening import Archive
from backstory.ingest.documents.pages import WORDLESS
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument, list_titles
from backstory.ingest.documents.reader import READERS, find_reader, read_document
from backstory.ingest.documents.recognition import name_recognition
from backstory.ingest.documents.rows import (
    DRAFT,
    DocumentSource,
    Revision,
    describe_served,
    keep_revisions,
    list_sources,
    update_revisions,
)
from backstory.ingest.documents.secret_files import explain_secret
from backstory.ingest.documents.written import JUST_AFTER, is_unlisted
from backstory.ingest.file_kinds import HEAD_BYTES, name_binary_kind, name_kind
from backstory.settings.inputs import DocumentSettings
from backstory.storage.tables.contracts import conform
from backstory.storage.tables.schemas import Documents

logger = logging.getLogger(__name__)

_REVISION_OF_READING = "8"
"""Increase this when reading changes the title, date, tags or draft status of a file."""

_GONE = "gone"

_UNREADABLE = "unreadable"
"""Revision id of a file with unknown content."""


@dataclass(frozen=True)
class DocumentRead:
    """All documents of a folder.

    Attributes:
        documents: Table ``documents`` with all revisions, sorted by uri; superseded revisions of a document come last.
        sources: The rows of the documents in the table ``sources``; a skipped folder is one row for all its files.
        reading: Id of the settings and readers used; see :func:`read_documents`.
        present: Whether the folder exists.
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
    readers: Sequence[DocumentFormat] = READERS,
    timezone: str = "UTC",
) -> DocumentRead:
    """Read every document of a folder, and keep earlier revisions.

    A document is identified by its path and keeps its id across edits; each content of the file is a revision. The
    date is taken from the front matter, else from
    the names of the file and its folders (:func:`backstory.ingest.documents.dates.split_dated_name`),
    else from the stated last change. An unreadable file becomes a row with status ``error``; the remaining files are
    still read. Drafts are skipped unless the settings include them. If a subfolder cannot be listed, the earlier
    revisions of its files are kept. A missing folder of documents counts as empty.

    ``previous``: table ``documents`` of an earlier call. ``previous_reading``: the earlier call's ``reading``. If it
    differs now, all files are parsed again; otherwise only changed files. It raises ``ContractError`` if ``previous``
    is not a table ``documents``.
    """
    return read_listed_documents(
        list_files(folder, settings.pattern, apart, make_rules(settings)),
        settings,
        previous,
        previous_reading=previous_reading,
        readers=readers,
        timezone=timezone,
    )


def read_listed_documents(
    listing: FolderListing,
    settings: DocumentSettings,
    previous: pl.DataFrame | None = None,
    *,
    previous_reading: str = "",
    readers: Sequence[DocumentFormat] = READERS,
    hashes: FileHashes | None = None,
    timezone: str = "UTC",
    mentions_undated: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> DocumentRead:
    """Read files that are already listed; see :func:`read_documents`.

    ``previous``: table ``documents`` of an earlier call. ``previous_reading``: the earlier call's ``reading``. It
    raises ``ContractError`` if ``previous`` is not a table ``documents``.
    """
    started = time.perf_counter()
    reading = name_reading(settings, readers, timezone)
    known = _group_revisions(previous)
    sources = [DocumentSource(entry.uri, entry.status, entry.reason) for entry in listing.left_out]
    rows: list[Revision] = []
    for number, file in enumerate(listing.files):
        announce_name(file.uri)
        if progress is not None:
            progress(number, len(listing.files))
        earlier = known.get(file.uri, {})
        reusable = _find_latest(earlier) if reading == previous_reading else {}
        try:
            known_revision = _find_unchanged(file, reusable, readers, hashes)
            current, source = known_revision or _put_in_zone(
                *_look_at(file, reusable, readers, _settings_of(file, settings), hashes), timezone
            )
        except FileNotFoundError:  # the file was removed after the folder was listed
            if hashes is not None:
                hashes.use(os.fspath(file.path), _GONE)
            continue
        sources.append(_mention_served(source, earlier, current))
        rows.extend(update_revisions(known.pop(file.uri, {}), current))
    if hashes is not None:
        for path, archive in {file.path: file.archive for file in listing.files if file.archive}.items():
            hashes.use(os.fspath(path), _hash_archive(path, archive, hashes))
    unlisted = frozenset(listing.unlisted)
    for uri, revisions in known.items():
        hidden = is_unlisted(uri, unlisted)
        rows.extend(keep_revisions(revisions) if hidden else update_revisions(revisions, None))
    rows.sort(key=lambda row: row.uri)
    statuses = sorted(Counter(source.status for source in sources).items())
    log_event(logger, "read documents", dict(statuses), seconds=time.perf_counter() - started)
    return DocumentRead(
        documents=pl.DataFrame([vars(row) for row in rows], schema=Documents.schema),
        sources=list_sources(sources, settings.folder, mentions_undated=mentions_undated),
        reading=reading,
        present=listing.present,
    )


def name_reading(
    settings: DocumentSettings, readers: Sequence[DocumentFormat] = READERS, timezone: str = "UTC"
) -> str:
    """Return an id of the settings, readers, extras and programs that affect parsing; see :func:`read_documents`."""
    formats = (reader.name for reader in readers)
    of_sources = [f"{source.label} {source.kind} {source.tenant}" for source in settings.sources]
    stated = [settings.kind, settings.tenant, str(settings.drafts), *of_sources, *settings.secrets]
    extras = (f"{extra}={is_installed(extra)}" for extra in ("code", "office"))
    parsers = [*extras, name_recognition(settings)]
    return digest([_REVISION_OF_READING, timezone, *stated, *parsers, *formats])


def _put_in_zone(
    current: Revision | None, source: DocumentSource, timezone: str
) -> tuple[Revision | None, DocumentSource]:
    """Put a date that states no zone into the one of the workspace."""
    if current is None or current.published_at is None:
        return current, source
    moment = put_in_zone(current.published_at, timezone)
    return replace(current, published_at=moment), replace(source, date=source.date and moment)


def _settings_of(file: DocumentFile, settings: DocumentSettings) -> DocumentSettings:
    """Return the settings of a file: its source may have defaults of its own."""
    own = {"kind": file.kind, "tenant": file.tenant}
    return settings.model_copy(update={name: value for name, value in own.items() if value is not None})


def _find_latest(revisions: Mapping[str, Revision]) -> dict[str, Revision]:
    """Return the revision that the last reading gave; earlier ones may have been read with other settings."""
    by_status = {revision.status: revision for revision in revisions.values()}
    latest = by_status.get("error", by_status.get("ok"))
    return {} if latest is None else {latest.revision: latest}


def _group_revisions(previous: pl.DataFrame | None) -> dict[str, dict[str, Revision]]:
    known: dict[str, dict[str, Revision]] = {}
    if previous is not None:
        for row in conform(previous, Documents).iter_rows(named=True):
            known.setdefault(row["uri"], {})[row["revision"]] = Revision(**row)
    return known


def _find_unchanged(
    file: DocumentFile,
    earlier: Mapping[str, Revision],
    readers: Sequence[DocumentFormat],
    hashes: FileHashes | None,
) -> tuple[Revision, DocumentSource] | None:
    """Return the revision of a file that was read before and has not changed, and its status; None for any other."""
    reader = find_reader(file.uri, readers)
    if hashes is None or reader is None or file.archive is not None:
        return None
    content_hash = hashes.find(os.fspath(file.path))
    same = None if content_hash is None else earlier.get(_revision_of(content_hash))
    if same is None or not _is_whole(same) or same.content_hash != content_hash:
        return None
    hashes.use(os.fspath(file.path), content_hash)
    return replace(same, status="ok"), describe_served(same, reader)


def _hash_archive(path: Path, archive: Archive, hashes: FileHashes) -> str:
    try:
        return hashes.find_open(os.fspath(path), archive.state) or archive.sha256()
    except OSError as error:
        return str(error.strerror)


def _is_whole(revision: Revision) -> bool:
    return revision.error is None and bool(revision.text)


def _look_at(
    file: DocumentFile,
    earlier: Mapping[str, Revision],
    readers: Sequence[DocumentFormat],
    settings: DocumentSettings,
    hashes: FileHashes | None,
) -> tuple[Revision | None, DocumentSource]:
    """Return the current revision of a file, or None if it is not a document, and the file's status."""
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
        if hashes is not None and file.archive is None:
            hashes.use(os.fspath(file.path), content_hash)
        same = earlier.get(_revision_of(content_hash))
        same = None if same is None or same.content_hash != content_hash else same
        if same is not None and same.error == WORDLESS:
            # Recognising nothing in a photograph again would take seconds.
            raise ReadError(WORDLESS, code="empty_document")
        if same is None or not _is_whole(same):
            document = read_document(reader, content, file.uri, settings)
            if document.is_draft and not settings.drafts:
                return None, DocumentSource(file.uri, "ignored", DRAFT, reader)
            same = _describe(file.uri, content, reader, document, settings)
        secret = None if file.is_vetted else explain_secret(content) or explain_secret(same.text.encode())
        if secret is not None:
            return None, DocumentSource(file.uri, "ignored", secret, reader)
    except ReadError as error:
        if error.code == UNREADABLE_DRAFT and not settings.drafts:
            return None, DocumentSource(file.uri, "ignored", DRAFT, reader)
        return _describe_failure(file.uri, content, reader, settings, error)
    return replace(same, status="ok"), describe_served(same, reader)


def _describe_foreign(file: DocumentFile, readers: Sequence[DocumentFormat]) -> DocumentSource:
    try:
        kind = name_kind(file.uri, file.read(HEAD_BYTES))
    except ReadError as error:
        return DocumentSource(file.uri, "failed", str(error))
    reason = (
        f"this is {kind}; to have it read, rename it or save its text as one of these: {list_titles(readers)}"
    )
    return DocumentSource(file.uri, "unsupported", reason)


def _describe_failure(
    uri: str,
    content: bytes | None,
    reader: DocumentFormat,
    settings: DocumentSettings,
    error: ReadError,
) -> tuple[Revision, DocumentSource]:
    """Build the row of a file that could not be read, with the date and slug from its name."""
    unread = replace(_describe(uri, content, reader, None, settings), status="error", error=str(error))
    if error.code in ("empty_document", "needs_ocr"):
        status = "empty" if error.code == "empty_document" else error.code
        return unread, DocumentSource(uri, status, str(error), reader)
    kind = name_binary_kind(content or b"") if reader.find_encoding is not None else None
    if kind is not None:
        reason = f"this is {kind}, although its name says otherwise; give it the ending of its kind"
        return unread, DocumentSource(uri, "unsupported", reason)
    return unread, DocumentSource(uri, "failed", str(error), reader)


def _mention_served(
    source: DocumentSource, earlier: Mapping[str, Revision], current: Revision | None
) -> DocumentSource:
    """Add a note to an unreadable file that windows still get its last readable revision.

    They do not if the file is unchanged, and could be read only by a program or a setting that is gone.
    """
    unread = None if current is None else current.revision
    served = any(revision.status == "ok" and name != unread for name, revision in earlier.items())
    if source.reader is None or source.status not in ("failed", "empty", "needs_ocr") or not served:
        return source
    return replace(source, reason=f"{source.reason}; until then its last readable version is served")


def _describe(
    uri: str,
    content: bytes | None,
    reader: DocumentFormat,
    document: ParsedDocument | None,
    settings: DocumentSettings,
) -> Revision:
    """Build the revision of a file; without a parsed document, from its name alone."""
    content_hash = "" if content is None else hashlib.sha256(content).hexdigest()
    dated, slug = split_dated_name(uri)
    stated = document or ParsedDocument(text="")
    published_at, origin = stated.published_at, "stated"
    if document is not None and published_at is None and dated is not None:
        published_at, origin = _date_of_name(dated), "name"
    if published_at is not None and is_written(uri):
        published_at += JUST_AFTER
    if published_at is None:
        published_at, origin = stated.change
    slug = stated.slug or slug
    return Revision(
        document_id=document_id_of(uri),
        revision=_revision_of(content_hash),
        uri=uri,
        title=stated.title or slug,
        slug=slug,
        published_at=published_at,
        date_origin=None if published_at is None else origin,
        tags=list(stated.tags),
        kind=stated.kind or settings.kind,
        tenant=stated.tenant or settings.tenant,
        conversation_id=stated.conversation if is_written(uri) else None,
        format=reader.name,
        size=None if content is None else len(content),
        encoding=None
        if content is None or document is None or reader.find_encoding is None
        else reader.find_encoding(content),
        page_starts=list(stated.page_starts),
        confidences=list(stated.confidences),
        chunker=None if document is None else stated.chunker,
        text=stated.text,
        content_hash=content_hash,
        status="ok",
        error=None,
        unread=stated.unread,
    )


def _revision_of(content_hash: str) -> str:
    return content_hash[:12] or _UNREADABLE


def _date_of_name(dated: str) -> datetime:
    try:
        return parse_date(dated)
    except ValueError as error:
        raise ReadError(
            f"{dated} in the file name is not a date; rename the file, or give a date in it"
        ) from error
