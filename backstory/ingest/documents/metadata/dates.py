"""Parsing dates as written in documents: ISO 8601, year first, or with an English month name."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_NOON = 12
_FARTHEST = timedelta(days=1)

_TIME = r"""
    (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})
    (?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?
    (?:[ ]*(?P<half>[AaPp])\.?[Mm]\b\.?)?
    (?:[ ]*(?P<zone>[Zz]|(?:UTC|GMT)?(?P<sign>[+-])(?P<offset_hours>[0-9]{1,2}):?(?P<offset_minutes>[0-9]{2})?
        |UTC|GMT))?
    (?:[ ]\([A-Za-z ]+\))?
"""
_WEEKDAY = r"(?:(?i:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?i:day)?\.?,?[ ])?"
_DAY = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_MONTH = r"(?P<month>[A-Za-z]{3,9})\.?"
_YEAR = r"(?P<year>[0-9]{4})"
_LATER = rf"(?:,?[ ](?:at[ ])?{_TIME})?"
_FORMS = tuple(
    re.compile(form, re.VERBOSE)
    for form in (
        rf"{_YEAR}([-/.])(?P<month>[0-9]{{1,2}})\2(?P<day>[0-9]{{1,2}})(?:(?:[Tt]|,?[ ]){_TIME})?",
        rf"""{_YEAR}(?P<month>[0-9]{{2}})(?P<day>[0-9]{{2}})
            (?:[Tt]?(?P<hour>[0-9]{{2}})(?P<minute>[0-9]{{2}})(?P<second>[0-9]{{2}})?(?P<zone>[Zz])?)?""",
        rf"{_WEEKDAY}{_DAY}[ -](?:of[ ])?{_MONTH},?[ -]{_YEAR}{_LATER}",
        rf"{_WEEKDAY}{_MONTH}[ ]{_DAY},?[ ]{_YEAR}{_LATER}",
    )
)


def parse_date(text: str) -> datetime:
    """Read a date, or a date and time.

    The supported forms are those of YAML, TOML and ISO 8601 (``2025-03-04``, ``2025-03-04T10:00:00Z``,
    ``2025-03-04 10:00 +0200``, ``20250304``), a year in front of slashes or dots (``2025/03/04``),
    and English month names in either order (``4 March 2025``, ``Mar 4th, 2025 10:30 AM``,
    ``Tue, 04 Mar 2025 10:00:00 +0000``), with or without a day of the
    week. ``04/03/2025`` is refused, since either number could be the month.

    It returns the datetime in UTC, or without a zone if the text states none; the default time is midnight. It raises
    ``ValueError`` if the text has no supported form, or the day does not exist.
    """
    written = " ".join(text.split()).removeprefix("[[").removesuffix("]]")
    match = next((found for form in _FORMS if (found := form.fullmatch(written))), None)
    if match is None:
        raise ValueError(f"{text!r} is not a date in a form that Backstory reads")
    parts = match.groupdict(default="")
    number = {name: int(value) for name, value in parts.items() if value.isdigit()}
    offset = timedelta(hours=number.get("offset_hours", 0), minutes=number.get("offset_minutes", 0))
    moment = datetime(
        number["year"],
        number["month"] if "month" in number else _month(parts["month"]),
        number["day"],
        _hour(number.get("hour", 0), parts.get("half", "")),
        number.get("minute", 0),
        number.get("second", 0),
        int(parts.get("fraction", "")[:6].ljust(6, "0")),
    )
    zone = timezone(-offset if parts.get("sign") == "-" else offset)
    try:
        in_utc = moment.replace(tzinfo=zone).astimezone(UTC)
        in_utc - _FARTHEST, in_utc + _FARTHEST
    except OverflowError as error:
        raise ValueError(f"{text!r} is outside the calendar in UTC") from error
    return in_utc if parts.get("zone") else moment


def _month(name: str) -> int:
    for number, month in enumerate(_MONTHS, start=1):
        if month.startswith(name.lower()):
            return number
    raise ValueError(f"{name!r} is not an English month")


def _hour(hour: int, half: str) -> int:
    if not half:
        return hour
    if not 1 <= hour <= _NOON:
        raise ValueError(f"{hour} is not an hour of a clock with AM and PM")
    return hour % _NOON + (_NOON if half in "Pp" else 0)
