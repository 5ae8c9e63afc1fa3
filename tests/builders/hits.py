"""Hits, and what selecting among them asks for."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.storage.tables.schemas import Hits
from tests.builders.rows import Row, make_rows

_DEFAULTS: Final[Row] = {
    "window_id": "w",
    "keyword_score": None,
    "engine": "exact",
    "index_version": "v",
    "score": 0.0,
    "rank": 1,
}


def make_hits(rows: Iterable[Row], **common: object) -> pl.DataFrame:
    """Make a table of hits, best first: their scores are their similarities, and they rank as they stand."""
    return make_rows(Hits, rows, {**_DEFAULTS, **common}).with_columns(
        score="similarity", rank=pl.int_range(1, pl.len() + 1).over("query_chunk_id")
    )


def weigh_hits(hits: pl.DataFrame) -> pl.DataFrame:
    """Add the probability and the prior of evidence that leaves every hit as it is, of parts of any length."""
    return hits.with_columns(
        probability=pl.lit(1.0), prior=pl.lit(1.0), is_single=pl.lit(value=False), place=pl.lit(0)
    )


def ten_tokens(chunk_ids: Sequence[str]) -> NDArray[np.int64]:
    """Count ten tokens for every chunk."""
    return np.full(len(chunk_ids), 10, np.int64)
