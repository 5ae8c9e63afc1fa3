"""Dates of documents: as they write them, in the names of files and folders, and of their last change."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, timezone
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from backstory.base.local_times import put_in_zone

_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
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
    named = (month for month, name in enumerate(_MONTHS, 1) if name.startswith(parts["month"].lower()))
    hour = number.get("hour", 0)
    if half := parts.get("half"):
        hour = hour % 12 + 12 * (half in "Pp") if 1 <= hour <= 12 else -1
    moment = datetime(
        number["year"],
        number.get("month") or next(named, 0),
        number["day"],
        hour,
        number.get("minute", 0),
        number.get("second", 0),
        int(parts.get("fraction", "")[:6].ljust(6, "0")),
    )
    if not MINYEAR < moment.year < MAXYEAR:
        raise ValueError(f"{text!r} is outside the calendar in some zones")
    if not parts.get("zone"):
        return moment
    offset = timedelta(hours=number.get("offset_hours", 0), minutes=number.get("offset_minutes", 0))
    return moment.replace(tzinfo=timezone(-offset if parts.get("sign") == "-" else offset)).astimezone(UTC)


# The time in `202503041030 Title` is in the writer's unknown time zone.
_FIRST: Final = re.compile(
    r"((?:19|20)[0-9]{2}|[0-9]{4}(?=-))([-._]?)([0-9]{2})\2([0-9]{2})(?:[0-9]{4}|[0-9]{6})?(?:[-_. ]+(.*))?",
    re.DOTALL,
)
_LAST: Final = re.compile(r".*[-_ (]((?:19|20)[0-9]{2})(-)([0-9]{2})-([0-9]{2})\)?", re.DOTALL)
_FOLDER: Final = re.compile(r"(?:.*/)?((?:19|20)[0-9]{2})([-/])([0-9]{2})\2([0-9]{2})", re.DOTALL)


def split_dated_name(uri: str) -> tuple[datetime | None, str]:
    """Find the date in a path, and the slug: the name without its suffix and a date with hyphens in front of it.

    The file name has priority: ``2025-03-04-my-post.md``, ``20250304 My post.md`` and ``My post 2025-03-04.md``. The
    folders follow, the innermost first: ``2025/03/04/my-post.md`` and ``2025-03-04/my-post.md``. A file called
    ``index`` gets the name of its folder. Numbers that are no day of the calendar are no date.
    """
    path = PurePosixPath(uri)
    name = path.parent.name if path.stem == "index" and path.parent.name else path.stem
    first = _FIRST.fullmatch(name)
    if first is not None and (day := _find_day(first)) is not None:
        return day, (first[5] if first[2] == "-" else None) or name
    places = [_LAST.fullmatch(name), *(_FOLDER.fullmatch(str(folder)) for folder in path.parents)]
    return next(filter(None, map(_find_day, places)), None), name


def _find_day(found: re.Match[str] | None) -> datetime | None:
    if found is not None:
        with suppress(ValueError):
            return parse_date("-".join(found.group(1, 3, 4)))
    return None


class LastChange(NamedTuple):
    """By when all of a file was written, None if it does not say, and what that was taken from.

    That is the last change, the creation, or a creation after the last change, as of a copy.
    """

    moment: datetime | None = None
    origin: Literal["changed", "created", "copied"] = "changed"


NO_CHANGE: Final = LastChange()


def find_last_change(created: datetime | None, changed: datetime | None) -> LastChange:
    """Choose the later of two dates of a file: by then, all that it holds was written."""
    if created is None or changed is None:
        return LastChange(changed or created, "changed" if created is None else "created")
    is_later = put_in_zone(created, "UTC") > put_in_zone(changed, "UTC")
    return LastChange(created, "copied") if is_later else LastChange(changed)
