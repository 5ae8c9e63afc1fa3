"""Parsing timestamps and texts in the cells of a foreign table."""

from __future__ import annotations

import re
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time, timedelta

from backstory.base.errors import InputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE]\+?\d{1,2})?")
_COMPACT_DATE_LENGTH = 8
_LONG_NUMBER_LENGTH = 21
_EPOCH_LIMIT = 1e20
_MICROSECONDS_PER_UNIT = ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0), (_EPOCH_LIMIT, 1e-3))
"""An epoch below the first number is in the unit of the second: seconds, milli-, micro- or nanoseconds."""


def read_timestamp(value: object) -> datetime:
    """Read the timestamp of a record.

    Args:
        value: A datetime or date; text in ISO 8601, with or without an offset; or seconds, milliseconds,
            microseconds or nanoseconds since 1970, distinguished by magnitude.

    Returns:
        A datetime in UTC, or a naive one if the value has no time zone.

    Raises:
        InputError: The value is not a timestamp.
    """
    moment = _read_moment(_from_text(value.strip()) if isinstance(value, str) else value)
    if not MINYEAR < moment.year < MAXYEAR:  # a time zone conversion could leave this range
        raise InputError("the timestamp is out of range", code="out_of_range")
    return moment


def read_text(value: object, column: str) -> str | None:
    """Read an author or a message; numbers are converted to text.

    Raises:
        ValueError: The value is a list or an object, or not valid Unicode.
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
        return _from_epoch(value)
    raise InputError(
        "there is no timestamp" if value is None else "the timestamp is neither text nor a number",
        code="no_timestamp",
    )


def _from_text(text: str) -> datetime | float:
    if _NUMBER.fullmatch(text) and len(text) != _COMPACT_DATE_LENGTH:
        return int(text) if text.isdigit() and len(text) < _LONG_NUMBER_LENGTH else float(text)
    if not text:
        raise InputError("there is no timestamp", code="no_timestamp")
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            "the timestamp is neither ISO 8601 nor a number of seconds since 1970", code="no_timestamp"
        ) from error


def _from_epoch(number: float) -> datetime:
    if not abs(number) < _EPOCH_LIMIT:
        raise InputError("the timestamp is out of range", code="out_of_range")
    unit = next(unit for limit, unit in _MICROSECONDS_PER_UNIT if abs(number) < limit)
    try:
        return _EPOCH + timedelta(microseconds=round(number * unit))
    except OverflowError as error:
        raise InputError("the timestamp is out of range", code="out_of_range") from error
