"""The quick query of a contract says of each table what pandera says."""

from collections.abc import Callable

import polars as pl
import pytest
from pandera.errors import SchemaErrors

from backstory.base.errors import ContractError
from backstory.storage.tables.contracts import keeps_contract, polars_schema, validate
from backstory.storage.tables.schemas import SERVED_TABLES, Messages, WindowContexts
from tests.builders.messages import make_messages
from tests.errors import raises

MESSAGES = make_messages([{"message_id": "m"}, {"message_id": "n"}])


@pytest.mark.parametrize("table", SERVED_TABLES)
def test_every_contract_is_known(table: str) -> None:
    model = SERVED_TABLES[table]
    assert keeps_contract(pl.DataFrame(schema=polars_schema(model)), model)


@pytest.mark.parametrize(
    "breach",
    [
        lambda rows: rows.with_columns(kind=pl.lit("call")),
        lambda rows: rows.with_columns(message_id=pl.lit("m")),
        lambda rows: rows.with_columns(seq=pl.lit(None, pl.Int64)),
    ],
    ids=["value", "repeat", "null"],
)
def test_a_breach_is_found(breach: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    assert keeps_contract(MESSAGES, Messages)
    assert not keeps_contract(breach(MESSAGES), Messages)
    with raises(ContractError, table="Messages"):
        validate(breach(MESSAGES), Messages)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_numbers_out_of_range_are_found_as_pandera_finds_them(value: float) -> None:
    schema = polars_schema(WindowContexts)
    texts = dict.fromkeys((name for name, dtype in schema.items() if dtype == pl.String), "x")
    numbers = {name: 1 for name, dtype in schema.items() if dtype.is_numeric()}
    row = texts | numbers | {"status": "ok", "verdict": "not_known"}
    kept = pl.DataFrame([row], schema=schema)
    broken = kept.with_columns(coverage=pl.lit(value))
    WindowContexts.validate(kept, lazy=True)
    assert keeps_contract(kept, WindowContexts)
    with pytest.raises(SchemaErrors):
        WindowContexts.validate(broken, lazy=True)
    assert not keeps_contract(broken, WindowContexts)
