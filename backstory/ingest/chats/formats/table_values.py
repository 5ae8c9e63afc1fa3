"""Parsing timestamps and texts in the cells of a foreign table."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta

from backstory.base.errors import InputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE]\+?\d{1,2})?")
_COMPACT = re.compile(r"(\d{8})(?:(\d{4}|\d{6})(Z|[+-]\d{2}:?\d{2})?)?")
"""A date, with or without a time, that is written as one number."""

_LONG_NUMBER_LENGTH = 21
_UNITS = ((1e8, 4.1e9, 1e6), (1e11, 4.1e12, 1e3), (1e14, 4.1e15, 1.0), (1e17, 4.1e18, 1e-3))
"""Ranges of seconds, milli-, micro- and nanoseconds from 1973 to 2100, and what one lasts."""

_FIRST_SHEET_DAY = datetime(1899, 12, 30)
_YEARS = (1970, 2200)
"""Those of messages; another calendar counts others."""
_SHEET_DAYS = (20_000, 80_000)
"""Days from 1954 to 2119, as spreadsheets count them."""


def read_timestamp(value: object) -> datetime:
    """Read the timestamp of a record.

    ``value``: a datetime or date; text in ISO 8601, with or without an offset; or a number, whose range tells what it
    is: ``20240513100000``, ``202405131000`` or ``20240513``; days of a spreadsheet; or seconds, milliseconds,
    microseconds or nanoseconds since 1970. It raises ``InputError`` if the value is not a timestamp.
    """
    moment = _read_moment(_from_text(value.strip()) if isinstance(value, str) else value)
    if not _YEARS[0] <= moment.year < _YEARS[1]:
        raise InputError(
            f"the year of the timestamp is not between {_YEARS[0]} and {_YEARS[1]}; write it in the Gregorian calendar",
            code="out_of_range",
        )
    return moment


def read_text(value: object, column: str) -> str | None:
    """Read an author or a message; numbers are converted to text.

    It raises ``ValueError`` if the value is a list or an object, or not valid Unicode.
    """
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"the column {column} holds half of a UTF-16 surrogate pair") from error
        return value
    if isinstance(value, int | float):
        return str(value)
    raise ValueError(f"the column {column} holds a {type(value).__name__}, not text")


def _read_moment(value: object) -> datetime:
    if isinstance(value, datetime):
        try:
            return value.astimezone(UTC) if value.tzinfo else value
        except OverflowError as error:
            raise InputError("the timestamp is out of range", code="out_of_range") from error
    if isinstance(value, date):
        return datetime.combine(value, time())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _from_number(value)
    raise InputError(
        "there is no timestamp" if value is None else "the timestamp is neither text nor a number",
        code="no_timestamp",
    )


def _from_text(text: str) -> datetime | float:
    if _NUMBER.fullmatch(text):
        return int(text) if text.isdigit() and len(text) < _LONG_NUMBER_LENGTH else float(text)
    if not text:
        raise InputError("there is no timestamp", code="no_timestamp")
    try:
        if digits := _COMPACT.fullmatch(text):
            text = f"{digits[1]}T{digits[2]}{digits[3]}"
        elif text[:9].isdigit():  # Python takes the ninth digit for what parts date and time
            raise ValueError
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            "the timestamp is neither ISO 8601 nor a number of seconds since 1970", code="no_timestamp"
        ) from error


def _from_number(number: float) -> datetime:
    digits = str(number) if isinstance(number, int) and number < 10**14 else ""
    if digits[:2] in ("19", "20") and (parts := _COMPACT.fullmatch(digits)):
        with suppress(ValueError):
            return datetime.fromisoformat("T".join(filter(None, parts.groups())))
    if _SHEET_DAYS[0] <= number < _SHEET_DAYS[1]:
        return _FIRST_SHEET_DAY + timedelta(seconds=round(number * 86_400))
    for least, most, unit in _UNITS:
        if least <= number < most:
            return _EPOCH + timedelta(microseconds=round(number * unit))
    raise InputError(
        "the timestamp is out of range: neither a time since 1970, nor days of a spreadsheet, nor a date in its digits",
        code="out_of_range",
    )
