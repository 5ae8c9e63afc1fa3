"""What single platforms of chats need beside the golden exports."""

import copy
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from backstory.base.errors import ReadError
from backstory.ingest.chats.export_files import open_parts
from backstory.ingest.chats.exports import read_opened
from backstory.ingest.chats.formats.messengers import repair_text
from backstory.ingest.chats.formats.slack import read_markup
from backstory.settings.inputs import ConversationSettings
from tests.errors import raises
from tests.ingest.chats.chat_samples import SAMPLES, write_sample
from tests.ingest.chats.single_exports import read_export

BERLIN = ConversationSettings(timezone="Europe/Berlin")


def test_only_what_meta_wrote_wrongly_is_repaired() -> None:
    for text in ("plain", "Grüße", "日本 🍞", "é", "Ã"):
        assert repair_text(text.encode().decode("latin-1")) == text
    assert repair_text("Grüße") == "Grüße"
    assert repair_text("日本") == "日本"


def test_markup_of_slack_is_written_as_people_see_it() -> None:
    text = "<!here> <!subteam^S1|@bakers> <@U9|zoe> <mailto:a@b.example|a@b.example> <https://c.example> &lt;b&gt;"
    assert read_markup(text, {}, {}) == "@here @bakers @zoe a@b.example https://c.example <b>"


def say(key: str, body: str, sent: int | str, **content: Any) -> dict[str, Any]:
    return {
        "type": "m.room.message",
        "event_id": key,
        "room_id": "!bread:a.example",
        "sender": f"@{key[1]}:a.example",
        "origin_server_ts": sent,
        "content": {"msgtype": "m.text", "body": body, **content},
    }


def change(key: str, target: str, body: str, sent: int | str) -> dict[str, Any]:
    new = {"msgtype": "m.text", "body": body}
    related = {"rel_type": "m.replace", "event_id": target}
    return say(key, f"* {body}", sent, **{"m.new_content": new, "m.relates_to": related})


def read_room(path: Path, *events: dict[str, Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
    head = {"room_creator": "@a:a.example", "exported_by": "@a:a.example"}
    path.write_text(json.dumps({**head, "messages": events, "room_name": "Bread"}), encoding="utf-8")
    return read_export(path, BERLIN)


def test_the_last_change_counts_whether_or_not_its_time_states_a_zone(tmp_path: Path) -> None:
    clocks: tuple[int | str, ...] = (1705352701000, "2024-01-15T22:05:03", 1705352702000)
    changes = (change(f"$a{place}", "$a", f"form {place}", sent) for place, sent in enumerate(clocks))
    messages, unread = read_room(tmp_path / "room.json", say("$a", "first", 1705352700000), *changes)
    assert unread.is_empty()
    assert messages["text"].to_list() == ["form 1"]
    assert messages["edited_at"].dt.strftime("%H:%M:%S").to_list() == ["21:05:03"]


def test_a_change_that_is_no_text_costs_only_itself(tmp_path: Path) -> None:
    first = {"timestamp": 1705352700000, "message": "first"}
    half = {
        "targetSentTimestamp": 1705352700000,
        "dataMessage": {"timestamp": 1705352701000, "message": "\ud83c"},
    }
    head = {"timestamp": 1705352700000, "sourceDevice": 1, "sourceUuid": "u1"}
    envelopes = ({**head, "dataMessage": first}, {**head, "editMessage": half})
    path = tmp_path / "signal.jsonl"
    path.write_text("".join(json.dumps({"envelope": one}) + "\n" for one in envelopes), encoding="utf-8")
    messages, unread = read_export(path, BERLIN)
    assert messages["text"].to_list() == ["first"]
    assert unread["line"].to_list() == [2]


def test_a_line_of_signal_that_breaks_off_is_said_to_hold_no_envelope(tmp_path: Path) -> None:
    path = tmp_path / "signal.jsonl"
    lines = [json.dumps(envelope) for envelope in SAMPLES["signal_cli"]]
    path.write_text("\n".join([*lines, lines[0][:-9], '{"account": "a"}']), encoding="utf-8-sig")
    _, unread = read_export(path, BERLIN)
    assert ["record 6" in unread["reason"][0], "record 7" in unread["reason"][1]] == [True, True]


def test_a_line_of_the_app_has_no_reactions(tmp_path: Path) -> None:
    topic = {**say("$b", "rye", 1705352701000), "type": "m.room.topic", "state_key": ""}
    related = {"rel_type": "m.annotation", "event_id": "$b", "key": "🍞"}
    reaction = {**say("$c", "", 1705352702000, **{"m.relates_to": related}), "type": "m.reaction"}
    messages, _ = read_room(tmp_path / "room.json", say("$a", "hello", 1705352700000), topic, reaction)
    assert messages["kind"].to_list() == ["message", "system"]
    assert messages["reactions"].to_list() == [[], []]


def test_the_name_of_a_room_may_stand_behind_its_messages(tmp_path: Path) -> None:
    said = (say(f"${name}", "hello", 1705352700000) for name in "abc")
    messages, _ = read_room(tmp_path / "room.json", *said)
    assert set(messages["conversation_id"]) == {"Bread-!bread:a.example"}


def test_json_that_is_nested_too_deeply_ends_there(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    whole = json.dumps(SAMPLES["telegram"])
    messages = len(SAMPLES["telegram"]["messages"])
    path.write_text(whole[: whole.rindex("]")] + ', {"a": ' + "[" * 10_000, encoding="utf-8")
    read, unread = read_export(path, BERLIN)
    assert (len(read), len(unread)) == (messages, 1)
    assert "64 levels" in unread["reason"][0]
    path.write_text("[" * 10_000, encoding="utf-8")
    with raises(ReadError, "foreign"):
        read_export(path, BERLIN)


def add(platform: str, record: dict[str, Any]) -> bytes:
    """Give an export of a platform whose last record is this one."""
    if platform == "slack":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("users.json", '[{"id": "U1", "name": "hana"}]')
            archive.writestr("channels.json", '[{"id": "C1", "name": "kitchen"}]')
            day = json.dumps([{"ts": "1709366400.000100", "user": "U1", **record}])
            archive.writestr("kitchen/2024-03-02.json", day)
        return buffer.getvalue()
    sample = copy.deepcopy(SAMPLES[platform])
    if platform == "signal_cli":
        head = {"sourceUuid": "u1", "sourceDevice": 1, "timestamp": 1709366400000}
        return write_sample((*sample, {"envelope": {**head, **record}}))
    kept = ("room_id", "sender", "sender_name", "timestamp_ms", "timestamp", "origin_server_ts")
    last = {name: value for name, value in sample["messages"][-1].items() if name in kept}
    sample["messages"].append({"id": "$99", "event_id": "$99", **last, **record})
    return write_sample(sample)


BUTTON = {"type": "actions", "elements": [{"type": "button", "text": {"type": "plain_text", "text": "Yes"}}]}
HANA = {"date_unixtime": "1709366400", "from": "Hana", "from_id": "user7", "text": ""}
GIFT = {**HANA, "action": "send_star_gift", "gift_text": ["enjoy, ", {"type": "plain", "text": "Zoe"}]}


@pytest.mark.parametrize(
    ("platform", "kind", "record", "expected"),
    [
        ("slack", "announcement", {"text": "closed <@U1>"}, ("system", None, "closed @hana")),
        ("slack", "file", {"title": "list.pdf"}, ("system", None, "list.pdf")),
        ("slack", "poll_vote", {}, "poll_vote"),
        ("slack", "message", {"subtype": "huddle_thread"}, "huddle_thread"),
        ("slack", "message", {"text": ""}, "message"),
        ("slack", "message", {"blocks": [BUTTON]}, ("message", "hana", "Yes")),
        ("slack", "message", {"blocks": [{"type": "image"}]}, ("media", "hana", None)),
        ("telegram", "message", {**HANA, "media_type": "hologram"}, "hologram"),
        ("telegram", "message", {**HANA, "giveaway_results": {"months": 3}}, "giveaway_results"),
        (
            "telegram",
            "message",
            {**HANA, "giveaway_information": {"additional_prize": "a tin"}},
            ("message", "Hana", "a tin"),
        ),
        ("telegram", "service", GIFT, ("system", None, "send star gift\nenjoy, Zoe")),
        ("telegram", "unsupported", {}, "unsupported"),
        ("telegram", "unsupported", {**HANA, "text": "words"}, ("system", None, "words")),
        ("discord", "8", {"content": ""}, "8"),
        ("discord", "99", {"content": "words"}, ("system", None, "words")),
        ("meta", "Poll", {}, "Poll"),
        ("meta", "Poll", {"content": "words"}, ("message", "Ann", "words")),
        ("matrix", "m.beacon", {"content": {"uri": "geo:1"}}, "m.beacon"),
        ("matrix", "Ann Oak\n", {"content": {"uri": "geo:1"}}, "another"),
        ("signal_cli", "", {"typingMessage": {"action": "STARTED"}}, "typingMessage"),
    ],
)
def test_a_record_keeps_its_words_or_is_counted_by_its_type(
    platform: str, kind: str, record: dict[str, Any], expected: str | tuple[str, str | None, str | None]
) -> None:
    content = io.BytesIO(add(platform, {"type": kind, **record}))
    export = read_opened(open_parts(content, "a.json", BERLIN), "a.json")
    assert export.unread == {}
    if isinstance(expected, str):
        assert f"1 of type {expected}" in str(export.reason)
    else:
        assert export.rows.select("kind", "author", "text").row(-1) == expected


def list_targets(folder: Path) -> list[dict[str, Any]]:
    targets: list[dict[str, Any]] = json.loads((folder / "target.json").read_text(encoding="utf-8"))
    return targets


@pytest.mark.parametrize(
    "sample",
    [
        "instagram/test_export.json",
        "telegram/test_single_export.json",
        "telegram/test_batch_export.json",
        "signal/test_export.txt",
    ],
)
def test_samples_of_another_reader_are_read(shared_data: Path, sample: str) -> None:
    path = shared_data / "exports" / "samples" / "chat-miner" / sample
    target = list_targets(path.parent)
    messages, unread = read_export(path, ConversationSettings() if "telegram" not in sample else BERLIN)

    assert unread.is_empty()
    if "signal" in sample:  # that reader lists the latest message first, and joins lines by a space
        messages = messages.reverse().with_columns(pl.col("text").str.replace_all("\n", " "))
    # It puts a space between the parts of a text, which Telegram does not mean.
    written = [(row["author"], row["message"].replace(" https", "https")) for row in target]
    assert messages.select("author", "text").rows() == written
    times = messages["timestamp"].dt.strftime("%Y-%m-%dT%H:%M:%S").to_list()
    assert times == [row["timestamp"] for row in target]


@pytest.mark.parametrize("name", ["telegram_json/result.json", "slack"])
def test_rendered_exports_are_read_exactly(shared_data: Path, name: str) -> None:
    exports = shared_data / "exports"
    source = "slack/" if name == "slack" else None
    messages, unread = read_export(exports / "rendered" / name, BERLIN, source=source)
    expected = pl.read_parquet(exports / "rendered" / "ios_en_24h" / "expected.parquet")

    assert unread.is_empty()
    assert messages.select("author", "text").rows() == expected.select("author", "message").rows()


def test_a_real_archive_of_slack_is_read(shared_data: Path) -> None:
    path = shared_data / "exports" / "samples" / "slack-export-viewer" / "testarchive.zip"
    messages, unread = read_export(path, ConversationSettings())
    assert unread.is_empty()
    assert len(messages) == 158
    assert not messages["text"].drop_nulls().str.contains(r"<[@#!]|&amp;").any()
