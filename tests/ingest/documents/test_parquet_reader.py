from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal

import polars as pl
import pytest

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.tables import PARQUET
from backstory.ingest.documents.metadata import ParsedDocument
from tests.errors import raises


def write(table: pl.DataFrame) -> bytes:
    content = io.BytesIO()
    table.write_parquet(content)
    return content.getvalue()


def test_each_record_is_a_row() -> None:
    table = pl.DataFrame(
        {
            "n": [1, None],
            "text": ["x\ny", ""],
            "day": [dt.date(2024, 1, 2)] * 2,
            "at": [dt.datetime(2024, 1, 2, 3, 4, tzinfo=dt.UTC)] * 2,
            "took": [dt.timedelta(seconds=3)] * 2,
            "price": [Decimal("1.10")] * 2,
            "list": [[1, 2], None],
            "part": [{"a": True, "b": [{"c": "d"}]}] * 2,
            "photo": [b"\0", None],
            "image": [{"path": "a.png", "bytes": [b"\0"]}] * 2,
        }
    )
    rest = (
        "day: 2024-01-02; at: 2024-01-02 03:04:00.000000+00:00; took: PT3S; price: 1.10; {}part.a: true; "
        'part.b: [{{"c": "d"}}]'
    )
    assert PARQUET.read(write(table), "a.parquet") == ParsedDocument(
        text="n; text; day; at; took; price; list; part\n"
         'n: 1; text: "x\\ny"; ' + rest.format("list: [1, 2]; ") + "\n" + rest.format(""),
        chunker="rows",
        unread="these columns hold bytes and were left out: image; photo",
    )  # fmt: skip


@pytest.mark.parametrize(
    "table", [pl.DataFrame(), pl.DataFrame({"a": [None, None]}), pl.DataFrame({"a": ["", None]})]
)
def test_a_table_without_text_is_empty(table: pl.DataFrame) -> None:
    with raises(ReadError, "empty_document"):
        PARQUET.read(write(table), "a.parquet")


def test_a_damaged_table_is_refused() -> None:
    content = write(pl.DataFrame({"a": [1, 2]}))
    days = write(pl.DataFrame({"a": pl.Series([2**30], dtype=pl.Int32).cast(pl.Date)}))
    for damaged in (b"", content[:-6], b"PAR1", content[:4] + b"\xff" * 30 + content[34:], days):
        with raises(ReadError, "damaged_file"):
            PARQUET.read(damaged, "a.parquet")
