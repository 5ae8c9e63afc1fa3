"""Identities of messages."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from backstory.ingest.chats.exports import read_exports
from backstory.ingest.chats.merging import NAMED_SCHEMA, assign_message_ids
from backstory.settings.inputs import ConversationSettings
from tests.builders.messages import raw_messages

START = datetime(2024, 1, 15, 21, 5, tzinfo=UTC)


def frame(*rows: tuple[int, str | None, str | None, str]) -> pl.DataFrame:
    return raw_messages(
        ("team", START + timedelta(minutes=minute), seq, author, text, "message", source)
        for seq, (minute, author, text, source) in enumerate(rows)
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        (
            [(1, "Ann", "b", "x"), (0, "Ann", "a", "x"), (1, "Ann", "c", "x")],
            [("a", "x"), ("b", "x"), ("c", "x")],
        ),
        # What two exports hold is kept once.
        (
            [(0, "Ann", "a", "x"), (1, "Ann", "b", "x"), (1, "Ann", "b", "y"), (2, "Ann", "c", "y")],
            [("a", "x"), ("b", "x"), ("c", "y")],
        ),
        # What was written twice stays twice.
        ([(0, "Ann", "ok", source) for source in "xxyy"], [("ok", "x"), ("ok", "x")]),
        # Absent and empty values are different.
        (
            [(0, None, "a", "x"), (0, "", "a", "x"), (0, "Ann", None, "x"), (0, "Ann", "", "x")],
            [("a", "x"), ("a", "x"), (None, "x"), ("", "x")],
        ),
    ],
)
def test_messages_are_ordered_and_kept_once_whatever_the_order_of_the_rows(
    rows: list[tuple[int, str | None, str | None, str]], expected: list[tuple[str | None, str]]
) -> None:
    named = assign_message_ids(frame(*rows))

    assert named.select("text", "source").rows() == expected
    assert named["message_id"].is_unique().all()
    assert named.schema == NAMED_SCHEMA
    assert assign_message_ids(frame(*rows).reverse()).equals(named)


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
