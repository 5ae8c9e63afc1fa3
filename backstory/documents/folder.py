"""A folder of documents: their revisions, what could not be read, and what is gone."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from backstory.documents.reader import find_reader
from backstory.errors import InputError
from backstory.ids import digest
from backstory.schemas import Documents, conform, empty
from backstory.settings import DocumentSettings

logger = logging.getLogger(__name__)

Row = dict[str, object]


@dataclass(frozen=True)
class _File:
    uri: str
    content: bytes

    @property
    def document_id(self) -> str:
        return digest([self.uri], length=16)


def read_documents(
    folder: Path, settings: DocumentSettings, previous: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Read every document of a folder.

    A document keeps its id across edits; every content is a revision. The revision that is searched is ``ok``. An
    earlier one is ``superseded``. A file that cannot be read gets a revision with ``error``, and its last good
    revision stays ``ok``. The last good revision of a file that is gone becomes ``deleted``.

    Args:
        folder: The folder; hidden files, and files that no reader knows, are passed over.
        settings: Which files, and what is assumed of those that do not say.
        previous: What was read before; revisions in it are not parsed again.

    Returns:
        Table ``documents``, by uri, the present revision first.

    Raises:
        InputError: A file is a link that leaves the folder.
    """
    known = _by_document(previous if previous is not None else empty(Documents))
    rows: list[Row] = []
    parsed = 0
    for file in _read_files(folder, settings):
        earlier = known.pop(file.document_id, [])
        content_hash = hashlib.sha256(file.content).hexdigest()
        revision = digest([content_hash, settings.kind, settings.tenant], length=12)
        present = next((row for row in earlier if row["revision"] == revision), None)
        if present is None:
            present = _parse(file, settings, revision, content_hash)
            parsed += 1
        elif present["status"] != "error":
            present = {**present, "status": "ok"}
        rows += _revisions(present, [row for row in earlier if row["revision"] != revision])
    for gone in known.values():
        rows += _bury(gone)
    logger.info("read documents rows=%d parsed=%d", len(rows), parsed)
    frame = pl.DataFrame(rows, schema=empty(Documents).schema)
    place = pl.col("status").replace_strict({"error": 0, "ok": 1, "deleted": 1, "superseded": 2})
    return conform(frame.sort("uri", place, "revision"), Documents)


def _by_document(previous: pl.DataFrame) -> dict[str, list[Row]]:
    known: dict[str, list[Row]] = {}
    for row in previous.to_dicts():
        known.setdefault(row["document_id"], []).append(row)
    return known


def _read_files(folder: Path, settings: DocumentSettings) -> Iterator[_File]:
    root = folder.resolve()
    for path in sorted(folder.glob(settings.pattern)):
        relative = path.relative_to(folder)
        if any(part.startswith(".") for part in relative.parts) or find_reader(path.name) is None:
            continue
        if not path.resolve().is_relative_to(root):
            raise InputError(f"{path} is a link that leaves {folder}; copy the file into the folder")
        if path.is_file():
            yield _File(relative.as_posix(), path.read_bytes())


def _parse(file: _File, settings: DocumentSettings, revision: str, content_hash: str) -> Row:
    name = file.uri.rpartition("/")[2]
    row: Row = {
        "document_id": file.document_id,
        "revision": revision,
        "uri": file.uri,
        "title": name,
        "slug": name,
        "published_at": None,
        "tags": [],
        "kind": settings.kind,
        "tenant": settings.tenant,
        "text": "",
        "content_hash": content_hash,
        "status": "error",
        "error": None,
    }
    reader = find_reader(name)
    if reader is None:
        return {**row, "error": "no reader knows this type of file"}
    try:
        document = reader.read(file.content, name)
    except InputError as error:
        logger.warning("cannot read document uri=%s error=%s", file.uri, error)
        return {**row, "error": str(error)}
    return {
        **row,
        "title": document.title,
        "slug": document.slug,
        "published_at": document.published_at,
        "tags": list(document.tags),
        "kind": document.kind or settings.kind,
        "tenant": document.tenant or settings.tenant,
        "text": document.text,
        "status": "ok",
    }


def _revisions(present: Row, earlier: list[Row]) -> list[Row]:
    """Set the statuses of a document's revisions now that one of them is present."""
    good = [row for row in earlier if row["status"] in ("ok", "deleted", "superseded")]
    if present["status"] == "ok":
        return [present, *({**row, "status": "superseded"} for row in good)]
    last_good = [{**row, "status": "ok"} for row in good if row["status"] in ("ok", "deleted")]
    return [present, *last_good, *(row for row in good if row["status"] == "superseded")]


def _bury(revisions: list[Row]) -> list[Row]:
    """Set the statuses of a document whose file is gone; a failed reading of it is gone with it."""
    return [
        {**row, "status": "deleted" if row["status"] == "ok" else row["status"]}
        for row in revisions
        if row["status"] != "error"
    ]
