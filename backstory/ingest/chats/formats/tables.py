"""Chats as tables with a timestamp, an author and a message: Parquet, CSV, and JSON with one object per line."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

import polars as pl

from backstory.base.errors import ReadError
from backstory.ingest.chats.export import Export, complete_rows, unread_frame
from backstory.ingest.chats.export_files import ChatFormat, Opened
from backstory.ingest.chats.formats.table_values import read_text, read_timestamp
from backstory.ingest.chats.formats.whatsapp_phrases import classify_messages
from backstory.ingest.chats.times import put_in_utc, without_zone
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
    said: list[tuple[datetime, str | None, str | None, bool]] = []
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
            said.append((without_zone(moment), name, text, moment.tzinfo is None))
    texts = {"author": pl.String(), "text": pl.String()}
    schema = {"timestamp": pl.Datetime("us"), **texts, "is_local": pl.Boolean()}
    written = pl.DataFrame(said, schema, orient="row").with_columns(
        seq=pl.int_range(pl.len(), dtype=pl.Int64)
    )
    rows = put_in_utc(written, settings.timezone)
    return Export(
        rows=complete_rows(classify_messages(rows)),
        unread=unread_frame(table.unread),
        encoding=table.encoding,
        timezone=settings.timezone if written["is_local"].any() else None,
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
