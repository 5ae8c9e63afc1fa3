"""Day and time in the path of an export whose lines have neither."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Final

_GMT: Final = re.compile(
    r"GMT(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)-(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)(?!\d)"
)
_MOMENT: Final = re.compile(
    r"(?<!\d)(?P<year>\d{4})[-_.]?(?P<month>\d\d)[-_.]?(?P<day>\d\d)"
    r"(?: at |[ T_-])(?P<hour>\d\d)[:._h-]?(?P<minute>\d\d)(?:[:._-]?(?P<second>\d\d))?(?!\d)"
    r"(?:(?P<utc>Z)| ?(?:GMT|UTC)(?:(?P<sign>[+-])(?P<hours>\d{1,2})(?:[:_]?(?P<minutes>\d\d))?)?)?"
)
_DAY: Final = re.compile(r"(?<!\d)(?P<year>\d{4})(?P<dash>[-_.]?)(?P<month>\d\d)(?P=dash)(?P<day>\d\d)(?!\d)")


def find_moment(source: str) -> datetime | None:
    """Find date and time of day in a path: in the name of the file, else in that of the nearest folder.

    ``source``: path with ``/``. It returns a time with a zone if the path states one (``GMT20240501-100000``,
    ``2024-05-01 at 10:00 GMT-7``), else one without; None if there is none.
    """
    for part in reversed(source.split("/")):
        for found in (*_GMT.finditer(part), *_MOMENT.finditer(part)):
            moment = _read_moment(found)
            if moment is not None:
                return moment
    return None


def is_recording(source: str) -> bool:
    """Return whether a file is named as Zoom names what it recorded: its times count from the beginning."""
    return _GMT.search(source.rpartition("/")[2]) is not None


def find_day(source: str) -> date | None:
    """Find a date in a path, as :func:`find_moment` does for a date with a time of day."""
    for part in reversed(source.split("/")):
        for found in _DAY.finditer(part):
            try:
                return date(*(int(found[name]) for name in ("year", "month", "day")))
            except ValueError:
                continue
    return None


def without_day(name: str) -> str:
    """Take the date, and what separates it from the rest, from the end of a name."""
    found = next((day for day in _DAY.finditer(name) if day.end() == len(name)), None)
    return name if found is None else name[: found.start()].rstrip("_-. ")


def _read_moment(found: re.Match[str]) -> datetime | None:
    read = found.groupdict()
    year, month, day, hour, minute, second = (
        int(read[name] or 0) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    try:
        moment = datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None
    if found.re is _GMT or read["utc"]:
        return moment.replace(tzinfo=UTC)
    if read["sign"]:
        ahead = timedelta(hours=int(read["hours"]), minutes=int(read["minutes"] or 0))
        if ahead >= timedelta(days=1):
            return None
        return moment.replace(tzinfo=timezone(-ahead if read["sign"] == "-" else ahead))
    return moment.replace(tzinfo=UTC) if found[0].endswith(("GMT", "UTC")) else moment
