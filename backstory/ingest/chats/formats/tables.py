"""Chats as tables with a timestamp, an author and a message: Parquet, CSV, and JSON with one object per line."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import polars as pl

from backstory.base.errors import InputError, ReadError
from backstory.ingest.chats.export import Export, complete_rows, read_text
from backstory.ingest.chats.export_files import ChatFormat, Opened
from backstory.ingest.chats.formats.whatsapp_phrases import classify_messages
from backstory.ingest.chats.times import count_microseconds
from backstory.ingest.tables import Table, parse_csv, parse_json_lines, read_parquet, read_table
from backstory.settings.inputs import ConversationSettings

_DATES: Final = ((1.9e13, 2.1e13, "%Y%m%d%H%M%S"), (1.9e11, 2.1e11, "%Y%m%d%H%M"), (1.9e7, 2.1e7, "%Y%m%d"))
"""Ranges of numbers whose digits are a date of the years from 1900 to 2099."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = (
    (2e4, 8e4, datetime(1899, 12, 30), 86_400.0, 0),
    (1e8, 4.1e9, _EPOCH, 1.0, 6),
    (1e11, 4.1e12, _EPOCH, 1e-3, 6),
    (1e14, 4.1e15, _EPOCH, 1e-6, 6),
    (1e17, 4.1e18, _EPOCH, 1e-9, 6),
)
"""Ranges of days from 1954 to 2119, as spreadsheets count them, and of seconds to nanoseconds from 1973 to 2100; when
they begin, how many seconds one is, and how many digits of a second are exact."""

_YEARS: Final = range(1970, 2200)
"""Those of messages; another calendar counts others."""


def _find_csv(opened: Opened) -> list[str]:
    """Find a table whose first line names the configured columns, or any columns if the suffix is a table's."""
    _, names = next(parse_csv(opened.head_lines(), {}), (0, [])) if opened.is_single else (0, [])
    is_table = len(names) > 1 and opened.names[0].lower().endswith((".csv", ".tsv"))
    is_chat = set(map(str.strip, names)).issuperset(_list_columns(opened.settings).values())
    return list(opened.names) if is_table or is_chat else []


def _read_csv(opened: Opened, found: list[str]) -> Export:
    table = read_table(opened.read(found[0]), parse_csv)
    _, header = next(table.rows, (0, []))
    return _parse_rows(replace(table, names=[name.strip() for name in header]), opened.settings)


def _find_json_lines(opened: Opened) -> list[str]:
    """Find a file most of whose first lines are JSON objects; a single one may be the export of another app."""
    unread: dict[int, str] = {}
    values = parse_json_lines(opened.head_lines()[:20] if opened.is_single else [], unread)
    objects = [value for _, value in values if isinstance(value, dict)]
    columns = {*_list_columns(opened.settings).values()}
    is_chat = any(columns <= value.keys() for value in objects)
    return list(opened.names) if is_chat or len(objects) > max(1, len(unread)) else []


def _read_json_lines(opened: Opened, found: list[str]) -> Export:
    table = read_table(opened.read(found[0]), parse_json_lines)
    values = [(number, value if isinstance(value, dict) else {}) for number, value in table.rows]
    written = {name for _, value in values for name in value}
    names = [name for name in _list_columns(opened.settings).values() if name in written]
    rows = ((number, [value.get(name) for name in names if value]) for number, value in values)
    return _parse_rows(replace(table, rows=rows, names=names), opened.settings)


def _find_parquet(opened: Opened) -> list[str]:
    is_parquet = opened.is_single and opened.head().startswith(b"PAR1")
    return list(opened.names) if is_parquet else []


def _read_parquet(opened: Opened, found: list[str]) -> Export:
    columns = _list_columns(opened.settings).values()
    return _parse_rows(read_parquet(opened.read(found[0]), columns), opened.settings)


def _list_columns(settings: ConversationSettings) -> dict[str, str]:
    """List the columns of timestamp, author and message by the settings that name them."""
    names = ("timestamp_column", "author_column", "message_column")
    return {name: str(getattr(settings, name)) for name in names}


def _parse_rows(table: Table, settings: ConversationSettings) -> Export:
    """Convert the rows of a table to messages.

    It raises ``ReadError`` if a column is missing. The message names none of those that the file has: without a header
    line, these are an author and a message.
    """
    columns = _list_columns(settings)
    absent = [f"`conversations.{name}` ({one})" for name, one in columns.items() if one not in table.names]
    if absent:
        raise ReadError(
            f"the table has no column for {', '.join(absent)}; set these to the names of its columns, or move the "
            "file out of the folder if it is no chat",
            frozenset(),
        )
    places = [table.names.index(column) for column in columns.values()]
    said: list[tuple[int, str | None, str | None]] = []
    zone = None
    for number, row in table.rows:
        try:
            if len(row) != len(table.names):
                raise ValueError(f"it has {len(row)} fields instead of {len(table.names)}")
            timestamp, author, message = (row[place] for place in places)
            moment = read_timestamp(timestamp)
            name = (read_text(author, settings.author_column) or "").strip() or None
            text = read_text(message, settings.message_column)
            if text is None and name is None:
                raise ValueError("there is neither an author nor a message")
        except ValueError as error:
            table.unread[number] = str(error)
        else:
            said.append((count_microseconds(moment, settings.timezone), name, text))
            zone = zone if moment.tzinfo else settings.timezone
    schema = {"timestamp": pl.Datetime("us", "UTC"), "author": pl.String(), "text": pl.String()}
    rows = pl.DataFrame(said, schema, orient="row").with_columns(seq=pl.int_range(pl.len(), dtype=pl.Int64))
    return Export(
        rows=complete_rows(classify_messages(rows)),
        unread=table.unread,
        encoding=table.encoding,
        timezone=zone,
    )


def read_timestamp(value: object) -> datetime:
    """Read the timestamp of a record.

    ``value``: a datetime; text in ISO 8601, with or without an offset; or a number, whose range tells what it is:
    ``20240513100000``, ``202405131000`` or ``20240513``; days of a spreadsheet; or seconds, milliseconds, microseconds
    or nanoseconds since 1970. It raises ``InputError`` if the value is not a timestamp.
    """
    try:
        moment = _read_moment(value)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment
        if moment.year not in _YEARS:
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"the timestamp is no time between {_YEARS.start} and {_YEARS.stop}: neither ISO 8601, nor a number of "
            "seconds since 1970, of days of a spreadsheet, or with the digits of a date"
        ) from error
    return moment


def _read_moment(value: object) -> datetime:
    if isinstance(value, datetime):
        return value
    text = str(value).strip()
    if not text[:9].isdigit():  # Python takes the ninth digit for what parts date and time
        with suppress(ValueError):
            return datetime.fromisoformat(text)
    number = float(text)
    for least, most, form in _DATES:
        if least <= number < most:
            return datetime.strptime(str(int(number)), form)
    for least, most, begin, seconds, digits in _UNITS:
        if least <= number < most:
            return begin + timedelta(seconds=round(number * seconds, digits))
    raise ValueError


PARQUET: Final = ChatFormat("parquet", _find_parquet, _read_parquet)
JSON_LINES: Final = ChatFormat("jsonl", _find_json_lines, _read_json_lines)
CSV: Final = ChatFormat("csv", _find_csv, _read_csv)
