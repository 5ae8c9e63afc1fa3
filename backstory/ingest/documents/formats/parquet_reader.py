"""Parquet tables as documents."""

from __future__ import annotations

import io
from typing import Final

import polars as pl

from backstory.base.errors import ReadError
from backstory.ingest.chats.formats.parquet_table import MOST_RECORDS
from backstory.ingest.documents.formats.json_reader import parse_json
from backstory.ingest.documents.formats.row_rendering import (
    Members,
    TooDeepError,
    Value,
    show_header,
    show_row,
)
from backstory.ingest.documents.parsed_document import ParsedDocument

_DAMAGED: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
_ROWS_AT_ONCE: Final = 65_536


class ParquetReader:
    """Reads a table with a row for each record; columns of bytes are left out, and ``unread`` names them."""

    format = "parquet"
    suffixes = frozenset({".parquet"})
    find_encoding = None

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument | None:  # noqa: ARG002
        """Read one file; see :class:`backstory.ingest.documents.reader.DocumentReader`."""
        if not content:
            raise ReadError(f"{uri}: the file is empty; write it again, or remove it", code="empty_document")
        try:
            table = pl.scan_parquet(io.BytesIO(content))
            schema = table.collect_schema()
            count = table.select(pl.len()).collect().item()
        except _DAMAGED as error:
            raise _refuse(uri) from error
        if count > MOST_RECORDS:
            raise ReadError(
                f"{uri}: the table has {count:,} rows, more than the {MOST_RECORDS:,} that are read of one file; "
                "split it",
                code="too_many_rows",
            )
        bytes_in = [name for name, dtype in schema.items() if _holds_bytes(dtype)]
        names = [name for name in schema.names() if name not in bytes_in]
        try:
            rows = _list_rows(table, names, schema, count)
        except _DAMAGED as error:
            raise _refuse(uri) from error
        except TooDeepError as error:
            raise ReadError(f"{uri}: {error}; make it flatter", code="nested_too_deeply") from error
        if not any(rows):
            raise ReadError(
                f"{uri}: the table holds no text; write some, or remove the file", code="empty_document"
            )
        return ParsedDocument(
            text="\n".join([show_header(names), *filter(None, rows)]),
            chunker="rows",
            unread=f"these columns hold bytes and were left out: {show_header(bytes_in)}"
            if bytes_in
            else None,
        )


def _refuse(uri: str) -> ReadError:
    return ReadError(
        f"{uri}: the Parquet file is damaged, or holds times outside the calendar; write it again",
        code="damaged_file",
    )


def _list_rows(table: pl.LazyFrame, names: list[str], schema: pl.Schema, count: int) -> list[str]:
    rows: list[str] = []
    for start in range(0, count, _ROWS_AT_ONCE):
        part = (
            table.select(_as_text(name, schema[name]) for name in names).slice(start, _ROWS_AT_ONCE).collect()
        )
        columns = [_list_values(part[name], schema[name]) for name in names]
        rows += [show_row(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return rows


def _as_text(name: str, dtype: pl.DataType) -> pl.Expr:
    if dtype.is_nested():
        return pl.struct(pl.col(name).alias("value")).struct.json_encode().alias(name)
    if isinstance(dtype, pl.Duration):
        return pl.col(name).dt.to_string("iso")
    return pl.col(name).cast(pl.String)


def _list_values(column: pl.Series, dtype: pl.DataType) -> list[Value]:
    if not dtype.is_nested():
        return column.to_list()
    return [_read_cell(value) for value in column]


def _read_cell(encoded: str) -> Value:
    cell = parse_json(encoded)
    return cell.pairs[0][1] if isinstance(cell, Members) else cell


def _holds_bytes(dtype: object) -> bool:
    if isinstance(dtype, pl.List | pl.Array):
        return _holds_bytes(dtype.inner)
    if isinstance(dtype, pl.Struct):
        return any(_holds_bytes(field.dtype) for field in dtype.fields)
    return isinstance(dtype, pl.Binary)
