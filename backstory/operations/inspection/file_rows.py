"""Rows that describe what a run would read of every file, as a chat or as a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import polars as pl

from backstory.ingest.chats.exports import ExportRead
from backstory.ingest.chats.formats.registry import CHAT_FORMATS
from backstory.ingest.chats.formats.slack import SLACK
from backstory.ingest.chats.opened import MAILDIR_FOLDERS
from backstory.ingest.documents.folder import DocumentRead
from backstory.ingest.documents.formats.texts import PLAIN_TEXT
from backstory.ingest.documents.opening import is_archive
from backstory.ingest.documents.pages import IMAGE
from backstory.ingest.documents.parsed_document import DocumentFormat
from backstory.ingest.documents.reader import READERS
from backstory.ingest.documents.written import name_source
from backstory.ingest.file_kinds import names_chat
from backstory.text.languages import detect_language

_PLATFORMS: Final = frozenset(chat_format.name for chat_format in CHAT_FORMATS)
_DATA_FORMATS: Final = frozenset(["csv", "json", "jsonl", "parquet"])
"""Documents that count as chats if a reader of chats accepts them; not Markdown, since it may quote a chat."""
CHAT: Final = "chat"
DOCUMENT: Final = "document"

Row: TypeAlias = dict[str, Any]
"""The columns of :class:`backstory.storage.tables.schemas.Sources` without ``folder``, with file names as on disk, and:

- ``taken_for``: ``chat``, ``document``, or None for neither;
- ``people``, ``media`` and ``system`` (lines that the app wrote): counts of a chat; None for any other file;
- ``pages`` and ``chunks``: counts of a document; None for any other file, for one without pages, and if the embedding
  model cannot be opened, whose limit decides the chunks.
"""

_NO_CHAT: Final = {"people": None, "media": None, "system": None}
_NO_DOCUMENT: Final = {"pages": None, "chunks": None}


def describe_chats(read: ExportRead, folder: str) -> list[Row]:
    """Describe the files of a folder of exports, whose name begins those of the files."""
    figures = {
        name_source(folder, source): numbers
        for source, *numbers in read.messages.group_by("source")
        .agg(
            rows=pl.len(),
            people=pl.col("author").drop_nulls().n_unique(),
            media=(pl.col("kind") == "media").sum(),
            system=(pl.col("kind") == "system").sum(),
        )
        .iter_rows()
    }
    rows = []
    for row in read.sources.drop("folder").iter_rows(named=True):
        nothing = (0, 0, 0, 0) if row["status"] == "read" else (row["rows"], None, None, None)
        count, people, media, system = figures.get(row["source"], nothing)
        described = {"rows": count, "taken_for": CHAT if row["format"] else None}
        rows.append({**row, **described, "people": people, "media": media, "system": system, **_NO_DOCUMENT})
    return rows


def describe_documents(read: DocumentRead, folder: str) -> list[Row]:
    """Describe the files of a folder of documents; their chunks are not counted yet."""
    served = name_served(read, folder).select("source", "title", "text", "page_starts")
    known = {
        source: {"language": detect_language([title, text]), "pages": len(page_starts) or None}
        for source, title, text, page_starts in served.iter_rows()
    }
    rows = []
    for row in read.sources.drop("folder").iter_rows(named=True):
        described = {**row, "taken_for": DOCUMENT if row["format"] else None, **_NO_CHAT, **_NO_DOCUMENT}
        rows.append(described | known.get(row["source"], {"language": None}))
    return rows


def name_served(read: DocumentRead, folder: str) -> pl.DataFrame:
    """Return the documents that were read, with the names of their files in the further column ``source``."""
    served = read.documents.filter(status="ok")
    names = [name_source(folder, uri) for uri in served["uri"]]
    return served.with_columns(pl.Series("source", names, dtype=pl.String))


def list_readers_beside(read: ExportRead) -> Sequence[DocumentFormat]:
    """List the readers of documents that fit next to exports: a picture next to a chat was sent in it."""
    whole = (pl.col("status") == "read") & (pl.col("unread") == 0)
    has_chat = read.sources.filter(whole & pl.col("format").is_not_null()).height > 0
    return [reader for reader in READERS if not (has_chat and reader == IMAGE)]


def classify(chats: Iterable[Row], documents: Iterable[Row]) -> list[Row]:
    """Classify the files of a place that were read both as chats and as documents as one of the two."""
    others = {row["source"]: row for row in documents}
    settled = _settle_archives(chats, others)
    has_chat = any(_is_chat(row, others.get(row["source"])) for row in settled)
    files = []
    for row in settled:
        other = others.pop(row["source"], None)
        # Next to chats, a picture was sent in a chat; alone or next to documents, it belongs to a document.
        is_document = other is not None and (other["format"] is not None or not has_chat)
        is_document = is_document and not names_chat(row["reason"]) and not _is_chat(row, other)
        files.append(other if other and is_document else row)
    folders = [row for row in settled if row["format"] and row["source"].endswith("/")]
    slack = tuple(row["source"] for row in folders if row["format"] == SLACK.name)
    mails = tuple(f"{row['source']}{name}/" for row in folders for name in MAILDIR_FOLDERS)
    parts = {name for name in others if name.startswith(slack) and name.lower().endswith(".json")}
    parts |= {name for name in others if name.startswith(mails)}
    return files + [row for name, row in others.items() if not name.endswith("/") and name not in parts]


def _settle_archives(chats: Iterable[Row], documents: dict[str, Row]) -> list[Row]:
    """Classify each archive as a chat or as a folder of documents: the chats stay, or the members do."""
    rows_left = []
    for row in chats:
        below = f"{row['source']}/"
        members = [name for name in documents if name.startswith(below)] if is_archive(row["source"]) else []
        is_chat = row["format"] or names_chat(row["reason"])
        if is_chat or not any(documents[name]["taken_for"] == DOCUMENT for name in members):
            rows_left.append(row)
            for name in members:
                del documents[name]
    return rows_left


def _is_chat(row: Row, other: Row | None) -> bool:
    if row["format"] is None:
        return False
    if other is None or other["format"] in (None, PLAIN_TEXT.name):
        return True
    if other["format"] in _DATA_FORMATS and (row["status"] == "read" or row["format"] in _PLATFORMS):
        return True
    return row["status"] == "read" and not row["unread"]
