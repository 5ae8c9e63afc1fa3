"""The order of day and month in a chat export, decided from all of its dates together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import MAXYEAR, MINYEAR, date
from itertools import pairwise
from typing import Literal, TypeAlias

from backstory.errors import ExportSettingError

DateOrder: TypeAlias = Literal["dmy", "mdy", "ymd"]
DateParts: TypeAlias = tuple[int, int, int]
"""The three numbers of a written date, as they stand; only a year of four digits is over 99."""

_LAST_MONTH = 12
_LAST_SHORT_YEAR = 99


def read_date(parts: DateParts, order: DateOrder) -> date | None:
    """Read a written date.

    Args:
        parts: Its three numbers; a year of two digits is in this century.
        order: What they mean.

    Returns:
        The date, or None if the calendar has no such day.
    """
    numbers = dict(zip(order, parts, strict=True))
    year = numbers["y"] + (2000 if numbers["y"] <= _LAST_SHORT_YEAR else 0)
    if not MINYEAR < year < MAXYEAR:  # in another time zone it could have no year at all
        return None
    try:
        return date(year, numbers["m"], numbers["d"])
    except ValueError:
        return None


def decide_date_order(
    dates: Sequence[tuple[DateParts, int]], setting: Literal["auto", "dmy", "mdy", "ymd"], source: str
) -> DateOrder:
    """Decide what the numbers of an export's dates mean.

    A year written first, or a number over 12, tells; where lines contradict each other the larger number of
    lines counts. Then the order of the lines tells, if only one reading never steps back. A setting is
    followed where it can apply: it cannot move a year of four digits.

    Args:
        dates: The dates of all messages in the order of the file, equal neighbours as one, with their number
            of lines.
        setting: The setting ``conversations.date_order``.
        source: What the error message calls the file.

    Returns:
        The order.

    Raises:
        ExportSettingError: Both orders fit the file and give different dates.
    """
    (first, _, third), _ = dates[0]
    if first > _LAST_SHORT_YEAR:
        return "ymd"
    if setting in ("dmy", "mdy") or (setting == "ymd" and third <= _LAST_SHORT_YEAR):
        return setting
    day_first, month_first = _count_evidence(dates)
    if day_first != month_first:
        return "dmy" if day_first > month_first else "mdy"
    readings = {parts: (read_date(parts, "dmy"), read_date(parts, "mdy")) for parts, _ in dates}
    differing = [parts for parts, (by_day, by_month) in readings.items() if by_day != by_month]
    if not differing:
        return "dmy"
    rises_by_day = _never_steps_back([readings[parts][0] for parts, _ in dates])
    rises_by_month = _never_steps_back([readings[parts][1] for parts, _ in dates])
    if rises_by_day != rises_by_month:
        return "dmy" if rises_by_day else "mdy"
    raise ExportSettingError(
        f"{source}: its dates can be read day first or month first (for example {differing[0][0]} and "
        f"{differing[0][1]} of the year {differing[0][2]}), and nothing in the file tells which; "
        "set `conversations.date_order` to dmy or mdy"
    )


def _count_evidence(dates: Sequence[tuple[DateParts, int]]) -> tuple[int, int]:
    day_first = month_first = 0
    for (first, second, _), lines in dates:
        if first > _LAST_MONTH >= second:
            day_first += lines
        elif second > _LAST_MONTH >= first:
            month_first += lines
    return day_first, month_first


def _never_steps_back(dates: Sequence[date | None]) -> bool:
    known = [day for day in dates if day is not None]
    return all(earlier <= later for earlier, later in pairwise(known))
