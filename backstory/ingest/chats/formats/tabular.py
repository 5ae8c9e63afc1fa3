"""Chats as tables with a timestamp, an author and a message: the shared part of Parquet, CSV and JSONL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import polars as pl

from backstory.base.errors import ReadError
from backstory.ingest.chats.formats.table_values import read_text, read_timestamp
from backstory.ingest.chats.formats.whatsapp_markers import classify_messages
from backstory.ingest.chats.reader import ROW_SCHEMA, ParsedExport, unread_frame
from backstory.ingest.chats.times import local_to_utc

if TYPE_CHECKING:
    from backstory.settings.inputs import ConversationSettings

_USUAL_NAMES: Final = re.compile(
    "date|time|datetime|timestamp|created_at|sent_at|author|sender|from|user|username|name|message|text|body|content"
    "|id|type|channel|chat|conversation",
    re.IGNORECASE,
)

Record = tuple[int, object, object, object]
"""Line or record number from 1, timestamp, author, message."""


def parse_records(
    records: Iterable[Record],
    unread: dict[int, str],
    settings: ConversationSettings,
    *,
    encoding: str | None = None,
) -> ParsedExport:
    """Convert a table's records to messages."""
    zoned: list[datetime | None] = []
    naive: list[datetime | None] = []
    authors: list[str | None] = []
    texts: list[str | None] = []
    for line, timestamp, author, message in records:
        try:
            moment = read_timestamp(timestamp)
            name = read_text(author, settings.author_column)
            text = read_text(message, settings.message_column)
        except ValueError as error:
            unread[line] = str(error)
            continue
        if text is None and not name:
            unread[line] = "there is neither an author nor a message"
            continue
        zoned.append(moment if moment.tzinfo else None)
        naive.append(None if moment.tzinfo else moment)
        authors.append((name or "").strip() or None)
        texts.append(text)
    return ParsedExport(
        rows=_make_rows(zoned, naive, authors, texts, settings.timezone),
        unread=unread_frame(unread),
        encoding=encoding,
        timezone=settings.timezone if any(naive) else None,
    )


def _make_rows(
    zoned: Sequence[datetime | None],
    naive: Sequence[datetime | None],
    authors: Sequence[str | None],
    texts: Sequence[str | None],
    timezone: str,
) -> pl.DataFrame:
    local = local_to_utc(pl.Series("local", naive, dtype=pl.Datetime("us")), timezone, in_order=False)
    rows = pl.DataFrame(
        {
            "timestamp": pl.Series(zoned, dtype=pl.Datetime("us", "UTC")).fill_null(local),
            "seq": pl.int_range(len(texts), dtype=pl.Int64, eager=True),
            "author": pl.Series(authors, dtype=pl.String),
            "text": pl.Series(texts, dtype=pl.String),
        }
    )
    return classify_messages(rows).select(ROW_SCHEMA.names())


def require_columns(found: Iterable[str], settings: ConversationSettings, source: str) -> None:
    """Check that a table has the columns that the settings name.

    It raises ``ReadError`` if a column is missing; the message names the settings and the columns found.
    """
    present = list(found)
    wanted = {
        "timestamp_column": settings.timestamp_column,
        "author_column": settings.author_column,
        "message_column": settings.message_column,
    }
    absent = {f"conversations.{setting}": name for setting, name in wanted.items() if name not in present}
    if absent:
        named = ", ".join(f"`{setting}` ({name})" for setting, name in absent.items())
        raise ReadError(
            f"{source}: the table has no column for {named}; found {_name_columns(present)}. "
            "Set these, or move the file out of the folder if it is no chat",
            frozenset(),
            code="absent_column",
        )


def _name_columns(present: Sequence[str]) -> str:
    """List the columns with common names only: without a header line the "columns" are an author and a message."""
    usual = [name for name in present if _USUAL_NAMES.fullmatch(name.strip())]
    others = len(present) - len(usual)
    return ", ".join([*usual, *([f"{others} not named here, since they may be a message"] if others else [])])
