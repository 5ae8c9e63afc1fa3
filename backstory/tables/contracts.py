"""The contracts of :mod:`backstory.tables.schemas` applied to frames: described, cast, checked."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import polars as pl
from pandera.errors import SchemaError, SchemaErrors

from backstory.errors import ContractError
from backstory.tables.columns import Table
from backstory.tables.quick_checks import keeps_contract


@cache
def polars_schema(model: type[Table]) -> pl.Schema:
    """Return the Polars schema of a table.

    Args:
        model: One of the models of this module.

    Returns:
        Column names and Polars types, in order.
    """
    columns: dict[str, Any] = model.to_schema().columns
    return pl.Schema({name: column.dtype.type for name, column in columns.items()})


class Column(NamedTuple):
    """Description of one column of a table."""

    name: str
    dtype: pl.DataType
    nullable: bool
    description: str


def describe_table(model: type[Table]) -> list[Column]:
    """Describe the columns of a table, in order."""
    columns: dict[str, Any] = model.to_schema().columns
    return [
        Column(name, dtype, columns[name].nullable, columns[name].description or "")
        for name, dtype in polars_schema(model).items()
    ]


def empty(model: type[Table]) -> pl.DataFrame:
    """Make a frame of no rows with the columns of a table."""
    return _empty(model).clone()


@cache
def _empty(model: type[Table]) -> pl.DataFrame:
    # Polars takes milliseconds for the types of the columns.
    return pl.DataFrame(schema=polars_schema(model))


def conform(frame: pl.DataFrame, model: type[Table]) -> pl.DataFrame:
    """Select and cast the columns of a table, in order.

    Args:
        frame: A frame with at least the table's columns.
        model: The table's contract.

    Returns:
        The table's columns in their types.

    Raises:
        ContractError: A column is absent.
    """
    schema = polars_schema(model)
    absent = [name for name in schema if name not in frame.columns]
    if absent:
        raise ContractError(
            f"{model.__name__}: column {', '.join(absent)} is absent; found {', '.join(frame.columns)}"
        )
    return frame.select([pl.col(name).cast(dtype) for name, dtype in schema.items()])


def validate(frame: pl.DataFrame, model: type[Table]) -> pl.DataFrame:
    """Check a frame against its contract.

    Args:
        frame: The table.
        model: Its contract.

    Returns:
        The frame, unchanged.

    Raises:
        ContractError: The contract is broken. The error lists the failed checks and some of the values.
    """
    if frame.schema == polars_schema(model) and keeps_contract(frame, model):
        return frame
    try:
        return model.validate(frame, lazy=True)
    except (SchemaErrors, SchemaError) as error:
        raise ContractError(f"{model.__name__}: {_describe(error)}") from error


def _describe(error: SchemaErrors | SchemaError) -> str:
    cases = error.failure_cases
    if not isinstance(cases, pl.DataFrame):
        return str(error)
    first_cases = cases.unique(["column", "check"], keep="first", maintain_order=True).head(8)
    return "; ".join(
        f"the table fails {row['check']}"
        if row["schema_context"] == "DataFrameSchema"
        else f"{row['column']} fails {row['check']} (for example {str(row['failure_case'])[:80]!r})"
        for row in first_cases.to_dicts()
    )
