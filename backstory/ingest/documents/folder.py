"""A folder of documents -> the table of their revisions, and the status of every file."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
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
from backstory.ingest.documents.file_rules import explain_secret, make_rules
from backstory.ingest.documents.files import DocumentFile, FolderListing, Outcome, list_files
from backstory.ingest.documents.formats.texts import UNREADABLE_DRAFT
from backstory.ingest.documents.front_matter import is_in_drafts
from backstory.ingest.documents.opening import Archive
from backstory.ingest.documents.pages import WORDLESS
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument, list_titles
from backstory.ingest.documents.reader import READERS, find_reader, read_document
from backstory.ingest.documents.recognition import name_recognition
from backstory.ingest.documents.rows import (
    DRAFT,
    Row,
    describe_served,
    list_sources,
    update_revisions,
)
from backstory.ingest.documents.written import JUST_AFTER, is_unlisted
from backstory.ingest.file_kinds import HEAD_BYTES, name_binary_kind, name_kind
from backstory.settings.inputs import DocumentSettings
from backstory.storage.tables.contracts import conform
from backstory.storage.tables.schemas import Documents
from backstory.text.languages import detect_language

logger = logging.getLogger(__name__)

_REVISION_OF_READING = "9"
"""Increase this when reading changes the title, date, tags or draft status of a file."""

_GONE = "gone"
_UNREADABLE = "unreadable"
"""Revision id of a file with unknown content."""


@dataclass(frozen=True)
class DocumentRead:
    """All documents of a folder.

    ``documents``: table ``documents`` with all revisions by uri; superseded ones come last. ``sources``: their rows in
    the table ``sources``. ``reading``: id of the settings and readers used. ``present``: whether the folder exists.
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
    """Read every document of a folder, which counts as empty if it is missing; see :func:`read_listed_documents`."""
    return read_listed_documents(
        list_files(folder, make_rules(settings), apart),
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
    """Read files that are already listed, and keep earlier revisions.

    A document is identified by its path and keeps its id across edits; each content of the file is a revision. The
    date is that of the front matter, else of the names of the file and its folders, else of the stated last change. An
    unreadable file becomes a row with status ``error``. If a folder cannot be listed, the earlier revisions of its
    files are kept. ``previous``: table ``documents`` of an earlier call with its ``reading``; if that differs now, all
    files are parsed again. It raises ``ContractError`` if ``previous`` is not a table ``documents``.
    """
    started = time.perf_counter()
    reading = name_reading(settings, readers, timezone)
    reader = _Reader(settings, readers, hashes, timezone)
    known = conform(previous, Documents) if previous is not None else pl.DataFrame(schema=Documents.schema)
    is_latest = pl.col("status").is_in(["ok", "error"])
    # Of a file that became unreadable, the last reading gave the error.
    latest = {
        row["uri"]: row
        for row in known.filter(is_latest).sort("status", descending=True).iter_rows(named=True)
    }
    served = dict(known.filter(status="ok").select("uri", "revision").iter_rows())
    sources = list(listing.left_out)
    rows: list[Row] = []
    kept: set[str] = set()
    for number, file in enumerate(listing.files):
        announce_name(file.uri)
        if progress is not None:
            progress(number, len(listing.files))
        earlier = latest.get(file.uri)
        try:
            current, source = reader.read(file, earlier if reading == previous_reading else None)
        except FileNotFoundError:  # the file was removed after the folder was listed
            reader.use(file, _GONE)
            continue
        sources.append(_mention_served(source, served.get(file.uri), current))
        if current is not None and current is earlier:
            kept.add(file.uri)
        elif current is not None:
            rows.append(current)
    reader.use_archives(listing.files)
    unlisted, listed = frozenset(listing.unlisted), {file.uri for file in listing.files}
    kept.update(uri for uri in known["uri"].unique() if uri not in listed and is_unlisted(uri, unlisted))
    statuses = sorted(Counter(source.status for source in sources).items())
    log_event(logger, "read documents", dict(statuses), seconds=time.perf_counter() - started)
    return DocumentRead(
        documents=update_revisions(known, pl.DataFrame(rows, schema=Documents.schema), kept),
        sources=list_sources(sources, settings.folder, mentions_undated=mentions_undated),
        reading=reading,
        present=listing.present,
    )


def name_reading(
    settings: DocumentSettings, readers: Sequence[DocumentFormat] = READERS, timezone: str = "UTC"
) -> str:
    """Return an id of the settings, readers, extras and programs that affect parsing."""
    formats = (reader.name for reader in readers)
    of_sources = [f"{source.label} {source.kind} {source.tenant}" for source in settings.sources]
    stated = [settings.kind, settings.tenant, str(settings.drafts), *of_sources, *settings.secrets]
    extras = (f"{extra}={is_installed(extra)}" for extra in ("code", "office"))
    parsers = [*extras, name_recognition(settings)]
    return digest([_REVISION_OF_READING, timezone, *stated, *parsers, *formats])


def _mention_served(source: Outcome, served: str | None, current: Row | None) -> Outcome:
    """Add a note to an unreadable file that windows still get its last readable revision.

    They do not if the file is unchanged, and could be read only by a program or a setting that is gone.
    """
    is_served = served is not None and (current is None or current["revision"] != served)
    if source.reader is None or source.status not in ("failed", "empty", "needs_ocr") or not is_served:
        return source
    return replace(source, reason=f"{source.reason}; until then its last readable version is served")


@dataclass(frozen=True)
class _Reader:
    """Reads one file after another in the same way."""

    settings: DocumentSettings
    readers: Sequence[DocumentFormat]
    hashes: FileHashes | None
    timezone: str

    def use(self, file: DocumentFile, content_hash: str) -> None:
        """Note what was read of a file, so that its hash is that of no later content."""
        if self.hashes is not None and file.archive is None:
            self.hashes.use(os.fspath(file.path), content_hash)

    def use_archives(self, files: Sequence[DocumentFile]) -> None:
        """Note the archives that members were read from."""
        if self.hashes is not None:
            for path, archive in {file.path: file.archive for file in files if file.archive}.items():
                self.hashes.use(os.fspath(path), _hash_archive(path, archive, self.hashes))

    def read(self, file: DocumentFile, latest: Row | None) -> tuple[Row | None, Outcome]:
        """Return the current revision of a file, or None if it is not a document, and the file's status.

        ``latest``: the revision that an earlier reading of the same kind gave.
        """
        format_ = find_reader(file.uri, self.readers)
        if format_ is None:
            return None, self._describe_foreign(file)
        if latest is not None and _is_whole(latest) and self._is_unchanged(file, latest["content_hash"]):
            self.use(file, latest["content_hash"])
            return latest, describe_served(latest, format_)
        draft = Outcome(file.uri, "ignored", DRAFT, format_)
        if is_in_drafts(file.uri) and not self.settings.drafts:
            return None, draft
        content: bytes | None = None
        try:
            content = file.read(most_bytes=_limit(self.settings).most_bytes)
            content_hash = hashlib.sha256(content).hexdigest()
            self.use(file, content_hash)
            same = latest if latest is not None and latest["content_hash"] == content_hash else None
            if same is not None and same["error"] == WORDLESS:
                # Recognising nothing in a photograph again would take seconds.
                raise ReadError(WORDLESS, code="empty_document")
            if same is None or not _is_whole(same):
                document = read_document(format_, content, file.uri, self.settings)
                if document.is_draft and not self.settings.drafts:
                    return None, draft
                same = self._describe(file, content, format_, document)
            secret = (
                None if file.is_vetted else explain_secret(content) or explain_secret(same["text"].encode())
            )
            if secret is not None:
                return None, Outcome(file.uri, "ignored", secret, format_)
        except ReadError as error:
            if error.code == UNREADABLE_DRAFT and not self.settings.drafts:
                return None, draft
            return self._describe_failure(file, content, format_, error)
        return same, describe_served(same, format_)

    def _is_unchanged(self, file: DocumentFile, content_hash: str) -> bool:
        return (
            self.hashes is not None
            and file.archive is None
            and self.hashes.find(os.fspath(file.path)) == content_hash
        )

    def _describe_foreign(self, file: DocumentFile) -> Outcome:
        try:
            kind = name_kind(file.uri, file.read(HEAD_BYTES))
        except ReadError as error:
            return Outcome(file.uri, "failed", str(error))
        listed = list_titles(self.readers)
        reason = f"this is {kind}; to have it read, rename it or save its text as one of these: {listed}"
        return Outcome(file.uri, "unsupported", reason)

    def _describe_failure(
        self, file: DocumentFile, content: bytes | None, format_: DocumentFormat, error: ReadError
    ) -> tuple[Row, Outcome]:
        """Build the row of a file that could not be read, with the slug from its name."""
        unread = self._describe(file, content, format_, None) | {"status": "error", "error": str(error)}
        kind = name_binary_kind(content or b"") if format_.find_encoding is not None else None
        if error.code in ("empty_document", "needs_ocr"):
            status = "empty" if error.code == "empty_document" else error.code
            return unread, Outcome(file.uri, status, str(error), format_)
        if kind is not None:
            reason = f"this is {kind}, although its name says otherwise; give it the ending of its kind"
            return unread, Outcome(file.uri, "unsupported", reason)
        return unread, Outcome(file.uri, "failed", str(error), format_)

    def _describe(
        self,
        file: DocumentFile,
        content: bytes | None,
        format_: DocumentFormat,
        document: ParsedDocument | None,
    ) -> Row:
        """Build the revision of a file; without a parsed document, from its name alone."""
        content_hash = "" if content is None else hashlib.sha256(content).hexdigest()
        dated, slug = split_dated_name(file.uri)
        stated = document or ParsedDocument(text="")
        slug = stated.slug or slug
        title = stated.title or slug
        published_at, origin = stated.published_at, "stated"
        if document is not None and published_at is None and dated is not None:
            try:
                published_at, origin = parse_date(dated), "name"
            except ValueError as error:
                raise ReadError(
                    f"{dated} in the file name is not a date; rename the file, or give a date in it"
                ) from error
        if published_at is not None and is_written(file.uri):
            published_at += JUST_AFTER
        if published_at is None:
            published_at, origin = stated.change
        encoding = None
        if content is not None and document is not None and format_.find_encoding is not None:
            encoding = format_.find_encoding(content)
        own_kind = self.settings.kind if file.kind is None else file.kind
        own_tenant = self.settings.tenant if file.tenant is None else file.tenant
        return {
            "document_id": document_id_of(file.uri),
            "revision": content_hash[:12] or _UNREADABLE,
            "uri": file.uri,
            "title": title,
            "slug": slug,
            "published_at": None if published_at is None else put_in_zone(published_at, self.timezone),
            "date_origin": None if published_at is None else origin,
            "tags": list(stated.tags),
            "kind": stated.kind or own_kind,
            "tenant": stated.tenant or own_tenant,
            "conversation_id": stated.conversation if is_written(file.uri) else None,
            "format": format_.name,
            "size": None if content is None else len(content),
            "encoding": encoding,
            "page_starts": list(stated.page_starts),
            "confidences": list(stated.confidences),
            "chunker": None if document is None else stated.chunker,
            "language": detect_language([title, stated.text]) if document else None,
            "text": stated.text,
            "content_hash": content_hash,
            "status": "ok",
            "error": None,
            "unread": stated.unread,
        }


def _limit(settings: DocumentSettings) -> ReadingLimits:
    return ReadingLimits(settings.read_seconds, settings.read_megabytes)


def _is_whole(row: Row) -> bool:
    return row["error"] is None and bool(row["text"])


def _hash_archive(path: Path, archive: Archive, hashes: FileHashes) -> str:
    try:
        return hashes.find_open(os.fspath(path), archive.state) or archive.sha256()
    except OSError as error:
        return str(error.strerror)
