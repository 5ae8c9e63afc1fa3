"""Rows that describe what a run would read of every file: as a chat, or as a document."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import polars as pl

from backstory.ingest.chats.exports import ExportRead
from backstory.ingest.documents.folder import DocumentRead
from backstory.ingest.documents.written import name_source
from backstory.text.languages import detect_language

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
    """Describe the files of a folder of exports.

    Args:
        read: What was read of them.
        folder: The folder, as the names of the files begin.
    """
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
    """Describe the files of a folder of documents; their chunks are not counted yet.

    Args:
        read: What was read of them.
        folder: The folder, as the names of the files begin.
    """
    served = name_served(read, folder)
    known = {
        source: {"language": detect_language([title, text]), "pages": len(page_starts) or None}
        for source, title, text, page_starts in served.select(
            "source", "title", "text", "page_starts"
        ).iter_rows()
    }
    return [
        {
            **row,
            "taken_for": DOCUMENT if row["format"] else None,
            **_NO_CHAT,
            **_NO_DOCUMENT,
            **known.get(row["source"], {"language": None}),
        }
        for row in read.sources.drop("folder").iter_rows(named=True)
    ]


def name_served(read: DocumentRead, folder: str) -> pl.DataFrame:
    """Return the documents that were read, with the names of their files in the further column ``source``."""
    served = read.documents.filter(status="ok")
    names = [name_source(folder, uri) for uri in served["uri"]]
    return served.with_columns(pl.Series("source", names, dtype=pl.String))
