"""Exchanges Polars frames with DuckDB by Arrow's streams, which need no PyArrow."""

from __future__ import annotations

import duckdb
import polars as pl


def register_frame(connection: duckdb.DuckDBPyConnection, name: str, frame: pl.DataFrame) -> None:
    """Name a frame in one query of a connection, without a copy.

    The query gets a stream of the rows. An object with streams would serve more queries, but for such an object, as for
    a frame, DuckDB loads PyArrow's data sets, and with them pandas, wherever these are installed: half a second.

    Args:
        connection: The connection.
        name: The name, until ``connection.unregister(name)``. DuckDB raises in a second query that reads the rows.
        frame: The rows.
    """
    connection.register(name, frame.__arrow_c_stream__())


def fetch_frame(connection: duckdb.DuckDBPyConnection, query: str) -> pl.DataFrame:
    """Run a query and fetch its rows.

    Args:
        connection: The connection.
        query: One statement that reads.

    Raises:
        duckdb.Error: The statement is wrong, or a file that it reads is damaged.
    """
    rows = connection.sql(query)
    try:
        return pl.DataFrame(rows)
    except pl.exceptions.ComputeError as error:  # Polars reads the rows, and so meets DuckDB's errors
        raise duckdb.DatabaseError(str(error)) from error
