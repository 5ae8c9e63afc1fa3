"""Tables and JSON -> lines of text, one row each: ``name: Ann; city: Riga``.

Every row names its columns, so that it can be found, read and cited by itself. A value with a line break, with ``; ``
or with a quotation mark at its beginning is written as a JSON string; so are names. An empty value is left out.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, TypeAlias

import polars as pl

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.texts import decode_text
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument
from backstory.ingest.file_kinds import name_binary_kind
from backstory.ingest.tables import (
    DAMAGED_PARQUET,
    find_delimiter,
    make_parquet_error,
    open_parquet,
    split_records,
)
from backstory.ingest.text_lines import decode_head, decode_lines

MOST_DEPTH: Final = 64
"""Maximum number of lists and objects in each other."""
_SPECIAL: Final = re.compile(r'^["\s]|\s$|[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]|; ')
_SPECIAL_NAME: Final = re.compile(rf"{_SPECIAL.pattern}|: |^$")
_NOT_IN_LINES: Final = re.compile(r"[\x7f\x85\u2028\u2029\ud800-\udfff]")
_NUMBER: Final = re.compile(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?%?")
_NO_COLUMN: Final = "value"
"""Name of the column of values that are no objects."""


class Number(str):
    """A number as it was written."""

    __slots__ = ()


Value: TypeAlias = "str | Number | bool | dict[str, Value] | list[Value] | None"
"""A value of a cell, or of JSON."""


def show_row(cells: Iterable[tuple[str, Value]]) -> str:
    """Render a row as one line; it is empty if no cell has a value."""
    return "; ".join(f"{show_name(name)}: {text}" for name, text in _flatten(cells, 0))


def show_header(names: Iterable[str]) -> str:
    """Render the names of columns as one line."""
    return "; ".join(map(show_name, names))


def show_name(name: str) -> str:
    """Render a name so that it ends before ``: ``."""
    return _quote(name) if _SPECIAL_NAME.search(name) else name


def show_value(value: Value, depth: int = 0) -> str:
    """Render a value within a line; a list, and an object in it, as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return _quote(value) if _SPECIAL.search(value) else str(value)
    return _show_json(value, depth)


def _flatten(cells: Iterable[tuple[str, Value]], depth: int) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every value; the path of a value in an object has the names around it."""
    for name, value in cells:
        if isinstance(value, dict):
            _check_depth(depth)
            yield from _flatten(((f"{name}.{below}", part) for below, part in value.items()), depth + 1)
        elif value is not None and value not in ("", []):
            yield name, show_value(value, depth)


def _show_json(value: Value, depth: int) -> str:
    _check_depth(depth)
    if isinstance(value, str):
        return str(value) if isinstance(value, Number) else _quote(value)
    if isinstance(value, dict):
        parts = (f"{_quote(name)}: {_show_json(part, depth + 1)}" for name, part in value.items())
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_show_json(part, depth + 1) for part in value)}]"
    return json.dumps(value)


def _check_depth(depth: int) -> None:
    if depth > MOST_DEPTH:
        problem = f"it is nested more than {MOST_DEPTH} levels deep; make it flatter"
        raise ReadError(problem, code="nested_too_deeply")


def _quote(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return _NOT_IN_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _describe_unread(unread: Mapping[str, Sequence[int]]) -> str | None:
    """Tell what lines were left out or read with doubt: how many, the first of them, and why."""
    parts = [f"lines {why}: {len(lines):,}, the first is line {lines[0]:,}" for why, lines in unread.items()]
    return "; ".join(parts) or None


def read_csv(content: bytes, uri: str) -> ParsedDocument:
    """Read a table whose first row names its columns, which else are numbered; a row with more cells keeps them all."""
    if name_binary_kind(content) or (content.strip() and not decode_head(content)):
        problem = "this is not a table of text; give the file the ending of its kind"
        raise ReadError(problem, code="binary_file")
    text = decode_lines(content)
    lines = text.lines.to_list()
    unread: defaultdict[str, list[int]] = defaultdict(list)
    if text.undecodable:
        unread["with bytes that are not text in the encoding of the file, shown as \ufffd"] = sorted(
            text.undecodable
        )
    delimiter, begin = find_delimiter(lines, is_tab=PurePosixPath(uri).suffix.lower() != ".csv")
    rows = []
    for record in split_records(lines, delimiter, begin=begin):
        cells = record.fields
        if record.damage is not None:
            unread["with a quotation mark that is out of place, read as an ordinary character"].append(
                record.begin + 1
            )
            cells = lines[record.begin].split(delimiter)
        if any(map(str.strip, cells)):
            rows.append((record.begin + 1, cells))
    if not rows:
        raise _make_empty_error()
    first = [" ".join(cell.split()) for cell in rows[0][1]]
    is_row = all(_NUMBER.fullmatch(cell) for cell in first if cell)
    names = _name_all([] if is_row else first, len(first))
    shown = [show_header(names)]
    for line, cells in rows if is_row else rows[1:]:
        if len(cells) < len(names) or any(cells[len(names) :]):
            unread["with another number of cells than the first row, read cell by cell"].append(line)
        shown.append(show_row(zip(_name_all(names, len(cells)), cells, strict=False)))
    return ParsedDocument(text="\n".join(shown), chunker="rows", unread=_describe_unread(unread))


def _make_empty_error() -> ReadError:
    return ReadError("the table holds no text; write some, or remove the file", code="empty_document")


def _name_all(names: Sequence[str], width: int) -> list[str]:
    """Number the columns without a name."""
    header = [*names, *[""] * (width - len(names))]
    return [name or f"column {number}" for number, name in enumerate(header, start=1)]


def read_json(content: bytes, _: str) -> ParsedDocument:
    """Read one JSON value: a list has a row for each element, an object a line for each value, with the path to it.

    An object in an object is one line if it holds no further object, and so is each element of a list of objects.
    """
    text = decode_text(content)
    if not text.strip():
        raise ReadError("the file holds no text; write some, or remove it", code="empty_document")
    try:
        value = _parse_json(text)
    except json.JSONDecodeError as error:
        raise ReadError(f"line {error.lineno}: this is not valid JSON: {error.msg}; correct it") from error
    if isinstance(value, dict):
        lines = [show_header(value), *_walk("", value, 0)]
    else:
        lines = _list_rows(value if isinstance(value, list) else [value])
    if len(lines) == 1:
        raise ReadError("the JSON holds no value; write some, or remove the file", code="empty_document")
    return ParsedDocument(text="\n".join(lines), chunker="rows")


def read_json_lines(content: bytes, _: str) -> ParsedDocument:
    """Read one JSON value per line: a row each. Other lines are left out, and ``unread`` counts them."""
    text = decode_lines(content)
    unread: defaultdict[str, list[int]] = defaultdict(list)
    values: list[Value] = []
    for number, line in enumerate(text.lines, start=1):
        if not line.strip():
            continue
        try:
            if number in text.undecodable:
                raise ReadError("they hold bytes that are not UTF-8")
            value = _parse_json(line)
            show_row([(_NO_COLUMN, value)])
            values.append(value)
        except json.JSONDecodeError:
            unread["left out because they are not JSON"].append(number)
        except ReadError as error:
            why = "they are nested too deeply" if error.code == "nested_too_deeply" else str(error)
            unread[f"left out because {why}"].append(number)
    lines, problem = _list_rows(values), _describe_unread(unread)
    if len(lines) == 1:
        found = f"no line was read ({problem})" if problem else "the lines hold no value"
        raise ReadError(
            f"{found}; write or correct some, or remove the file",
            code="no_line" if problem else "empty_document",
        )
    return ParsedDocument(text="\n".join(lines), chunker="rows", unread=problem)


def _parse_json(text: str) -> Value:
    """Parse JSON with all numbers as they are written; ``ReadError`` if it is nested too deeply for the parser."""
    try:
        value: Value = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number)
    except RecursionError:
        _check_depth(MOST_DEPTH + 1)
    return value


def _list_rows(values: Sequence[Value]) -> list[str]:
    """Render a header with the names of all members, and a row for each value; values of no content are left out."""
    rows = [value if isinstance(value, dict) else {_NO_COLUMN: value} for value in values]
    names = dict.fromkeys(name for row in rows for name in row)
    return [show_header(names), *filter(None, (show_row(row.items()) for row in rows))]


def _walk(path: str, value: Value, depth: int) -> Iterator[str]:
    """Yield the lines of a value, each with its path."""
    _check_depth(depth)
    if isinstance(value, dict) and (not path or any(map(_holds_objects, value.values()))):
        for name, part in value.items():
            yield from _walk(f"{path}.{show_name(name)}" if path else show_name(name), part, depth + 1)
    elif isinstance(value, list) and _holds_objects(value):
        for number, part in enumerate(value, start=1):
            yield from _show_line(f"{path}[{number}]", part)
    else:
        yield from _show_line(path, value)


def _show_line(path: str, value: Value) -> Iterator[str]:
    shown = show_row(value.items()) if isinstance(value, dict) else show_value(value)
    if shown and value != []:
        yield f"{path}: {shown}"


def _holds_objects(value: Value) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(part, dict) for part in value)
    )


def read_parquet(content: bytes, _: str) -> ParsedDocument:
    """Read a table with a row for each record; columns of bytes are left out, and ``unread`` names them."""
    if not content:
        raise ReadError("the file is empty; write it again, or remove it", code="empty_document")
    table, schema, count = open_parquet(content)
    bytes_in = [name for name, dtype in schema.items() if _holds_bytes(dtype)]
    names = [name for name in schema.names() if name not in bytes_in]
    if not names or not count:
        raise _make_empty_error()
    try:
        record = pl.struct(_write_column(name, schema[name]) for name in names)
        written = table.select(record.struct.json_encode()).collect().to_series()
    except DAMAGED_PARQUET as error:
        raise make_parquet_error() from error
    values = map(_parse_json, written)
    rows = [show_row(value.items()) for value in values if isinstance(value, dict)]
    if not any(rows):
        raise _make_empty_error()
    return ParsedDocument(
        text="\n".join([show_header(names), *filter(None, rows)]),
        chunker="rows",
        unread=f"these columns hold bytes and were left out: {show_header(bytes_in)}" if bytes_in else None,
    )


def _write_column(name: str, dtype: pl.DataType) -> pl.Expr:
    """Write the values of a column as text, but those that hold others."""
    column = pl.col(name)
    if isinstance(dtype, pl.Duration):
        return column.dt.to_string("iso")
    return column if dtype.is_nested() else column.cast(pl.String)


def _holds_bytes(dtype: object) -> bool:
    if isinstance(dtype, pl.List | pl.Array):
        return _holds_bytes(dtype.inner)
    if isinstance(dtype, pl.Struct):
        return any(_holds_bytes(field.dtype) for field in dtype.fields)
    return isinstance(dtype, pl.Binary)


CSV: Final = DocumentFormat("csv", "CSV", frozenset({".csv", ".tsv", ".tab"}), read_csv)
JSON: Final = DocumentFormat("json", "JSON", frozenset({".json"}), read_json)
JSON_LINES: Final = DocumentFormat("jsonl", "JSON lines", frozenset({".jsonl", ".ndjson"}), read_json_lines)
PARQUET: Final = DocumentFormat("parquet", "Parquet", frozenset({".parquet"}), read_parquet, None)
