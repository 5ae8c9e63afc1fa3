"""Rooms of Matrix, as Element exports them."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from backstory.ingest.chats.exports import read_exports
from backstory.ingest.chats.message_ids import assign_message_ids
from backstory.ingest.privacy.leaks import find_real_names
from backstory.ingest.privacy.pseudonyms import pseudonymize_messages
from backstory.settings.inputs import ConversationSettings
from tests.ingest.chats.single_exports import read_export

SETTINGS = ConversationSettings()
ANN, BEN, ZOE = "@ann:a.example", "@ben:b.example", "@zoe:b.example"
START = 1_705_352_700_000


def event(number: int, kind: str, content: Any, sender: str = ANN, **fields: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "event_id": f"${number}",
        "room_id": "!bread:a.example",
        "sender": sender,
        "origin_server_ts": START + 1000 * number,
        "content": content,
        "unsigned": {"age": 1},
    } | fields


def said(
    number: int, text: Any = "hello", sender: str = ANN, relation: Any = None, **content: Any
) -> dict[str, Any]:
    related = {} if relation is None else {"m.relates_to": relation}
    return event(number, "m.room.message", {"msgtype": "m.text", "body": text} | content | related, sender)


def joined(number: int, member: str, name: str) -> dict[str, Any]:
    return event(
        number, "m.room.member", {"membership": "join", "displayname": name}, member, state_key=member
    )


def changed(number: int, target: int, text: str, sender: str = ANN) -> dict[str, Any]:
    relation = {"rel_type": "m.replace", "event_id": f"${target}"}
    return said(
        number, f"* {text}", sender, relation, **{"m.new_content": {"msgtype": "m.text", "body": text}}
    )


def room(*events: Any, **fields: Any) -> dict[str, Any]:
    members = [joined(-3, ANN, "Ann Oak"), joined(-2, BEN, "Ben Elm"), joined(-1, ZOE, "Zoe Fir")]
    return {"room_name": "Bread", "room_creator": "Ann Oak", "topic": "", "export_date": "1/15/2024",
            "exported_by": "Ben Elm", "messages": [*members, *events]} | fields  # fmt: skip


def read(folder: Path, **files: Any) -> pl.DataFrame:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content, indent=2), encoding="utf-8")
    return read_exports(folder, SETTINGS).messages.filter(pl.col("text") != "join")


def test_no_name_is_left_and_a_room_of_two_has_no_name(tmp_path: Path) -> None:
    direct = [
        said(1, "hi @Ben Elm"),
        said(2, "hi Ann Oak", BEN),
        joined(3, BEN, "Ben Elm"),
        joined(4, ANN, "Ann Oak"),
    ]
    read(tmp_path, direct=room(room_name="Ben Elm", messages=direct))
    found = read_exports(tmp_path, SETTINGS)

    hidden = pseudonymize_messages(
        found.messages, bytes(32), aliases=found.aliases, other_names=found.unread_authors
    )

    assert "Elm" not in hidden["conversation_id"][0]
    ann, ben = hidden["author"].to_list()[:2]
    assert hidden["text"].to_list()[:2] == [f"hi @{ben}", f"hi {ann}"]
    assert find_real_names(hidden, found.names).is_empty()


def test_a_newer_export_adds_changes_and_deletes_by_ids(tmp_path: Path) -> None:
    before = assign_message_ids(read(tmp_path, old=room(said(1), said(2), said(3, "secret"))))
    newer = room(said(2), changed(5, 2, "changed"), said(3, "secret"), event(6, "m.room.redaction", {"redacts": "$3"}),
                 said(7, "more"), changed(8, 1, "lost"), room_name="Rye")  # fmt: skip
    read(tmp_path, newer=newer)
    found = read_exports(tmp_path, SETTINGS)
    after = assign_message_ids(found.messages).filter(pl.col("text").ne_missing("join"))

    assert after.select("text", "kind").rows() == [
        ("hello", "message"),
        ("changed", "message"),
        (None, "system"),
        ("more", "message"),
    ]
    assert after["message_id"].to_list()[:3] == before["message_id"].to_list()
    assert set(after["conversation_id"]) == {"Rye-!bread:a.example"}
    assert found.quarantine["reason"].str.contains("does not hold").to_list() == [True]


def test_events_that_cannot_be_read_are_numbered_and_cost_nothing_else(tmp_path: Path) -> None:
    bad: list[Any] = [
        said(2, ["x"]),
        said(3) | {"sender": None},
        said(4) | {"event_id": {}},
        event(5, "m.room.encrypted", {"algorithm": "m.megolm"}),
        said(6) | {"origin_server_ts": "soon"},
        event(7, "m.room.redaction", []),
        7,
    ]
    odd = said(8, "kept \0", relation=[]) | {"unsigned": 5, "state_key": []}
    path = tmp_path / "room.json"
    path.write_text(json.dumps(room(messages=[said(1), *bad, odd]))[:-30] + "[" * 100, encoding="utf-8")
    messages, unread = read_export(path, SETTINGS)
    assert messages["text"].to_list() == ["hello"]
    assert unread["line"].to_list() == [2, 3, 4, 5, 6, 7, 8, 9]
    assert "encrypted" in unread["reason"][3]

    path.write_text(json.dumps(room(messages=[*bad, odd])), encoding="utf-8")
    assert read_export(path, SETTINGS)[0]["text"].to_list() == ["kept \0"]


def test_a_deleted_last_message_is_deleted_whatever_the_order_of_the_exports(tmp_path: Path) -> None:
    redacted = event(1, "m.room.message", {}, unsigned={"redacted_because": {"type": "m.room.redaction"}})
    read(tmp_path, a=room(said(1, "secret")), b=room(redacted))

    named = assign_message_ids(read_exports(tmp_path, SETTINGS).messages)

    assert named.filter(source="b.json").select("text", "kind").rows() == [(None, "system")]
    assert not named["text"].eq("secret").any()


def test_a_deleted_message_of_an_encrypted_room_is_no_unread_one(tmp_path: Path) -> None:
    redacted = event(1, "m.room.encrypted", {}, unsigned={"redacted_because": {"type": "m.room.redaction"}})
    path = tmp_path / "room.json"
    path.write_text(json.dumps(room(messages=[redacted])), encoding="utf-8")

    messages, unread = read_export(path, SETTINGS)

    assert messages.select("author", "text", "kind").rows() == [(ANN, None, "system")]
    assert unread.is_empty()
