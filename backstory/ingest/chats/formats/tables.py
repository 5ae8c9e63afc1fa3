"""Chats as tables with a timestamp, an author and a message: Parquet, CSV, and JSON with one object per line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import Any, Final, TypeAlias

import polars as pl

from backstory.base.errors import ReadError
from backstory.base.local_times import put_in_zone
from backstory.ingest.chats.export import ROW_SCHEMA, Export, complete_rows, unread_frame
from backstory.ingest.chats.formats.table_values import read_text, read_timestamp
from backstory.ingest.chats.formats.whatsapp_phrases import classify_messages
from backstory.ingest.chats.opened import ChatFormat, Opened
from backstory.ingest.tables import (
    DAMAGED_PARQUET,
    PARQUET_MAGIC,
    find_delimiter,
    make_parquet_error,
    open_parquet,
    split_records,
)
from backstory.ingest.text_lines import decode_lines
from backstory.settings.inputs import ConversationSettings

_SUFFIXES: Final = (".csv", ".tsv")
_YEARS: Final = (1, 9998)
"""Years of the times that Python can represent in any zone."""
_NO_YEAR_OF_MESSAGES: Final = date(1900, 1, 1)
"""Stands for a time that Python cannot represent."""
_Record: TypeAlias = tuple[int, object, object, object]
"""Line or record number from 1, timestamp, author, message."""


def _find_csv(opened: Opened) -> list[str]:
    """Find a table whose first line names the configured columns, or any columns if the suffix is a table's."""
    if not opened.is_single:
        return []
    names, settings = _split_names(opened.head_lines()), opened.settings
    if opened.names[0].lower().endswith(_SUFFIXES):
        return list(opened.names) if names else []
    return list(opened.names) if {settings.timestamp_column, settings.message_column} <= set(names) else []


def _read_csv(opened: Opened, found: list[str]) -> Export:
    text = decode_lines(opened.read(found[0]))
    lines = text.lines.to_list()
    if not lines:
        raise ReadError("the table is empty; its first line must name the columns")
    names = _split_names(lines)
    places = [names.index(column) for column in _require_columns(names, opened.settings)]
    unread = dict(text.undecodable)
    records = _split_csv(lines, len(names), places, unread)
    return _parse_records(records, unread, opened.settings, encoding=text.encoding)


def _split_csv(
    lines: Sequence[str], width: int, places: Sequence[int], unread: dict[int, str]
) -> Iterator[_Record]:
    delimiter, first = find_delimiter(lines)
    undecodable = frozenset(unread)
    for record in split_records(lines, delimiter, begin=first + 1, width=width):
        numbers = range(record.begin + 1, record.end + 1)
        if record.damage is not None:
            unread.setdefault(record.begin + 1, f"not a record: {record.damage}")
        elif not undecodable.isdisjoint(numbers):
            for number in numbers:
                unread.setdefault(number, "belongs to a record with a line that cannot be decoded")
        elif record.fields:
            timestamp, author, message = (record.fields[place] for place in places)
            yield record.begin + 1, timestamp, author, message


def _split_names(lines: Sequence[str]) -> list[str]:
    """Return the names of the columns; none if the first line is none of a table."""
    if not lines:
        return []
    delimiter, first = find_delimiter(lines)
    record = next(split_records(lines[first : first + 1], delimiter), None)
    names = [] if record is None else [name.strip() for name in record.fields]
    return names if len(names) > 1 else []


def _find_json_lines(opened: Opened) -> list[str]:
    """Find a file whose first lines are JSON objects.

    A file that is one list, or one object with lists or objects in it, is the export of another app.
    """
    lines = [line for line in opened.head_lines()[:20] if line.strip()] if opened.is_single else []
    if not lines or lines[0].lstrip().startswith("["):
        return []
    objects = [value for value in map(_read_object, lines) if isinstance(value, dict)]
    if len(lines) == 1 and objects and any(isinstance(part, list | dict) for part in objects[0].values()):
        wanted = {opened.settings.timestamp_column, opened.settings.message_column}
        return list(opened.names) if wanted <= objects[0].keys() else []
    return list(opened.names) if objects else []


def _read_object(line: str) -> Any:
    try:
        return json.loads(line) if line.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None


def _read_json_lines(opened: Opened, found: list[str]) -> Export:
    text = decode_lines(opened.read(found[0]))
    unread = dict(text.undecodable)
    objects: list[tuple[int, dict[str, object]]] = []
    for number, line in enumerate(text.lines, start=1):
        if number in unread or not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            position = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
            unread[number] = f"not JSON{position}"
            continue
        if isinstance(value, dict):
            objects.append((number, value))
        else:
            unread[number] = "not a JSON object"
    columns = _require_columns(dict.fromkeys(key for _, value in objects for key in value), opened.settings)
    records = ((number, *map(value.get, columns)) for number, value in objects)
    return _parse_records(records, unread, opened.settings, encoding=text.encoding)  # type: ignore[arg-type]


def _find_parquet(opened: Opened) -> list[str]:
    is_parquet = opened.is_single and opened.head().startswith(PARQUET_MAGIC)
    return list(opened.names) if is_parquet else []


def _read_parquet(opened: Opened, found: list[str]) -> Export:
    table, schema, _ = open_parquet(opened.read(found[0]))
    columns = _require_columns(schema.names(), opened.settings)
    times, author, message = map(pl.col, columns)
    if isinstance(times_type := schema[columns[0]], pl.Date | pl.Datetime):
        is_known, stand_in = times.dt.year().is_between(*_YEARS), pl.lit(_NO_YEAR_OF_MESSAGES)
        times = pl.when(is_known).then(times).when(times.is_not_null()).then(stand_in.cast(times_type))
    try:
        rows = table.select(times.alias("time"), author.alias("author"), message.alias("text")).collect()
    except DAMAGED_PARQUET as error:
        raise make_parquet_error() from error
    records = ((number, *row) for number, row in enumerate(rows.iter_rows(), start=1))
    return _parse_records(records, {}, opened.settings)


def _parse_records(
    records: Iterable[_Record],
    unread: dict[int, str],
    settings: ConversationSettings,
    *,
    encoding: str | None = None,
) -> Export:
    """Convert a table's records to messages."""
    said: list[tuple[datetime, str | None, str | None]] = []
    is_local = False
    for line, timestamp, author, message in records:
        try:
            moment = read_timestamp(timestamp)
            name = (read_text(author, settings.author_column) or "").strip()
            text = read_text(message, settings.message_column)
            if text is None and not name:
                raise ValueError("there is neither an author nor a message")
        except ValueError as error:
            unread[line] = str(error)
            continue
        is_local |= moment.tzinfo is None
        said.append((put_in_zone(moment, settings.timezone), name or None, text))
    schema = {name: ROW_SCHEMA[name] for name in ("timestamp", "author", "text")}
    rows = pl.DataFrame(said, schema, orient="row").with_columns(seq=pl.int_range(pl.len(), dtype=pl.Int64))
    return Export(
        rows=complete_rows(classify_messages(rows)),
        unread=unread_frame(unread),
        encoding=encoding,
        timezone=settings.timezone if is_local else None,
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


PARQUET: Final = ChatFormat("parquet", _find_parquet, _read_parquet)
JSON_LINES: Final = ChatFormat("jsonl", _find_json_lines, _read_json_lines)
CSV: Final = ChatFormat("csv", _find_csv, _read_csv)
