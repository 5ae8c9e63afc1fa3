"""JSON and JSON lines as documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from backstory.base.errors import ReadError
from backstory.ingest.chats.text_lines import decode_lines
from backstory.ingest.documents.formats.row_rendering import (
    MOST_DEPTH,
    Members,
    Number,
    TooDeepError,
    Value,
    show_header,
    show_name,
    show_row,
    show_value,
)
from backstory.ingest.documents.formats.text_decoding import decode_text
from backstory.ingest.documents.formats.unread_lines import UnreadLines
from backstory.ingest.documents.parsed_document import ParsedDocument
from backstory.text.encoding import find_encoding

_NO_COLUMN: Final = "value"
"""Name of the column of values that are no objects."""


class JsonReader:
    """Reads one JSON value: a list has a row for each element, an object a line for each value, with the path to it.

    An object in an object is one line if it holds no further object, and so is each element of a list of objects.
    """

    format = "json"
    suffixes = frozenset({".json"})
    find_encoding = staticmethod(find_encoding)

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument | None:  # noqa: ARG002
        """Read one file; see :class:`backstory.ingest.documents.reader.DocumentReader`."""
        text = decode_text(content, uri)
        if not text.strip():
            raise ReadError(f"{uri}: the file holds no text; write some, or remove it", code="empty_document")
        try:
            value = parse_json(text)
            lines = list_rows(value) if isinstance(value, list) else _list_members(value)
        except json.JSONDecodeError as error:
            raise ReadError(
                f"{uri}:{error.lineno}: this is not valid JSON: {error.msg}; correct it"
            ) from error
        except TooDeepError as error:
            raise ReadError(f"{uri}: {error}; make it flatter", code="nested_too_deeply") from error
        if len(lines) == 1:
            raise ReadError(
                f"{uri}: the JSON holds no value; write some, or remove the file", code="empty_document"
            )
        return ParsedDocument(text="\n".join(lines), chunker="rows")


class JsonLinesReader:
    """Reads one JSON value per line: a row each. Other lines are left out, and ``unread`` counts them."""

    format = "jsonl"
    suffixes = frozenset({".jsonl", ".ndjson"})
    find_encoding = staticmethod(find_encoding)

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument | None:  # noqa: ARG002
        """Read one file; see :class:`backstory.ingest.documents.reader.DocumentReader`."""
        text = decode_lines(content)
        unread = UnreadLines()
        values: list[Value] = []
        filled = 0
        for number, line in enumerate(text.lines, start=1):
            if not line.strip():
                continue
            filled += 1
            if number in text.undecodable:
                unread.add(number, "left out because they hold bytes that are not UTF-8")
                continue
            try:
                value = parse_json(line)
                show_row([(_NO_COLUMN, value)])
            except json.JSONDecodeError:
                unread.add(number, "left out because they are not JSON")
            except TooDeepError:
                unread.add(number, "left out because they are nested too deeply")
            else:
                values.append(value)
        if not filled:
            raise ReadError(f"{uri}: the file holds no text; write some, or remove it", code="empty_document")
        lines = list_rows(values)
        if len(lines) == 1:
            problem = unread.describe()
            if problem is None:
                raise ReadError(
                    f"{uri}: the lines hold no value; write some, or remove the file", code="empty_document"
                )
            raise ReadError(
                f"{uri}: no line was read ({problem}); correct them, or remove the file", code="no_line"
            )
        return ParsedDocument(text="\n".join(lines), chunker="rows", unread=unread.describe())


def parse_json(text: str) -> Value:
    """Parse JSON with all numbers as they are written and all members of objects.

    It raises ``JSONDecodeError`` if the text is not JSON. It raises ``TooDeepError`` if it is nested too deeply for
    the parser.
    """
    try:
        value: Value = json.loads(
            text, object_pairs_hook=Members, parse_int=Number, parse_float=Number, parse_constant=Number
        )
    except RecursionError as error:
        raise TooDeepError("it is nested too deeply") from error
    return value


def list_rows(values: Sequence[Value]) -> list[str]:
    """Render a header with the names of all members, and a row for each value; values of no content are left out.

    It raises ``TooDeepError`` if a value is nested too deeply.
    """
    rows = [value if isinstance(value, Members) else Members([(_NO_COLUMN, value)]) for value in values]
    names = dict.fromkeys(name for row in rows for name, _ in row.pairs)
    return [show_header(names), *filter(None, (show_row(row.pairs) for row in rows))]


def _list_members(value: Value) -> list[str]:
    if not isinstance(value, Members):
        return list_rows([value])
    return [show_header(name for name, _ in value.pairs), *_walk("", value, 0)]


def _walk(path: str, value: Value, depth: int) -> Iterator[str]:
    """Yield the lines of a value, each with its path."""
    if depth > MOST_DEPTH:
        raise TooDeepError(f"it is nested more than {MOST_DEPTH} levels deep")
    if isinstance(value, Members) and (not path or any(_holds_objects(part) for _, part in value.pairs)):
        for name, part in value.pairs:
            yield from _walk(f"{path}.{show_name(name)}" if path else show_name(name), part, depth + 1)
    elif isinstance(value, list) and _holds_objects(value):
        for number, part in enumerate(value, start=1):
            yield from _show_line(f"{path}[{number}]", part)
    else:
        yield from _show_line(path, value)


def _show_line(path: str, value: Value) -> Iterator[str]:
    shown = show_row(value.pairs) if isinstance(value, Members) else show_value(value)
    if shown and value != []:
        yield f"{path}: {shown}"


def _holds_objects(value: Value) -> bool:
    if isinstance(value, Members):
        return True
    return isinstance(value, list) and any(isinstance(part, Members) for part in value)
