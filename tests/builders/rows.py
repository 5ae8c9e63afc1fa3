"""Rows of any table, from what a test says of them and what it does not care about."""

from collections.abc import Iterable, Mapping

import polars as pl

from backstory.storage.tables.contracts import Table

Row = Mapping[str, object]


def make_rows(model: type[Table], rows: Iterable[Row], defaults: Row) -> pl.DataFrame:
    """Make a table of rows; a column that a row does not state has its default, and other values are left out."""
    schema = model.schema
    return pl.DataFrame(
        [{name: row[name] if name in row else defaults[name] for name in schema} for row in rows],
        schema=schema,
    )
