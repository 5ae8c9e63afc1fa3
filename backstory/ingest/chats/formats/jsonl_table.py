"""Chats as JSON lines: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from backstory.ingest.chats.formats.tabular import Record, parse_records, require_columns
from backstory.ingest.chats.reader import ParsedExport, TableFormat
from backstory.ingest.text_lines import decode_head, decode_lines
from backstory.settings.inputs import ConversationSettings


def _is_lines(content: bytes, _: str, settings: ConversationSettings) -> bool:
    """Return whether each of the first lines is a JSON object.

    A file that is one list, or one object with lists or objects in it, is the export of another app.
    """
    lines = [line for line in decode_head(content)[:20] if line.strip()]
    if not lines or lines[0].lstrip().startswith("["):
        return False
    objects = [value for value in map(_read_object, lines) if value is not None]
    if len(lines) == 1 and objects and _is_nested(objects[0]):
        return {settings.timestamp_column, settings.message_column} <= objects[0].keys()
    return bool(objects)


def _read(content: bytes, settings: ConversationSettings, source: str, _: int = 0) -> ParsedExport:
    text = decode_lines(content)
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
    keys = dict.fromkeys(key for _, value in objects for key in value)
    require_columns(keys, settings, source)
    return parse_records(_pick(objects, settings), unread, settings, encoding=text.encoding)


def _pick(objects: list[tuple[int, dict[str, object]]], settings: ConversationSettings) -> Iterator[Record]:
    for number, value in objects:
        yield (
            number,
            value.get(settings.timestamp_column),
            value.get(settings.author_column),
            value.get(settings.message_column),
        )


def _read_object(line: str) -> dict[str, object] | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_nested(value: dict[str, object]) -> bool:
    return any(isinstance(part, list | dict) for part in value.values())


JSON_LINES: Final = TableFormat("jsonl", _is_lines, _read)
