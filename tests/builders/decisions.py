"""Decisions on hits."""

from collections.abc import Iterable
from typing import Final

import polars as pl

from backstory.storage.tables.schemas import Decisions
from tests.builders.rows import Row, make_rows

_DEFAULTS: Final[Row] = {
    "window_id": "w",
    "probability": 1.0,
    "kept": True,
    "rank": None,
    "cause": "kept",
    "because_of": None,
    "rerank_note": None,
    "uncovered_topics": None,
}


def make_decisions(rows: Iterable[Row], **common: object) -> pl.DataFrame:
    """Make a table of decisions; a score is the similarity, unless a row says otherwise."""
    scored = ({"score": row["similarity"], **row} for row in rows)
    return make_rows(Decisions, scored, {**_DEFAULTS, **common})
