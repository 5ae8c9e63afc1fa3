"""Parts of windows that ask for nothing: those all of whose messages are small talk."""

from __future__ import annotations

import polars as pl

from backstory.text.message_markdown import MESSAGE_SEPARATOR
from backstory.text.small_talk import find_small_talk


def find_small_talk_parts(texts: pl.Series) -> pl.Series:
    """Find the parts that are small talk.

    Args:
        texts: The text of each part: its messages, joined by blank lines.

    Returns:
        For each part, whether all of its messages are small talk.
    """
    messages = texts.rename("text").to_frame().with_row_index("part")
    messages = messages.with_columns(pl.col("text").str.split(MESSAGE_SEPARATOR)).explode("text")
    found = pl.Series(find_small_talk(messages["text"].to_list()), dtype=pl.Boolean)
    by_part = messages.select("part", small_talk=found).group_by("part", maintain_order=True)
    return by_part.agg(pl.col("small_talk").all())["small_talk"]
