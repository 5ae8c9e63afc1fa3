"""Signal: what signal-cli receives, and texts."""

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
START = 1_705_352_700_000
PEOPLE = {"ann": "Ann Oak", "ben": "Ben Elm", "zoe": ""}
GROUP = {"groupId": "Ab/c+d==", "groupName": "Bakers", "revision": 3, "type": "DELIVER"}


def envelope(second: int, sender: str = "ann", **holds: Any) -> dict[str, Any]:
    number = f"+49151123456{sum(sender.encode()) % 90 + 10}"
    source = {"source": number, "sourceNumber": number, "sourceUuid": f"{sender}-uuid", "sourceName": PEOPLE[sender],
              "sourceDevice": 1, "timestamp": START + 1000 * second}  # fmt: skip
    return {"envelope": source | holds, "account": "+4915100000000"}


def content(second: int, text: Any = None, **fields: Any) -> dict[str, Any]:
    return {
        "timestamp": START + 1000 * second,
        "message": text,
        "expiresInSeconds": 0,
        "groupInfo": GROUP,
    } | fields


def said(second: int, text: Any = "hello", sender: str = "ann", **fields: Any) -> dict[str, Any]:
    return envelope(second, sender, dataMessage=content(second, text, **fields))


def changed(second: int, target: int, text: str, sender: str = "ann") -> dict[str, Any]:
    change = {"targetSentTimestamp": START + 1000 * target, "dataMessage": content(second, text)}
    return envelope(second, sender, editMessage=change)


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def read(folder: Path, *lines: Any, name: str = "signal.jsonl") -> pl.DataFrame:
    write(folder / name, *lines)
    return read_exports(folder, SETTINGS).messages


def test_both_sides_of_a_direct_chat_are_one_conversation_without_a_name(tmp_path: Path) -> None:
    sent = {"destinationUuid": "ben-uuid", "destinationNumber": "+4915112345699"} | content(2, "hi @Ben Elm")
    del sent["groupInfo"]
    alone = said(1, "hi", "ben", groupInfo=None)
    read(
        tmp_path,
        {"jsonrpc": "2.0", "method": "receive", "params": alone},
        envelope(2, syncMessage={"sentMessage": sent}),
    )
    found = read_exports(tmp_path, SETTINGS)

    hidden = pseudonymize_messages(
        found.messages, bytes(32), aliases=found.aliases, other_names=found.unread_authors
    )

    [conversation] = set(hidden["conversation_id"])
    assert conversation.startswith("direct-")
    assert hidden["text"].to_list() == ["hi", f"hi @{hidden['author'][0]}"]
    assert find_real_names(hidden, found.names).is_empty()


def test_another_file_adds_by_ids_and_what_it_cannot_change_is_said(tmp_path: Path) -> None:
    before = assign_message_ids(read(tmp_path, said(1), said(2)))
    read(tmp_path, said(2), said(3, "more"), changed(4, 1, "lost"), name="later.jsonl")
    found = read_exports(tmp_path, SETTINGS)
    after = assign_message_ids(found.messages)

    assert after["text"].to_list() == ["hello", "hello", "more"]
    assert after["message_id"].to_list()[:2] == before["message_id"].to_list()
    assert found.quarantine["reason"].str.contains("does not hold").to_list() == [True]


def test_lines_that_cannot_be_read_are_numbered_and_cost_nothing_else(tmp_path: Path) -> None:
    half = said(7, "half \ud800")
    bad: list[Any] = [
        said(2, ["x"]),
        7,
        {"envelope": []},
        said(3, timestamp="soon"),
        said(4, quote={"authorUuid": "ben-uuid", "id": "\ud800"}),
        half,
        said(8, remoteDelete={"timestamp": "\ud800"}),
    ]
    path = write(tmp_path / "signal.json", said(1), *bad, said(9, "kept \0"))
    with path.open("ab") as file:
        file.write(b"\n" + b"[" * 100_000 + b"\n{\n\xff\n" + json.dumps(said(10, "last")).encode())

    messages, unread = read_export(path, SETTINGS)

    assert messages["text"].to_list() == ["hello", "kept \0", "last"]
    lines = unread["reason"].str.extract(r"^line (\d+)").to_list()
    assert lines == ["2", "3", "4", "5", "6", None, "8", "11", "12", "13"]


def test_the_text_of_another_tool_is_read_exactly(shared_data: Path) -> None:
    folder = shared_data / "exports" / "samples" / "chat-miner" / "signal"
    target = json.loads((folder / "target.json").read_text(encoding="utf-8"))
    messages, unread = read_export(folder / "test_export.txt", SETTINGS)

    assert unread.is_empty()
    # That reader lists the latest message first, and joins lines by a space.
    rows = messages.reverse().with_columns(pl.col("text").str.replace_all("\n", " "))
    assert rows.select("author", "text").rows() == [(row["author"], row["message"]) for row in target]
    times = rows["timestamp"].dt.strftime("%Y-%m-%dT%H:%M:%S").to_list()
    assert times == [row["timestamp"] for row in target]
