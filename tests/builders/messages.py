"""Messages, as the table has them and as exports give them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from backstory.ingest.chats.export import complete_rows
from backstory.ingest.chats.exports import RAW_SCHEMA
from backstory.storage.tables.schemas import Messages
from tests.builders.rows import Row, make_rows

_DEFAULTS: Final[Row] = {
    "message_id": "m",
    "conversation_id": "team",
    "timestamp": datetime(2025, 1, 15, tzinfo=UTC),
    "local_time": None,
    "timezone": "UTC",
    "seq": 0,
    "author": None,
    "text": None,
    "kind": "message",
    "source": "chat.txt",
    "reply_to": None,
    "reactions": [],
    "edited": False,
}

_RAW_COLUMNS: Final = ("conversation_id", "timestamp", "seq", "author", "text", "kind", "source")


def make_messages(rows: Iterable[Row], **common: object) -> pl.DataFrame:
    """Make a table of messages; ``common`` holds for all rows that do not say otherwise.

    A message that states no ``local_time`` has the one of its ``timezone``.
    """
    made = make_rows(Messages, rows, {**_DEFAULTS, **common})
    local = [
        row["local_time"] or row["timestamp"].astimezone(ZoneInfo(row["timezone"])).replace(tzinfo=None)
        for row in made.iter_rows(named=True)
    ]
    return made.with_columns(local_time=pl.Series(local, dtype=pl.Datetime("us")))


def raw_messages(rows: Iterable[tuple[object, ...]]) -> pl.DataFrame:
    """Give rows of conversation, time, place, author, text, kind and source all columns of an export without ids."""
    frame = pl.DataFrame(
        list(rows), schema={name: RAW_SCHEMA[name] for name in _RAW_COLUMNS}, orient="row"
    ).with_columns(edited=pl.lit(value=False))
    return frame.select("conversation_id", "source").hstack(complete_rows(frame)).select(RAW_SCHEMA.names())
