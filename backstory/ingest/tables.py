"""Tables in files, as chats and documents read them: the records of CSV, and what is checked of Parquet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from backstory.base.errors import ReadError

MOST_RECORDS: Final = 2_000_000
"""Maximum number of rows of Parquet: a few kilobytes can hold any number of equal rows."""
DAMAGED_PARQUET: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What reading a damaged file raises."""
PARQUET_MAGIC: Final = b"PAR1"
_DELIMITERS: Final = (",", ";", "\t", "|")
_STATED: Final = re.compile(r"sep=([^\"])\s*", re.IGNORECASE)
_SAMPLE_ROWS: Final = 50

csv.field_size_limit(1 << 30)  # the whole file is limited already


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """One record of a table: the places of its lines, its fields, and what is wrong with it; then it has no fields."""

    begin: int
    end: int
    fields: Sequence[str]
    damage: str | None = None


def split_records(
    lines: Sequence[str], delimiter: str, *, begin: int = 0, width: int | None = None
) -> Iterator[CsvRecord]:
    """Split lines into records; after a damaged one, reading continues at its second line."""
    while begin < len(lines):
        start = begin
        reader = csv.reader(
            (f"{lines[position]}\n" for position in range(start, len(lines))),
            delimiter=delimiter,
            strict=True,
        )
        try:
            for fields in reader:
                if width is not None and len(fields) not in (0, width):
                    raise csv.Error(f"{len(fields)} fields instead of {width}")
                yield CsvRecord(begin, start + reader.line_num, fields)
                begin = start + reader.line_num
        except csv.Error as error:
            yield CsvRecord(begin, begin + 1, (), str(error))
            begin += 1


def find_delimiter(lines: Sequence[str], *, is_tab: bool = False) -> tuple[str, int]:
    """Return the delimiter of a table, and the place of its first row.

    The first line may state the delimiter for spreadsheet programs (``sep=;``). Else it is the one that makes the first
    rows equally long.
    """
    stated = _STATED.fullmatch(lines[0]) if lines else None
    if stated is not None:
        return stated[1], 1
    candidates = ("\t", *_DELIMITERS) if is_tab else _DELIMITERS
    sample = [line for line in lines[:_SAMPLE_ROWS] if line.strip()]
    return max(candidates, key=lambda delimiter: _measure_fit(sample, delimiter)), 0


def _measure_fit(sample: Sequence[str], delimiter: str) -> tuple[float, int]:
    """Return the share of rows that are as long as the first, and their length; nothing for rows of one cell."""
    widths = [len(record.fields) for record in split_records(sample, delimiter)]
    width = widths[0] if widths else 0
    return (widths.count(width) / len(widths), width) if width > 1 else (0.0, 0)


def open_parquet(content: bytes) -> tuple[pl.LazyFrame, pl.Schema, int]:
    """Return a table, its columns and its number of rows; raise ``ReadError`` if it is damaged, or too long."""
    try:
        table = pl.scan_parquet(io.BytesIO(content))
        schema, rows = table.collect_schema(), table.select(pl.len()).collect().item()
    except DAMAGED_PARQUET as error:
        raise make_parquet_error() from error
    if rows > MOST_RECORDS:
        raise ReadError(
            f"the table has {rows:,} rows, more than the {MOST_RECORDS:,} that are read of one file; split it",
            code="too_many_rows",
        )
    return table, schema, rows


def make_parquet_error() -> ReadError:
    """Make the error of a damaged file."""
    return ReadError(
        "the Parquet file is damaged, or holds times outside the calendar; write it again",
        code="damaged_file",
    )
