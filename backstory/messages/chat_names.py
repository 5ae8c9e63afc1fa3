"""The name of each chat that exports identify, where several exports may name it differently."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from backstory.messages.file_reading import ReadFile


def name_chats(read: Sequence[ReadFile]) -> dict[str, str]:
    """Name each chat as the export with its latest message does, so that a renamed chat stays one conversation.

    Args:
        read: All files of the folder.

    Returns:
        Names of conversations by the keys of the chats.
    """
    latest = [
        row.messages.filter(pl.col("chat").is_not_null())
        .group_by("chat")
        .agg(pl.col("timestamp").max())
        .with_columns(pl.lit(row.source).alias("source"))
        for row in read
        if row.chats
    ]
    if not latest:
        return {}
    names = {row.source: row.chats for row in read}
    chosen = (
        pl.concat(latest).sort("chat", "timestamp", "source").unique("chat", keep="last", maintain_order=True)
    )
    return {chat: names[source][chat] for chat, source in chosen.select("chat", "source").iter_rows()}
