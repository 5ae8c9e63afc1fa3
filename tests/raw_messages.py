"""Messages as exports give them, of a platform that has no ids."""

from collections.abc import Iterable

import polars as pl

from backstory.ingest.chats.exports import RAW_SCHEMA
from backstory.ingest.chats.reader import complete_rows

_COLUMNS = ("conversation_id", "timestamp", "seq", "author", "text", "kind", "source")


def raw_messages(rows: Iterable[tuple[object, ...]]) -> pl.DataFrame:
    """Give rows of conversation, time, place, author, text, kind and source all columns of an export."""
    frame = pl.DataFrame(
        list(rows), schema={name: RAW_SCHEMA[name] for name in _COLUMNS}, orient="row"
    ).with_columns(edited=pl.lit(value=False))
    return frame.select("conversation_id", "source").hstack(complete_rows(frame)).select(RAW_SCHEMA.names())
