"""Identities of messages."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from backstory.ingest.chats.exports import RAW_SCHEMA, read_exports
from backstory.ingest.chats.message_ids import NAMED_SCHEMA, assign_message_ids
from backstory.settings.inputs import ConversationSettings
from tests.builders.messages import raw_messages

START = datetime(2024, 1, 15, 21, 5, tzinfo=UTC)


def frame(*rows: tuple[int, str | None, str | None, str]) -> pl.DataFrame:
    return raw_messages(
        ("team", START + timedelta(minutes=minute), seq, author, text, "message", source)
        for seq, (minute, author, text, source) in enumerate(rows)
    )


def test_rows_are_ordered_by_time_and_place() -> None:
    rows = frame((1, "Ann", "b", "x"), (0, "Ann", "a", "x"), (1, "Ann", "c", "x"))

    named = assign_message_ids(rows)

    assert named["text"].to_list() == ["a", "b", "c"]
    assert named.schema == NAMED_SCHEMA


def test_order_of_the_input_does_not_matter() -> None:
    rows = frame((0, "Ann", "a", "x"), (0, "Ann", "b", "x"), (0, None, None, "y"), (2, "Ben", "a", "y"))

    assert assign_message_ids(rows.reverse()).equals(assign_message_ids(rows))


def test_what_two_exports_hold_is_kept_once() -> None:
    rows = frame((0, "Ann", "a", "x"), (1, "Ann", "b", "x"), (1, "Ann", "b", "y"), (2, "Ann", "c", "y"))

    named = assign_message_ids(rows)

    assert named.select("text", "source").rows() == [("a", "x"), ("b", "x"), ("c", "y")]


def test_what_was_written_twice_stays_twice() -> None:
    rows = frame((0, "Ann", "ok", "x"), (0, "Ann", "ok", "x"), (0, "Ann", "ok", "y"), (0, "Ann", "ok", "y"))

    named = assign_message_ids(rows)

    assert named["source"].to_list() == ["x", "x"]
    assert named["message_id"].n_unique() == 2


def test_absent_and_empty_values_are_different() -> None:
    named = assign_message_ids(
        frame((0, None, "a", "x"), (0, "", "a", "x"), (0, "Ann", None, "x"), (0, "Ann", "", "x"))
    )

    assert named["message_id"].n_unique() == 4


def test_ids_do_not_change_when_an_export_is_added(tmp_path: Path) -> None:
    settings = ConversationSettings()
    folder = tmp_path / "team"
    folder.mkdir()
    january = "15.01.24, 21:05 - Ann: hello\n16.01.24, 21:05 - Ben: hi\n"
    (folder / "b.txt").write_text(january, encoding="utf-8")
    before = assign_message_ids(read_exports(tmp_path, settings).messages)

    (folder / "a.txt").write_text(january + "17.01.24, 21:05 - Ann: bye\n", encoding="utf-8")
    after = assign_message_ids(read_exports(tmp_path, settings).messages)

    assert after["message_id"].to_list()[:2] == before["message_id"].to_list()
    assert after["text"].to_list() == ["hello", "hi", "bye"]


def test_no_messages_give_no_rows() -> None:
    named = assign_message_ids(pl.DataFrame(schema=RAW_SCHEMA))

    assert named.is_empty()
    assert named.schema == NAMED_SCHEMA
