"""The times of a chat export: deciding the order of its dates, and converting local times to UTC."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import MAXYEAR, UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Final, Literal, TypeAlias
from zoneinfo import ZoneInfo

import polars as pl

from backstory.base.errors import ReadError

DateOrder: TypeAlias = Literal["dmy", "mdy", "ymd"]
DateParts: TypeAlias = tuple[int, int, int]
"""The three numbers of a written date, in their written order; only a four-digit year exceeds 99."""

FIRST_YEAR: Final = 2009
"""Year of WhatsApp's release: no message is older."""

KNOWN_YEAR: Final = 2026
"""Year in which this module was written: a file with an older date was unpacked or copied without its time."""

_LAST_SHORT_YEAR: Final = 99
_CENTURY: Final = 2000
_LOCAL_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH: Final = _LOCAL_EPOCH.replace(tzinfo=UTC)


def latest_year_of(written_at: float) -> int:
    """Return the latest year in which a message of a file can have been sent, by the time when it was written.

    Only the year counts, so that copies of a file made in the same year give the same messages. A file of before
    WhatsApp was unpacked or copied without its time, and may be of this year.
    """
    with suppress(OverflowError):
        # The clock of the phone may be up to a day ahead of UTC.
        written = datetime(1970, 1, 2, tzinfo=UTC) + timedelta(seconds=written_at)
        if FIRST_YEAR <= written.year < MAXYEAR:
            return max(KNOWN_YEAR, written.year)
    return max(KNOWN_YEAR, datetime.now(UTC).year)


def read_date(parts: DateParts, order: DateOrder, latest_year: int) -> date | None:
    """Read a written date; None if no such day exists, or before WhatsApp, or after the file was written."""
    year, month, day = (parts[order.index(letter)] for letter in "ymd")
    year += _CENTURY if year <= _LAST_SHORT_YEAR else 0
    with suppress(ValueError):
        return date(year, month, day) if FIRST_YEAR <= year <= latest_year else None
    return None


def decide_date_order(
    dates: Sequence[DateParts], setting: str, *, latest_year: int = KNOWN_YEAR, separator: str = "/"
) -> DateOrder:
    """Decide whether an export writes day, month or year first, by its dates in the order of their lines.

    Every order is tried on the whole file; the right one has the fewest steps back in time and, which counts twice,
    impossible dates. ``setting`` decides wherever it can apply: it cannot move a four-digit year. It raises
    ``ReadError`` if several readings fit the file, or none does.
    """
    is_year = [number > _LAST_SHORT_YEAR for number in dates[0]]
    possible: list[DateOrder] = ["dmy", "mdy", "ymd"]  # no locale writes year, day, month
    if any(is_year):
        possible = ["ymd"] if is_year[0] else ["dmy", "mdy"]
    # With dots, every locale writes the day first, or four digits of the year.
    orders = [order for order in possible if order == setting] or possible[: 1 if separator == "." else None]
    readings = {order: [read_date(parts, order, latest_year) for parts in dates] for order in orders}
    faults = {
        order: 2 * days.count(None) + sum(after < before for before, after in pairwise(filter(None, days)))
        for order, days in readings.items()
    }
    best = min(orders, key=faults.__getitem__)
    days = readings[best]
    if 2 * days.count(None) > len(days):
        raise ReadError(
            f"most of its dates ({separator.join(map(str, dates[0]))}) are no days between {FIRST_YEAR}, when WhatsApp "
            f"appeared, and {latest_year}, the year of the file, with `conversations.date_order` {setting}. "
            "Unless another order is right, export the chat again from a phone whose clock is right and whose calendar "
            "is the Gregorian one",
            code="unlikely_dates",
        )
    for order, other in readings.items():
        # Hardly any locale writes two digits of the year first: one date of a wrong clock does not tell that it does.
        margin = 2 if len(readings) > 2 and best == "ymd" else 0
        if faults[order] > faults[best] + margin or other == days:
            continue
        # Two digits of a year, which hardly any locale has first: are they an older and no shorter chat?
        if order == "ymd":
            late, early = [*filter(None, days)], [*filter(None, other)]
            if not early or (max(early) < max(late) and max(early) - min(early) >= max(late) - min(late)):
                continue
        place = next(place for place, day in enumerate(days) if day != other[place])
        raise ReadError(
            f"its dates can be read in more than one way: {separator.join(map(str, dates[place]))} is "
            f"{days[place] or 'no date'} ({best}) or {other[place] or 'no date'} ({order}), and nothing in the file "
            "tells which. Set `date_order` of this file under `conversations.overrides`, or "
            "`conversations.date_order` for all files",
            code="ambiguous_dates",
        )
    return best


def count_microseconds(moment: datetime, timezone: str) -> int:
    """Return the microseconds from 1970 on, of which tables make times at once; by the clock of a time zone if local.

    When clocks go back, a time is taken as the first occurrence; when they go forward, with the offset before the gap.
    """
    if moment.tzinfo is None:
        moment -= ZoneInfo(timezone).utcoffset(moment) or timedelta()
        return (moment - _LOCAL_EPOCH) // timedelta.resolution
    return (moment.astimezone(UTC) - _EPOCH) // timedelta.resolution


def local_to_utc(local: pl.Series, timezone: str) -> pl.Series:
    """Convert local times to UTC.

    When clocks go back, an hour occurs twice. A time in it is taken as the first occurrence, and from a step back
    within that hour on as the second. A time that the clock skips is read with the offset before the gap, which is that
    of a day before.
    """

    def convert(ambiguous: Literal["earliest", "latest"], moment: pl.Expr = pl.col("local")) -> pl.Expr:  # noqa: B008
        zoned = moment.dt.replace_time_zone(timezone, ambiguous=ambiguous, non_existent="null")
        return zoned.dt.convert_time_zone("UTC")

    day, time = pl.duration(days=1), pl.col("local")
    before_gap = convert("earliest", time - day) + day
    frame = local.to_frame("local").select(
        "local", first=convert("earliest").fill_null(before_gap), last=convert("latest").fill_null(before_gap)
    )
    repeated = frame.with_row_index("place").filter(pl.col("first") < pl.col("last"))
    is_second = (time < time.shift()).fill_null(value=False).cum_max().over(time.dt.date())
    second = repeated.filter(is_second)
    return frame["first"].scatter(second["place"], second["last"])


_MOMENT: Final = re.compile(
    r"(?P<zoom>GMT)?(?<!\d)(?P<year>\d{4})[-_.]?(?P<month>\d\d)[-_.]?(?P<day>\d\d)"
    r"(?: at |[ T_-])(?P<hour>\d\d)[:._h-]?(?P<minute>\d\d)(?:[:._-]?(?P<second>\d\d))?(?!\d)"
    r"(?P<zone>Z| ?(?:GMT|UTC)(?:(?P<sign>[+-])(?P<hours>\d{1,2})(?:[:_]?(?P<minutes>\d\d))?)?)?"
)
_DAY: Final = re.compile(r"(?<!\d)(?P<year>\d{4})(?P<dash>[-_.]?)(?P<month>\d\d)(?P=dash)(?P<day>\d\d)(?!\d)")


def find_moment(source: str) -> datetime | None:
    """Find date and time of day in a path: in the name of the file, else in that of the nearest folder.

    The time has a zone if the path states one (``GMT20240501-100000``, ``2024-05-01 at 10:00 GMT-7``).
    """
    for found in (one for part in reversed(source.split("/")) for one in _MOMENT.finditer(part)):
        with suppress(ValueError):
            parts = ("year", "month", "day", "hour", "minute", "second")
            year, month, day, hour, minute, second = (int(found[part] or 0) for part in parts)
            ahead = timedelta(hours=int(found["hours"] or 0), minutes=int(found["minutes"] or 0))
            zone = timezone(-ahead if found["sign"] == "-" else ahead)
            local = datetime(year, month, day, hour, minute, second)
            return local.replace(tzinfo=zone) if found["zone"] or found["zoom"] else local
    return None


def find_day(source: str) -> date | None:
    """Find a date in a path, as :func:`find_moment` does for a date with a time of day."""
    for found in (one for part in reversed(source.split("/")) for one in _DAY.finditer(part)):
        with suppress(ValueError):
            return date(int(found["year"]), int(found["month"]), int(found["day"]))
    return None


def is_recording(source: str) -> bool:
    """Return whether a file is named as Zoom names what it recorded: its times count from the beginning."""
    return re.search(r"GMT\d{8}-\d{6}(?!\d)", source.rpartition("/")[2]) is not None


def without_day(name: str) -> str:
    """Take the date, and what separates it from the rest, from the end of a name."""
    return re.sub(rf"[-_. ]*{_DAY.pattern}\Z", "", name)
