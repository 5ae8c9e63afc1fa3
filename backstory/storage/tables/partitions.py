"""Keys of the time partitions: calendar days, weeks and months of a conversation, named as Dagster names them.

They follow the clock of the conversation, so that a day may have 23 or 25 hours; hours are those of UTC. A day is
``2025-03-04``, a week is the Monday that it begins with, a month is its first day, and an hour is ``2025-03-04T10``,
without a colon, since keys name files. Keys of one grain sort in the order of time.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo

import polars as pl

from backstory.base.errors import InputError

Grain: TypeAlias = Literal["hour", "day", "week", "month"]

_UNITS: dict[Grain, str] = {"hour": "1h", "day": "1d", "week": "1w", "month": "1mo"}
_EXAMPLES: dict[Grain, str] = {
    "hour": "an hour such as 2025-03-04T10",
    "day": "a day such as 2025-03-04",
    "week": "the Monday that the week begins with, such as 2025-03-03",
    "month": "the first day of the month, such as 2025-03-01",
}
_KEY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:T([0-9]{2}))?")


def partition_key(moment: datetime, grain: Grain, timezone: str = "UTC") -> str:
    """Return the key of the partition that contains a moment.

    Args:
        moment: A datetime with a time zone.
        grain: Calendar unit of a partition.
        timezone: Time zone of the calendar; hours are those of UTC whatever it is.

    Raises:
        InputError: The datetime has no time zone.
    """
    if moment.tzinfo is None:
        raise InputError(
            f"{moment.isoformat()} has no time zone; give one, such as tzinfo=datetime.UTC",
            code="no_time_zone",
        )
    local = moment.astimezone(UTC if grain == "hour" else ZoneInfo(timezone))
    return _name(_floor(local.replace(tzinfo=UTC), grain), grain)


def partition_keys(messages: pl.DataFrame, grain: Grain) -> pl.Series:
    """Return the keys of the partitions that contain messages.

    Args:
        messages: ``timestamp`` and ``local_time`` of messages.
        grain: Calendar unit of a partition.

    Returns:
        A string for each message, of name ``partition``.
    """
    # A clock that is set back shows an hour twice, which would make two hours one partition.
    times = messages["timestamp"].dt.replace_time_zone(None) if grain == "hour" else messages["local_time"]
    form = "%Y-%m-%dT%H" if grain == "hour" else "%Y-%m-%d"
    return times.dt.truncate(_UNITS[grain]).dt.strftime(form).alias("partition")


def previous_partition(key: str, grain: Grain) -> str:
    """Return the key of the previous partition.

    Args:
        key: Key of a partition.
        grain: Calendar unit of a partition.

    Returns:
        The key of the partition that ends where the given one begins.

    Raises:
        InputError: The key does not name a partition of this grain.
    """
    return _name(_step(_parse(key, grain), grain, forward=False), grain)


def next_partition(key: str, grain: Grain) -> str:
    """Return the key of the next partition.

    Args:
        key: Key of a partition.
        grain: Calendar unit of a partition.

    Returns:
        The key of the partition that begins where the given one ends.

    Raises:
        InputError: The key does not name a partition of this grain.
    """
    return _name(_step(_parse(key, grain), grain, forward=True), grain)


def partition_range(first: str, last: str, grain: Grain) -> list[str]:
    """List the partitions from one to another, without gaps.

    Args:
        first: Key of the first partition.
        last: Key of the last partition, inclusive.
        grain: Calendar unit of a partition.

    Returns:
        The keys in order, at least one.

    Raises:
        InputError: A key does not name a partition of this grain, or the range ends before it begins.
    """
    moment, end = _parse(first, grain), _parse(last, grain)
    if end < moment:
        raise InputError(
            f"the range from {first} to {last} ends before it begins; swap the two", code="swapped_range"
        )
    keys = []
    while moment <= end:
        keys.append(_name(moment, grain))
        moment = _step(moment, grain, forward=True)
    return keys


def _parse(key: str, grain: Grain) -> datetime:
    match = _KEY.fullmatch(key)
    if match is not None and (match[2] is not None) == (grain == "hour"):
        with suppress(ValueError):  # a day or hour that the calendar does not have
            moment = datetime.combine(date.fromisoformat(match[1]), time(int(match[2] or 0)), UTC)
            if _floor(moment, grain) == moment:
                return moment
    raise InputError(
        f"{key!r} does not name a partition of one {grain}; write {_EXAMPLES[grain]}",
        code="invalid_partition",
    )


def _name(start: datetime, grain: Grain) -> str:
    day = start.date().isoformat()
    return f"{day}T{start.hour:02}" if grain == "hour" else day


def _floor(moment: datetime, grain: Grain) -> datetime:
    if grain == "hour":
        return moment.replace(minute=0, second=0, microsecond=0)
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if grain == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if grain == "month" else day


def _step(start: datetime, grain: Grain, *, forward: bool) -> datetime:
    if grain == "month":
        # From the first of a month, 32 days later is in the next month, and one day earlier in the previous one.
        return _floor(start + (timedelta(days=32) if forward else timedelta(days=-1)), grain)
    length = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}[grain]
    return start + length if forward else start - length
