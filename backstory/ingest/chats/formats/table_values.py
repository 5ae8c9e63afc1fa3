"""Parsing timestamps and texts in the records of foreign files."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from backstory.base.errors import InputError

_NUMBER: Final = re.compile(r"\+?\d{1,20}(?:\.\d+)?(?:[eE]\+?\d\d?)?")
_DATES: Final = ((1.9e13, 2.1e13, "%Y%m%d%H%M%S"), (1.9e11, 2.1e11, "%Y%m%d%H%M"), (1.9e7, 2.1e7, "%Y%m%d"))
"""Ranges of numbers whose digits are a date of the years from 1900 to 2099."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = ((1e8, 4.1e9, 1e6), (1e11, 4.1e12, 1e3), (1e14, 4.1e15, 1.0), (1e17, 4.1e18, 1e-3))
"""Ranges of seconds, milli-, micro- and nanoseconds from 1973 to 2100, and what one lasts."""

_FIRST_SHEET_DAY: Final = datetime(1899, 12, 30)
_SHEET_DAYS: Final = (20_000, 80_000)
"""Days from 1954 to 2119, as spreadsheets count them."""

_YEARS: Final = (1970, 2200)
"""Those of messages; another calendar counts others."""


def read_timestamp(value: object) -> datetime:
    """Read the timestamp of a record.

    ``value``: a datetime; text in ISO 8601, with or without an offset; or a number, whose range tells what it is:
    ``20240513100000``, ``202405131000`` or ``20240513``; days of a spreadsheet; or seconds, milliseconds, microseconds
    or nanoseconds since 1970. It raises ``InputError`` if the value is not a timestamp.
    """
    if value is None or value == "":
        raise InputError("there is no timestamp", code="no_timestamp")
    try:
        moment = _read_moment(value)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment
        if not _YEARS[0] <= moment.year < _YEARS[1]:
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"the timestamp is no time between {_YEARS[0]} and {_YEARS[1]}: neither ISO 8601, nor a number of seconds "
            "since 1970, of days of a spreadsheet, or with the digits of a date",
            code="no_timestamp",
        ) from error
    return moment


def _read_moment(value: object) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            return _read_moment(float(text))
        if text[:9].isdigit():  # Python takes the ninth digit for what parts date and time
            raise ValueError
        return datetime.fromisoformat(text)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - the value is data of the file
    for least, most, form in _DATES:
        if least <= value < most:
            return datetime.strptime(str(int(value)), form)
    for least, most, unit in _UNITS:
        if least <= value < most:
            return _EPOCH + timedelta(microseconds=round(value * unit))
    if _SHEET_DAYS[0] <= value < _SHEET_DAYS[1]:
        return _FIRST_SHEET_DAY + timedelta(seconds=round(value * 86_400))
    raise ValueError


def read_text(value: object, column: str) -> str | None:
    """Read an author or a message; numbers are converted to text.

    It raises ``ValueError`` if the value is a list or an object, or not valid Unicode.
    """
    if isinstance(value, list | dict):
        raise ValueError(  # noqa: TRY004 - the value is data of the file
            f"the column {column} holds a {type(value).__name__}, not text"
        )
    text = None if value is None else str(value)
    if text and not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"the column {column} holds half of a UTF-16 surrogate pair") from error
    return text
