"""Rows of any table, from what a test says of them and what it does not care about."""

from collections.abc import Iterable, Mapping

import polars as pl

from backstory.storage.tables.contracts import Table, polars_schema

Row = Mapping[str, object]


def make_rows(model: type[Table], rows: Iterable[Row], defaults: Row) -> pl.DataFrame:
    """Make a table of rows; a column that a row does not state has its default, and other values are left out."""
    schema = polars_schema(model)
    return pl.DataFrame(
        [{name: row[name] if name in row else defaults[name] for name in schema} for row in rows],
        schema=schema,
    )
