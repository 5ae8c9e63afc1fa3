"""Dates of documents: as they write them, in the names of files and folders, and of their last change."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple, TypeAlias

from backstory.base.local_times import put_in_zone

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
    """Read a date, or a date and time: in UTC, or without a zone if the text states none.

    The supported forms are those of YAML, TOML and ISO 8601 (``2025-03-04T10:00:00Z``, ``20250304``), a year in front
    of slashes or dots (``2025/03/04``), and English month names in either order (``4 March 2025``, ``Tue, 04 Mar 2025
    10:00:00 +0000``). Any other raises ``ValueError``: in ``04/03/2025``, either number could be the month.
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


_POST = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[-_ ]+(.*))?", re.DOTALL)
_YEAR = "(?:19|20)[0-9]{2}"
# The time in `202503041030 Title` is in the writer's unknown time zone.
_FIRST = re.compile(
    rf"({_YEAR})([._]?)([0-9]{{2}})\2([0-9]{{2}})(?:[0-9]{{4}}|[0-9]{{6}})?(?:[-_. ].*)?", re.DOTALL
)
_LAST = re.compile(rf".*[-_ (]({_YEAR})(-)([0-9]{{2}})-([0-9]{{2}})\)?", re.DOTALL)
_FOLDER = re.compile(rf"(?:.*/)?({_YEAR})([-/])([0-9]{{2}})\2([0-9]{{2}})", re.DOTALL)


def split_dated_name(uri: str) -> tuple[str | None, str]:
    """Find the date in a path, as ``YYYY-MM-DD``, and the slug: the name without its suffix and a date in front of it.

    The file name has priority: first ``2025-03-04-my-post.md``, which always counts as a date, even if the day does
    not exist; then ``20250304 My post.md``, ``2025_03_04_my-post.md`` and ``My post 2025-03-04.md``. The folders
    follow, the innermost first: ``2025/03/04/my-post.md`` and ``2025-03-04/my-post.md``. A file called ``index`` gets
    the name of its folder.
    """
    path = PurePosixPath(uri)
    name = path.parent.name if path.stem == "index" and path.parent.name else path.stem
    match = _POST.fullmatch(name)
    if match:
        return match[1], match[2] or name
    dated = _calendar_day(_FIRST.fullmatch(name)) or _calendar_day(_LAST.fullmatch(name))
    folders = (_calendar_day(_FOLDER.fullmatch(str(folder))) for folder in path.parents)
    return dated or next(filter(None, folders), None), name


def _calendar_day(match: re.Match[str] | None) -> str | None:
    """Return the day if it exists in the calendar; other numbers may look like a date."""
    if match is not None:
        with suppress(ValueError):
            return date(int(match[1]), int(match[3]), int(match[4])).isoformat()
    return None


UpdateOrigin: TypeAlias = Literal["changed", "created", "copied"]
"""What a date was taken from: the last change, the creation, or a creation after the last change, as of a copy."""


class LastChange(NamedTuple):
    """By when all of a file was written, None if it does not say, and what that was taken from."""

    moment: datetime | None = None
    origin: UpdateOrigin = "changed"


NO_CHANGE: Final = LastChange()
"""That of a file that states no date."""


def find_last_change(created: datetime | None, changed: datetime | None) -> LastChange:
    """Choose the later of two dates of a file: by then, all that it holds was written."""
    if created is None:
        return LastChange(changed)
    if changed is None:
        return LastChange(created, "created")
    is_later = put_in_zone(created, "UTC") > put_in_zone(changed, "UTC")
    return LastChange(created, "copied") if is_later else LastChange(changed)
