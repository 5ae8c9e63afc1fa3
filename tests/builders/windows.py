"""Windows and their query chunks."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import polars as pl

from backstory.storage.tables.schemas import WindowChunks, Windows
from tests.builders.rows import Row, make_rows

_MOMENT: Final = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)

_WINDOW: Final[Row] = {
    "window_id": "w",
    "conversation_id": "team",
    "partition": "2025-01-15",
    "started_at": _MOMENT,
    "ended_at": _MOMENT,
    "timezone": "UTC",
    "message_count": 1,
    "token_count": 1,
    "message_ids": ["m1"],
}

_CHUNK: Final[Row] = {
    "chunk_id": "q",
    "window_id": "w",
    "granularity": "messages:1",
    "chunk_index": 0,
    "text": "a",
    "token_count": 1,
    "first_message": 0,
    "last_message": 0,
}


def make_windows(rows: Iterable[Row], **common: object) -> pl.DataFrame:
    """Make a table of windows; ``common`` holds for all rows that do not say otherwise."""
    return make_rows(Windows, rows, {**_WINDOW, **common})


def make_window_chunks(rows: Iterable[Row], **common: object) -> pl.DataFrame:
    """Make a table of query chunks; ``common`` holds for all rows that do not say otherwise."""
    return make_rows(WindowChunks, rows, {**_CHUNK, **common})
