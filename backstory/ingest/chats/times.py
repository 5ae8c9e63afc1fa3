"""The times of a chat export: deciding the order of its dates, and converting local times to UTC."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta, timezone
from typing import Final, Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.errors import ReadError

DateOrder: TypeAlias = Literal["dmy", "mdy", "ymd"]
DateParts: TypeAlias = tuple[int, int, int]
"""The three numbers of a written date, in their written order; only a four-digit year exceeds 99."""

FIRST_YEAR: Final = 2009
"""Year of WhatsApp's release: no message is older."""

KNOWN_YEAR: Final = 2026
"""Year in which this module was written: a file with an older date was unpacked or copied without its time."""

_LATEST_TIME: Final = 4e9
_LAST_SHORT_YEAR: Final = 99
_CENTURY: Final = 2000
_DAYS_OF_A_YEAR: Final = 365.2425

# Penalties of a reading: the natural logarithm of how much less likely each finding makes it.
_IMPOSSIBLE_DATE: Final = 16.0
_STEP_BACK: Final = 10.0
_PER_GAP: Final = 1.5
_PER_YEAR_OF_AGE: Final = 0.35
_CERTAIN: Final = 8.0
_LINES_OF_A_FULL_STEP: Final = 20
# A wrong reading of a few days is one day of every month or year; so is a chat of birthdays or of monthly reports,
# but they have few lines a day.
_ONE_DAY_OF_MONTH: Final = 3.0
_PER_LINE_OF_A_DAY: Final = 2.0
# Two digits of the year first: no locale of CLDR writes them with dots, hardly any with slashes. Nor does any write
# the month first with dots.
_SHORT_YEAR_FIRST: Final[Mapping[str, float]] = {".": 11.0, "/": 6.0}
_MONTH_FIRST: Final[Mapping[str, float]] = {".": 9.0}


@dataclass(frozen=True)
class _Reading:
    """One way of reading all dates of a file, with the sum of its penalties, and the number of impossible lines.

    ``days``: the number of each day; NaN for an impossible one.
    """

    order: DateOrder
    cost: float
    impossible: int
    days: NDArray[np.float64]


def latest_year_of(written_at: float) -> int:
    """Return the latest year in which a message of a file can have been sent, by the time when it was written.

    Only the year counts, so that copies of a file made in the same year give the same messages; one of a later year may
    lead to a question, but never to other dates. A file of before WhatsApp was unpacked or copied without its time, and
    may be of this year.
    """
    written_at = min(max(written_at, 0.0), _LATEST_TIME)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=written_at, days=1)  # ahead of UTC by zones
    return max(KNOWN_YEAR, moment.year if moment.year >= FIRST_YEAR else datetime.now(UTC).year)


def read_date(parts: DateParts, order: DateOrder) -> date | None:
    """Read a written date; None if no such day exists."""
    year, month, day = (parts[order.index(letter)] for letter in "ymd")
    year += _CENTURY if year <= _LAST_SHORT_YEAR else 0
    if not MINYEAR < year < MAXYEAR:  # a conversion to another time zone could leave Python's range of years
        return None
    try:
        return date(year, month, day)
    except ValueError:
        return None


def is_plausible_year(year: int, latest_year: int) -> bool:
    """Return whether a message can be from a year: not before WhatsApp existed, not after the file was written."""
    return FIRST_YEAR <= year <= latest_year


def decide_date_order(
    dates: Sequence[tuple[DateParts, int]],
    setting: Literal["auto", "dmy", "mdy", "ymd"],
    *,
    latest_year: int = KNOWN_YEAR,
    separator: str = "/",
) -> DateOrder:
    """Decide whether an export writes day, month or year first, by its dates and their numbers of lines.

    Every order is tried on the whole file and collects penalties: for impossible dates, steps back in time, gaps
    between neighbouring dates, years long past, and what no locale writes. ``setting`` decides wherever it can apply:
    it cannot move a four-digit year. It raises ``ReadError`` if several readings fit the file, or none does.
    """
    possible = _list_orders(dates[0][0])
    orders = [order for order in possible if order == setting] or possible
    best, *rivals = sorted(
        (_read_all(dates, order, latest_year, separator) for order in orders), key=lambda one: one.cost
    )
    if 2 * best.impossible > sum(lines for _, lines in dates):
        raise ReadError(
            f"most of its dates ({_write(dates[0][0], separator)}) are no days between {FIRST_YEAR}, when WhatsApp "
            f"appeared, and {latest_year}, the year of the file, with `conversations.date_order` {setting}. "
            "Unless another order is right, export the chat again from a phone whose clock is right and whose calendar "
            "is the Gregorian one",
            code="unlikely_dates",
        )
    for rival in rivals:
        is_equal = (best.days == rival.days) | np.isnan(best.days) & np.isnan(rival.days)
        if rival.cost >= best.cost + _CERTAIN or is_equal.all():
            continue
        # A day in both readings tells more than one that is impossible in one of them.
        place = min(
            np.flatnonzero(~is_equal), key=lambda place: np.isnan(best.days[place] + rival.days[place])
        )
        parts = dates[int(place)][0]
        both = " or ".join(
            f"{read_date(parts, one.order) or 'no date'} ({one.order})" for one in (best, rival)
        )
        raise ReadError(
            f"its dates can be read in more than one way: {_write(parts, separator)} is {both}, and nothing in the "
            "file tells which. Set `date_order` of this file under `conversations.overrides`, or "
            "`conversations.date_order` for all files",
            code="ambiguous_dates",
        )
    return best.order


def _list_orders(parts: DateParts) -> tuple[DateOrder, ...]:
    """Return the orders that fit the position of a four-digit year; no locale writes year, day, month."""
    first, _, third = parts
    if first > _LAST_SHORT_YEAR:
        return ("ymd",)
    return ("dmy", "mdy") if third > _LAST_SHORT_YEAR else ("dmy", "mdy", "ymd")


def _read_all(
    dates: Sequence[tuple[DateParts, int]], order: DateOrder, latest_year: int, separator: str
) -> _Reading:
    """Read all dates in one order, and add up the penalties."""
    read = {parts: read_date(parts, order) for parts, _ in dates}
    numbers = {
        parts: float(day.toordinal()) if day and is_plausible_year(day.year, latest_year) else np.nan
        for parts, day in read.items()
    }
    days = np.array([numbers[parts] for parts, _ in dates], np.float64)
    counts = np.array([count for _, count in dates], np.int64)
    possible = ~np.isnan(days)
    steps, held = np.diff(days[possible]), counts[possible]
    weights = np.minimum(1.0, (held[1:] + held[:-1]) / _LINES_OF_A_FULL_STEP)
    gaps = _PER_GAP * float(np.sum(weights * np.log(np.maximum(1.0, np.abs(steps)))))
    if len({parts[order.index("d")] for parts, number in numbers.items() if not np.isnan(number)}) == 1:
        gaps = min(gaps, _ONE_DAY_OF_MONTH + _PER_LINE_OF_A_DAY * float(np.log(held.mean())))
    cost = gaps + _IMPOSSIBLE_DATE * np.count_nonzero(~possible) + _STEP_BACK * np.count_nonzero(steps < 0)
    if order == "mdy":
        cost += _MONTH_FIRST.get(separator, 0.0)
    elif order == "ymd" and max(dates[0][0]) <= _LAST_SHORT_YEAR:
        cost += _SHORT_YEAR_FIRST.get(separator, 0.0)
    if possible.any():
        age = latest_year + 1 - float(np.nanmax(days)) / _DAYS_OF_A_YEAR
        cost += _PER_YEAR_OF_AGE * max(0.0, age)
    return _Reading(order, cost, int(counts[~possible].sum()), days)


def _write(parts: DateParts, separator: str) -> str:
    return separator.join(f"{number:02}" for number in parts)


def local_to_utc(local: pl.Series, timezone: str, *, in_order: bool) -> pl.Series:
    """Convert local times to UTC.

    When clocks go back, an hour occurs twice. A time in it is taken as the first occurrence. If the times are in
    order, those after a step back within that hour are taken as the second. A time that the clock skips is read
    with the offset before the gap, which is that of a day before.
    """
    time, day = pl.col("local"), pl.duration(days=1)
    frame = local.to_frame("local").with_columns(utc=_localize(time, timezone, "earliest"))
    if frame["utc"].null_count() > local.null_count():
        before_gap = _localize(time - day, timezone, "earliest") + day
        frame = frame.with_columns(pl.col("utc").fill_null(before_gap))
    frame = frame.with_columns(latest=_localize(time, timezone, "latest") if in_order else pl.col("utc"))
    repeated = frame.with_row_index("place").filter(pl.col("utc") < pl.col("latest"))
    is_step_back = (time < time.shift()).fill_null(value=False)
    second = repeated.filter(is_step_back.cum_max().over(time.dt.date()))
    return frame["utc"].scatter(second["place"], second["latest"])


def _localize(time: pl.Expr, timezone: str, ambiguous: Literal["earliest", "latest"]) -> pl.Expr:
    return time.dt.replace_time_zone(timezone, ambiguous=ambiguous, non_existent="null").dt.convert_time_zone(
        "UTC"
    )


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
    for part in reversed(source.split("/")):
        for found in _MOMENT.finditer(part):
            with suppress(ValueError):
                return _read_moment(found)
    return None


def is_recording(source: str) -> bool:
    """Return whether a file is named as Zoom names what it recorded: its times count from the beginning."""
    return re.search(r"GMT\d{8}-\d{6}(?!\d)", source.rpartition("/")[2]) is not None


def find_day(source: str) -> date | None:
    """Find a date in a path, as :func:`find_moment` does for a date with a time of day."""
    for part in reversed(source.split("/")):
        for found in _DAY.finditer(part):
            with suppress(ValueError):
                return date(int(found["year"]), int(found["month"]), int(found["day"]))
    return None


def without_day(name: str) -> str:
    """Take the date, and what separates it from the rest, from the end of a name."""
    found = next((day for day in _DAY.finditer(name) if day.end() == len(name)), None)
    return name if found is None else name[: found.start()].rstrip("_-. ")


def _read_moment(found: re.Match[str]) -> datetime:
    """Read what was found; raise ``ValueError`` if there is no such moment or zone."""
    parts = ("year", "month", "day", "hour", "minute", "second")
    year, month, day, hour, minute, second = (int(found[part] or 0) for part in parts)
    ahead = timedelta(hours=int(found["hours"] or 0), minutes=int(found["minutes"] or 0))
    zone = timezone(-ahead if found["sign"] == "-" else ahead) if found["zone"] or found["zoom"] else None
    return datetime(year, month, day, hour, minute, second, tzinfo=zone)
