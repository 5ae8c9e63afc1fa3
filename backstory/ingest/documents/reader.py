"""Files of documents -> the table of their revisions, and the status of every file, by the registry of formats."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any, Final, TypeAlias

import polars as pl

from backstory.base.errors import ReadError
from backstory.base.extras import is_installed
from backstory.base.files.safe_open import GONE
from backstory.base.ids import WRITTEN_PREFIX, digest, document_id_of, is_written
from backstory.base.local_times import put_in_zone
from backstory.base.progress import announce_name
from backstory.ingest.documents import files
from backstory.ingest.documents.formats import html, office, tables, texts
from backstory.ingest.documents.metadata import DocumentFormat, ParsedDocument
from backstory.ingest.documents.pages import IMAGE, PDF, WORDLESS, name_recognition, read_pictures
from backstory.ingest.file_kinds import HEAD_BYTES, name_binary_kind, name_kind
from backstory.ingest.limited_calls import call_limited, find_limits
from backstory.ingest.walk import ListedFile, Listing
from backstory.ingest.zips import CHANGED
from backstory.settings.inputs import DocumentSettings
from backstory.storage.tables.contracts import conform
from backstory.storage.tables.schemas import Documents, Sources
from backstory.text.encoding import describe_encoding
from backstory.text.languages import detect_language

DOCUMENT_FORMATS: Final[tuple[DocumentFormat, ...]] = (
    texts.MARKDOWN, tables.CSV, tables.JSON, tables.JSON_LINES, tables.PARQUET, texts.CODE, PDF, IMAGE,
    texts.PLAIN_TEXT, texts.RESTRUCTURED_TEXT, texts.ASCIIDOC, texts.ORG_MODE, html.HTML, office.DOCX, office.PPTX,
    tables.SPREADSHEET, office.ODT, office.ODP, office.EPUB,
)  # fmt: skip
_SMALL_BYTES: Final = 1 << 18
"""Maximum size of Markdown and plain text that is read in this process: reading time grows only with the length."""
_REVISION_OF_READING: Final = "12"
"""Increase this when reading changes the title, date, tags or draft status of a file."""

_STATUSES: Final = {"empty_document": "empty", "needs_ocr": "needs_ocr", "binary_file": "unsupported"}
"""Statuses of files that could not be read, by the codes of the errors; any other has failed."""
_JUST_AFTER: Final = timedelta(microseconds=1)
"""How long after the end of its window a post is out. A window of one moment must not find its own post."""
DRAFT: Final = "draft; `documents: {drafts: true}` serves drafts, too"
_Row: TypeAlias = dict[str, Any]
"""One row of the table ``documents``."""
_STATUS_ORDER: Final = ("ok", "error", "deleted", "superseded")


@dataclass(frozen=True)
class _Outcome:
    """What became of a file, and why it is not fully read; ``row`` is its current revision if it is a document."""

    uri: str
    status: str
    reason: str | None
    document_format: DocumentFormat | None = None
    row: _Row | None = None


def find_document_format(uri: str) -> DocumentFormat | None:
    """Return the first format that a file's suffix names, in any case; None if there is none."""
    suffix = PurePosixPath(uri).suffix.lower()
    return next((each for each in DOCUMENT_FORMATS if suffix in each.suffixes), None)


def list_titles() -> str:
    """List the formats as people call them, each once."""
    return ", ".join(dict.fromkeys(each.title for each in DOCUMENT_FORMATS))


def gives_markdown(uri: str) -> bool:
    """Tell whether the text that a file is read as is Markdown; other texts may hold marks that mean nothing."""
    document_format = find_document_format(uri)
    return document_format is not None and document_format.gives_markdown


def read_document(
    document_format: DocumentFormat, content: bytes, uri: str, settings: DocumentSettings
) -> ParsedDocument:
    """Read a file, and recognise the text of its images where Tesseract is installed and the settings allow it.

    It raises ``ReadError`` if the file cannot be read or exceeds the limits; the message does not name the file.
    """
    if document_format.find_encoding is None and not content.strip(b"\0 \t\r\n"):
        raise ReadError("the file is empty; export it again, or remove it", code="empty_document")
    if document_format in (texts.MARKDOWN, texts.PLAIN_TEXT) and len(content) <= _SMALL_BYTES:
        return document_format.read(content, uri)
    document = call_limited(read_content, document_format.name, content, uri, limits=find_limits(settings))
    return read_pictures(document, content, settings) if document_format in (PDF, IMAGE) else document


def read_content(format_name: str, content: bytes, uri: str) -> ParsedDocument:
    """Read a file of a format, in the process with limits."""
    return next(each for each in DOCUMENT_FORMATS if each.name == format_name).read(content, uri)


@dataclass(frozen=True)
class DocumentRead:
    """All documents of a folder.

    ``documents``: table ``documents`` with all revisions by uri; superseded ones come last. ``sources``: their rows in
    the table ``sources``. ``reading``: id of the settings and readers used.
    """

    documents: pl.DataFrame
    sources: pl.DataFrame
    reading: str


def read_listed_documents(
    listing: Listing,
    settings: DocumentSettings,
    previous: pl.DataFrame | None = None,
    *,
    previous_reading: str = "",
    hashes: files.FileHashes | None = None,
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
    reading = name_reading(settings, timezone)
    reader = _Reader(settings, hashes, timezone)
    known = conform(previous, Documents) if previous is not None else pl.DataFrame(schema=Documents.schema)
    # A stored table may also tell which of the two dates in the properties of a file counted.
    known = known.with_columns(pl.col("date_origin").replace(["created", "copied"], "changed"))
    # Of a file that became unreadable, the last reading gave the error.
    last = known.filter(pl.col("status").is_in(["ok", "error"])).sort("status", descending=True)
    latest = {row["uri"]: row for row in last.iter_rows(named=True) if reading == previous_reading}
    served = dict(known.filter(status="ok").select("uri", "revision").iter_rows())
    sources = [_Outcome(entry.uri, entry.status, entry.reason) for entry in listing.skipped]
    rows: list[_Row] = []
    listed = {file.uri for file in listing.files}
    kept = {uri for uri in {*known["uri"]} - listed if files.is_unlisted(uri, listing.unlisted)}
    for number, file in enumerate(listing.files):
        announce_name(file.uri)
        if progress is not None:
            progress(number, len(listing.files))
        earlier = latest.get(file.uri)
        outcome = reader.read(file, earlier)
        if outcome is None:
            continue
        row = outcome.row
        if row is not None and row is earlier:
            kept.add(file.uri)
        elif row is not None:
            rows.append(row)
            if row["error"] and served.get(file.uri, row["revision"]) != row["revision"]:
                reason = f"{outcome.reason}; until then its last readable version is served"
                outcome = replace(outcome, reason=reason)
        sources.append(outcome)
    return DocumentRead(
        documents=_update_revisions(known, pl.DataFrame(rows, schema=Documents.schema), kept),
        sources=_list_sources(sources, settings.folder, mentions_undated=mentions_undated),
        reading=reading,
    )


def name_reading(settings: DocumentSettings, timezone: str = "UTC") -> str:
    """Return an id of the settings, readers, extras and programs that affect parsing."""
    formats = (each.name for each in DOCUMENT_FORMATS)
    of_sources = [f"{source.label} {source.kind} {source.tenant}" for source in settings.sources]
    stated = [settings.kind, settings.tenant, str(settings.drafts), *of_sources, *settings.secrets]
    extras = (f"{extra}={is_installed(extra)}" for extra in ("code", "office"))
    parsers = [*extras, name_recognition(settings)]
    return digest([_REVISION_OF_READING, timezone, *stated, *parsers, *formats])


@dataclass(frozen=True)
class _Reader:
    """Reads one file after another in the same way."""

    settings: DocumentSettings
    hashes: files.FileHashes | None
    timezone: str

    def read(self, file: ListedFile, latest: _Row | None) -> _Outcome | None:
        """Return what became of a file, with its current revision if it is a document; None if it is gone.

        ``latest``: the revision that an earlier reading of the same kind gave.
        """
        document_format = find_document_format(file.uri)
        draft = _Outcome(file.uri, "ignored", DRAFT, document_format)
        if "_drafts" in file.uri.split("/")[:-1] and not self.settings.drafts:  # as in Jekyll
            return draft
        content, content_hash = None, ""
        try:
            if document_format is None:
                kind, listed = name_kind(file.uri, file.read(HEAD_BYTES)), list_titles()
                reason = (
                    f"this is {kind}; to have it read, rename it or save its text as one of these: {listed}"
                )
                return _Outcome(file.uri, "unsupported", reason)
            hashes = self.hashes if file.archive is None else None  # of a member, that of its archive counts
            was_read = latest is not None and latest["error"] is None
            if latest and was_read and hashes and hashes.find(file) == latest["content_hash"]:
                hashes.use(file, latest["content_hash"])
                return _Outcome(file.uri, "read", None, document_format, latest)
            content = file.read(most_bytes=find_limits(self.settings).most_bytes)
            content_hash = hashlib.sha256(content).hexdigest()
            if hashes is not None:
                hashes.use(file, content_hash)
            row = latest
            # Recognising nothing in a photograph again would take seconds; other errors may be mended elsewhere.
            if row is None or row["content_hash"] != content_hash or row["error"] not in (None, WORDLESS):
                document = read_document(document_format, content, file.uri, self.settings)
                if document.is_draft and not self.settings.drafts:
                    return draft
                row = self._describe(file, document_format, document, content, content_hash)
            if row["error"] is not None:
                raise ReadError(row["error"], code="empty_document")
            secret = files.explain_secret(content) or files.explain_secret(row["text"].encode())
            if secret is not None and not file.is_vetted:
                return _Outcome(file.uri, "ignored", secret, document_format)
        except ReadError as error:
            if error.code in (GONE, CHANGED) and self.hashes is not None:
                self.hashes.use(file, error.code)  # of no content, so that the next run reads it
            if error.code == GONE:
                return None
            if error.code == texts.UNREADABLE_DRAFT and not self.settings.drafts:
                return draft
            row = None
            if document_format is not None:
                row = self._describe(file, document_format, ParsedDocument(text=""), content, content_hash)
                row |= dict.fromkeys(("published_at", "date_origin", "encoding", "chunker", "language"))
                row |= {"status": "error", "error": str(error)}
            actual = (
                name_binary_kind(content or b"")
                if document_format and document_format.find_encoding
                else None
            )
            if actual is not None:
                reason = f"this is {actual}, although its name says otherwise; give it the ending of its kind"
                return _Outcome(file.uri, "unsupported", reason, document_format, row)
            return _Outcome(file.uri, _STATUSES.get(error.code, "failed"), str(error), document_format, row)
        return _Outcome(file.uri, "read", None, document_format, row)

    def _describe(
        self,
        file: ListedFile,
        document_format: DocumentFormat,
        document: ParsedDocument,
        content: bytes | None,
        content_hash: str,
    ) -> _Row:
        """Build the revision of a file."""
        dated, slug = files.split_dated_name(file.uri)
        slug = document.slug or slug
        title = document.title or slug
        published_at, origin = document.published_at, "stated"
        if published_at is None and dated is not None:
            published_at, origin = dated, "name"
        if published_at is not None and is_written(file.uri):
            published_at += _JUST_AFTER
        if published_at is None:
            published_at, origin = document.change, "changed"
        return {
            "document_id": document_id_of(file.uri),
            "revision": content_hash[:12] or "unreadable",
            "uri": file.uri,
            "title": title,
            "slug": slug,
            "published_at": None if published_at is None else put_in_zone(published_at, self.timezone),
            "date_origin": None if published_at is None else origin,
            "tags": list(document.tags),
            "kind": document.kind or (self.settings.kind if file.kind is None else file.kind),
            "tenant": document.tenant or (self.settings.tenant if file.tenant is None else file.tenant),
            "conversation_id": document.conversation if is_written(file.uri) else None,
            "format": document_format.name,
            "size": None if content is None else len(content),
            "encoding": document_format.find_encoding(content or b"")
            if document_format.find_encoding
            else None,
            "page_starts": list(document.page_starts),
            "confidences": list(document.confidences),
            "chunker": document.chunker,
            "language": detect_language([title, document.text]),
            "text": document.text,
            "content_hash": content_hash,
            "status": "ok",
            "error": None,
            "unread": document.unread,
        }


def _update_revisions(known: pl.DataFrame, current: pl.DataFrame, kept: Collection[str]) -> pl.DataFrame:
    """Put the revisions of the files that were read to all earlier ones, of which those of some uris are kept."""
    # What can be read supersedes all else of its file; what cannot leaves the `ok` revision. Of a file that is gone,
    # the last `ok` revision, or else the error, becomes `deleted`, and all texts are dropped. So each status except
    # `superseded` has at most one revision.
    rank = pl.col("status").replace_strict(_STATUS_ORDER, range(len(_STATUS_ORDER)))
    is_kept, outcome = pl.col("uri").is_in(kept), pl.col("outcome")
    is_gone = outcome.is_null() & ~is_kept
    is_last = rank == rank.min().over("uri")
    status = (
        pl.when(is_kept | ((outcome == "error") & (pl.col("status") == "ok")))
        .then("status")
        .when(is_gone & is_last)
        .then(pl.lit("deleted"))
        .otherwise(pl.lit("superseded"))
    )
    updated = (
        known.join(current.select("uri", outcome="status"), on="uri", how="left")
        .with_columns(status=status, text=pl.when(is_gone).then(pl.lit("")).otherwise("text"))
        .drop("outcome")
        .join(current, on=["uri", "revision"], how="anti")
    )
    return pl.concat([updated, current]).sort("uri", rank, "revision")


def drop_former_posts(documents: pl.DataFrame) -> pl.DataFrame:
    """Drop earlier revisions and tombstones of written posts: what Backstory wrote before is no history to keep."""
    is_former = pl.col("status").is_in(["superseded", "deleted"])
    return documents.filter(~(is_former & pl.col("uri").str.starts_with(WRITTEN_PREFIX)))


def _list_sources(found: Iterable[_Outcome], folder: str, *, mentions_undated: bool) -> pl.DataFrame:
    """Build the rows of the table ``sources``; the name of a folder ends with ``/``."""
    rows = []
    for entry in found:
        read: _Row = entry.row if entry.row is not None and entry.status == "read" else {}
        date = read.get("published_at")
        reasons = [entry.reason, read.get("unread"), describe_encoding(read.get("encoding"))]
        reasons += [files.UNDATED] if read and mentions_undated and date is None else []
        rows.append(
            {
                "source": files.name_source(folder, entry.uri),
                "folder": "documents",
                "status": entry.status,
                "format": entry.document_format.name if entry.document_format else None,
                "reason": "; ".join(filter(None, reasons)) or None,
                "rows": int(entry.status == "read"),
                "unread": 0,
                "first": date,
                "last": date,
                "encoding": read.get("encoding"),
                "language": read.get("language"),
            }
        )
    return pl.DataFrame(rows, schema=Sources.schema).sort("source")
