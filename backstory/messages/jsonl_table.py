"""Chats as JSON lines: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator

from backstory.messages.reader import ParsedExport
from backstory.messages.tabular import Record, parse_records, require_columns
from backstory.messages.text_lines import decode_head, decode_lines
from backstory.settings import ConversationSettings


class JsonLinesReader:
    """Reads one record per line; the keys that the first ones have are the table's columns."""

    name = "jsonl"

    def detects(self, content: bytes, name: str, settings: ConversationSettings) -> bool:  # noqa: ARG002
        """Say whether a line at the beginning of the file is a JSON object by itself."""
        return any(line.lstrip().startswith("{") and _is_object(line) for line in decode_head(content)[:20])

    def read(self, content: bytes, settings: ConversationSettings, source: str) -> ParsedExport:
        """Read the messages; see :class:`backstory.messages.reader.ExportReader`."""
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
        return parse_records(_pick(objects, settings), unread, settings)


def _pick(objects: list[tuple[int, dict[str, object]]], settings: ConversationSettings) -> Iterator[Record]:
    for number, value in objects:
        yield (
            number,
            value.get(settings.timestamp_column),
            value.get(settings.author_column),
            value.get(settings.message_column),
        )


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
