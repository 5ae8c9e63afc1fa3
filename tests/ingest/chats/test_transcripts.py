"""Transcripts of meetings, and the chats that Zoom and Meet save."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from backstory.ingest.chats.exports import read_exports
from backstory.ingest.chats.merging import assign_message_ids
from backstory.ingest.chats.times import find_day, find_moment
from backstory.settings.inputs import ConversationSettings
from tests.ingest.chats.chat_samples import (
    MEET_CHAT,
    RECORDED_ZOOM_CHAT,
    ZOOM_CHAT,
    ZOOM_TRANSCRIPT,
)

SETTINGS = ConversationSettings()
TEN = datetime(2024, 5, 1, 10, 0, tzinfo=UTC)


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8", newline="")
    return path


def said(folder: Path, settings: ConversationSettings = SETTINGS) -> list[tuple[datetime, str | None, str]]:
    rows = read_exports(folder, settings).messages
    return rows.filter(kind="message").select("timestamp", "author", "text").rows()


def test_a_long_speech_is_several_messages(tmp_path: Path) -> None:
    cues = "".join(
        f"\n00:00:{second:02}.000 --> 00:00:{second:02}.900\nAnn Oak: {'x' * 400}\n" for second in range(6)
    )
    write(tmp_path, "GMT20240501-100000.vtt", "WEBVTT\n" + cues)
    assert [len(text) for _, _, text in said(tmp_path)] == [801, 801, 801]


@pytest.mark.parametrize(
    ("name", "content"),
    [("meeting.vtt", ZOOM_TRANSCRIPT), ("2024-05-01.vtt", ZOOM_TRANSCRIPT), ("chat.txt", ZOOM_CHAT),
     ("chat.txt", RECORDED_ZOOM_CHAT), ("chat.sbv", MEET_CHAT)],
)  # fmt: skip
def test_a_meeting_of_unknown_time_waits_for_its_name(name: str, content: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, content)
    found = read_exports(tmp_path, SETTINGS)
    assert found.sources["status"].to_list() == ["set_aside"]
    assert "into the name" in found.sources["reason"][0]
    assert "Ann Oak" in found.unread_authors
    assert found.messages.is_empty()

    path.rename(tmp_path / f"2024-05-01 10.00.00 {name}")
    assert read_exports(tmp_path, SETTINGS).sources["status"].to_list() == ["read"]


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
    write(tmp_path, "bread/GMT20240501-100000_Recording.vtt", "WEBVTT\n" + cues)
    write(tmp_path, "bread/2024-05-01 12-00-00 from Ben.vtt", "WEBVTT\n" + cues)
    assert len(assign_message_ids(read_exports(tmp_path, SETTINGS).messages)) == 15
