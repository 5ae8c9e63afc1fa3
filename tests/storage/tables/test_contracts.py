"""A frame that breaks the contract of its table is refused, by an error that names the columns and the values."""

from collections.abc import Callable

import polars as pl
import pytest

from backstory.base.errors import ContractError
from backstory.storage.tables.contracts import empty, polars_schema, validate
from backstory.storage.tables.schemas import SERVED_TABLES, Messages, WindowContexts
from tests.builders.messages import make_messages
from tests.errors import raises

MESSAGES = make_messages([{"message_id": "m"}, {"message_id": "n"}])


@pytest.mark.parametrize("table", SERVED_TABLES)
def test_no_rows_keep_every_contract(table: str) -> None:
    model = SERVED_TABLES[table]
    assert validate(empty(model), model).schema == polars_schema(model)


@pytest.mark.parametrize(
    ("breach", "told"),
    [
        (lambda rows: rows.with_columns(kind=pl.lit("call")), ["kind is none of", "in 2 of 2 rows", "call"]),
        (lambda rows: rows.with_columns(message_id=pl.lit("m")), ["message_id occurs in several rows"]),
        (lambda rows: rows.with_columns(seq=pl.lit(None, pl.Int64)), ["seq is missing in 2 of 2 rows"]),
        (lambda rows: rows.drop("seq"), ["seq is absent"]),
        (lambda rows: rows.with_columns(more=1), ["more is no column"]),
        (lambda rows: rows.cast({"seq": pl.Int32}), ["seq is Int32 in place of Int64"]),
        (lambda rows: rows.select(reversed(rows.columns)), ["another order"]),
    ],
)
def test_a_breach_is_named(breach: Callable[[pl.DataFrame], pl.DataFrame], told: list[str]) -> None:
    assert validate(MESSAGES, Messages) is MESSAGES
    with raises(ContractError, table="Messages") as caught:
        validate(breach(MESSAGES), Messages)
    assert all(words in str(caught.value) for words in told)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), None])
def test_numbers_out_of_range_are_breaches(value: float | None) -> None:
    schema = polars_schema(WindowContexts)
    texts = dict.fromkeys((name for name, dtype in schema.items() if dtype == pl.String), "x")
    numbers = {name: 1 for name, dtype in schema.items() if dtype.is_numeric()}
    kept = pl.DataFrame([texts | numbers | {"status": "ok", "verdict": "not_known"}], schema=schema)
    validate(kept, WindowContexts)
    with raises(ContractError, table="WindowContexts") as caught:
        validate(kept.with_columns(coverage=pl.lit(value, pl.Float64)), WindowContexts)
    assert "coverage" in str(caught.value)
