"""Provenance of a document in a context: the messages of the window that it serves, in words."""

from __future__ import annotations

from typing import Final

import polars as pl

from backstory.base.ids import WHOLE_WINDOW
from backstory.text.prompts.entries import UNSURE, cut_line, name_messages

_QUOTED_CHARACTERS: Final = 80
_QUOTE: Final = r'(?s), such as "(.*)"$'


def describe_provenance(rows: pl.DataFrame, window_chunks: pl.DataFrame) -> pl.Series:
    """Describe for each kept chunk which messages of its window it serves.

    Args:
        rows: ``window_id``, ``matched_query_chunks``, best first, and ``is_certain``: whether it serves them, or only
            resembles them.
        window_chunks: Table ``window_chunks`` of these windows.

    Returns:
        Texts such as ``messages 3 to 9 and 12, such as "Did the frost crack it?"``. Messages count from 1. The text of
        a chunk that serves none for certain begins with ``perhaps``.
    """
    chunks = {
        chunk_id: (first, last, text)
        for chunk_id, first, last, text in window_chunks.select(
            "chunk_id", "first_message", "last_message", "text"
        ).iter_rows()
    }
    descriptions = []
    columns = ("window_id", "matched_query_chunks", "is_certain")
    for window_id, matched, is_certain in rows.select(columns).iter_rows():
        sure = "" if is_certain else UNSURE
        parts = [chunks[query] for query in matched if query != f"{window_id}#{WHOLE_WINDOW}"]
        if not parts:
            descriptions.append(f"{sure}the whole window")
            continue
        places = {place for first, last, _ in parts for place in range(first + 1, last + 2)}
        descriptions.append(f'{sure}{name_messages(places)}, such as "{quote_chunk(parts[0][2])}"')
    return pl.Series("serves", descriptions, dtype=pl.String)


def is_certain(description: str) -> bool:
    """Return whether a text of :func:`describe_provenance` is of a chunk that serves its messages for certain."""
    return not description.startswith(UNSURE)


def quote_chunk(text: str) -> str:
    """Return the beginning of a query chunk's text in one line, as :func:`describe_provenance` quotes it."""
    return cut_line(text, _QUOTED_CHARACTERS)


def find_quotes(descriptions: pl.Series) -> pl.Series:
    """Return what each text of :func:`describe_provenance` quotes; null for one without a quote."""
    return descriptions.str.extract(_QUOTE)
