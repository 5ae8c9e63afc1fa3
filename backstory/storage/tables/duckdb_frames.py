"""Exchanges Polars frames with DuckDB by Arrow's stream interface, which needs no PyArrow."""

from __future__ import annotations

import duckdb
import polars as pl


class _FrameStream:
    """A frame that shows only the Arrow stream interface.

    DuckDB recognises a Polars frame by its type, and then asks it for a PyArrow table.
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def register_frame(connection: duckdb.DuckDBPyConnection, name: str, frame: pl.DataFrame) -> None:
    """Name a frame in the queries of a connection, without a copy.

    Args:
        connection: The connection.
        name: The name, until ``connection.unregister(name)``.
        frame: The rows.
    """
    connection.register(name, _FrameStream(frame))


def fetch_frame(connection: duckdb.DuckDBPyConnection, query: str) -> pl.DataFrame:
    """Run a query and fetch its rows.

    Args:
        connection: The connection.
        query: One statement that reads.

    Returns:
        The rows.

    Raises:
        duckdb.Error: The statement is wrong, or a file that it reads is damaged.
    """
    rows = connection.sql(query)
    try:
        return pl.DataFrame(rows)
    except pl.exceptions.ComputeError as error:  # Polars reads the rows, and so meets DuckDB's errors
        raise duckdb.DatabaseError(str(error)) from error
