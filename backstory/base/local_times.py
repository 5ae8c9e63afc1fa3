"""Times as people live them: by the clock of a time zone, which is named once."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo


def localize(moment: datetime, timezone: str) -> datetime:
    """Return a moment as the clock of a time zone shows it.

    Args:
        moment: A datetime with a time zone.
        timezone: Name of a time zone, such as ``Europe/Berlin``.
    """
    return moment.astimezone(ZoneInfo(timezone))


def put_in_zone(moment: datetime, timezone: str) -> datetime:
    """Return a moment in UTC; one without a zone was written by the clock of a time zone."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(timezone))).astimezone(UTC)


def write_span(first: datetime, last: datetime) -> str:
    """Write a time and a later one with their zone, such as ``2025-03-16 09:12 to 15:18 Europe/Berlin``.

    The second has a date if it differs. If the clock was changed between the two, both have their distance from UTC.

    Args:
        first: The earlier datetime, with the zone that it is shown in.
        last: The later one, in the same zone.
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
