"""Tables in files, as chats and documents read them: the rows of CSV, of JSON lines, and of Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
import polars.selectors as cs

from backstory.base.errors import ReadError
from backstory.text.encoding import decode_lines

_STATED: Final = re.compile(r'"?sep=([^"])"?\s*', re.IGNORECASE)
_DELIMITERS: Final = "\t,;|"
_SAMPLE_ROWS: Final = 50

csv.field_size_limit(1 << 30)  # the whole file is limited already


@dataclass(frozen=True)
class Table:
    """The rows of a file, each with its number from 1, that of its first line in a text.

    ``unread``: why others cannot be read, by their numbers; complete when all rows were taken. ``names``: those of the
    columns of Parquet.
    """

    rows: Iterator[tuple[int, Any]]
    unread: dict[int, str]
    encoding: str | None = None
    names: Sequence[str] = ()


def read_table(
    content: bytes, parse: Callable[[list[str], dict[int, str]], Iterator[tuple[int, Any]]]
) -> Table:
    """Read the rows of a text by :func:`parse_csv` or :func:`parse_json_lines`."""
    text = decode_lines(content)
    return Table(parse(text.lines.to_list(), text.undecodable), text.undecodable, text.encoding)


def parse_csv(lines: list[str], unread: dict[int, str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of CSV that are not blank: a list of cells each. A row with an unread line is left out as a whole.

    The first line may state the delimiter for spreadsheet programs (``sep=;``). Else it is the one that makes the first
    rows equally long.
    """
    stated = _STATED.fullmatch(lines[0]) if lines else None
    sample = [line for line in lines[:_SAMPLE_ROWS] if line.strip()]

    def measure(delimiter: str) -> tuple[float, int]:
        widths = [len(cells or ()) for _, cells in _split(sample, delimiter)]
        width = widths[0] if widths else 0
        return (widths.count(width) / len(widths), width) if width > 1 else (0.0, 0)

    undecodable = frozenset(unread)
    delimiter = stated[1] if stated else max(_DELIMITERS, key=measure)
    for numbers, cells in _split(lines, delimiter, 1 if stated else 0):
        if cells is None:
            unread.setdefault(numbers.start, "a quotation mark in it is out of place")
        elif any(map(str.strip, cells)) and undecodable.isdisjoint(numbers):
            yield numbers.start, cells


def _split(lines: list[str], delimiter: str, begin: int = 0) -> Iterator[tuple[range, list[str] | None]]:
    """Yield line numbers and cells of each row; no cells of a line whose quotes are wrong, after which it goes on."""
    while begin < len(lines):
        start = begin
        rest = (f"{lines[place]}\n" for place in range(start, len(lines)))
        reader = csv.reader(rest, delimiter=delimiter, strict=True)
        try:
            for cells in reader:
                yield range(begin + 1, start + reader.line_num + 1), cells
                begin = start + reader.line_num
        except csv.Error:
            yield range(begin + 1, begin + 2), None
            begin += 1


def parse_json_lines(lines: list[str], unread: dict[int, str]) -> Iterator[tuple[int, Any]]:
    """Yield the values of the lines that are JSON: a row each."""
    for number, line in enumerate(lines, start=1):
        if number not in unread and line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                unread[number] = "it is not JSON, or nested too deeply"


def read_parquet(content: bytes, wanted: Collection[str] = ()) -> Table:
    """Read the wanted columns of Parquet, or all: texts, as CSV has them, but for lists and objects.

    Columns of bytes are left out. It raises ``ReadError`` if the file is damaged.
    """
    try:
        table = pl.scan_parquet(io.BytesIO(content))
        held = [name for name, dtype in table.collect_schema().items() if not _holds_bytes(dtype)]
        texts = table.select(name for name in held if not wanted or name in wanted).with_columns(
            cs.temporal().dt.to_string("iso")
        )
        read = texts.with_columns((~cs.nested()).cast(pl.String)).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        raise ReadError(
            "the Parquet file is damaged, or holds times outside the calendar; write it again",
            code="damaged_file",
        ) from error
    return Table(enumerate(read.iter_rows(), start=1), {}, names=read.columns)


def _holds_bytes(dtype: object) -> bool:
    if isinstance(dtype, pl.List | pl.Array):
        return _holds_bytes(dtype.inner)
    if isinstance(dtype, pl.Struct):
        return any(_holds_bytes(field.dtype) for field in dtype.fields)
    return isinstance(dtype, pl.Binary)
