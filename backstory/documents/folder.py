"""A folder of documents -> the table of their revisions."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import polars as pl

from backstory.documents.dates import parse_date, split_dated_name
from backstory.documents.files import DocumentFile, find_files
from backstory.documents.parsed_document import ParsedDocument
from backstory.documents.reader import READERS, DocumentReader, find_reader
from backstory.documents.revisions import Revision, update_revisions
from backstory.errors import DocumentError
from backstory.ids import digest
from backstory.settings import DocumentSettings
from backstory.tables.contracts import conform, polars_schema
from backstory.tables.schemas import Documents

logger = logging.getLogger(__name__)

_UNREADABLE = "unreadable"
"""Revision of a file whose content is not known."""


def read_documents(
    folder: Path,
    settings: DocumentSettings,
    previous: pl.DataFrame | None = None,
    *,
    parse_again: bool = False,
    readers: Sequence[DocumentReader] = READERS,
) -> pl.DataFrame:
    """Read every document of a folder, and keep what was known of them before.

    A document is named by its path and keeps its id across edits; each content of the file is a revision. A
    file that cannot be read is a row with status ``error``, and never stops the others. Hidden files, files
    that no reader takes and linked folders are passed over.

    Args:
        folder: The folder.
        settings: Which files to read, and what is assumed of those that do not say.
        previous: Table ``documents`` of an earlier call; what has not changed since is not parsed again.
        parse_again: Whether to parse also what has not changed, as another version of the readers must.
        readers: The readers, of which the first that takes a file reads it.

    Returns:
        Table ``documents`` with all revisions, by uri; of one document, superseded revisions come last.

    Raises:
        WorkspaceError: The folder, or one in it, is not there or cannot be listed.
        ContractError: ``previous`` is not a table ``documents``.
    """
    started = time.perf_counter()
    known = _group_revisions(previous)
    parsed = 0
    rows: list[Revision] = []
    for file in find_files(folder, settings.pattern):
        reader = find_reader(file.uri, readers)
        if reader is None:
            continue
        earlier = {} if parse_again else known.get(file.uri, {})
        try:
            current = _look_at(file, earlier, reader, settings)
        except FileNotFoundError:
            continue  # it was removed since the folder was listed
        parsed += current.error is not None or current.revision not in earlier
        rows.extend(update_revisions(known.pop(file.uri, {}), current))
    for gone in known.values():
        rows.extend(update_revisions(gone, None))
    rows.sort(key=lambda row: row.uri)
    statuses = Counter(row.status for row in rows)
    counts = " ".join(f"{status}={count}" for status, count in sorted(statuses.items()))
    logger.info("read documents parsed=%d %s seconds=%.2f", parsed, counts, time.perf_counter() - started)
    return pl.DataFrame([vars(row) for row in rows], schema=polars_schema(Documents))


def _group_revisions(previous: pl.DataFrame | None) -> dict[str, dict[str, Revision]]:
    known: dict[str, dict[str, Revision]] = {}
    if previous is not None:
        for row in conform(previous, Documents).iter_rows(named=True):
            known.setdefault(row["uri"], {})[row["revision"]] = Revision(**row)
    return known


def _look_at(
    file: DocumentFile, earlier: dict[str, Revision], reader: DocumentReader, settings: DocumentSettings
) -> Revision:
    content_hash = ""
    try:
        content = file.read()
        content_hash = hashlib.sha256(content).hexdigest()
        same = earlier.get(_revision_of(content_hash))
        if same is not None and _is_still_right(same, content_hash, settings):
            return replace(same, status="ok")
        return _describe(file.uri, content_hash, reader.read(content, file.uri), settings)
    except DocumentError as error:
        unread = _describe(file.uri, content_hash, None, settings)
        return replace(unread, status="error", error=str(error))


def _is_still_right(same: Revision, content_hash: str, settings: DocumentSettings) -> bool:
    """Say whether parsing would give this revision: with these defaults, stated or not, it would."""
    assumed = (settings.kind, settings.tenant)
    return same.error is None and same.content_hash == content_hash and (same.kind, same.tenant) == assumed


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
        published_at=published_at,
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
