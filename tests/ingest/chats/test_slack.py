"""Slack exports: folders and archives."""

import json
import zipfile
from pathlib import Path
from typing import Any

import polars as pl

from backstory.ingest.chats.export_files import find_exports
from backstory.ingest.chats.exports import read_exports
from backstory.ingest.chats.merging import assign_message_ids
from backstory.ingest.privacy.pseudonyms import find_real_names, pseudonymize_messages
from backstory.settings.inputs import ConversationSettings
from tests.ingest.chats.single_exports import read_export

SETTINGS = ConversationSettings()
USERS = [
    {"id": "U1", "name": "ann", "profile": {"real_name": "Ann Oak", "display_name": "Ann O."}},
    {"id": "U2", "name": "ben", "profile": {"real_name": "Ben Elm", "display_name": ""}},
]
CHANNELS = [{"id": "C1", "name": "general"}, {"id": "C2", "name": "bread"}]
DIRECT = [{"id": "D1", "members": ["U1", "U2"]}]


def said(second: int, text: str = "hello", user: str = "U1", **fields: object) -> dict[str, Any]:
    return {"type": "message", "user": user, "text": text, "ts": f"{1_705_352_700 + second}.000100", **fields}


def write(folder: Path, **days: list[Any]) -> Path:
    """Write an export with the given messages per channel."""
    lists = {"users.json": USERS, "channels.json": CHANNELS, "dms.json": DIRECT, "integration_logs.json": []}
    parts = lists | {f"{channel}/2024-01-15.json": day for channel, day in days.items()}
    for name, content in parts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def pack(folder: Path, path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in sorted(folder.rglob("*.json")):
            archive.write(part, f"acme/{part.relative_to(folder)}")


def test_no_name_of_a_member_is_left(tmp_path: Path) -> None:
    day = [
        said(
            0,
            "ask <@U2> or Ann Oak",
            reactions=[{"name": "ann-oak", "count": 2}, {"name": "tada", "count": 1}],
        )
    ]
    write(tmp_path / "acme", general=day)
    read = read_exports(tmp_path, SETTINGS)

    hidden = pseudonymize_messages(
        read.messages, bytes(32), aliases=read.aliases, other_names=read.unread_authors
    )

    assert hidden["text"].str.count_matches("member-[0-9a-f]{10}").to_list() == [2]
    assert hidden["text"].str.contains(hidden["author"][0]).all()
    emoji = [reaction["emoji"] for reaction in hidden["reactions"][0]]
    assert emoji == [f":{hidden['author'][0]}:", ":tada:"]
    assert find_real_names(hidden, read.names).is_empty()
    assert find_real_names(hidden.with_columns(read.messages["reactions"]), read.names)[
        "column"
    ].to_list() == ["reactions"]


def test_an_archive_is_read_as_its_folder_and_a_newer_one_updates(tmp_path: Path) -> None:
    folder = write(tmp_path / "elsewhere", general=[said(0), said(1, "tpyo")])
    (tmp_path / "chats").mkdir()
    pack(folder, tmp_path / "chats" / "january.zip")
    before = assign_message_ids(read_exports(tmp_path / "chats", SETTINGS).messages)
    newer = [
        said(1, "typo", edited={"ts": said(2)["ts"]}),
        said(0, "gone", subtype="tombstone"),
        said(5, "more"),
    ]
    pack(write(folder, general=newer), tmp_path / "chats" / "february.zip")

    after = assign_message_ids(read_exports(tmp_path / "chats", SETTINGS).messages)

    assert after.select("text", "kind").rows() == [
        ("gone", "system"),
        ("typo", "message"),
        ("more", "message"),
    ]
    assert after["message_id"].to_list()[:2] == before["message_id"].to_list()
    unpacked = assign_message_ids(read_export(folder, SETTINGS, source="elsewhere/")[0])
    assert unpacked.drop("source").equals(after.drop("source"))


def test_older_exports_have_comments_on_files_and_folders_named_by_ids(tmp_path: Path) -> None:
    comment = said(1, "on it", "", subtype="file_comment", comment={"user": "U2"})
    write(tmp_path, C1=[said(0, "look", subtype="file_share", file={"id": "F1"}), comment])

    messages = read_exports(tmp_path, SETTINGS).messages

    assert messages.select("conversation_id", "author", "text", "kind").rows() == [
        ("general-C1", "Ann O.", "look", "media"),
        ("general-C1", "Ben Elm", "on it", "message"),
    ]


def test_a_damaged_day_costs_only_itself(tmp_path: Path) -> None:
    bad = [said(0), {"text": "no type"}, "text", said(1, user=""), said(2, ts="soon")]
    folder = write(tmp_path, general=bad, bread=[said(3)])
    day = folder / "bread" / "2024-01-16.json"
    day.write_text(json.dumps([said(4), said(5)])[:-20], encoding="utf-8")

    read = read_exports(tmp_path, SETTINGS)

    assert read.messages["text"].to_list() == ["hello"] * 3
    reasons = read.quarantine["reason"].to_list()
    assert [reason.partition(": ")[0] for reason in reasons] == [
        "C2/2024-01-16.json",
        *(f"record {number} of C1/2024-01-15.json" for number in (2, 3, 4, 5)),
    ]
    assert read.quarantine["source"].unique().to_list() == ["./"]
    assert read.sources["source"].to_list() == ["chats/"]


def test_an_unreadable_entry_of_a_list_is_found_by_its_place(tmp_path: Path) -> None:
    folder = write(tmp_path, general=[said(0)])
    (folder / "users.json").write_text(json.dumps([*USERS, "zoe", {"name": "cleo"}]), encoding="utf-8")

    reasons = read_exports(tmp_path, SETTINGS).quarantine["reason"].to_list()

    assert [reason.partition(": ")[0] for reason in reasons] == [
        "record 3 of users.json",
        "record 4 of users.json",
    ]


def test_a_changed_part_is_another_export(tmp_path: Path) -> None:
    folder = write(tmp_path / "acme", general=[said(0)])
    [before] = find_exports(tmp_path)
    assert find_exports(tmp_path) == (before,)
    (folder / "general" / "2024-01-16.json").write_text(json.dumps([said(90_000)]), encoding="utf-8")
    [after] = find_exports(tmp_path)
    assert (before.source, after.source) == ("acme/", "acme/")
    assert before.sha256 != after.sha256


def test_a_link_in_a_folder_is_no_part_of_it(tmp_path: Path) -> None:
    folder = write(tmp_path / "chats" / "acme", general=[said(0)])
    outside = tmp_path / "2024-01-16.json"
    outside.write_text(json.dumps([said(90_000, "secret")]), encoding="utf-8")
    (folder / "general" / outside.name).symlink_to(outside)

    read = read_exports(tmp_path / "chats", SETTINGS)

    assert read.messages["text"].to_list() == ["hello"]
    linked = read.sources.row(
        by_predicate=pl.col("source") == "chats/acme/general/2024-01-16.json", named=True
    )
    assert linked["status"] == "failed"


def test_a_reason_does_not_hold_the_names_of_a_chat_that_no_list_names(tmp_path: Path) -> None:
    write(
        tmp_path / "acme", **{"mpdm-ann--ben-1": [said(0), said(1, ts="soon")], "D1": [{"text": "no type"}]}
    )

    reasons = read_exports(tmp_path, SETTINGS).quarantine["reason"].to_list()

    assert [reason.partition(": ")[0] for reason in reasons] == [
        "record 1 of D1/2024-01-15.json",
        "record 2 of 2024-01-15.json",
    ]
