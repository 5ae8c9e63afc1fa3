"""What ``signal-export`` writes besides the words of a message: quoted messages, reactions and files, in Markdown."""

from __future__ import annotations

from typing import Final

import polars as pl

HEADER: Final = r"^\[\d{4}-\d\d-\d\d,? \d\d:\d\d\] "
"""Beginning of each message; WhatsApp writes seconds between brackets."""

_QUOTE: Final = r"^\s*(?:>[^\n]*(?:\n|$))+\s*"
_REACTIONS: Final = r"\s*\(- [^\n]{1,60}: [^\n]* -\)\s*$"
_FILE: Final = r"!?\[[^\[\]\n]*\]\((?:\./)?media/[^\n]*?\)"
_NOBODY: Final = "No-Sender"


def clean_messages(rows: pl.DataFrame) -> pl.DataFrame:
    """Take from the texts what is not of their authors: the message that is answered, reactions, and names of files.

    ``rows``: ``author``, ``text`` and ``kind``.
    """
    text = pl.col("text")
    plain = (
        text.str.replace(_REACTIONS, "").str.replace(_QUOTE, "").str.replace_all(_FILE, "").str.strip_chars()
    )
    by_nobody = pl.col("author") == _NOBODY
    has_file = text.str.contains(_FILE).fill_null(value=False)
    return rows.with_columns(
        pl.when(~by_nobody).then("author").alias("author"),
        pl.when(plain != "").then(plain).alias("text"),
        pl.when(by_nobody)
        .then(pl.lit("system"))
        .when(has_file)
        .then(pl.lit("media"))
        .otherwise("kind")
        .alias("kind"),
    )
