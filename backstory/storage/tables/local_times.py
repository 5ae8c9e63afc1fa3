"""Times of rows by the clock of the zone that each row names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from backstory.base.local_times import localize


def read_clocks(rows: pl.DataFrame, column: str) -> pl.Series:
    """Return times as the clocks of their zones show them.

    Args:
        rows: Rows with ``timezone``.
        column: Name of a column of times in UTC.

    Returns:
        Times without a zone, one for each row.
    """
    moment = pl.col(column)
    clocks = (
        pl.when(pl.col("timezone") == zone).then(moment.dt.convert_time_zone(zone).dt.replace_time_zone(None))
        for zone in ("UTC", *rows["timezone"].unique())
    )
    return rows.select(pl.coalesce(*clocks).alias(column))[column]


def localize_window(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of ``windows`` with its times in its own zone."""
    times = {name: localize(row[name], row["timezone"]) for name in ("started_at", "ended_at")}
    return {**row, **times}
