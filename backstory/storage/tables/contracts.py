"""Contracts of tables: the columns with their types and limits, and frames that are cast to them and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Final

import polars as pl

from backstory.base.errors import ContractError

if TYPE_CHECKING:
    from pandera.errors import SchemaErrors
    from pandera.polars import DataFrameSchema

_SHOWN: Final = 8


@dataclass(eq=False)
class Column:
    """One column of a table: its type, what it holds in a sentence, and the values that there may be."""

    dtype: pl.DataType
    description: str
    nullable: bool = False
    least: float | None = None
    most: float | None = None
    allowed: tuple[str, ...] | None = None
    name: str = field(init=False)

    def __set_name__(self, table: type[Table], name: str) -> None:
        self.name = name


class Table:
    """Base of all tables, which have exactly the declared columns, in the declared order.

    The values of the columns ``unique`` together occur in one row only; it is empty if rows may repeat.
    """

    name: ClassVar[str]
    columns: ClassVar[tuple[Column, ...]]
    schema: ClassVar[pl.Schema]
    unique: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, *, unique: tuple[str, ...] = ()) -> None:
        cls.name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        cls.unique = unique
        cls.columns = tuple(value for value in vars(cls).values() if isinstance(value, Column))
        cls.schema = pl.Schema({column.name: column.dtype for column in cls.columns})


def empty(model: type[Table]) -> pl.DataFrame:
    """Make a frame of no rows with the columns of a table."""
    return pl.DataFrame(schema=model.schema)


def conform(frame: pl.DataFrame, model: type[Table]) -> pl.DataFrame:
    """Select and cast the columns of a table, in order."""
    return frame.select([pl.col(name).cast(dtype) for name, dtype in model.schema.items()])


def validate(frame: pl.DataFrame, model: type[Table]) -> pl.DataFrame:
    """Check a frame against its contract, and return it unchanged; the error lists what fails, and some values."""
    if keeps_contract(frame, model):
        return frame
    from pandera.errors import SchemaErrors

    try:
        make_schema(model).validate(frame, lazy=True)
    except SchemaErrors as error:
        raise ContractError(f"{model.__name__}: {_describe(error)}") from error
    return frame


def make_schema(model: type[Table]) -> DataFrameSchema:
    """Build the pandera schema of a table, for what a run finds broken, and for the checks of a writer's program."""
    import pandera.polars as pa  # takes a third of a second, which no command needs whose tables are whole

    columns = {
        column.name: pa.Column(
            column.dtype,
            nullable=column.nullable,
            checks=[
                *([] if column.least is None else [pa.Check.ge(column.least)]),
                *([] if column.most is None else [pa.Check.le(column.most)]),
                *([] if column.allowed is None else [pa.Check.isin(column.allowed)]),
            ],
            description=column.description,
        )
        for column in model.columns
    }
    return pa.DataFrameSchema(columns, unique=list(model.unique) or None, strict=True, ordered=True)


def keeps_contract(frame: pl.DataFrame, model: type[Table]) -> bool:
    """Return whether a frame certainly keeps its contract, in a tenth of the time of pandera."""
    return (
        frame.schema == model.schema
        # Polars has counted missing values already, so that a rule of the query would take longer than to ask.
        and all(column.nullable or not frame[column.name].null_count() for column in model.columns)
        and bool(frame.select(_keeps(model.columns, model.unique)).item())
    )


@cache
def _keeps(columns: tuple[Column, ...], unique: tuple[str, ...]) -> pl.Expr:
    """Return whether all values are within the limits; like pandera, a limit leaves out missing values."""
    rules = [pl.lit(value=True)]
    for column in columns:
        values = pl.col(column.name)
        if not column.nullable and column.dtype.is_float():
            rules.append(values.is_not_nan().all())
        if column.least is not None:
            rules.append((values >= column.least).all())
        if column.most is not None:
            rules.append((values <= column.most).all())
        if column.allowed is not None:
            rules.append(values.is_in(list(column.allowed)).all())
    if unique:
        rules.append(pl.struct(unique).n_unique() == pl.len())
    return pl.all_horizontal(rules)


def _describe(error: SchemaErrors) -> str:
    cases = error.failure_cases.unique(["column", "check"], keep="first", maintain_order=True)
    return "; ".join(
        f"the table fails {row['check']}"
        if row["schema_context"] == "DataFrameSchema"
        else f"{row['column']} fails {row['check']} (for example {str(row['failure_case'])[:80]!r})"
        for row in cases.head(_SHOWN).to_dicts()
    )
