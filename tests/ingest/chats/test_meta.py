"""Exports of Instagram and Messenger."""

import json
import zipfile
from pathlib import Path
from typing import Any

import polars as pl

from backstory.ingest.chats.exports import read_exports
from backstory.ingest.chats.formats.meta import repair_text
from backstory.ingest.chats.message_ids import assign_message_ids
from backstory.ingest.privacy.leaks import find_real_names
from backstory.ingest.privacy.pseudonyms import pseudonymize_messages
from backstory.settings.inputs import ConversationSettings
from tests.ingest.chats.single_exports import read_export

SETTINGS = ConversationSettings()
START = 1_705_352_700_123


def spoil(text: str) -> str:
    """Write a text as Meta does."""
    return text.encode().decode("latin-1")


def said(
    second: int, text: str | None = "hello", author: str = "Zoë Oak", **fields: object
) -> dict[str, Any]:
    content = {} if text is None else {"content": spoil(text)}
    return {"sender_name": spoil(author), "timestamp_ms": START + 1000 * second, **content, **fields}


def thread(
    *messages: Any, title: str = "Bäcker", place: str = "inbox/backer_77", **fields: object
) -> dict[str, Any]:
    names = ["Zoë Oak", "Ben Elm", "Ann Ash"]
    return {
        "participants": [{"name": spoil(name)} for name in names],
        "messages": list(messages),
        "title": spoil(title),
        "is_still_participant": True,
        "thread_path": place,
        "magic_words": [],
    } | fields


def read(folder: Path, **files: object) -> pl.DataFrame:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return read_exports(folder, SETTINGS).messages


def test_the_files_of_a_thread_and_newer_exports_are_one_conversation(tmp_path: Path) -> None:
    twice = [said(2, "again"), said(2, "again", "Ben Elm")]
    before = assign_message_ids(read(tmp_path, message_1=thread(*twice), message_2=thread(said(1, "old"))))
    newer = thread(said(5, "more"), *twice, said(1, is_unsent=True), title="Rye", place="archived/rye_77")
    after = assign_message_ids(read(tmp_path, newer=newer))

    assert after.select("text", "kind").rows() == [
        (None, "system"),
        ("again", "message"),
        ("again", "message"),
        ("more", "message"),
    ]
    assert after["message_id"].to_list()[:3] == before["message_id"].to_list()
    assert set(after["conversation_id"]) == {"Rye-77"}


def test_an_archive_holds_its_threads_and_no_name_is_left(tmp_path: Path) -> None:
    place = "your_instagram_activity/messages/inbox"
    direct = thread(said(0, "hi @Zoë Oak", "Ben Elm"), title="Zoë Oak", place="inbox/zooak_78")
    with zipfile.ZipFile(tmp_path / "instagram.zip", "w") as archive:
        archive.writestr(
            f"{place}/backer_77/message_1.json", json.dumps(thread(said(0), said(1, "Ann Ash, look")))
        )
        archive.writestr(f"{place}/zooak_78/message_1.json", json.dumps(direct))
        archive.writestr("personal_information/account.json", json.dumps({"name": "Zoe"}))
    found = read_exports(tmp_path, SETTINGS)

    hidden = pseudonymize_messages(
        found.messages, bytes(32), aliases=found.aliases, other_names=found.unread_authors
    )

    assert sorted(set(hidden["conversation_id"])) == ["78", "Bäcker-77"]
    assert find_real_names(hidden, found.names).is_empty()
    assert hidden.filter(conversation_id="78")["text"].to_list() == [f"hi @{hidden['author'][0]}"]


def test_only_what_was_written_wrongly_is_repaired() -> None:
    for text in ("plain", "Grüße", "日本 🍞", "é", "Ã"):
        assert repair_text(spoil(text)) == text
    assert repair_text("Grüße") == "Grüße"
    assert repair_text("日本") == "日本"


def test_records_that_cannot_be_read_are_numbered_and_cost_nothing_else(tmp_path: Path) -> None:
    bad: list[Any] = [said(1, timestamp_ms="soon"), said(2, content=["x"]), said(3, sender_name=7), 7]
    odd = said(4, "kept \0", reactions=5, share=[], photos={}, users="x", type=[])
    path = tmp_path / "message_1.json"
    path.write_text(json.dumps(thread(said(0), *bad, odd)).partition(', "title"')[0][:-9], encoding="utf-8")
    messages, unread = read_export(path, SETTINGS)
    assert messages["text"].to_list() == ["hello"]
    assert set(messages["conversation_id"]) == {"message_1"}
    assert unread["line"].to_list() == [2, 3, 4, 5, 6]

    path.write_text(json.dumps(thread(*bad, odd)), encoding="utf-8")
    assert read_export(path, SETTINGS)[0].select("text", "kind").rows() == [("kept \0", "message")]


def test_a_sample_of_another_reader_is_read_exactly(shared_data: Path) -> None:
    folder = shared_data / "exports" / "samples" / "chat-miner" / "instagram"
    target = json.loads((folder / "target.json").read_text(encoding="utf-8"))
    messages, unread = read_export(folder / "test_export.json", SETTINGS)

    assert unread.is_empty()
    assert messages.select("author", "text").rows() == [(row["author"], row["message"]) for row in target]
    times = messages["timestamp"].dt.strftime("%Y-%m-%dT%H:%M:%S").to_list()
    assert times == [row["timestamp"] for row in target]


def test_messages_of_one_moment_in_two_files_of_an_archive_are_both_kept(tmp_path: Path) -> None:
    files = {"message_1": thread(said(2), said(1, "later")), "message_2": thread(said(1, "sooner"), said(0))}
    with zipfile.ZipFile(tmp_path / "instagram.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(f"messages/inbox/backer_77/{name}.json", json.dumps(content))

    rows = assign_message_ids(read_exports(tmp_path, SETTINGS).messages)

    assert sorted(rows["text"]) == ["hello", "hello", "later", "sooner"]
