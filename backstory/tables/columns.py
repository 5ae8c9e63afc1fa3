"""What all contracts of tables are made of: their base, and the types of columns that pandera has no name for."""

from __future__ import annotations

from typing import Annotated

import pandera.polars as pa
import polars as pl

UtcDatetime = Annotated[pl.Datetime, "us", "UTC"]
StringList = Annotated[pl.List, pl.String()]
NumberList = Annotated[pl.List, pl.Int64()]
ShareList = Annotated[pl.List, pl.Float64()]
Reactions = Annotated[pl.List, pl.Struct({"emoji": pl.String(), "count": pl.Int64()})]


class Table(pa.DataFrameModel):
    """Base of all tables: exactly the declared columns, in the declared order."""

    class Config:
        strict = True
        ordered = True
