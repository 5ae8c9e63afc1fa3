"""Dates as the C library writes them in English: ``Wed May 01 10:00:00 2024``, ``Thu May 02 2024``."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WRITTEN: Final = re.compile(
    r"\w{2,4}\.?,? (?P<month>\w{3}) +(?P<day>\d{1,2})(?: \d\d:\d\d(?::\d\d)?)?(?: [A-Z]{2,5})? (?P<year>\d{4})"
)
_NUMBERS: Final = re.compile(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?:[ T].*)?")


def read_english_day(written: str) -> date | None:
    """Read a date with an English month, or in ISO 8601; None for any other."""
    found = _WRITTEN.fullmatch(written.strip()) or _NUMBERS.fullmatch(written.strip())
    if found is None:
        return None
    month = found["month"]
    if not month.isdigit() and month not in _MONTHS:
        return None
    number = int(month) if month.isdigit() else _MONTHS.index(month) + 1
    try:
        return date(int(found["year"]), number, int(found["day"]))
    except ValueError:
        return None
