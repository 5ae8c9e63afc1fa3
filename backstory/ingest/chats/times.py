"""The times of a chat export: deciding the order of its dates, and converting local times to UTC."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta, timezone
from typing import Final, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

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

_LATEST_TIME = 4e9
_LAST_SHORT_YEAR = 99
_CENTURY = 2000
_DAYS_OF_A_YEAR = 365.2425

# Penalties of a reading: the natural logarithm of how much less likely each finding makes it.
_IMPOSSIBLE_DATE = 16.0
_STEP_BACK = 10.0
_PER_GAP = 1.5
_PER_YEAR_OF_AGE = 0.35
_CERTAIN = 8.0
_LINES_OF_A_FULL_STEP = 20
# A wrong reading of a few days is one day of every month or year; so is a chat of birthdays or of monthly reports,
# but they have few lines a day.
_ONE_DAY_OF_MONTH = 3.0
_PER_LINE_OF_A_DAY = 2.0
# Two digits of the year first: no locale of CLDR writes them with dots, hardly any with slashes. Nor does any write
# the month first with dots.
_SHORT_YEAR_FIRST: Final[Mapping[str, float]] = {".": 11.0, "/": 6.0}
_MONTH_FIRST: Final[Mapping[str, float]] = {".": 9.0}


@dataclass(frozen=True)
class _Reading:
    """One way of reading all dates of a file.

    Attributes:
        order: Which number is the day, the month and the year.
        cost: Sum of the penalties; a lower cost means a likelier reading.
        impossible: Number of lines whose date is impossible under this reading.
        days: Day number of each date, NaN for an impossible date.
        fits: Whether at least half of the lines have a possible date.
    """

    order: DateOrder
    cost: float
    impossible: int
    days: NDArray[np.float64]
    fits: bool


def latest_year_of(written_at: float) -> int:
    """Return the latest year in which a message of a file can have been sent.

    Only the year counts, so that copies of a file made in the same year give the same messages. A copy from a later
    year allows more readings of ambiguous dates. Such a copy can lead to an error that asks for a setting, but never
    to other dates. A file of before WhatsApp was unpacked or copied without its time, and may be of this year.
    """
    written_at = min(max(written_at, 0.0), _LATEST_TIME)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=written_at, days=1)  # ahead of UTC by zones
    return max(KNOWN_YEAR, moment.year if moment.year >= FIRST_YEAR else datetime.now(UTC).year)


def read_date(parts: DateParts, order: DateOrder) -> date | None:
    """Read a written date.

    It returns the date, or None if no such day exists.
    """
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
    """Decide whether an export writes day, month or year first.

    Every order is tried on the whole file. Each reading collects penalties: for impossible
    dates and impossible years, for steps back in time, for gaps between neighbouring dates (weighted by their
    number of lines), for years long past, and for a two-digit year in front where no locale writes it there. The
    setting decides wherever it can apply: it cannot move a four-digit year.

    ``setting``: the setting ``date_order`` of the file's conversation. It raises ``ReadError`` if several
    readings fit the file, or none fits, or the dates belong to another calendar; the message says what to do.
    """
    possible = _list_orders(dates[0][0])
    is_chosen = setting in possible
    orders = tuple(order for order in possible if order == setting or not is_chosen)
    ranked = sorted(
        (_read_all(dates, order, latest_year, separator) for order in orders), key=lambda one: one.cost
    )
    best = ranked[0]
    if not best.fits:
        others = (_read_all(dates, order, latest_year, separator) for order in get_args(DateOrder))
        if is_chosen and any(other.fits for other in others):
            raise ReadError(
                f"{best.impossible} of {sum(count for _, count in dates)} dates are impossible with "
                f"`conversations.date_order` {best.order}; set it to auto, or to the order of this file",
                code="impossible_dates",
            )
        raise ReadError(
            f"no order of day, month and year gives most of its dates a day between {FIRST_YEAR}, when WhatsApp "
            f"appeared, and {latest_year}, the year of the file (its first date is "
            f"{_write(dates[0][0], separator)}). Export the chat again from a phone whose clock is right and whose "
            "calendar is the Gregorian one",
            code="unlikely_dates",
        )
    for rival in ranked[1:]:
        is_equal = np.array_equal(best.days, rival.days, equal_nan=True)
        if rival.cost < best.cost + _CERTAIN and not is_equal:
            unequal = np.flatnonzero(best.days != rival.days)  # an impossible date, NaN, is unequal to itself
            both = unequal[~np.isnan(best.days[unequal]) & ~np.isnan(rival.days[unequal])]
            parts, _ = dates[int(both[0] if len(both) else unequal[0])]
            first, second = (
                f"{read_date(parts, one.order) or 'no date'} ({one.order})" for one in (best, rival)
            )
            raise ReadError(
                f"its dates can be read in more than one way: {_write(parts, separator)} is {first} or {second}, and "
                "nothing in the file tells which. Set `date_order` of this file under `conversations.overrides`, or "
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
    impossible = int(counts[~possible].sum())
    return _Reading(order, cost, impossible, days, fits=2 * impossible <= counts.sum())


def _write(parts: DateParts, separator: str) -> str:
    return separator.join(f"{number:02}" for number in parts)


def local_to_utc(local: pl.Series, timezone: str, *, in_order: bool) -> pl.Series:
    """Convert local times to UTC.

    When clocks go back, an hour occurs twice. A time in it is taken as the first occurrence. If the times are in
    order, those after a step back within that hour are taken as the second. A time that the clock skips is read
    with the offset before the gap.

    ``local``: times without a zone, of type ``Datetime("us")``. It returns times of type ``Datetime("us", "UTC")``,
    null where the input is null.
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
