"""Chats as Parquet tables."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import polars as pl

from backstory.base.errors import ReadError
from backstory.ingest.chats.formats.tabular import Record, parse_records, require_columns
from backstory.ingest.chats.reader import ParsedExport, TableFormat

if TYPE_CHECKING:
    from backstory.settings.inputs import ConversationSettings

MOST_RECORDS: Final = 2_000_000
"""Maximum number of rows: a few kilobytes of Parquet can hold any number of equal rows."""

_MAGIC = b"PAR1"
_RECORDS_AT_ONCE: Final = 65_536
_OUT_OF_RANGE: Final = float("inf")
_UNITS_PER_DAY: Final = {"ms": 86_400_000, "us": 86_400_000_000}
_FIRST_DAY: Final = (datetime(1, 1, 2) - datetime(1970, 1, 1)).days
_LAST_DAY: Final = (datetime(9999, 12, 30) - datetime(1970, 1, 1)).days


def _is_parquet(content: bytes, *_: object) -> bool:
    """Return whether the file begins with Parquet's magic bytes."""
    return content.startswith(_MAGIC)


def _read(content: bytes, settings: ConversationSettings, source: str, _: int = 0) -> ParsedExport:
    columns = [settings.timestamp_column, settings.author_column, settings.message_column]
    damaged = f"{source}: a damaged Parquet file; write it again"
    try:
        names = list(pl.read_parquet_schema(io.BytesIO(content)))
        rows = pl.scan_parquet(io.BytesIO(content)).select(pl.len()).collect().item()
    except _DAMAGED as error:
        raise ReadError(damaged, code="damaged_file") from error
    require_columns(names, settings, source)
    if rows > MOST_RECORDS:
        raise ReadError(
            f"{source}: the table has {rows:,} rows, more than the {MOST_RECORDS:,} that are read of one file; "
            "split it",
            code="too_many_rows",
        )
    try:
        table = pl.read_parquet(io.BytesIO(content), columns=columns).select(columns)
    except _DAMAGED as error:
        raise ReadError(damaged, code="damaged_file") from error
    return parse_records(_list_records(table), {}, settings)


_DAMAGED: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


def _list_records(table: pl.DataFrame) -> Iterator[Record]:
    for start in range(0, len(table), _RECORDS_AT_ONCE):
        part = table.slice(start, _RECORDS_AT_ONCE)
        rows = zip(*(_list_values(column) for column in part), strict=True)
        yield from ((number, *row) for number, row in enumerate(rows, start=start + 1))


def _list_values(column: pl.Series) -> Sequence[object]:
    """Convert the values to Python objects; a date outside Python's range becomes infinity."""
    units = _units_per_day(column.dtype)
    if units is None:
        return column.to_list()
    is_known = column.to_physical().is_between(_FIRST_DAY * units, _LAST_DAY * units).fill_null(value=True)
    if is_known.all():
        return column.to_list()
    values = column.zip_with(is_known, pl.Series([None], dtype=column.dtype)).to_list()
    return [value if known else _OUT_OF_RANGE for value, known in zip(values, is_known, strict=True)]


def _units_per_day(dtype: pl.DataType) -> int | None:
    """Return the units per day of a column of times.

    None for other columns, and for nanoseconds, whose whole range (1677 to 2262) Python can represent.
    """
    if isinstance(dtype, pl.Datetime):
        return _UNITS_PER_DAY.get(dtype.time_unit)
    return 1 if isinstance(dtype, pl.Date) else None


PARQUET: Final = TableFormat("parquet", _is_parquet, _read)
