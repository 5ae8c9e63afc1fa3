"""Tables and JSON -> lines of text, one row each: ``name: Ann; city: Riga``.

Every row names its columns, so that it can be found, read and cited by itself. A value with a line break, with ``; ``
or with a quotation mark at its beginning is written as a JSON string; so are names. An empty value is left out.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import polars as pl

from backstory.base.errors import ReadError
from backstory.base.wording import count
from backstory.ingest.documents.formats.texts import NO_TEXT, decode_text
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument
from backstory.ingest.file_kinds import name_binary_kind
from backstory.ingest.tables import parse_csv, parse_json_lines, read_parquet, read_table
from backstory.text.encoding import decode_head

_SPECIAL: Final = re.compile(r'^["\s]|\s$|[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]|; ')
_SPECIAL_NAME: Final = re.compile(rf"{_SPECIAL.pattern}|: |^$")
_NOT_IN_LINES: Final = re.compile(r"[\x7f\x85\u2028\u2029\ud800-\udfff]")
_NUMBER: Final = re.compile(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?%?")
_NOTHING: Final[tuple[Any, ...]] = (None, "", [])
"""Values that are left out."""


def _show(value: Any, special: re.Pattern[str] = _SPECIAL) -> str:
    """Write a value within a line: a list, an object in it, and a text that needs quotation marks as JSON."""
    if isinstance(value, str) and not special.search(value):
        return value
    quoted = json.dumps(value, ensure_ascii=False, default=str)
    return _NOT_IN_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _show_name(name: str) -> str:
    """Write a name so that it ends before ``: ``."""
    return _show(name, _SPECIAL_NAME)


def _show_row(cells: Iterable[tuple[str, Any]]) -> str:
    """Write a row as one line; it is empty if no cell has a value."""
    return "; ".join(f"{_show_name(name)}: {_show(value)}" for name, value in _flatten(cells))


def _flatten(cells: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield path and value of every value; the path of a value in an object has the names around it."""
    for name, value in cells:
        if isinstance(value, dict):
            yield from _flatten((f"{name}.{below}", part) for below, part in value.items())
        elif value not in _NOTHING:
            yield name, value


def _compose(
    names: Iterable[str], rows: Iterable[str], left_out: Iterable[str | None] = ()
) -> ParsedDocument:
    """Put the names of the columns before the rows with a value; ``left_out`` says what was not read."""
    shown, unread = [*filter(None, rows)], "; ".join(filter(None, left_out)) or None
    if not shown:
        problem = f"no row was read ({unread}); correct some" if unread else "it holds no value; write some"
        raise ReadError(f"{problem}, or remove the file", code="no_line" if unread else "empty_document")
    header = "; ".join(map(_show_name, names))
    return ParsedDocument("\n".join([header, *shown]), chunker="rows", unread=unread)


def _describe_unread(unread: dict[int, str]) -> str | None:
    """Tell how many rows were left out, and of the first of them why."""
    line, why = min(unread.items(), default=(0, ""))
    return f"{count(len(unread), 'line')} left out, the first is line {line:,}: {why}" if unread else None


def _read_csv(content: bytes, _: str) -> ParsedDocument:
    """Read a table whose first row names its columns, unless it is the only one, or of numbers; others are numbered."""
    if name_binary_kind(content) or (content.strip() and not decode_head(content)):
        raise ReadError(NO_TEXT, code="binary_file")
    table = read_table(content, parse_csv)
    rows = [cells for _, cells in table.rows]
    names = [" ".join(cell.split()) for cell in rows[0]] if rows else []
    if len(rows) == 1 or all(map(_NUMBER.fullmatch, filter(None, names))):
        names = [""] * len(names)
    else:
        del rows[0]
    width = len(names)
    names += [""] * (max(map(len, rows), default=0) - width)
    named = [name or f"column {number}" for number, name in enumerate(names, start=1)]
    left_out = [_describe_unread(table.unread)]
    if wider := sum(any(cells[width:]) for cells in rows):
        left_out.append(f"{count(wider, 'row')} with more cells than the first; quote delimiters in cells")
    return _compose(named[:width], (_show_row(zip(named, cells, strict=False)) for cells in rows), left_out)


def _read_json(content: bytes, _: str) -> ParsedDocument:
    """Read one JSON value: a list has a row for each element, an object a line for each value, with the path to it.

    An object in an object is one line if it holds no further object, and so is each element of a list of objects.
    """
    text = decode_text(content)
    try:
        value = json.loads(text) if text.strip() else None
    except ValueError as error:
        problem = str(error).partition(";")[0]
        raise ReadError(f"this is not valid JSON: {problem}; correct it") from error
    if not isinstance(value, dict):
        return _list_rows(value if isinstance(value, list) else [value], {})
    lines = (
        (path, _show_row(part.items()) if isinstance(part, dict) else _show(part))
        for path, part in _walk("", value)
        if part not in _NOTHING
    )
    return _compose(value, (f"{path}: {shown}" for path, shown in lines if shown))


def _read_json_lines(content: bytes, _: str) -> ParsedDocument:
    """Read one JSON value per line: a row each. Other lines are left out, and ``unread`` counts them."""
    table = read_table(content, parse_json_lines)
    return _list_rows([value for _, value in table.rows], table.unread)


def _list_rows(values: Iterable[Any], unread: dict[int, str]) -> ParsedDocument:
    """Write a header with the names of all members, and a row for each value."""
    rows = [value if isinstance(value, dict) else {"value": value} for value in values]
    names = dict.fromkeys(name for row in rows for name in row)
    return _compose(names, (_show_row(row.items()) for row in rows), [_describe_unread(unread)])


def _walk(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values that are lines, each with its path."""
    if isinstance(value, dict) and (not path or any(map(_holds_objects, value.values()))):
        for name, part in value.items():
            yield from _walk(f"{path}.{_show_name(name)}" if path else _show_name(name), part)
    elif isinstance(value, list) and _holds_objects(value):
        yield from ((f"{path}[{number}]", part) for number, part in enumerate(value, start=1))
    else:
        yield path, value


def _holds_objects(value: Any) -> bool:
    return any(isinstance(part, dict) for part in (value if isinstance(value, list) else [value]))


def _read_parquet(content: bytes, _: str) -> ParsedDocument:
    """Read a table with a row for each record; columns of bytes are left out, and ``unread`` names them."""
    if not content:
        return _compose([], [])
    table = read_parquet(content)
    rows = [_show_row(zip(table.names, row, strict=True)) for _, row in table.rows]
    left_out = sorted(pl.read_parquet_schema(io.BytesIO(content)).keys() - {*table.names})
    unread = f"these columns hold bytes and were left out: {'; '.join(map(_show_name, left_out))}"
    return _compose(table.names, rows, [unread] if left_out else [])


CSV: Final = DocumentFormat("csv", "CSV", frozenset({".csv", ".tsv", ".tab"}), _read_csv)
JSON: Final = DocumentFormat("json", "JSON", frozenset({".json"}), _read_json)
JSON_LINES: Final = DocumentFormat("jsonl", "JSON lines", frozenset({".jsonl", ".ndjson"}), _read_json_lines)
PARQUET: Final = DocumentFormat("parquet", "Parquet", frozenset({".parquet"}), _read_parquet, None)
