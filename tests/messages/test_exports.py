"""Folders of exports."""

import hashlib
import logging
from pathlib import Path

import polars as pl
import pytest

from backstory.errors import ExportError, ExportSettingError, WorkspaceError
from backstory.messages import RAW_SCHEMA, READERS, find_exports, read_export, read_exports
from backstory.settings import ConversationSettings
from backstory.tables.contracts import polars_schema, validate
from backstory.tables.schemas import Quarantine

SETTINGS = ConversationSettings()
CHAT = "15.01.24, 21:05 - Ann: hello\n"


def write(path: Path, content: str | bytes = CHAT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_conversation_is_the_subfolder_or_the_file(tmp_path: Path) -> None:
    write(tmp_path / "team" / "january.txt")
    write(tmp_path / "team" / "february.txt")
    write(tmp_path / "family.txt")

    messages = read_exports(tmp_path, SETTINGS).messages

    assert messages.select("source", "conversation_id").rows() == [
        ("family.txt", "family"),
        ("team/february.txt", "team"),
        ("team/january.txt", "team"),
    ]


def test_tables_have_their_columns_even_without_rows(tmp_path: Path) -> None:
    read = read_exports(tmp_path, SETTINGS)

    assert read.messages.schema == RAW_SCHEMA
    assert read.quarantine.schema == polars_schema(Quarantine)
    assert read.sources == ()


def test_every_source_is_accounted_for(tmp_path: Path) -> None:
    content = "a title\n" + CHAT
    write(tmp_path / "chat.txt", content)

    read = read_exports(tmp_path, SETTINGS)

    (source,) = read.sources
    assert (source.source, source.reader, source.messages, source.quarantined) == (
        "chat.txt",
        "whatsapp_text",
        1,
        1,
    )
    assert source.sha256 == hashlib.sha256(content.encode()).hexdigest()
    assert source.sha256 == find_exports(tmp_path)[0].sha256
    validate(read.quarantine, Quarantine)


def test_unknown_file_is_quarantined_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path / "chat.txt")
    write(tmp_path / "notes.txt", "shopping list")
    write(tmp_path / "empty.txt", "")
    write(tmp_path / "result.json", '{\n "messages": []\n}')

    read = read_exports(tmp_path, SETTINGS)

    assert len(read.messages) == 1
    assert read.quarantine.select("source", "line").rows() == [
        ("empty.txt", 0),
        ("notes.txt", 0),
        ("result.json", 0),
    ]
    assert read.quarantine["reason"].str.starts_with("not a chat export in a known format").all()
    assert [source.reader for source in read.sources] == ["whatsapp_text", None, None, None]


def test_hidden_files_and_media_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / ".hidden.txt")
    write(tmp_path / ".trash" / "chat.txt")
    write(tmp_path / "IMG-1.jpg", b"\xff\xd8")

    assert find_exports(tmp_path) == ()


def test_damaged_table_costs_only_itself(tmp_path: Path) -> None:
    write(tmp_path / "chat.txt")
    write(tmp_path / "broken.parquet", b"PAR1 and nothing more")

    read = read_exports(tmp_path, SETTINGS)

    assert len(read.messages) == 1
    assert read.quarantine.select("source", "line").rows() == [("broken.parquet", 0)]


def test_ambiguous_file_stops_the_run(tmp_path: Path) -> None:
    write(tmp_path / "good.txt")
    write(tmp_path / "team" / "bad.txt", "05/06/24, 21:05 - Ann: hello\n")

    with pytest.raises(ExportSettingError, match=r"team/bad\.txt: .*`conversations\.date_order`"):
        read_exports(tmp_path, SETTINGS)


def test_absent_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="make the folder"):
        read_exports(tmp_path / "chats", SETTINGS)


def test_single_file_that_no_reader_knows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"notes\.txt: not a chat export"):
        read_export(write(tmp_path / "notes.txt", "shopping list"), SETTINGS)


def test_readers_have_names_of_their_own() -> None:
    assert len({reader.name for reader in READERS}) == len(READERS)


def test_formats_are_told_apart_by_content(tmp_path: Path) -> None:
    table = pl.DataFrame({"timestamp": ["2024-01-15 21:05"], "author": ["Ann"], "message": ["hello"]})
    contents = {
        "whatsapp_text": CHAT.encode(),
        "csv": table.write_csv().encode(),
        "jsonl": table.write_ndjson().encode(),
    }
    for name, content in contents.items():
        write(tmp_path / f"{name}.txt", content)

    read = read_exports(tmp_path, SETTINGS)

    assert [source.reader for source in read.sources] == ["csv", "jsonl", "whatsapp_text"]
    assert read.messages["text"].to_list() == ["hello"] * 3


def test_log_holds_counts_and_no_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "WhatsApp Chat with Ann.txt")

    with caplog.at_level(logging.DEBUG, logger="backstory"):
        read_exports(tmp_path, SETTINGS)

    assert "sources=1 messages=1 quarantined=0" in caplog.text
    assert "Ann" not in caplog.text
