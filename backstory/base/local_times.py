"""Times as people live them: by the clock of a time zone, which is named once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl


def localize(moment: datetime, timezone: str) -> datetime:
    """Return a moment as the clock of a time zone, such as ``Europe/Berlin``, shows it."""
    return moment.astimezone(ZoneInfo(timezone))


def localize_window(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of ``windows`` with its times in its own zone."""
    times = {name: localize(row[name], row["timezone"]) for name in ("started_at", "ended_at")}
    return {**row, **times}


def read_clocks(rows: pl.DataFrame, column: str) -> pl.Series:
    """Return a column of times in UTC as the clocks of their zones show them, which ``timezone`` names, without one."""
    moment = pl.col(column)
    clocks = (
        pl.when(pl.col("timezone") == zone).then(moment.dt.convert_time_zone(zone).dt.replace_time_zone(None))
        for zone in ("UTC", *rows["timezone"].unique())
    )
    return rows.select(pl.coalesce(*clocks).alias(column))[column]


def put_in_zone(moment: datetime, timezone: str) -> datetime:
    """Return a moment in UTC; one without a zone was written by the clock of a time zone."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(timezone))).astimezone(UTC)


def write_span(first: datetime, last: datetime) -> str:
    """Write a time and a later one with their zone, such as ``2025-03-16 09:12 to 15:18 Europe/Berlin``.

    The second has a date if it differs. If the clock was changed between the two, both have their distance from UTC.
    """
    clock = choose_clock(first, last)
    end = clock if first.date() == last.date() else f"%Y-%m-%d {clock}"
    return f"{first.strftime(f'%Y-%m-%d {clock}')} to {last.strftime(end)} {name_zone(first)}"


def choose_clock(first: datetime, last: datetime) -> str:
    """Return the format of the time of day for two datetimes: with the distance from UTC if it is not the same."""
    return "%H:%M" if first.utcoffset() == last.utcoffset() else "%H:%M (%z)"


def name_zone(moment: datetime) -> str:
    """Return the name of the zone that a moment is shown in, such as ``Europe/Berlin`` or ``UTC``."""
    return str(moment.tzinfo)
