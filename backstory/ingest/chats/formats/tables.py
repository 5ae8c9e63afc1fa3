"""Chats as tables with a timestamp, an author and a message: Parquet, CSV, and JSON with one object per line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import polars as pl

from backstory.base.errors import InputError, ReadError
from backstory.base.local_times import put_in_zone
from backstory.ingest.chats.export import Export, complete_rows, read_text
from backstory.ingest.chats.export_files import ChatFormat, Opened
from backstory.ingest.chats.formats.whatsapp_phrases import classify_messages
from backstory.ingest.tables import (
    PARQUET_MAGIC,
    Table,
    read_csv,
    read_json_lines,
    read_parquet,
    split_csv,
)
from backstory.settings.inputs import ConversationSettings

_SUFFIXES: Final = (".csv", ".tsv")
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


def _find_csv(opened: Opened) -> list[str]:
    """Find a table whose first line names the configured columns, or any columns if the suffix is a table's."""
    if not opened.is_single:
        return []
    _, names = next(split_csv(opened.head_lines(), {}), (0, []))
    settings = opened.settings
    wanted = {settings.timestamp_column, settings.message_column}
    is_table = len(names) > 1 and opened.names[0].lower().endswith(_SUFFIXES)
    return list(opened.names) if is_table or wanted <= set(map(str.strip, names)) else []


def _read_csv(opened: Opened, found: list[str]) -> Export:
    table = read_csv(opened.read(found[0]))
    _, header = next(table.rows, (0, []))
    names = list(map(str.strip, header))
    places = [names.index(column) for column in _require_columns(names, opened.settings)]

    def pick(cells: Sequence[str]) -> list[str]:
        if len(cells) != len(names):
            raise ValueError(f"it has {len(cells)} fields instead of {len(names)}")
        return [cells[place] for place in places]

    return _parse_rows(table, pick, opened.settings)


def _find_json_lines(opened: Opened) -> list[str]:
    """Find a file whose first lines are JSON objects.

    A file that is one list, or one object with lists or objects in it, is the export of another app.
    """
    lines = [line for line in opened.head_lines()[:20] if line.strip()] if opened.is_single else []
    objects = []
    for line in lines if lines and not lines[0].lstrip().startswith("[") else ():
        with suppress(ValueError, RecursionError):
            objects.append(json.loads(line))
    objects = [value for value in objects if isinstance(value, dict)]
    if len(lines) == 1 and objects and any(isinstance(part, list | dict) for part in objects[0].values()):
        wanted = {opened.settings.timestamp_column, opened.settings.message_column}
        return list(opened.names) if wanted <= objects[0].keys() else []
    return list(opened.names) if objects else []


def _read_json_lines(opened: Opened, found: list[str]) -> Export:
    table = read_json_lines(opened.read(found[0]))
    rows = [*table.rows]
    names = {name for _, value in rows if isinstance(value, dict) for name in value}
    columns = _require_columns(names, opened.settings)

    def pick(value: Any) -> list[Any]:
        if not isinstance(value, dict):
            raise ValueError("it is not a JSON object")  # noqa: TRY004 - the value is data of the file
        return [value.get(column) for column in columns]

    return _parse_rows(replace(table, rows=iter(rows)), pick, opened.settings)


def _find_parquet(opened: Opened) -> list[str]:
    is_parquet = opened.is_single and opened.head().startswith(PARQUET_MAGIC)
    return list(opened.names) if is_parquet else []


def _read_parquet(opened: Opened, found: list[str]) -> Export:
    table = read_parquet(opened.read(found[0]), partial(_require_columns, settings=opened.settings))
    return _parse_rows(table, list, opened.settings)


def _parse_rows(table: Table, pick: Callable[[Any], Sequence[Any]], settings: ConversationSettings) -> Export:
    """Convert the rows of a table, of which ``pick`` gives timestamp, author and message, to messages."""
    said: list[tuple[datetime, str | None, str | None]] = []
    zone = None
    for number, row in table.rows:
        try:
            timestamp, author, message = pick(row)
            moment = read_timestamp(timestamp)
            name = (read_text(author, settings.author_column) or "").strip() or None
            text = read_text(message, settings.message_column)
            if text is None and name is None:
                raise ValueError("there is neither an author nor a message")
        except ValueError as error:
            table.unread[number] = str(error)
        else:
            said.append((put_in_zone(moment, settings.timezone), name, text))
            zone = zone if moment.tzinfo else settings.timezone
    schema = {"timestamp": pl.Datetime("us", "UTC"), "author": pl.String(), "text": pl.String()}
    rows = pl.DataFrame(said, schema, orient="row").with_columns(seq=pl.int_range(pl.len(), dtype=pl.Int64))
    return Export(
        rows=complete_rows(classify_messages(rows)),
        unread=table.unread,
        encoding=table.encoding,
        timezone=zone,
    )


def _require_columns(found: Collection[str], settings: ConversationSettings) -> list[str]:
    """Return the columns of timestamp, author and message, by the settings.

    It raises ``ReadError`` if one is missing. The message names none of those that the file has: without a header
    line, these are an author and a message.
    """
    names = ("timestamp_column", "author_column", "message_column")
    wanted = {name: str(getattr(settings, name)) for name in names}
    absent = [f"`conversations.{name}` ({column})" for name, column in wanted.items() if column not in found]
    if absent:
        raise ReadError(
            f"the table has no column for {', '.join(absent)}; set these to the names of its columns, or move the "
            "file out of the folder if it is no chat",
            frozenset(),
            code="absent_column",
        )
    return list(wanted.values())


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


PARQUET: Final = ChatFormat("parquet", _find_parquet, _read_parquet)
JSON_LINES: Final = ChatFormat("jsonl", _find_json_lines, _read_json_lines)
CSV: Final = ChatFormat("csv", _find_csv, _read_csv)
