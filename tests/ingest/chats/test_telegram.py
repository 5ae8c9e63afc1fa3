"""Telegram exports: single chats and whole accounts."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from backstory.base.errors import ReadError
from backstory.ingest.chats.exports import read_exports
from backstory.ingest.chats.message_ids import assign_message_ids
from backstory.settings.inputs import ConversationSettings
from tests.errors import raises
from tests.ingest.chats.single_exports import read_export

SETTINGS = ConversationSettings(timezone="Europe/Berlin")


def message(number: int, text: object = "hello", **fields: object) -> dict[str, Any]:
    return {
        "id": number,
        "type": "message",
        "date": "2024-01-15T22:05:00",
        "date_unixtime": str(1_705_352_700 + 60 * number),
        "from": "Ann Oak",
        "from_id": "user1",
        "text": text,
    } | fields


def chat(*messages: Any, **fields: object) -> dict[str, Any]:
    return {"name": "Bakers", "type": "private_supergroup", "id": 4123, **fields, "messages": list(messages)}


def read(folder: Path, **files: object) -> pl.DataFrame:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return read_exports(folder, SETTINGS).messages


def test_a_newer_export_adds_and_updates_by_ids(tmp_path: Path) -> None:
    old = chat(message(1), message(2, "tpyo"), message(3))
    before = assign_message_ids(read(tmp_path, a=old))
    changed = {"edited_unixtime": "1705360000"}
    rows = read(
        tmp_path, b=chat(message(2, "typo", **changed), message(3), message(4), name="Bakers and friends")
    )
    after = assign_message_ids(rows)

    assert after["text"].to_list() == ["hello", "typo", "hello", "hello"]
    assert after["edited"].to_list() == [False, True, False, False]
    assert after["message_id"].to_list()[:3] == before["message_id"].to_list()
    assert set(after["conversation_id"]) == {"Bakers and friends-4123"}


def test_two_accounts_number_the_messages_of_a_group_differently(tmp_path: Path) -> None:
    kind = {"type": "private_group"}
    said = [message(1), message(1, "again"), message(2, "then")]
    ours = [{**row, "id": number} for number, row in enumerate(said, start=10)]
    theirs = [{**row, "id": number} for number, row in enumerate(said, start=55)]
    theirs[2] |= {"reply_to_message_id": 56}
    rows = read(tmp_path, a=chat(*ours, **kind), b=chat(*theirs, message(70, "more"), **kind))

    named = assign_message_ids(rows)

    assert named["text"].to_list() == ["hello", "again", "then", "more"]
    assert named["reply_to"][2] == named["message_id"][1]


def test_records_that_cannot_be_read_are_numbered_and_cost_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    bad: list[Any] = [
        message(2, date_unixtime="soon"),
        message(3, 7),
        {"type": "story"},
        5,
        message(4, **{"from": 1, "from_id": 2}),
    ]
    whole = json.dumps(chat(message(1), *bad, message(9, "kept"), message(10)))
    path.write_text(whole[: whole.rindex("{")], encoding="utf-8")

    messages, unread = read_export(path, SETTINGS)

    assert messages["text"].to_list() == ["hello", "kept"]
    assert unread["line"].to_list() == [2, 3, 4, 5, 6, 8]
    assert "breaks off" in unread["reason"][-1]
    assert not unread["reason"].str.contains("soon|story").any()


def test_json_that_is_nested_too_deeply_ends_there(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(
        json.dumps(chat(message(1))).removesuffix("]}") + ', {"a": ' + "[" * 10_000, encoding="utf-8"
    )
    messages, unread = read_export(path, SETTINGS)
    assert len(messages) == 1
    assert "nested more than 64 levels" in unread["reason"][0]
    path.write_text("[" * 10_000, encoding="utf-8")
    with raises(ReadError, "unsupported"):
        read_export(path, SETTINGS)


def test_a_real_export_is_read_exactly(shared_data: Path) -> None:
    exports = shared_data / "exports"
    messages, unread = read_export(exports / "rendered" / "telegram_json" / "result.json", SETTINGS)
    expected = pl.read_parquet(exports / "rendered" / "ios_en_24h" / "expected.parquet")

    assert unread.is_empty()
    assert messages.select("author", "text").rows() == expected.select("author", "message").rows()


@pytest.mark.parametrize("name", ["test_single_export.json", "test_batch_export.json"])
def test_samples_of_another_reader_are_read(shared_data: Path, name: str) -> None:
    folder = shared_data / "exports" / "samples" / "chat-miner" / "telegram"
    target = json.loads((folder / "target.json").read_text(encoding="utf-8"))
    messages, unread = read_export(folder / name, SETTINGS)

    assert unread.is_empty()
    # That reader puts a space between the parts of a text, which Telegram does not mean.
    written = [(row["author"], row["message"].replace(" https", "https")) for row in target]
    assert messages.select("author", "text").rows() == written
    times = messages["timestamp"].dt.strftime("%Y-%m-%dT%H:%M:%S").to_list()
    assert times == [row["timestamp"] for row in target]
