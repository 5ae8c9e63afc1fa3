"""Tables and JSON -> lines of text, one row each: ``name: Ann; city: Riga``.

Every row names its columns, so that it can be found, read and cited by itself. A value with a line break, with ``; ``
or with a quotation mark at its beginning is written as a JSON string; so are names. An empty value is left out.
"""

from __future__ import annotations

import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import polars as pl

from backstory.base.errors import ReadError
from backstory.base.wording import count
from backstory.ingest.documents.formats.texts import decode_text
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument
from backstory.ingest.file_kinds import name_binary_kind
from backstory.ingest.tables import (
    TOO_DEEP,
    Table,
    read_csv,
    read_json_lines,
    read_parquet,
)
from backstory.text.encoding import decode_head

_SPECIAL: Final = re.compile(r'^["\s]|\s$|[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]|; ')
_SPECIAL_NAME: Final = re.compile(rf"{_SPECIAL.pattern}|: |^$")
_NOT_IN_LINES: Final = re.compile(r"[\x7f\x85\u2028\u2029\ud800-\udfff]")
_NUMBER: Final = re.compile(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?%?")
_NO_COLUMN: Final = "value"
"""Name of the column of values that are no objects."""
_NOTHING: Final[tuple[Any, ...]] = (None, "", [])
"""Values that are left out."""


def _show_row(cells: Iterable[tuple[str, Any]]) -> str:
    """Write a row as one line; it is empty if no cell has a value."""
    return "; ".join(f"{_show_name(name)}: {_show_value(value)}" for name, value in _flatten(cells))


def _flatten(cells: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield path and value of every value; the path of a value in an object has the names around it."""
    for name, value in cells:
        if isinstance(value, dict):
            yield from _flatten((f"{name}.{below}", part) for below, part in value.items())
        elif value not in _NOTHING:
            yield name, value


def _show_header(names: Iterable[str]) -> str:
    return "; ".join(map(_show_name, names))


def _show_name(name: str) -> str:
    """Write a name so that it ends before ``: ``."""
    return _quote(name) if _SPECIAL_NAME.search(name) else name


def _show_value(value: Any) -> str:
    """Write a value within a line; a list, and an object in it, as JSON."""
    return value if isinstance(value, str) and not _SPECIAL.search(value) else _quote(value)


def _quote(value: Any) -> str:
    quoted = json.dumps(value, ensure_ascii=False, default=str)
    return _NOT_IN_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _put_header(names: Iterable[str], rows: Iterable[str]) -> list[str]:
    """Put the names of the columns before the rows with a value; return nothing if there is none."""
    shown = [*filter(None, rows)]
    return [_show_header(names), *shown] if shown else []


def _compose(lines: Sequence[str], unread: str | None = None) -> ParsedDocument:
    if not lines:
        problem = f"no row was read ({unread}); correct some" if unread else "it holds no value; write some"
        raise ReadError(f"{problem}, or remove the file", code="no_line" if unread else "empty_document")
    return ParsedDocument(text="\n".join(lines), chunker="rows", unread=unread)


def _describe_unread(unread: Mapping[int, str]) -> str | None:
    """Tell what rows were left out: how many, the first of them, and why."""
    lines: defaultdict[str, list[int]] = defaultdict(list)
    for line, reason in sorted(unread.items()):
        lines[reason].append(line)
    parts = (
        f"{count(len(at), 'line')} left out, the first is line {at[0]:,}: {why}" for why, at in lines.items()
    )
    return "; ".join(parts) or None


def _read_csv(content: bytes, uri: str) -> ParsedDocument:
    """Read a table whose first row names its columns, which else are numbered; a row with more cells keeps them all."""
    if name_binary_kind(content) or (content.strip() and not decode_head(content)):
        problem = "this is not a table of text; give the file the ending of its kind"
        raise ReadError(problem, code="binary_file")
    table = read_csv(content, is_tab=PurePosixPath(uri).suffix.lower() != ".csv")
    rows = [cells for _, cells in table.rows]
    names = [" ".join(cell.split()) for cell in rows[0]] if rows else []
    if all(_NUMBER.fullmatch(name) for name in names if name):
        names = [""] * len(names)
    else:
        del rows[0]
    shown = [_show_row(zip(_name_all(names, len(cells)), cells, strict=False)) for cells in rows]
    return _compose([_show_header(_name_all(names)), *shown] if names else [], _describe_unread(table.unread))


def _name_all(names: Sequence[str], width: int = 0) -> list[str]:
    """Number the columns without a name."""
    header = [*names, *[""] * (width - len(names))]
    return [name or f"column {number}" for number, name in enumerate(header, start=1)]


def _read_json(content: bytes, _: str) -> ParsedDocument:
    """Read one JSON value: a list has a row for each element, an object a line for each value, with the path to it.

    An object in an object is one line if it holds no further object, and so is each element of a list of objects.
    """
    text = decode_text(content)
    if not text.strip():
        raise ReadError("the file holds no text; write some, or remove it", code="empty_document")
    try:
        # Python reads no integer of thousands of digits.
        value = json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 4000 else digits)
        if isinstance(value, dict):
            return _compose(_put_header(value, _walk("", value)))
    except json.JSONDecodeError as error:
        raise ReadError(f"line {error.lineno}: this is not valid JSON: {error.msg}; correct it") from error
    except RecursionError as error:
        raise ReadError(f"{TOO_DEEP}; make it flatter", code="nested_too_deeply") from error
    return _list_rows(Table(enumerate(value if isinstance(value, list) else [value], start=1), {}))


def _read_json_lines(content: bytes, _: str) -> ParsedDocument:
    """Read one JSON value per line: a row each. Other lines are left out, and ``unread`` counts them."""
    return _list_rows(read_json_lines(content))


def _list_rows(table: Table) -> ParsedDocument:
    """Write a header with the names of all members, and a row for each value."""
    names: dict[str, None] = {}
    rows = []
    for number, value in table.rows:
        row = value if isinstance(value, dict) else {_NO_COLUMN: value}
        try:
            rows.append(_show_row(row.items()))
            names |= dict.fromkeys(row)
        except RecursionError:
            table.unread[number] = TOO_DEEP
    return _compose(_put_header(names, rows), _describe_unread(table.unread))


def _walk(path: str, value: Any) -> Iterator[str]:
    """Yield the lines of a value, each with its path."""
    if isinstance(value, dict) and (not path or any(map(_holds_objects, value.values()))):
        for name, part in value.items():
            yield from _walk(f"{path}.{_show_name(name)}" if path else _show_name(name), part)
    elif isinstance(value, list) and _holds_objects(value):
        for number, part in enumerate(value, start=1):
            yield from _show_line(f"{path}[{number}]", part)
    else:
        yield from _show_line(path, value)


def _show_line(path: str, value: Any) -> Iterator[str]:
    shown = _show_row(value.items()) if isinstance(value, dict) else _show_value(value)
    if shown and value not in _NOTHING:
        yield f"{path}: {shown}"


def _holds_objects(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(part, dict) for part in value)
    )


def _read_parquet(content: bytes, _: str) -> ParsedDocument:
    """Read a table with a row for each record; columns of bytes are left out, and ``unread`` names them."""
    if not content:
        return _compose([])
    table = read_parquet(content)
    rows = [_show_row(zip(table.names, row, strict=True)) for _, row in table.rows]
    left_out = pl.read_parquet_schema(io.BytesIO(content)).keys() - {*table.names}
    unread = f"these columns hold bytes and were left out: {_show_header(sorted(left_out))}"
    return _compose(_put_header(table.names, rows), unread if left_out else None)


CSV: Final = DocumentFormat("csv", "CSV", frozenset({".csv", ".tsv", ".tab"}), _read_csv)
JSON: Final = DocumentFormat("json", "JSON", frozenset({".json"}), _read_json)
JSON_LINES: Final = DocumentFormat("jsonl", "JSON lines", frozenset({".jsonl", ".ndjson"}), _read_json_lines)
PARQUET: Final = DocumentFormat("parquet", "Parquet", frozenset({".parquet"}), _read_parquet, None)
