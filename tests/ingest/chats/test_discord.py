"""Discord exports: files of DiscordChatExporter."""

import json
import zipfile
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


def person(name: str, nickname: str, *, is_bot: bool = False) -> dict[str, Any]:
    return {"id": str(sum(name.encode())), "name": name, "nickname": nickname, "isBot": is_bot}


ANN, BEN = person("ann.oak", "Ann Oak"), person("ben", "Ben the Baker")


def said(number: int, text: object = "hello", **fields: object) -> dict[str, Any]:
    return {
        "id": str(1000 + number),
        "type": "Default",
        "timestamp": f"2024-01-15T21:{number:02}:00.123+00:00",
        "timestampEdited": None,
        "content": text,
        "author": ANN,
        "attachments": [],
        "embeds": [],
        "reactions": [],
        "mentions": [],
    } | fields


def channel(*messages: Any, **fields: object) -> dict[str, Any]:
    about = {"id": "77", "type": "GuildTextChat", "categoryId": "7", "name": "bread", "topic": None}
    return {
        "guild": {"id": "5", "name": "Bakers", "iconUrl": "https://a.example/i.png"},
        "channel": about | fields,
        "dateRange": {"after": None, "before": None},
        "messages": list(messages),
        "messageCount": len(messages),
    }


def read(folder: Path, **files: object) -> pl.DataFrame:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content, indent=2), encoding="utf-8")
    return read_exports(folder, SETTINGS).messages


def test_no_name_is_left_and_a_mention_is_its_author(tmp_path: Path) -> None:
    silent = person("zoe", "Zoe Elm")
    read(
        tmp_path,
        bread=channel(
            said(0, "ask @Ben the Baker, Ann Oak or @Zoe Elm", mentions=[silent]), said(1, author=BEN)
        ),
        direct=channel(said(0, author=BEN), id="78", type="DirectTextChat", name="Ben the Baker"),
    )
    found = read_exports(tmp_path, SETTINGS)

    hidden = pseudonymize_messages(
        found.messages, bytes(32), aliases=found.aliases, other_names=found.unread_authors
    )

    assert sorted(set(hidden["conversation_id"])) == ["78", "bread-77"]
    ann, ben = hidden.filter(conversation_id="bread-77")["author"].to_list()
    text = hidden.filter(conversation_id="bread-77")["text"][0]
    assert text.startswith(f"ask @{ben}, {ann} or @member-")
    assert find_real_names(hidden, found.names).is_empty()


def test_parts_and_newer_exports_add_and_update_by_ids(tmp_path: Path) -> None:
    before = assign_message_ids(read(tmp_path, old=channel(said(1), said(2, "tpyo"))))
    edited = said(2, "typo", timestampEdited="2024-01-15T22:00:00+00:00")
    after = assign_message_ids(
        read(tmp_path, new=channel(edited, said(3), name="rye"), more=channel(said(0)))
    )

    assert after["text"].to_list() == ["hello", "hello", "typo", "hello"]
    assert after["message_id"].to_list()[1:3] == before["message_id"].to_list()
    assert set(after["conversation_id"]) == {"rye-77"}


def test_an_archive_of_channels_is_one_export(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bakers.zip", "w") as archive:
        archive.writestr("Bakers - bread [77].json", json.dumps(channel(said(0))))
        archive.writestr("Bakers - rye [78].json", json.dumps(channel(said(0), id="78", name="rye")))
        archive.writestr("settings.json", "{}")
    rows = read(tmp_path)
    assert sorted(rows["conversation_id"]) == ["bread-77", "rye-78"]


def test_records_that_cannot_be_read_are_numbered_and_cost_nothing_else(tmp_path: Path) -> None:
    bad: list[Any] = [
        said(1, timestamp="soon"),
        said(2, ["text"]),
        said(3, author="ann"),
        said(4, id=None),
        7,
        said(5, timestampEdited={}),
    ]
    odd = said(
        6, "kept \0", reactions=[{"emoji": 1}, 2], mentions=[{"id": []}], embeds=5, reference=[], type=[]
    )
    path = tmp_path / "bread.json"
    path.write_text(json.dumps(channel(said(0), *bad, odd))[:-60] + "[" * 100, encoding="utf-8")
    messages, unread = read_export(path, SETTINGS)
    assert messages["text"].to_list() == ["hello"]
    assert unread["line"].to_list() == [2, 3, 4, 5, 6, 7, 8]

    path.write_text(json.dumps(channel(*bad, odd)), encoding="utf-8")
    assert read_export(path, SETTINGS)[0].select("text", "kind").rows() == [("kept \0", "system")]


def test_a_name_that_two_people_show_is_hidden_and_stands_for_neither(tmp_path: Path) -> None:
    twins = [person("ann.elm", "Annika"), person("ann.fir", "Annika")]
    others = channel(said(0, mentions=[person("ann.ash", "Robin")]), id="78")
    read(
        tmp_path,
        bread=channel(
            said(0, "@Annika or @Robin?", mentions=[*twins, person("rob", "Robin")]),
            said(1, author=twins[0]),
            said(2, author=twins[1]),
        ),
        rye=others,
    )
    found = read_exports(tmp_path, SETTINGS)

    hidden = pseudonymize_messages(
        found.messages, bytes(32), aliases=found.aliases, other_names=found.unread_authors
    )

    assert {"Annika", "Robin"} <= found.unread_authors
    assert not {"Annika", "Robin"} & found.aliases.keys()
    text = hidden.filter(pl.col("text").str.contains(" or "))["text"][0]
    assert text.count("@member-") == 2
    assert not any(author in text for author in hidden["author"])
    assert find_real_names(hidden, found.names).is_empty()
