"""The contracts of :mod:`backstory.storage.tables.schemas` applied to frames: described, cast, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import polars as pl
from pandera.api.checks import Check
from pandera.errors import SchemaError, SchemaErrors

from backstory.base.errors import ContractError
from backstory.storage.tables.schemas import Table

_Passes = Callable[[pl.Expr, Mapping[str, Any]], pl.Expr]


_CHECKS: Final[Mapping[str, _Passes]] = MappingProxyType(
    {
        "greater_than_or_equal_to": lambda column, arguments: column >= arguments["min_value"],
        "less_than_or_equal_to": lambda column, arguments: column <= arguments["max_value"],
        "isin": lambda column, arguments: column.is_in(list(arguments["allowed_values"])),
    }
)


def keeps_contract(frame: pl.DataFrame, model: type[Table]) -> bool:
    """Return whether a frame certainly keeps its contract.

    Args:
        frame: The table, with the columns and types of its contract.
        model: Its contract.

    Returns:
        False also for a contract with a check that this module does not know.
    """
    passes = _compile(model)
    return passes is not None and bool(frame.lazy().select(passes).collect().item())


@cache
def _compile(model: type[Table]) -> pl.Expr | None:
    """Join the checks of a contract; None if one of them is unknown."""
    schema = model.to_schema()
    if schema.checks:
        return None
    passes: list[pl.Expr] = []
    for name, column in schema.columns.items():
        values = pl.col(name)
        checks = [_pass(values, check) for check in column.checks]
        if column.unique or any(check is None for check in checks):
            return None
        if not column.nullable:
            passes.append(values.is_not_null().all())
            if column.dtype.type.is_float():
                passes.append(values.is_not_nan().all())
        passes.extend(check for check in checks if check is not None)
    if schema.unique:
        passes.append(~pl.struct(schema.unique).is_duplicated().any())
    return pl.all_horizontal(passes)


def _pass(column: pl.Expr, check: Check) -> pl.Expr | None:
    """Return whether all values of a column pass a check; None if the check is unknown."""
    passes = _CHECKS.get(check.name or "")
    if passes is None:
        return None
    # Like pandera, a check leaves out missing values.
    return passes(column, check.statistics or {}).fill_null(value=True).all()


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
            f"{model.__name__}: column {', '.join(absent)} is absent; found {', '.join(frame.columns)}",
            code="absent_column",
            table=model.__name__,
            columns=tuple(absent),
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
        raise ContractError(f"{model.__name__}: {_describe(error)}", table=model.__name__) from error


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
