"""Chats as Parquet, CSV and JSON lines."""

import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone

import polars as pl
import pytest

from backstory.base.errors import InputError, ReadError
from backstory.ingest.chats.formats.tables import read_timestamp
from tests.errors import raises
from tests.ingest.chats.conftest import ReadText

MOMENT = datetime(2024, 1, 15, 21, 5, tzinfo=UTC)
COLUMNS = ("timestamp", "seq", "author", "text", "kind")


def parquet(columns: Mapping[str, object]) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()


def test_the_three_formats_give_the_same_rows(read_text: ReadText) -> None:
    rows = [
        {"timestamp": "2024-01-15T21:05:00Z", "author": "Ann", "message": 'say "hi", twice\nplease'},
        {"timestamp": "2024-01-15T21:06:00Z", "author": "Ben", "message": "<Media omitted>"},
    ]
    table = pl.DataFrame(rows)

    frames = [
        read_text(parquet(table.to_dict()), "a.parquet"),
        read_text(table.write_csv(), "a.csv"),
        read_text("".join(json.dumps(row) + "\n" for row in rows), "a.jsonl"),
    ]

    for messages, quarantine in frames:
        assert messages.select(COLUMNS).rows() == [
            (MOMENT, 0, "Ann", 'say "hi", twice\nplease', "message"),
            (MOMENT + timedelta(minutes=1), 1, "Ben", None, "media"),
        ]
        assert quarantine.is_empty()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["chat.csv", "chat.txt"])
def test_any_delimiter_is_found(read_text: ReadText, delimiter: str, name: str) -> None:
    lines = (("timestamp", "author", "message"), ("2024-01-15 21:05", "Ann", "hello"))

    for stated in ("", f"sep={delimiter}\r\n", f'"sep={delimiter}"\r\n'):
        messages, _ = read_text(f"\ufeff{stated}" + "\r\n".join(map(delimiter.join, lines)), name)

        assert messages.select(COLUMNS).rows() == [(MOMENT, 0, "Ann", "hello", "message")]


def test_columns_are_named_by_settings(read_text: ReadText) -> None:
    messages, _ = read_text(
        "who,when,what,more\nAnn,2024-01-15 21:05,hello,1\n",
        "chat.csv",
        timestamp_column="when",
        author_column="who",
        message_column="what",
    )

    assert messages.select("timestamp", "author", "text").rows() == [(MOMENT, "Ann", "hello")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chat.csv", b"timestamp,author,body\n2024-01-15,Ann,hello\n"),
        ("chat.jsonl", b'{"timestamp": 1, "author": "Ann", "body": "hello"}\n' * 2),
        ("chat.parquet", parquet({"timestamp": [1], "author": ["Ann"], "body": ["hello"]})),
    ],
)
def test_absent_column_names_settings_and_columns(read_text: ReadText, name: str, content: bytes) -> None:
    with raises(ReadError):
        read_text(content, name)


@pytest.mark.parametrize(
    "value",
    [
        MOMENT,
        MOMENT.astimezone(timezone(timedelta(hours=5, minutes=30))),
        "2024-01-15T21:05:00Z",
        "2024-01-15 22:05:00+01:00",
        "20240115T210500Z",
        1705352700,
        1705352700.0,
        "1705352700",
        "1705352700.0",
        "+1705352700",
        "1.7053527E9",
        "1.7053527e9",
        "1.7053527e+09",
        1705352700_000,
        1705352700_000_000,
        "1705352700000000000",
    ],
)
def test_timestamps_of_any_form_are_the_same_moment(value: object) -> None:
    assert read_timestamp(value) == MOMENT


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-01-15T21:05", datetime(2024, 1, 15, 21, 5)),
        (datetime(2024, 1, 15, 21, 5), datetime(2024, 1, 15, 21, 5)),
        ("20240115", datetime(2024, 1, 15)),
    ],
)
def test_timestamps_without_a_zone_stay_local(value: object, expected: datetime) -> None:
    assert read_timestamp(value) == expected


def test_an_hour_that_occurs_twice_is_the_first_one_in_whatever_order_a_table_is(read_text: ReadText) -> None:
    rows = ["2024-10-27 02:10,Ann,one", "2024-10-27 02:50,Ann,two"]
    for listed in (rows, rows[::-1]):
        messages, _ = read_text(
            "\n".join(["timestamp,author,message", *listed]), "a.csv", timezone="Europe/Berlin"
        )
        assert messages["timestamp"].dt.hour().to_list() == [0, 0]


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "yesterday",
        "2024-02-31",
        True,
        float("nan"),
        float("inf"),
        1e300,
        [],
        "1" * 400,
        10**400,
        "9" * 30,
        "0001-01-01",
        "17",
        "2024011521050Z",
        "202401152105001 10:00",
    ],
)
def test_other_values_are_no_timestamps(value: object) -> None:
    with pytest.raises(InputError):
        read_timestamp(value)


def test_naive_timestamps_are_in_the_time_zone_of_the_setting(read_text: ReadText) -> None:
    table = {
        "timestamp": [datetime(2024, 7, 15, 21, 5), None],
        "author": ["Ann", "Ann"],
        "message": ["hello", "no time"],
    }

    messages, quarantine = read_text(parquet(table), "chat.parquet", timezone="Europe/Berlin")

    assert messages["timestamp"].to_list() == [datetime(2024, 7, 15, 19, 5, tzinfo=UTC)]
    assert quarantine["line"].to_list() == [2]


def test_bad_lines_of_json_are_quarantined_one_by_one(read_text: ReadText) -> None:
    good = {"timestamp": "2024-01-15T21:05:00Z", "author": "Ann", "message": "hello"}
    lines = [
        json.dumps(good).encode(),
        b'{"timestamp": ',
        b"[1, 2]",
        b"",
        json.dumps({**good, "timestamp": "soon"}).encode(),
        json.dumps({**good, "message": ["a"]}).encode(),
        json.dumps({**good, "message": None, "author": None}).encode(),
        b'{"timestamp": "2024-01-15T21:05:00Z", "author": "Zo\xeb", "message": "sch\xc3\xb6n"}',
        json.dumps({**good, "message": "\ud83d"}).encode(),
        b'{"message": ' + b"[" * 100_000,
        json.dumps({**good, "message": 7}).encode(),
        json.dumps({**good, "message": "schön"}, ensure_ascii=False).encode(),
    ]

    messages, quarantine = read_text(b"\n".join(lines), "chat.jsonl")

    assert messages["text"].to_list() == ["hello", "7", "schön"]
    assert quarantine["line"].to_list() == [2, 3, 5, 6, 7, 8, 9, 10]
    assert quarantine["reason"][1] == "it has 0 fields instead of 3"


@pytest.mark.parametrize(
    ("rows", "texts", "unread"),
    [
        (b"2024-01-15 21:02,Ann\n2024-01-15 21:03,Ann,a,b\n2024-01-15 21:04,Ann,one\n", ["one"], [2, 3]),
        (b'never,Ann,"two\nlines"\n2024-01-15 21:04,Ann,"two\nlines"\n', ["two\nlines"], [2]),
        (b'2024-01-15 21:05,Ann,"open\n2024-01-15 21:06,Ben,"quoted"\n\n2024-01-15 21:07,Ben,last\n',
         ["quoted", "last"], [2]),
        (b'2024-01-15 21:01,Ann,"open\n2024-01-15 21:02,Ben,plain\n', ["plain"], [2]),
        (b'2024-01-15 21:01,Ann,"gr\xfc\xdf\ndich"\n2024-01-15 21:02,Zo\xeb,x\n2024-01-15 21:03,Ben,sch\xc3\xb6n\n',
         ["schön"], [2, 4]),
    ],
    ids=["widths", "time", "quotation marks", "quotation mark open at the end", "bytes"],
)  # fmt: skip
def test_bad_records_of_csv_are_quarantined_one_by_one(
    read_text: ReadText, rows: bytes, texts: list[str], unread: list[int]
) -> None:
    messages, quarantine = read_text(b"timestamp,author,message\n" + rows, "chat.csv")

    assert messages["text"].to_list() == texts
    assert quarantine["line"].to_list() == unread


def test_record_without_an_author_is_a_system_line(read_text: ReadText) -> None:
    messages, _ = read_text("timestamp,author,message\n2024-01-15 21:05,,Ann left\n", "chat.csv")

    assert messages.select("author", "kind").rows() == [(None, "system")]


def test_durations_of_parquet_are_no_timestamps(read_text: ReadText) -> None:
    content = parquet(
        {"timestamp": [timedelta(seconds=5), None], "author": ["Ann"] * 2, "message": ["hi"] * 2}
    )
    _, unread = read_text(content, name="chat.parquet")
    assert unread["line"].to_list() == [1, 2]


def test_original_labelled_windows_are_readable(read_text: ReadText) -> None:
    rows = pl.DataFrame(
        {"msg_no": [0], "timestamp": [MOMENT], "author": ["Ann"], "message": ["hello"]},
        schema_overrides={"timestamp": pl.Datetime("ms", "UTC")},
    )

    messages, _ = read_text(parquet(rows.to_dict()), "windows.parquet")

    assert messages.select("timestamp", "author", "text").rows() == [(MOMENT, "Ann", "hello")]
