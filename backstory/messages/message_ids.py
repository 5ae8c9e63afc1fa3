"""Message ids that are equal in every export of a conversation."""

from __future__ import annotations

import polars as pl

from backstory.ids import digest
from backstory.tables.contracts import conform
from backstory.tables.schemas import Messages

_CONTENT = ("conversation_id", "timestamp", "author", "text", "kind")


def assign_message_ids(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort messages, assign their ids, and drop duplicates across exports of a conversation.

    The id is derived from conversation, time, author, text, kind, and the number of equal messages before it in
    its export. So a message that somebody sent twice is kept twice. A message in two exports is kept once.

    Args:
        frame: Messages of any number of exports, without ids.

    Returns:
        The columns of :class:`backstory.tables.schemas.Messages`, sorted by timestamp, source and position in
        the source.
    """
    ordered = frame.sort("timestamp", "source", "seq").with_columns(
        pl.int_range(pl.len()).over(*_CONTENT, "source").alias("occurrence")
    )
    parts = ordered.select(
        "conversation_id",
        pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"),
        pl.concat_str(pl.lit("="), "author").fill_null("").alias("author"),
        pl.concat_str(pl.lit("="), "text").fill_null("").alias("text"),
        "kind",
        pl.col("occurrence").cast(pl.String),
    )
    ids = pl.Series("message_id", [digest(row) for row in parts.iter_rows()], dtype=pl.String)
    named = ordered.with_columns(ids).unique("message_id", keep="first", maintain_order=True)
    return conform(named, Messages)
