"""Exports of conversations with ChatGPT and Claude."""

import json
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from backstory.base.errors import InputError
from backstory.ingest.chats.exports import read_exports
from backstory.ingest.chats.formats.assistants import follow_branch
from backstory.ingest.chats.message_ids import assign_message_ids
from backstory.ingest.privacy.pseudonyms import pseudonymize_messages
from backstory.settings.inputs import ConversationSettings
from tests.errors import raises
from tests.ingest.chats.single_exports import read_export

SETTINGS = ConversationSettings()
START = 1_705_352_700


def node(number: int, role: str, *parts: Any, parent: int | None = None, **fields: Any) -> dict[str, Any]:
    """Make a node of ChatGPT's tree; by default it follows the one with the number before."""
    message = {
        "id": f"m{number}",
        "author": {"role": role, "name": fields.pop("name", None)},
        "create_time": fields.pop("create_time", START + number + 0.25),
        "content": {"content_type": fields.pop("content_type", "text"), "parts": list(parts)},
        "recipient": "all",
        "metadata": {},
    }
    before = number - 1 if parent is None else parent
    return {"id": f"n{number}", "message": message | fields, "parent": f"n{before}", "children": []}


def conversation(*nodes: dict[str, Any], leaf: str | None = None, **fields: Any) -> dict[str, Any]:
    root = {"id": "n0", "message": None, "parent": None, "children": ["n1"]}
    return {
        "title": "Rye bread",
        "create_time": float(START),
        "update_time": START + 99.5,
        "mapping": {found["id"]: found for found in (root, *nodes)},
        "current_node": leaf or nodes[-1]["id"],
        "conversation_id": "c1",
    } | fields


def said(number: int, sender: str, *parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    moment = f"2024-01-15T21:{number:02}:00.500000Z"
    return {"uuid": f"m{number}", "sender": sender, "text": "as one", "content": list(parts),
            "created_at": moment, "updated_at": moment, "attachments": [], "files": []} | fields  # fmt: skip


def talk(*messages: Any, **fields: Any) -> dict[str, Any]:
    moment = "2024-01-15T21:00:00.000000Z"
    return {"uuid": "c1", "name": "Rye bread", "summary": "", "created_at": moment, "updated_at": moment,
            "account": {"uuid": "a1"}, "chat_messages": list(messages)} | fields  # fmt: skip


def read(folder: Path, *conversations: Any, name: str = "conversations.json") -> pl.DataFrame:
    (folder / name).write_text(json.dumps(conversations), encoding="utf-8")
    return read_exports(folder, SETTINGS).messages


def test_the_shown_branch_of_claude_is_read_if_the_export_tells_it(tmp_path: Path) -> None:
    ways = [said(1, "human"), said(2, "assistant", parent_message_uuid="m1"),
            said(3, "assistant", parent_message_uuid="m1", text="again")]  # fmt: skip
    assert len(read(tmp_path, talk(*ways))) == 3
    assert read(tmp_path, talk(*ways, current_leaf_message_uuid="m3"))["text"].to_list() == [
        "as one",
        "again",
    ]


def test_the_names_of_those_who_write_are_no_words_of_texts_and_titles(tmp_path: Path) -> None:
    text = "The user asked ChatGPT, Claude and another assistant."
    rows = read(tmp_path, conversation(node(1, "user", text), title="ChatGPT for a user"))
    hidden = pseudonymize_messages(rows, bytes(32))
    assert hidden["text"].to_list() == [text]
    assert hidden["conversation_id"].to_list() == ["ChatGPT for a user-c1"]
    assert hidden["author"][0].startswith("member-")


def test_a_newer_export_adds_and_updates_by_ids(tmp_path: Path) -> None:
    before = assign_message_ids(
        read(tmp_path, conversation(node(1, "user", "tpyo"), node(2, "assistant", "ok")))
    )
    newer = conversation(
        node(1, "user", "typo"), node(2, "assistant", "ok"), node(3, "user", "more"), title="Rye"
    )
    after = assign_message_ids(read(tmp_path, newer, name="newer.json"))

    assert after["text"].to_list() == ["typo", "ok", "more"]
    assert after["message_id"].to_list()[:2] == before["message_id"].to_list()
    assert set(after["conversation_id"]) == {"Rye-c1"}


@pytest.mark.parametrize(
    "whole", [conversation(node(1, "user", "hello")), talk(said(1, "human", text="hello"))]
)
def test_the_archive_of_an_export_is_read(tmp_path: Path, whole: dict[str, Any]) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("user.json", json.dumps({"email": "ann@a.example"}))
        archive.writestr("conversations.json", json.dumps([whole]))
    messages, unread = read_export(tmp_path / "export.zip", SETTINGS)
    assert messages["text"].to_list() == ["hello"]
    assert unread.is_empty()


def test_what_cannot_be_read_is_numbered_and_costs_nothing_else(tmp_path: Path) -> None:
    ring = conversation(node(1, "user", "x", parent=2), node(2, "assistant", "y"))
    bad = [node(2, "robot", "x"), node(3, "user", "x", id=None), node(4, "user", "x", create_time="soon"),
           node(5, "user", content={"text": ["x"]})]  # fmt: skip
    odd = node(6, "user", "kept \0", [], None, metadata=[], content_type=7)
    path = tmp_path / "conversations.json"
    path.write_text(
        json.dumps([conversation(node(1, "user", "a"), *bad, odd), ring, conversation(node(1, "user"), leaf="n9"),
                    {"title": 1}, 5, conversation(node(1, "user", "lost"))])[:-40], encoding="utf-8",
    )  # fmt: skip
    messages, unread = read_export(path, SETTINGS)
    assert messages["text"].to_list() == ["a", "kept \0"]
    assert unread["line"].to_list() == [2, 3, 4, 5, 7, 8, 9, 10, 11]
    assert unread["reason"].str.contains("ring").sum() == 1


def test_a_long_branch_and_a_ring_end() -> None:
    parents = {str(number): str(number - 1) for number in range(100_000)}
    assert len(follow_branch(parents, "99999")) == 100_000
    with raises(InputError, "ring"):
        follow_branch({"a": "b", "b": "a"}, "a")
