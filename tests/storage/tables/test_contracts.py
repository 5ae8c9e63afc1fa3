"""A frame that breaks the contract of its table is refused, by an error that names the columns and the values."""

from datetime import datetime

import polars as pl
import pytest
from pandera.errors import SchemaErrors

from backstory.base.errors import ContractError
from backstory.storage.tables.contracts import Table, empty, keeps_contract, make_schema, validate
from backstory.storage.tables.schemas import SERVED_TABLES, Messages, WindowContexts
from tests.builders.messages import make_messages
from tests.errors import raises


@pytest.mark.parametrize("model", SERVED_TABLES.values())
def test_no_rows_keep_every_contract(model: type[Table]) -> None:
    assert SERVED_TABLES[model.name] is model
    assert keeps_contract(empty(model), model)
    assert make_schema(model).validate(empty(model), lazy=True).schema == model.schema


def test_a_breach_is_found_as_pandera_finds_it() -> None:
    messages = make_messages([{"message_id": "m"}, {"message_id": "n"}])
    texts = dict.fromkeys((name for name, kind in WindowContexts.schema.items() if kind == pl.String), "x")
    numbers = {name: 1 for name, kind in WindowContexts.schema.items() if kind.is_numeric()}
    times = {
        name: datetime(2025, 1, 15) for name, kind in WindowContexts.schema.items() if kind.is_temporal()
    }
    row = texts | numbers | times | {"status": "ok", "verdict": "not_known"}
    contexts = pl.DataFrame([row], schema=WindowContexts.schema)
    for rows, model in ((messages, Messages), (contexts, WindowContexts)):
        assert validate(rows, model) is rows
        make_schema(model).validate(rows, lazy=True)
    coverages = [pl.lit(value, pl.Float64).alias("coverage") for value in (-0.1, 1.1, float("nan"), None)]
    breaches = [
        messages.with_columns(kind=pl.lit("call")),
        messages.with_columns(message_id=pl.lit("m")),
        messages.with_columns(seq=pl.lit(None, pl.Int64)),
        messages.drop("seq"),
        messages.with_columns(more=1),
        messages.cast({"seq": pl.Int32}),
        messages.select(reversed(messages.columns)),
        *(contexts.with_columns(coverage) for coverage in coverages),
    ]
    for broken in breaches:
        model = Messages if "message_id" in broken.columns else WindowContexts
        assert not keeps_contract(broken, model)
        with pytest.raises(SchemaErrors):
            make_schema(model).validate(broken, lazy=True)
        with raises(ContractError) as caught:
            validate(broken, model)
        assert model is Messages or "coverage" in str(caught.value)
