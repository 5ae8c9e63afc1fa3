"""WhatsApp exports as ZIP archives."""

import io
import zipfile
from pathlib import Path

import pytest

from backstory.base.errors import ReadError
from backstory.base.sandbox import ReadingLimits
from backstory.ingest.chats.export_files import open_parts
from backstory.ingest.chats.exports import read_exports, read_opened
from backstory.settings.inputs import ConversationSettings
from tests.errors import raises
from tests.ingest.chats.conftest import ReadText

CHAT = "15.01.24, 21:05 - Ann: hello\n"


def archive_of(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for name, text in files.items():
            target.writestr(name, text)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "files",
    [
        {"_chat.txt": CHAT},
        {"WhatsApp Chat with Ben.txt": CHAT, "IMG-20240115-WA0001.jpg": "picture"},
        {"WhatsApp Chat - Trip/_chat.txt": CHAT},
        {"__MACOSX/._chat.txt": "\0", "_chat.txt": CHAT, ".hidden.txt": CHAT},
        {"_chat.txt": CHAT, "a chat that was sent.txt": CHAT.replace("hello", "not this")},
        {"WhatsApp-Chat mit Ben.txt": CHAT, "sent.txt": CHAT.replace("hello", "not this")},
        {"export.txt": CHAT, "notes.txt": "shopping list"},
    ],
)
def test_chat_inside_an_archive_is_read(read_text: ReadText, files: dict[str, str]) -> None:
    messages, quarantine = read_text(archive_of(files), name="trip.zip")

    assert messages.select("conversation_id", "author", "text", "source").rows() == [
        ("trip", "Ann", "hello", "trip.zip")
    ]
    assert quarantine.is_empty()


def test_several_chats_in_one_archive_are_refused(read_text: ReadText) -> None:
    with raises(ReadError, "wrong_count"):
        read_text(archive_of({"a.txt": CHAT, "b.txt": CHAT}), name="two.zip")


def test_archive_without_a_chat_is_no_export(read_text: ReadText) -> None:
    with raises(ReadError, "foreign"):
        read_text(archive_of({"channels.json": "[]"}), name="slack.zip")


@pytest.mark.parametrize("most", [len(CHAT), len(CHAT) - 1])
def test_text_over_the_limit_is_not_unpacked(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReadingLimits, "most_bytes", most)
    content = io.BytesIO(archive_of({"_chat.txt": CHAT}))
    read = read_opened(open_parts(content, "a.zip", ConversationSettings()), "a.zip")
    assert (read.code, len(read.rows)) == ((None, 1) if most == len(CHAT) else ("too_large", 0))


def test_damaged_archive_is_reported_and_costs_only_itself(tmp_path: Path) -> None:
    content = archive_of({"_chat.txt": CHAT * 100})
    (tmp_path / "broken.zip").write_bytes(content[: len(content) // 2])
    (tmp_path / "good.zip").write_bytes(content)

    read = read_exports(tmp_path, ConversationSettings())

    assert read.messages["source"].unique().to_list() == ["good.zip"]
    assert read.quarantine.select("source", "line").rows() == [("broken.zip", 0)]
    assert "damaged or not complete" in read.quarantine["reason"][0]


def test_archive_with_a_password_is_reported(read_text: ReadText) -> None:
    content = bytearray(archive_of({"_chat.txt": CHAT}))
    content[6] |= 1  # general purpose flag of the file header
    content[content.rindex(b"PK\x01\x02") + 8] |= 1  # and of the directory

    with raises(ReadError, "protected"):
        read_text(bytes(content), name="locked.zip")


def test_nothing_is_written_beside_an_archive(read_text: ReadText, tmp_path: Path) -> None:
    read_text(archive_of({"../_chat.txt": CHAT}), name="trip.zip")

    assert [path.name for path in tmp_path.iterdir()] == ["trip.zip"]
    assert not (tmp_path.parent / "_chat.txt").exists()
