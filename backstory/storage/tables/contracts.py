"""The contracts of :mod:`backstory.storage.tables.schemas` applied to frames: described, cast, checked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import polars as pl

from backstory.base.errors import ContractError
from backstory.storage.tables.table import Column, Table

_SHOWN: int = 8


class _Rule(NamedTuple):
    """A rule of a contract.

    Attributes:
        columns: The columns that it is about.
        keeps: Whether each row keeps it; null for a missing value.
        breach: What a row that does not keep it is, after the name of the column.
    """

    columns: tuple[str, ...]
    keeps: pl.Expr
    breach: str


@cache
def _list_rules(model: type[Table]) -> tuple[_Rule, ...]:
    rules = [rule for column in model.columns for rule in _list_column_rules(column)]
    if model.unique:
        keeps = ~pl.struct(model.unique).is_duplicated()
        rules.append(_Rule(model.unique, keeps, "occurs in several rows"))
    return tuple(rules)


def _list_column_rules(column: Column) -> Iterator[_Rule]:
    values = pl.col(column.name)
    names = (column.name,)
    if not column.nullable:
        yield _Rule(names, values.is_not_null(), "is missing")
        if column.dtype.is_float():
            yield _Rule(names, values.is_not_nan(), "is not a number")
    # A missing value is neither kept nor broken, and `all` and `filter` pass it over.
    if column.least is not None:
        yield _Rule(names, (values >= column.least), f"is below {column.least:g}")
    if column.most is not None:
        yield _Rule(names, (values <= column.most), f"is above {column.most:g}")
    if column.allowed is not None:
        keeps = values.is_in(list(column.allowed))
        yield _Rule(names, keeps, f"is none of {', '.join(column.allowed)}")


@cache
def _join_rules(model: type[Table]) -> pl.Expr:
    """Return whether all rows keep all rules."""
    return pl.all_horizontal([rule.keeps.all() for rule in _list_rules(model)])


@cache
def polars_schema(model: type[Table]) -> pl.Schema:
    """Return the Polars schema of a table: column names and types, in order."""
    return pl.Schema({column.name: column.dtype for column in model.columns})


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
        ContractError: The contract is broken. The error lists the broken rules and some of the values.
    """
    breaches = _compare_columns(frame, model)
    if not breaches:
        if frame.lazy().select(_join_rules(model)).collect().item():
            return frame
        breaches = [breach for rule in _list_rules(model) if (breach := _describe_breach(frame, rule))]
    raise ContractError(f"{model.__name__}: {'; '.join(breaches[:_SHOWN])}", table=model.__name__)


def _compare_columns(frame: pl.DataFrame, model: type[Table]) -> list[str]:
    """Return how the columns of a frame differ from those of its contract."""
    schema = polars_schema(model)
    if frame.schema == schema:
        return []
    breaches = [f"{name} is absent" for name in schema if name not in frame.columns]
    breaches += [f"{name} is no column of the table" for name in frame.columns if name not in schema]
    breaches += [
        f"{name} is {frame.schema[name]} in place of {dtype}"
        for name, dtype in schema.items()
        if name in frame.columns and frame.schema[name] != dtype
    ]
    return breaches or ["the columns are in another order"]


def _describe_breach(frame: pl.DataFrame, rule: _Rule) -> str | None:
    """Return which values break a rule, or None if none does."""
    broken = frame.filter(~rule.keeps).select(rule.columns)
    if broken.is_empty():
        return None
    example = ", ".join(str(value)[:80] for value in broken.row(0))
    return f"{', '.join(rule.columns)} {rule.breach} in {len(broken)} of {len(frame)} rows (for example {example})"
