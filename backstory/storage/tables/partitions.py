"""Keys of the time partitions: calendar days, weeks and months of a conversation, named as Dagster names them.

They follow the clock of the conversation; hours are those of UTC. A day is ``2025-03-04``, a week the Monday that it
begins with, a month its first day, and an hour ``2025-03-04T10``, without a colon, since keys name files. Keys of one
grain sort in the order of time; one that is none raises :class:`InputError` (code ``invalid_partition``).
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
_HOURS: dict[Grain, int] = {"hour": 1, "day": 24, "week": 7 * 24, "month": 32 * 24}
"""After that many hours from the start of a partition, the next one has begun."""
_KEY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:T([0-9]{2}))?")


def partition_key(moment: datetime, grain: Grain, timezone: str = "UTC") -> str:
    """Return the key of the partition that contains a moment, by the calendar of a time zone."""
    if moment.tzinfo is None:
        raise InputError(
            f"{moment.isoformat()} has no time zone; give one, such as tzinfo=datetime.UTC",
            code="no_time_zone",
        )
    local = moment.astimezone(UTC if grain == "hour" else ZoneInfo(timezone))
    return _name(local.replace(tzinfo=UTC), grain)


def partition_keys(messages: pl.DataFrame, grain: Grain) -> pl.Series:
    """Return the key of each message, by its ``timestamp`` and ``local_time``, as strings of name ``partition``."""
    # A clock that is set back shows an hour twice, which would make two hours one partition.
    times = messages["timestamp"].dt.replace_time_zone(None) if grain == "hour" else messages["local_time"]
    form = "%Y-%m-%dT%H" if grain == "hour" else "%Y-%m-%d"
    return times.dt.truncate(_UNITS[grain]).dt.strftime(form).alias("partition")


def previous_partition(key: str, grain: Grain) -> str:
    """Return the key of the partition that ends where the given one begins."""
    return _name(_parse(key, grain) - timedelta(hours=1), grain)


def next_partition(key: str, grain: Grain) -> str:
    """Return the key of the partition that begins where the given one ends."""
    return _name(_parse(key, grain) + timedelta(hours=_HOURS[grain]), grain)


def partition_range(first: str, last: str, grain: Grain) -> list[str]:
    """List the keys from one to another, both included, without gaps."""
    if _parse(last, grain) < _parse(first, grain):
        raise InputError(
            f"the range from {first} to {last} ends before it begins; swap the two", code="swapped_range"
        )
    keys = [first]
    while keys[-1] != last:
        keys.append(next_partition(keys[-1], grain))
    return keys


def _parse(key: str, grain: Grain) -> datetime:
    match = _KEY.fullmatch(key)
    if match is not None and (match[2] is not None) == (grain == "hour"):
        with suppress(ValueError):  # a day or hour that the calendar does not have
            moment = datetime.combine(date.fromisoformat(match[1]), time(int(match[2] or 0)), UTC)
            if _name(moment, grain) == key:
                return moment
    raise InputError(
        f"{key!r} does not name a partition of one {grain}; write {_EXAMPLES[grain]}",
        code="invalid_partition",
    )


def _name(moment: datetime, grain: Grain) -> str:
    """Return the key of the partition that contains a moment of its calendar."""
    day = moment.date()
    if grain == "hour":
        return f"{day}T{moment.hour:02}"
    if grain == "week":
        day -= timedelta(days=day.weekday())
    return str(day.replace(day=1) if grain == "month" else day)
