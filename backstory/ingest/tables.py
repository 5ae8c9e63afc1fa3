"""Tables in files, as chats and documents read them: the rows of CSV, of JSON lines, and of Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
import polars.selectors as cs

from backstory.base.errors import ReadError
from backstory.text.encoding import decode_lines

PARQUET_MAGIC: Final = b"PAR1"
TOO_DEEP: Final = "lists and objects are nested too deeply in it"
_MOST_RECORDS: Final = 2_000_000
"""Maximum number of rows of Parquet: a few kilobytes can hold any number of equal rows."""
_DELIMITERS: Final = (",", ";", "\t", "|")
_STATED: Final = re.compile(r"sep=([^\"])\s*", re.IGNORECASE)
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


def read_csv(content: bytes, *, is_tab: bool = False) -> Table:
    """Read the rows of CSV: a list of cells each. ``is_tab``: whether tabs are the likely delimiter."""
    text = decode_lines(content)
    unread = dict(text.undecodable)
    return Table(split_csv(text.lines.to_list(), unread, is_tab=is_tab), unread, text.encoding)


def split_csv(
    lines: Sequence[str], unread: dict[int, str], *, is_tab: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank. A row with an unread line is unread as a whole."""
    delimiter, first = _find_delimiter(lines, is_tab=is_tab)
    undecodable = frozenset(unread)
    for begin, end, cells in _split(lines, delimiter, first):
        numbers = range(begin + 1, end + 1)
        if cells is None:
            unread.setdefault(begin + 1, "a quotation mark in it is out of place")
        elif damaged := undecodable.intersection(numbers):
            unread.update(dict.fromkeys(numbers, unread[min(damaged)]))
        elif any(map(str.strip, cells)):
            yield begin + 1, cells


def _split(lines: Sequence[str], delimiter: str, begin: int) -> Iterator[tuple[int, int, list[str] | None]]:
    """Yield places and cells of each row; no cells of a line whose quotes are wrong, after which reading goes on."""
    while begin < len(lines):
        start = begin
        rest = (f"{lines[place]}\n" for place in range(start, len(lines)))
        reader = csv.reader(rest, delimiter=delimiter, strict=True)
        try:
            for cells in reader:
                yield begin, start + reader.line_num, cells
                begin = start + reader.line_num
        except csv.Error:
            yield begin, begin + 1, None
            begin += 1


def _find_delimiter(lines: Sequence[str], *, is_tab: bool) -> tuple[str, int]:
    """Return the delimiter of a table, and the place of its first row.

    The first line may state the delimiter for spreadsheet programs (``sep=;``). Else it is the one that makes the first
    rows equally long.
    """
    if lines and (stated := _STATED.fullmatch(lines[0])):
        return stated[1], 1
    sample = [line for line in lines[:_SAMPLE_ROWS] if line.strip()]

    def measure(delimiter: str) -> tuple[float, int]:
        widths = [len(cells or ()) for _, _, cells in _split(sample, delimiter, 0)]
        width = widths[0] if widths else 0
        return (widths.count(width) / len(widths), width) if width > 1 else (0.0, 0)

    return max(("\t", *_DELIMITERS) if is_tab else _DELIMITERS, key=measure), 0


def read_json_lines(content: bytes) -> Table:
    """Read the rows of JSON lines: a value each."""
    text = decode_lines(content)
    unread = dict(text.undecodable)

    def parse() -> Iterator[tuple[int, Any]]:
        for number, line in enumerate(text.lines, start=1):
            if number in unread or not line.strip():
                continue
            try:
                yield number, json.loads(line)
            except ValueError:
                unread[number] = "it is not JSON"
            except RecursionError:
                unread[number] = TOO_DEEP

    return Table(parse(), unread, text.encoding)


def read_parquet(content: bytes, choose: Callable[[list[str]], list[str]] = list) -> Table:
    """Read the chosen columns of Parquet: texts, as CSV has them, but for lists and objects.

    Columns of bytes are left out. It raises ``ReadError`` if the file is damaged or has too many rows.
    """
    try:
        table = pl.scan_parquet(io.BytesIO(content))
        rows = table.select(pl.len()).collect().item()
        if rows > _MOST_RECORDS:
            raise ReadError(
                f"the table has {rows:,} rows, more than the {_MOST_RECORDS:,} that are read of one file; split it",
                code="too_many_rows",
            )
        held = [name for name, dtype in table.collect_schema().items() if not _holds_bytes(dtype)]
        read = (
            table.select(choose(held))
            .with_columns(cs.temporal().dt.to_string("iso"))
            .with_columns((~cs.nested()).cast(pl.String))
            .collect()
        )
        return Table(iter([*enumerate(read.rows(), start=1)]), {}, names=read.columns)
    except ReadError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        raise ReadError(
            "the Parquet file is damaged, or holds times outside the calendar; write it again",
            code="damaged_file",
        ) from error


def _holds_bytes(dtype: object) -> bool:
    if isinstance(dtype, pl.List | pl.Array):
        return _holds_bytes(dtype.inner)
    if isinstance(dtype, pl.Struct):
        return any(_holds_bytes(field.dtype) for field in dtype.fields)
    return isinstance(dtype, pl.Binary)
