"""Local wall-clock times as UTC, also where a clock is set forward or back."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import polars as pl


def local_to_utc(local: pl.Series, timezone: str, *, in_order: bool) -> pl.Series:
    """Convert local times to UTC.

    A time that a clock shows twice is the first one, or, among times in order, the second one from where the
    clock steps back within the repeated hour. A time that a clock skips is read with the offset before the
    gap.

    Args:
        local: Times without a zone, of type ``Datetime("us")``.
        timezone: An IANA name.
        in_order: Whether the times are in the order in which they happened.

    Returns:
        Times of type ``Datetime("us", "UTC")``, null where the given one is.
    """
    earliest = local.dt.replace_time_zone(timezone, ambiguous="earliest", non_existent="null")
    frame = pl.DataFrame({"local": local, "utc": earliest.dt.convert_time_zone("UTC")})
    if in_order:
        frame = _resolve_repeated(frame, timezone)
    skipped = (
        frame.filter(pl.col("utc").is_null() & pl.col("local").is_not_null())["local"].unique().to_list()
    )
    if not skipped:
        return frame["utc"]
    zone = ZoneInfo(timezone)
    moved = pl.DataFrame(
        {"local": skipped, "moved": [_before_gap(time, zone) for time in skipped]},
        schema={"local": pl.Datetime("us"), "moved": pl.Datetime("us", "UTC")},
    )
    joined = frame.join(moved, on="local", how="left", maintain_order="left")
    return joined.select(pl.coalesce("utc", "moved").alias("utc"))["utc"]


def _resolve_repeated(frame: pl.DataFrame, timezone: str) -> pl.DataFrame:
    latest = frame["local"].dt.replace_time_zone(timezone, ambiguous="latest", non_existent="null")
    frame = frame.with_columns(latest.dt.convert_time_zone("UTC").alias("latest")).with_row_index("position")
    repeated = frame.filter(pl.col("utc") != pl.col("latest"))
    second_time = repeated.filter(
        (pl.col("local").diff() < pl.duration(microseconds=0))
        .fill_null(value=False)
        .cum_max()
        .over(pl.col("local").dt.date())
    )
    chosen = (
        pl.when(pl.col("position").is_in(second_time["position"].to_list())).then("latest").otherwise("utc")
    )
    return frame.select("local", chosen.alias("utc"))


def _before_gap(local: datetime, zone: ZoneInfo) -> datetime:
    return local.replace(tzinfo=zone, fold=0).astimezone(UTC)
