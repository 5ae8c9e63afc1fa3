"""A table as its contract states it: the columns, their types and limits, and what tells its rows apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, get_args, get_type_hints

import polars as pl

_TYPES: Final[Mapping[Any, pl.DataType]] = MappingProxyType(
    {str: pl.String(), int: pl.Int64(), float: pl.Float64(), bool: pl.Boolean()}
)


@dataclass(frozen=True)
class _Limits:
    nullable: bool
    least: float | None
    most: float | None
    allowed: tuple[str, ...] | None
    description: str


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: Its name.
        dtype: Its type.
        nullable: Whether a value may be missing.
        least: Least number that a value may be, or None.
        most: Greatest number that a value may be, or None.
        allowed: All values that there may be, or None.
        description: What it holds, one sentence.
    """

    name: str
    dtype: pl.DataType
    nullable: bool
    least: float | None
    most: float | None
    allowed: tuple[str, ...] | None
    description: str


def declare(
    *,
    description: str,
    nullable: bool = False,
    least: float | None = None,
    most: float | None = None,
    allowed: tuple[str, ...] | None = None,
) -> Any:
    """Declare a column of a table, in place of a value of its type; :class:`Column` describes the arguments."""
    return _Limits(nullable, least, most, allowed, description)


def _read_type(hint: Any) -> pl.DataType:
    """Return the type that an annotation stands for: of Python, or one of Polars with its arguments."""
    if known := _TYPES.get(hint):
        return known
    kind, *arguments = get_args(hint)
    made = kind(*arguments)
    if not isinstance(made, pl.DataType):
        raise TypeError(f"{hint} is no type of a column")
    return made


class _TableKind(type):
    """Class of the classes of tables, each of which knows its columns.

    Attributes:
        columns: The columns, in order.
    """

    columns: tuple[Column, ...]

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls.columns = tuple(
            Column(
                name,
                _read_type(hint),
                limits.nullable,
                limits.least,
                limits.most,
                limits.allowed,
                limits.description,
            )
            for name, hint in get_type_hints(cls, include_extras=True).items()
            if isinstance(limits := namespace.get(name), _Limits)
        )


class Table(metaclass=_TableKind):
    """Base of all tables, which have exactly the declared columns, in the declared order.

    Attributes:
        unique: Columns whose values together occur in one row only; empty if rows may repeat.
    """

    unique: ClassVar[tuple[str, ...]] = ()
