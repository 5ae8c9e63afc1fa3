"""Classify files outside the folders of a workspace as chats or documents, by their content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import polars as pl

from backstory.ingest.chats.export_parts import MAILDIR_FOLDERS
from backstory.ingest.chats.exports import ExportRead
from backstory.ingest.chats.file_kinds import kind_of_name, names_chat
from backstory.ingest.chats.formats.registry import CHAT_FORMATS
from backstory.ingest.chats.formats.slack import SLACK
from backstory.ingest.documents.archives import is_archive
from backstory.ingest.documents.formats.text_reader import PLAIN_TEXT
from backstory.ingest.documents.ocr.image_reader import ImageReader
from backstory.ingest.documents.reader import READERS, DocumentReader
from backstory.operations.inspection.file_rows import DOCUMENT, Row

_PLATFORMS: Final = frozenset(chat_format.name for chat_format in CHAT_FORMATS)
_DATA_FORMATS: Final = frozenset(["csv", "json", "jsonl", "parquet"])
"""Documents that count as chats if a reader of chats accepts them; not Markdown, since it may quote a chat."""


def list_readers_beside(read: ExportRead) -> Sequence[DocumentReader]:
    """List the readers of documents that fit next to exports: a picture next to a chat was sent in it."""
    whole = (pl.col("status") == "read") & (pl.col("unread") == 0)
    has_chat = read.sources.filter(whole & pl.col("format").is_not_null()).height > 0
    return [reader for reader in READERS if not (has_chat and reader.format == ImageReader.format)]


def classify(chats: Iterable[Row], documents: Iterable[Row]) -> list[Row]:
    """Classify files that were read both as chats and as documents as one of the two.

    Args:
        chats: The files of a place as chats.
        documents: The files of the same place as documents.

    Returns:
        One row per file.
    """
    others = {row["source"]: row for row in documents}
    settled = _settle_archives(chats, others)
    has_chat = any(_is_chat(row, others.get(row["source"])) for row in settled)
    has_document = any(row["status"] == "read" for row in others.values())
    files = []
    for row in settled:
        other = others.pop(row["source"], None)
        # Next to chats, a picture was sent in a chat; alone or next to documents, it belongs to a document.
        is_foreign = row["status"] == "unsupported" and not has_chat
        is_foreign = is_foreign and (has_document or kind_of_name(row["source"]) is not None)
        is_document = other is not None and (other["format"] is not None or is_foreign)
        is_document = is_document and not names_chat(row["reason"])
        files.append(other if other and is_document and not _is_chat(row, other) else row)
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
    if other is None or other["format"] in (None, PLAIN_TEXT):
        return True
    if other["format"] in _DATA_FORMATS and (row["status"] == "read" or row["format"] in _PLATFORMS):
        return True
    return row["status"] == "read" and not row["unread"]
