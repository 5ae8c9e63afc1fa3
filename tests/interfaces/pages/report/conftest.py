"""A window whose every cell is known, as tables."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from backstory.interfaces.pages.report.window_tables import WindowTables
from backstory.storage.tables.contracts import Table
from backstory.storage.tables.schemas import (
    Contexts,
    Decisions,
    DocumentChunks,
    Documents,
    Hits,
    Messages,
    WindowChunks,
    WindowContexts,
    Windows,
)

START = datetime(2025, 3, 13, 9, 0, tzinfo=UTC)

# Query chunk, stored chunk, score, cause, rank, because of.
JUDGED = [
    ("q0", "d1#0", 0.9, "kept", 1, None),
    ("q0", "d1#1", 0.6, "duplicate_document", None, "d1#0"),
    ("q1", "d2#0", 0.8, "kept", 2, None),
    ("q1", "d4#0", 0.7, "near_duplicate", None, "d2#0"),
    ("q2", "d1#0", 0.5, "kept", 1, None),
    ("q2", "d2#0", 0.7, "kept", 2, None),
    ("q2", "d6#0", 0.65, "over_budget", None, None),
    ("q3", "d3#0", 0.4, "not_selected", None, None),
    ("q3", "d5#0", 0.1, "below_threshold", None, None),
    ("q3", "d2#0", 0.2, "below_threshold", None, None),
]
CHUNKS = [("q0", 0, 1), ("q1", 2, 2), ("q2", 3, 4), ("q3", 5, 5)]

MakeTables = Callable[..., WindowTables]


def frame(model: type[Table], rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Make a frame of a table's columns, absent ones filled with something valid."""
    schema = model.schema
    filler: dict[Any, Any] = {pl.String: "", pl.Int64: 0, pl.Float64: 0.0, pl.Boolean: False}
    nullable = {
        "published_at",
        "page_start",
        "page_end",
        "error",
        "rank",
        "because_of",
        "keyword_score",
        "confidence",
        "chunker",
        "unread",
    }
    full = [
        {
            name: row[name] if name in row
            else None if name in nullable
            else [] if isinstance(dtype, pl.List)
            else START if isinstance(dtype, pl.Datetime)
            else filler[dtype.base_type()]
            for name, dtype in schema.items()
        }
        for row in rows
    ]  # fmt: skip
    return pl.DataFrame(full, schema=schema)


@pytest.fixture
def make_tables() -> MakeTables:
    """Give a function that makes the known window: its hits, its texts and its number of messages can be others."""

    def make(
        judged: list[tuple[Any, ...]] = JUDGED,
        text: str = "a message",
        title: str = "Title of",
        *,
        status: str = "ok",
        granularity: str = "messages:1",
    ) -> WindowTables:
        # Two hours of silence lie before the last message.
        minutes = [0, 1, 2, 3, 4, 124]
        moments = [START + timedelta(minutes=each) for each in minutes]
        ids = [f"m{place}" for place in range(len(moments))]
        hits = [
            {"window_id": "w", "query_chunk_id": query, "chunk_id": chunk, "document_id": chunk.split("#")[0],
             "similarity": score, "score": score, "probability": score,
             "cause": cause, "kept": cause == "kept", "rank": rank,
             "because_of": because_of, "keyword_score": 3.5}
            for query, chunk, score, cause, rank, because_of in judged
        ]  # fmt: skip
        found = dict.fromkeys(hit["chunk_id"] for hit in hits)
        kept = {hit["rank"]: hit["chunk_id"] for hit in hits if hit["kept"]}
        window = frame(
            Windows,
            [
                {
                    "window_id": "w",
                    "conversation_id": text,
                    "ended_at": moments[-1],
                    "timezone": "UTC",
                    "message_ids": ids,
                }
            ],
        )
        summary = {"window_id": "w", "status": status, "coverage": 0.75, "hit_count": len(hits)}
        return WindowTables(
            window=window.row(0, named=True),
            summary=frame(WindowContexts, [summary]).row(0, named=True),
            messages=frame(
                Messages,
                [
                    {"message_id": key, "timestamp": moment, "timezone": "UTC", "author": "member-1", "text": text,
                     "kind": "message"}
                    for key, moment in zip(ids, moments, strict=True)
                ],
            ),
            window_chunks=frame(
                WindowChunks,
                [
                    {"chunk_id": key, "window_id": "w", "granularity": granularity, "chunk_index": place,
                     "text": f"{text} {key}", "first_message": first, "last_message": last}
                    for place, (key, first, last) in enumerate(CHUNKS)
                ],
            ),
            hits=frame(Hits, hits),
            decisions=frame(Decisions, hits),
            contexts=frame(
                Contexts,
                [
                    {"window_id": "w", "rank": rank, "document_id": chunk.split("#")[0], "chunk_id": chunk,
                     "title": f"{title} {chunk}", "content": f"{text} of {chunk}"}
                    for rank, chunk in sorted(kept.items())
                ],
            ),
            document_chunks=frame(
                DocumentChunks,
                [
                    {"chunk_id": chunk, "document_id": chunk.split("#")[0], "text": f"{text} of {chunk}"}
                    for chunk in found
                    if chunk != "d5#0"
                ],
            ),
            documents=frame(
                Documents,
                [
                    {"document_id": key, "uri": f"{key}.md", "title": f"{title} {key}", "slug": key, "status": "ok"}
                    for key in dict.fromkeys(chunk.split("#")[0] for chunk in found)
                ],
            ),
        )  # fmt: skip

    return make
