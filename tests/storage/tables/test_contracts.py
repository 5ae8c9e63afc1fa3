"""A frame that breaks the contract of its table is refused, by an error that names the columns and the values."""

from collections.abc import Callable
from datetime import datetime

import polars as pl
import pytest
from pandera.errors import SchemaError, SchemaErrors

from backstory.base.errors import ContractError
from backstory.storage.tables.contracts import empty, keeps_contract, make_schema, validate
from backstory.storage.tables.schemas import SERVED_TABLES, Messages, WindowContexts
from tests.builders.messages import make_messages
from tests.errors import raises

MESSAGES = make_messages([{"message_id": "m"}, {"message_id": "n"}])


@pytest.mark.parametrize("table", SERVED_TABLES)
def test_no_rows_keep_every_contract(table: str) -> None:
    model = SERVED_TABLES[table]
    nothing = empty(model)
    assert keeps_contract(nothing, model)
    assert make_schema(model).validate(nothing, lazy=True).schema == model.schema


@pytest.mark.parametrize(
    "breach",
    [
        lambda rows: rows.with_columns(kind=pl.lit("call")),
        lambda rows: rows.with_columns(message_id=pl.lit("m")),
        lambda rows: rows.with_columns(seq=pl.lit(None, pl.Int64)),
        lambda rows: rows.drop("seq"),
        lambda rows: rows.with_columns(more=1),
        lambda rows: rows.cast({"seq": pl.Int32}),
        lambda rows: rows.select(reversed(rows.columns)),
    ],
    ids=["value", "repeat", "null", "absent", "more", "type", "order"],
)
def test_a_breach_is_named_as_pandera_names_it(breach: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    assert validate(MESSAGES, Messages) is MESSAGES
    make_schema(Messages).validate(MESSAGES, lazy=True)
    broken = breach(MESSAGES)
    assert not keeps_contract(broken, Messages)
    with pytest.raises((SchemaError, SchemaErrors)):
        make_schema(Messages).validate(broken, lazy=True)
    with raises(ContractError, None, "Messages"):
        validate(broken, Messages)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), None])
def test_numbers_out_of_range_are_found_as_pandera_finds_them(value: float | None) -> None:
    schema = WindowContexts.schema
    texts = dict.fromkeys((name for name, dtype in schema.items() if dtype == pl.String), "x")
    numbers = {name: 1 for name, dtype in schema.items() if dtype.is_numeric()}
    times = {name: datetime(2025, 1, 15) for name, dtype in schema.items() if dtype.is_temporal()}
    kept = pl.DataFrame([texts | numbers | times | {"status": "ok", "verdict": "not_known"}], schema=schema)
    broken = kept.with_columns(coverage=pl.lit(value, pl.Float64))
    make_schema(WindowContexts).validate(kept, lazy=True)
    assert keeps_contract(kept, WindowContexts)
    with pytest.raises(SchemaErrors):
        make_schema(WindowContexts).validate(broken, lazy=True)
    with raises(ContractError, None, "WindowContexts") as caught:
        validate(broken, WindowContexts)
    assert "coverage" in str(caught.value)
