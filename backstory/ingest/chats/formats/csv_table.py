"""Chats as CSV tables with any delimiter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from backstory.base.errors import ReadError
from backstory.ingest.chats.formats.tabular import Record, parse_records, require_columns
from backstory.ingest.chats.reader import ParsedExport, TableFormat
from backstory.ingest.tables import find_delimiter, split_records
from backstory.ingest.text_lines import decode_head, decode_lines
from backstory.settings.inputs import ConversationSettings

_SUFFIXES = (".csv", ".tsv")


def _is_table(content: bytes, name: str, settings: ConversationSettings) -> bool:
    """Return whether the first line names the configured columns, or any columns if the suffix is a table's."""
    head = decode_head(content)
    names = _split_names(head)
    if name.lower().endswith(_SUFFIXES):
        return bool(names)
    return {settings.timestamp_column, settings.message_column} <= set(names)


def _read(content: bytes, settings: ConversationSettings, source: str, _: int = 0) -> ParsedExport:
    text = decode_lines(content)
    lines = text.lines.to_list()
    if not lines:
        raise ReadError(f"{source}: the table is empty; its first line must name the columns")
    names = _split_names(lines)
    require_columns(names, settings, source)
    unread = dict(text.undecodable)
    positions = [
        names.index(column)
        for column in (settings.timestamp_column, settings.author_column, settings.message_column)
    ]
    records = _read_records(lines, len(names), positions, unread)
    return parse_records(records, unread, settings, encoding=text.encoding)


def _read_records(
    lines: Sequence[str], width: int, positions: Sequence[int], unread: dict[int, str]
) -> Iterator[Record]:
    delimiter, first = find_delimiter(lines)
    timestamp, author, message = positions
    undecodable = frozenset(unread)
    for record in split_records(lines, delimiter, begin=first + 1, width=width):
        numbers = range(record.begin + 1, record.end + 1)
        if record.damage is not None:
            unread.setdefault(record.begin + 1, f"not a record: {record.damage}")
        elif not undecodable.isdisjoint(numbers):
            for number in numbers:
                unread.setdefault(number, "belongs to a record with a line that cannot be decoded")
        elif record.fields:
            yield record.begin + 1, record.fields[timestamp], record.fields[author], record.fields[message]


def _split_names(lines: Sequence[str]) -> list[str]:
    """Return the names of the columns; none if the first line is none of a table."""
    if not lines:
        return []
    delimiter, first = find_delimiter(lines)
    record = next(split_records(lines[first : first + 1], delimiter), None)
    names = [] if record is None else [name.strip() for name in record.fields]
    return names if len(names) > 1 else []


CSV: Final = TableFormat("csv", _is_table, _read)
