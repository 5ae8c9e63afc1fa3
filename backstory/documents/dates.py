"""Dates of documents, as texts in ISO form and as beginnings of file names."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import PurePosixPath

_DATE = re.compile(
    r"""
    (?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})
    (?:
        (?:[Tt]|[ \t]+)(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})
        (?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?
        (?:[ \t]*(?:[Zz]|UTC|GMT|(?P<sign>[+-])(?P<offset_hours>[0-9]{1,2}):?(?P<offset_minutes>[0-9]{2})?))?
    )?
    """,
    re.VERBOSE,
)
_DATED_NAME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[-_ ]+(.*))?", re.DOTALL)


def parse_date(text: str) -> datetime:
    """Read a date, or a date and time, in the forms of YAML, TOML and ISO 8601.

    Args:
        text: ``2025-03-04``, ``2025-03-04T10:00:00Z``, ``2025-03-04 10:00 +0200`` and the like.

    Returns:
        The moment in UTC; without a zone the text is taken as UTC, without a time as midnight.

    Raises:
        ValueError: The text is no such date, or the calendar does not have it.
    """
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a date in ISO form")
    number = {name: int(value) for name, value in match.groupdict(default="0").items() if value.isdigit()}
    microsecond = int((match["fraction"] or "0")[:6].ljust(6, "0"))
    offset = timedelta(hours=number["offset_hours"], minutes=number["offset_minutes"])
    moment = datetime(
        number["year"],
        number["month"],
        number["day"],
        number["hour"],
        number["minute"],
        number["second"],
        microsecond,
        timezone(-offset if match["sign"] == "-" else offset),
    )
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is outside the calendar in UTC") from error


def split_dated_name(uri: str) -> tuple[str | None, str]:
    """Take the date off a file name such as ``2025-03-04-my-post.md``.

    Args:
        uri: Path of a file.

    Returns:
        What looks like a date, or None, and the slug: the rest of the name without its ending. A file called
        ``index`` is named by its folder.
    """
    path = PurePosixPath(uri)
    name = path.parent.name if path.stem == "index" and path.parent.name else path.stem
    match = _DATED_NAME.fullmatch(name)
    return (match[1], match[2] or name) if match else (None, name)
