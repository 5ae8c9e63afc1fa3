"""The times of a chat export: what the numbers of its dates mean, and its clock as UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta
from typing import Final, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.errors import ExportSettingError

DateOrder: TypeAlias = Literal["dmy", "mdy", "ymd"]
DateParts: TypeAlias = tuple[int, int, int]
"""The three numbers of a written date, as they stand; only a year of four digits is over 99."""

FIRST_YEAR: Final = 2009
"""Year in which WhatsApp appeared: no message is older."""

KNOWN_YEAR: Final = 2026
"""Year of this module: a file that claims to be older was unpacked or copied without its time."""

_LATEST_TIME = 4e9
_LAST_SHORT_YEAR = 99
_LAST_MONTH = 12
_LAST_DAY = 31
_DAYS_OF_A_YEAR = 365.2425

# What speaks against a reading, as natural logarithms of how much less likely it makes it.
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
# Two digits of the year first: no locale of CLDR writes them with dots, hardly any with slashes.
_SHORT_YEAR_FIRST: Final[Mapping[str, float]] = {".": 11.0, "/": 6.0}
_SHORT_YEAR_OF_ANOTHER_CALENDAR = 8.0

_SWITCH_CALENDAR = "Switch the calendar of the phone to the Gregorian one and export the chat again"


@dataclass(frozen=True)
class Calendar:
    """How a calendar counts its years.

    Attributes:
        name: What a person calls it.
        century: What a year of two digits is counted from, here and now.
        years_in_one: Length of its year in Gregorian years.
        epoch: Gregorian year in which it begins, as a fraction for years of another length.
    """

    name: str
    century: int
    years_in_one: float
    epoch: float

    def gregorian_year(self, written: int) -> int:
        """Give the Gregorian year in which a year of this calendar begins."""
        year = written + (self.century if written <= _LAST_SHORT_YEAR else 0)
        return int(year * self.years_in_one + self.epoch)


_GREGORIAN = Calendar("Gregorian", 2000, 1.0, 0.0)
_OTHER_CALENDARS = (
    Calendar("Buddhist", 2500, 1.0, -543.0),
    Calendar("Persian (Jalali)", 1400, 1.0, 621.0),
    Calendar("Islamic (Hijri)", 1400, 0.970224, 621.5774),
)


@dataclass(frozen=True)
class _Reading:
    """One way of reading all dates of a file.

    Attributes:
        order: What the numbers mean.
        calendar: What the years count.
        cost: What speaks against it; the smaller, the likelier.
        impossible: Lines whose date is not possible under it.
        days: Number of the day of each date, NaN for one that is not possible.
    """

    order: DateOrder
    calendar: Calendar
    cost: float
    impossible: int
    days: NDArray[np.float64]


def latest_year_of(written_at: float) -> int:
    """Say in which year the last message of a file can have been sent.

    Only the year counts, so that the same file gives the same messages wherever it is copied to, at least until
    the year ends. A copy of a later year allows more readings of ambiguous dates, which makes them a question
    and never another answer. A file that says to be older than this library is not believed.

    Args:
        written_at: When the file was last changed, in seconds since 1970.

    Returns:
        The year.
    """
    written_at = min(max(written_at, 0.0), _LATEST_TIME)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=written_at, days=1)  # ahead of UTC by zones
    return max(KNOWN_YEAR, moment.year)


def read_date(parts: DateParts, order: DateOrder) -> date | None:
    """Read a written date.

    Args:
        parts: Its three numbers; a year of two digits is in this century.
        order: What they mean.

    Returns:
        The date, or None if the calendar has no such day.
    """
    year, month, day = _split_parts(parts, order)
    year = _GREGORIAN.gregorian_year(year)
    if not MINYEAR < year < MAXYEAR:  # in another time zone it could have no year at all
        return None
    try:
        return date(year, month, day)
    except ValueError:
        return None


def is_plausible_year(year: int, latest_year: int) -> bool:
    """Say whether a message can be of a year: not before the app existed, not after the file was written."""
    return FIRST_YEAR <= year <= latest_year


def decide_date_order(
    dates: Sequence[tuple[DateParts, int]],
    setting: Literal["auto", "dmy", "mdy", "ymd"],
    source: str,
    *,
    latest_year: int = KNOWN_YEAR,
    separator: str = "/",
) -> DateOrder:
    """Decide what the numbers of an export's dates mean.

    Every order is tried on the whole file, and in other calendars, too. What speaks against a reading is added
    up: dates that it makes impossible or puts into impossible years, steps back, gaps between neighbouring
    dates (more so the more lines the dates have), years long past, and a year of two digits first where no
    locale writes so. A setting is followed where it can apply: it cannot move a year of four digits.

    Args:
        dates: The dates of all messages in the order of the file, equal neighbours as one, with their number
            of lines.
        setting: The setting ``date_order`` of the file's conversation.
        source: What the error message calls the file.
        latest_year: Last year in which a message of the file can have been sent.
        separator: What stands between the numbers: a full stop, a slash or a hyphen, with a space after it
            where there is one.

    Returns:
        The order.

    Raises:
        ExportSettingError: More than one reading fits the file, or none does, or the dates are of another
            calendar; the message says what to do.
    """
    scale = _Scale(dates, latest_year, separator)
    chosen = _chosen_order(dates[0][0], setting)
    orders = (chosen,) if chosen else _possible_orders(dates[0][0])
    ranked = sorted((scale.reading(order) for order in orders), key=lambda reading: reading.cost)
    best = ranked[0]
    foreign = scale.foreign_readings() if chosen is None or not scale.fits(best) else []
    nearest = min(foreign, key=lambda reading: reading.cost, default=None)
    if nearest is not None and nearest.cost < best.cost:
        raise ExportSettingError(f"{source}: {scale.describe_foreign(nearest)}")
    if not scale.fits(best):
        if chosen and any(scale.fits(scale.reading(order)) for order in get_args(DateOrder)):
            raise ExportSettingError(
                f"{source}: {best.impossible} of {scale.lines} dates are impossible with "
                f"`conversations.date_order` {chosen}; set it to auto, or to the order of this file"
            )
        raise ExportSettingError(f"{source}: {scale.describe_misfit()}")
    for rival in [*ranked[1:], *foreign]:
        if rival.cost < best.cost + _CERTAIN and scale.differ(best, rival):
            raise ExportSettingError(f"{source}: {scale.describe_question(best, rival)}")
    return best.order


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


class _Scale:
    """Weighs the readings of one file's dates."""

    def __init__(self, dates: Sequence[tuple[DateParts, int]], latest_year: int, separator: str) -> None:
        self._dates = dates
        self._distinct = list(dict.fromkeys(parts for parts, _ in dates))
        place = {parts: position for position, parts in enumerate(self._distinct)}
        self._places = np.array([place[parts] for parts, _ in dates], np.intp)
        self._counts = np.array([count for _, count in dates], np.int64)
        self._latest_year = latest_year
        self._separator = separator
        self.lines = int(self._counts.sum())

    def reading(self, order: DateOrder, calendar: Calendar = _GREGORIAN) -> _Reading:
        """Read all dates in one way, and add up what speaks against it."""
        distinct = [self._number_of_day(parts, order, calendar) for parts in self._distinct]
        days = np.array(distinct, np.float64)[self._places]
        possible = ~np.isnan(days)
        steps, counts = np.diff(days[possible]), self._counts[possible]
        weights = np.minimum(1.0, (counts[1:] + counts[:-1]) / _LINES_OF_A_FULL_STEP)
        gaps = _PER_GAP * float(np.sum(weights * np.log(np.maximum(1.0, np.abs(steps)))))
        if len({_split_parts(self._distinct[place], order)[2] for place in self._places[possible]}) == 1:
            gaps = min(gaps, _ONE_DAY_OF_MONTH + _PER_LINE_OF_A_DAY * float(np.log(counts.mean())))
        cost = (
            self._convention(order, calendar)
            + _IMPOSSIBLE_DATE * np.count_nonzero(~possible)
            + _STEP_BACK * np.count_nonzero(steps < 0)
            + gaps
        )
        if possible.any():
            age = self._latest_year + 1 - float(np.nanmax(days)) / _DAYS_OF_A_YEAR
            cost += _PER_YEAR_OF_AGE * max(0.0, age)
        return _Reading(order, calendar, cost, int(self._counts[~possible].sum()), days)

    def foreign_readings(self) -> list[_Reading]:
        """Give the readings in other calendars that fit the file."""
        readings = [
            self.reading(order, calendar)
            for calendar in _OTHER_CALENDARS
            for order in _possible_orders(self._distinct[0])
        ]
        return [reading for reading in readings if self.fits(reading)]

    def fits(self, reading: _Reading) -> bool:
        """Say whether at least half of the lines have a possible date under a reading."""
        return 2 * reading.impossible <= self.lines

    @staticmethod
    def differ(first: _Reading, second: _Reading) -> bool:
        """Say whether two readings give any line another date."""
        return not np.array_equal(first.days, second.days, equal_nan=True)

    def describe_question(self, best: _Reading, rival: _Reading) -> str:
        """Ask which of two readings is right, by a date on which they differ."""
        unequal = np.flatnonzero(
            best.days != rival.days
        )  # a date that is not possible is not equal to itself
        both = unequal[~np.isnan(best.days[unequal]) & ~np.isnan(rival.days[unequal])]
        parts, _ = self._dates[int(both[0] if len(both) else unequal[0])]
        if rival.calendar is not _GREGORIAN:
            other = f"of the {rival.calendar.name} calendar. {_SWITCH_CALENDAR} if it is; else set"
        else:
            other = (
                f"{_write_date(parts, rival.order)} ({rival.order}), and nothing in the file tells which. Set"
            )
        return (
            f"its dates can be read in more than one way: {self._write(parts)} is {_write_date(parts, best.order)} "
            f"({best.order}) or {other} `date_order` of this file under `conversations.overrides`, or "
            "`conversations.date_order` for all files"
        )

    def describe_foreign(self, reading: _Reading) -> str:
        """Say which calendar the dates seem to be of."""
        parts = next(
            parts for (parts, _), day in zip(self._dates, reading.days, strict=True) if not np.isnan(day)
        )
        year, _, _ = _split_parts(parts, reading.order)
        return (
            f"its dates seem to be of the {reading.calendar.name} calendar: the year {year} of "
            f"{self._write(parts)} would be {reading.calendar.gregorian_year(year)}. {_SWITCH_CALENDAR}"
        )

    def describe_misfit(self) -> str:
        """Say that no order gives most dates a day in a possible year."""
        return (
            f"no order of day, month and year gives most of its dates a day between {FIRST_YEAR}, when WhatsApp "
            f"appeared, and {self._latest_year}, the year of the file (its first date is "
            f"{self._write(self._distinct[0])}). Export the chat again from a phone whose clock is right and whose "
            "calendar is the Gregorian one"
        )

    def _write(self, parts: DateParts) -> str:
        return self._separator.join(f"{number:02}" for number in parts)

    def _number_of_day(self, parts: DateParts, order: DateOrder, calendar: Calendar) -> float:
        """Number the days, so that neighbouring ones differ by one; NaN for a date that is not possible.

        For another calendar the number is near enough to tell a step of a day from one of a month or a year.
        """
        year, month, day = _split_parts(parts, order)
        if not is_plausible_year(calendar.gregorian_year(year), self._latest_year):
            return np.nan
        if calendar is _GREGORIAN:
            found = read_date(parts, order)
            return np.nan if found is None else float(found.toordinal())
        if not (1 <= month <= _LAST_MONTH and 1 <= day <= _LAST_DAY):
            return np.nan
        months = (month - 1) * calendar.years_in_one / _LAST_MONTH
        return float(round((calendar.gregorian_year(year) + months) * _DAYS_OF_A_YEAR) + day)

    def _convention(self, order: DateOrder, calendar: Calendar) -> float:
        if max(self._distinct[0]) > _LAST_SHORT_YEAR:
            return 0.0
        cost = _SHORT_YEAR_FIRST.get(self._separator, 0.0) if order == "ymd" else 0.0
        return cost if calendar is _GREGORIAN else cost + _SHORT_YEAR_OF_ANOTHER_CALENDAR


def _write_date(parts: DateParts, order: DateOrder) -> str:
    found = read_date(parts, order)
    return "no date" if found is None else found.isoformat()


def _possible_orders(parts: DateParts) -> tuple[DateOrder, ...]:
    """Give the orders that the place of a year of four digits leaves; no locale writes year, day, month."""
    first, _, third = parts
    if first > _LAST_SHORT_YEAR:
        return ("ymd",)
    return ("dmy", "mdy") if third > _LAST_SHORT_YEAR else ("dmy", "mdy", "ymd")


def _chosen_order(parts: DateParts, setting: Literal["auto", "dmy", "mdy", "ymd"]) -> DateOrder | None:
    return setting if setting != "auto" and setting in _possible_orders(parts) else None


def _split_parts(parts: DateParts, order: DateOrder) -> tuple[int, int, int]:
    numbers = dict(zip(order, parts, strict=True))
    return numbers["y"], numbers["m"], numbers["d"]


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
