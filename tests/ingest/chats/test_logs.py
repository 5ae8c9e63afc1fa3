"""Logs: what irssi, WeeChat and ZNC keep, transcripts of meetings, and the chats that Zoom and Meet save."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from backstory.ingest.chats.exports import ExportRead, read_exports
from backstory.ingest.chats.formats.logs import name_conversation
from backstory.ingest.chats.merging import assign_message_ids
from backstory.ingest.chats.times import find_day, find_moment
from backstory.settings.inputs import ConversationSettings
from tests.ingest.chats.chat_samples import MEET_CHAT, RECORDED_ZOOM_CHAT, ZNC, ZOOM_CHAT, ZOOM_TRANSCRIPT

TEN = datetime(2024, 5, 1, 10, 0, tzinfo=UTC)


def read(folder: Path, **logs: str) -> ExportRead:
    for name, log in logs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(log, encoding="utf-8", newline="")
    return read_exports(folder, ConversationSettings())


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("libera/#bread/2024-05-01.log", "libera/#bread"),
        ("libera/#bread_20240501.log", "libera/#bread"),
        ("libera/#bread.log", "libera/#bread"),
        ("#bread.log", "#bread"),
        ("irc.libera.#bread.weechatlog", "libera/#bread"),
        ("logs/irc.libera.#bread.weechatlog", "libera/#bread"),
        ("bakers/from-ann.log", "bakers"),
        ("bread-2024-05-01.log", "bread"),
        ("2024-05-01.log", "2024-05-01"),
    ],
)
def test_a_log_is_of_the_channel_that_its_path_names(source: str, name: str) -> None:
    assert name_conversation(source) == name


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("10:01 -!- cleo changed the topic of #bread to: rye", {"cleo"}),
        ("10:01 -!- mode/#bread [+o ann] by cleo", {"cleo"}),
        ('2024-05-01 10:01:00\t--\tcleo has changed topic for #bread from "x" to "y"', {"cleo"}),
        ("2024-05-01 10:01:00\t--\tMode #bread [+o ann] by cleo", {"cleo"}),
        ("[10:01:00] *** cleo changes topic to 'rye'", {"cleo"}),
        ("[10:01:00] *** cleo sets mode: +o ann", {"cleo"}),
        ("10:01 -!- ann changed the topic of #bread to: ben has joined us", set()),
        ("10:01 -!- ann [~a@a.example] has quit [Quit: ben has joined us]", set()),
        ("10:01 -!- Topic for #bread: everyone has left", set()),
        ("10:01 -!- + is now known as ben", set()),
    ],
)
def test_a_line_of_the_program_tells_names_and_none_of_its_words(
    line: str, names: set[str], tmp_path: Path
) -> None:
    found = read(tmp_path, **{"2024-05-01.log": f"10:00 <ann> cleo left us\n{line}\n"})
    assert found.messages.select("kind", "text").rows()[1] == ("system", "a note of the program")
    assert found.unread_authors == {"ann", *names}


@pytest.mark.parametrize("head", ["2024-05-01 10:00:00 ", "10:00:00\t"])
def test_other_lines_with_a_time_and_a_tab_are_no_log(head: str, tmp_path: Path) -> None:
    found = read(tmp_path, **{"oven.log": f"{head}ERROR\tthe oven is cold\n" * 9})
    assert found.sources["status"].to_list() == ["unsupported"]


def test_days_of_a_channel_are_one_conversation_and_a_grown_log_keeps_its_ids(tmp_path: Path) -> None:
    before = assign_message_ids(read(tmp_path, **{"libera/#bread/2024-05-01.log": ZNC}).messages)
    more = {
        "libera/#bread/2024-05-01.log": ZNC + "[23:00:00] <dora> and I?\n",
        "libera/#bread/2024-05-02.log": "[00:00:01] <dora> good morning\n",
    }
    after = assign_message_ids(read(tmp_path, **more).messages)
    assert set(after["conversation_id"]) == {"libera/#bread"}
    assert set(before["message_id"]) < set(after["message_id"])
    assert len(after) == len(before) + 2


def test_logs_of_two_members_in_two_programs_and_zones_merge_without_duplicates(tmp_path: Path) -> None:
    lines = [(minute, "ann" if minute % 2 else "ben", f"loaf number {minute} is in") for minute in range(20)]
    first = "--- Log opened Wed May 01 09:00:00 2024\n" + "".join(
        f"10:{minute:02} <{nick}> {text}\n" for minute, nick, text in lines
    )
    second = "".join(
        f"2024-05-01 15:{minute:02}:07\t{nick}\t{text}\n"
        for minute, nick, text in [*lines, (30, "ben", "and one more")]
    )
    logs = {"libera/#bread.log": first, "irc.libera.#bread.weechatlog": second}
    rows = assign_message_ids(read(tmp_path, **logs).messages)
    assert len(rows) == 21
    assert rows["conversation_id"].n_unique() == 1
    assert rows["timestamp"].dt.hour().unique().to_list() == [10]


@pytest.mark.parametrize(
    ("name", "content", "dated"),
    [
        ("bread.log", ZNC, "bread-2024-05-01.log"),
        ("meeting.vtt", ZOOM_TRANSCRIPT, "2024-05-01 10.00.00.vtt"),
        ("2024-05-01.vtt", ZOOM_TRANSCRIPT, "2024-05-01T10-00-00Z.vtt"),
        ("chat.txt", ZOOM_CHAT, "2024-05-01 chat.txt"),
        ("chat.txt", RECORDED_ZOOM_CHAT, "2024-05-01 10.00.00 chat.txt"),
        ("chat.sbv", MEET_CHAT, "2024-05-01 10.00.00 chat.sbv"),
    ],
)
def test_a_log_of_unknown_time_waits_for_its_name(
    name: str, content: str, dated: str, tmp_path: Path
) -> None:
    found = read(tmp_path, **{name: content})
    assert found.sources["status"].to_list() == ["set_aside"]
    assert {"ann", "ann_away", "ben", "cleo"} <= found.unread_authors or "Ann Oak" in found.unread_authors
    assert found.messages.is_empty()

    (tmp_path / name).rename(tmp_path / dated)
    assert read(tmp_path).sources["status"].to_list() == ["read"]


def test_a_long_speech_is_several_messages(tmp_path: Path) -> None:
    cues = "".join(
        f"\n00:00:{second:02}.000 --> 00:00:{second:02}.900\nAnn Oak: {'x' * 400}\n" for second in range(6)
    )
    found = read(tmp_path, **{"GMT20240501-100000.vtt": "WEBVTT\n" + cues})
    assert found.messages["text"].str.len_chars().to_list() == [801, 801, 801]


@pytest.mark.parametrize(
    ("source", "moment"),
    [
        ("GMT20240501-100000_Recording.vtt", TEN),
        ("2024-05-01 10.00.00 Standup 12345678901/chat.txt", TEN.replace(tzinfo=None)),
        ("a (2024-05-01 at 12:00 GMT+2) - Chat.sbv", TEN),
        ("20240501_100000.vtt", TEN.replace(tzinfo=None)),
        ("2024-05-01T10-00-00Z.vtt", TEN),
        ("2024-05-01T10-00-00Z saved 2024-06-01T11-00-00Z.vtt", TEN),
        ("2024-05-01 12345678901.vtt", None),
        ("2024-13-01 10.00.00.vtt", None),
        ("meeting.vtt", None),
    ],
)
def test_the_beginning_in_a_path(source: str, moment: datetime | None) -> None:
    assert find_moment(source) == moment


def test_the_nearest_date_of_a_path_counts() -> None:
    assert find_day("2024-05-01/2024-05-02.log") == datetime(2024, 5, 2).date()
    assert find_day("2024-05-01/2024-05-02 saved 2024-06-01.log") == datetime(2024, 5, 2).date()
    assert find_day("2024-05-01/99999999.log") == datetime(2024, 5, 1).date()
    assert find_day("version-2024-05-010.log") is None


def test_two_copies_of_a_transcript_are_read_once(tmp_path: Path) -> None:
    cues = "".join(
        f"\n00:{minute:02}:00.000 --> 00:{minute:02}:05.000\n<v Ann Oak>loaf number {minute}</v>\n"
        for minute in range(15)
    )
    names = ("bread/GMT20240501-100000_Recording.vtt", "bread/2024-05-01 12-00-00 from Ben.vtt")
    found = read(tmp_path, **dict.fromkeys(names, f"WEBVTT\n{cues}"))
    assert len(assign_message_ids(found.messages)) == 15
