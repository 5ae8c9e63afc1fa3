"""Folders of exports: every file ends in the table of sources, and no file costs another."""

import io
import json
import os
import re
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from backstory.base.errors import WorkspaceError
from backstory.ingest.chats import exports
from backstory.ingest.chats.export import Export
from backstory.ingest.chats.export_files import list_exports
from backstory.ingest.chats.exports import (
    RAW_SCHEMA,
    read_exports,
    read_listed_exports,
)
from backstory.settings.inputs import ConversationSettings
from backstory.storage.tables.contracts import validate
from backstory.storage.tables.schemas import Quarantine, Sources
from tests.errors import raises

SETTINGS = ConversationSettings()
CHAT = "15.01.24, 21:05 - Ann: hello\n"
AMBIGUOUS = "05/06/24, 21:05 - Ann: hello\n"


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


def statuses(folder: Path, settings: ConversationSettings = SETTINGS) -> dict[str, str]:
    sources = read_exports(folder, settings).sources
    validate(sources, Sources)
    return dict(sources.select(pl.col("source").str.strip_prefix("chats/"), "status").iter_rows())


def reason_of(folder: Path, source: str, settings: ConversationSettings = SETTINGS) -> str:
    sources = read_exports(folder, settings).sources
    reason = sources.row(by_predicate=pl.col("source") == f"chats/{source}", named=True)["reason"]
    assert isinstance(reason, str)
    return reason


def test_a_file_that_was_read_is_described(tmp_path: Path) -> None:
    write(
        tmp_path / "chat.txt",
        "a title\n" + CHAT + "17.01.24, 21:05 - Ben: grüß dich, wie war die Reise nach Wien?\n",
    )

    read = read_exports(tmp_path, ConversationSettings(timezone="Europe/Berlin"))

    assert read.sources.rows(named=True) == [
        {
            "source": "chats/chat.txt",
            "folder": "conversations",
            "status": "read",
            "format": "whatsapp_text",
            "reason": "1 line or record could not be read, the first of them 1 (stands before the first message); "
            "quarantine lists them after a run",
            "rows": 2,
            "unread": 1,
            "first": datetime(2024, 1, 15, 20, 5, tzinfo=UTC),
            "last": datetime(2024, 1, 17, 20, 5, tzinfo=UTC),
            "encoding": "utf-8",
            "date_order": "dmy",
            "timezone": "Europe/Berlin",
            "language": "de",
        }
    ]
    validate(read.quarantine, Quarantine)


def test_the_language_of_an_export_is_not_that_of_the_phone(tmp_path: Path) -> None:
    by_app = (
        "15.01.24, 21:0{} - Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt. Niemand kann sie lesen.\n"
    )
    media = "15.01.24, 21:07 - Ann: <Medien ausgeschlossen>\n"
    said = "15.01.24, 21:08 - Ann: Is anyone at the allotment this afternoon?\n"
    write(tmp_path / "spoken.txt", "".join(by_app.format(n) for n in range(6)) + media + said)
    write(tmp_path / "silent.txt", by_app.format(1) + media)

    sources = read_exports(tmp_path, SETTINGS).sources

    assert sources.select("source", "rows", "language").rows() == [
        ("chats/silent.txt", 2, None),
        ("chats/spoken.txt", 8, "en"),
    ]


def test_every_file_has_a_status(tmp_path: Path) -> None:
    write(tmp_path / "chat.txt")
    write(tmp_path / "ambiguous.txt", AMBIGUOUS)
    write(tmp_path / "columns.csv", "when,who,what\n2024-01-15,Ann,hello\n")
    write(tmp_path / "header.csv", "timestamp,author,message\n")
    write(tmp_path / "damaged.parquet", b"PAR1 and nothing more")
    write(tmp_path / "lines.jsonl", '{"timestamp": "never", "author": "Ann", "message": "hello"}\n')
    write(tmp_path / "notes.txt", "shopping list")
    write(tmp_path / "empty.txt", "\ufeff \n\n")
    write(tmp_path / "IMG-20240115-WA0001.jpg", b"\xff\xd8")
    write(tmp_path / "team" / "_chat.txt")
    write(tmp_path / "team" / "photo.jpg", b"\xff\xd8")
    write(tmp_path / "pictures" / "plan.pdf", b"%PDF-1.7")
    write(tmp_path / ".hidden.txt")
    write(tmp_path / ".trash" / "chat.txt")
    write(tmp_path / "Thumbs.db", b"\xd0\xcf")
    write(tmp_path / "msgstore.db.crypt15", b"\x01\0\x02")

    assert statuses(tmp_path) == {
        ".hidden.txt": "ignored",
        ".trash/": "ignored",
        "IMG-20240115-WA0001.jpg": "ignored",
        "Thumbs.db": "ignored",
        "ambiguous.txt": "set_aside",
        "chat.txt": "read",
        "columns.csv": "set_aside",
        "damaged.parquet": "failed",
        "empty.txt": "empty",
        "header.csv": "empty",
        "lines.jsonl": "failed",
        "msgstore.db.crypt15": "unsupported",
        "notes.txt": "unsupported",
        "pictures/plan.pdf": "ignored",
        "team/_chat.txt": "read",
        "team/photo.jpg": "ignored",
    }
    read = read_exports(tmp_path, SETTINGS)
    assert read.sources.filter(pl.col("status") != "read")["reason"].null_count() == 0
    refused = read.sources.filter(pl.col("status").is_in(["failed", "set_aside", "unsupported"]))
    whole = read.quarantine.filter(line=0)["source"]
    assert [f"chats/{name}" for name in whole] == [
        name for name in refused["source"] if name != "chats/lines.jsonl"
    ]
    assert "Ann" in read.names
    assert read_exports(tmp_path / "pictures", SETTINGS).messages.schema == RAW_SCHEMA
    assert statuses(tmp_path / "pictures") == {"plan.pdf": "unsupported"}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("Bakers_1.json", {"threadName": "Bakers_1", "messages": [{"senderName": "Ann"}]}, "Messenger"),
        ("2024-01-01.json", [{"user": "U1", "ts": "1704099690.000100", "text": "hi"}], "Slack"),
        ("list.json", [{"timestamp": 1, "author": "Ann", "message": "hi"}], "one object per line"),
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_other_json_is_named_with_advice_that_can_work(
    tmp_path: Path, name: str, content: object, words: str, indent: int | None
) -> None:
    write(tmp_path / name, json.dumps(content, indent=indent))

    assert statuses(tmp_path) == {name: "unsupported"}
    reason = reason_of(tmp_path, name)
    assert words in reason
    assert "one object per line" in reason
    assert "_column" not in reason


@pytest.mark.parametrize("size", [1, 100_000])  # read in this process, or in that with limits
@pytest.mark.parametrize("what", ["link", "folder", "pipe"])
def test_what_takes_the_place_of_an_export_after_the_check_is_not_opened(
    what: str, size: int, tmp_path: Path
) -> None:
    path = write(tmp_path / "chats" / "inner" / "chat.txt", CHAT * size)
    write(tmp_path / "elsewhere" / "chat.txt", CHAT.replace("hello", "secret"))
    listed = list_exports(tmp_path / "chats")
    if what == "folder":
        path.parent.rename(tmp_path / "aside")
        path.parent.symlink_to(tmp_path / "elsewhere")
    else:
        path.unlink()
        os.mkfifo(path) if what == "pipe" else path.symlink_to(tmp_path / "elsewhere" / "chat.txt")
    read = read_listed_exports(listed, ConversationSettings())
    assert read.messages.is_empty()
    assert read.sources["status"].to_list() == ["failed"]
    assert read.sources["reason"][0].startswith("this is ")


def test_only_small_texts_of_whatsapp_are_read_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("_chat.txt", CHAT)
    write(tmp_path / "chat.txt")
    write(tmp_path / "chat.zip", packed.getvalue())
    write(tmp_path / "large.txt", CHAT * 40_000)
    write(tmp_path / "table.csv", "timestamp,author,message\n2024-01-15,Ann,hello\n")
    limited = list[object]()

    def call(function: Callable[..., Export], *request: object, **_: object) -> Export:
        limited.append(request[2])
        return function(*request)

    monkeypatch.setattr(exports, "call_limited", call)
    assert set(statuses(tmp_path).values()) == {"read"}
    assert limited == ["chat.zip", "large.txt", "table.csv"]


def test_overrides_answer_for_one_conversation(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "team/one.txt", "team/two.txt"):
        write(tmp_path / name, AMBIGUOUS)
    settings = ConversationSettings.model_validate(
        {
            "overrides": {
                "a": {"date_order": "dmy", "timezone": "Europe/Berlin"},
                "team": {"date_order": "mdy"},
                "team/two.txt": {"date_order": "dmy"},
                "gone": {"date_order": "dmy"},
            }
        }
    )

    read = read_exports(tmp_path, settings)

    assert read.sources.select("source", "status", "date_order", "timezone").rows() == [
        ("chats/a.txt", "read", "dmy", "Europe/Berlin"),
        ("chats/b.txt", "set_aside", None, None),
        ("chats/team/one.txt", "read", "mdy", "UTC"),
        ("chats/team/two.txt", "read", "dmy", "UTC"),
    ]
    assert read.messages["timestamp"].dt.month().to_list() == [6, 5, 6]
    assert read.unused_overrides == (4,)


def test_a_legacy_encoding_is_read_and_said(tmp_path: Path) -> None:
    write(tmp_path / "chat.txt", "15.01.24, 21:05 - Zoë: grüß dich, schöne Grüße\n".encode("cp1252"))

    read = read_exports(tmp_path, SETTINGS)

    assert read.messages.select("author", "text").rows() == [("Zoë", "grüß dich, schöne Grüße")]
    assert read.sources["encoding"].to_list() == ["cp1252"]
    assert "save it as UTF-8 if names or texts look wrong" in reason_of(tmp_path, "chat.txt")


def test_absent_folder_is_an_error(tmp_path: Path) -> None:
    with raises(WorkspaceError, "absent_folder", tmp_path / "chats"):
        read_exports(tmp_path / "chats", SETTINGS)


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

    assert read.sources["format"].to_list() == ["csv", "jsonl", "whatsapp_text"]
    assert read.messages["text"].to_list() == ["hello"] * 3


def test_the_recipe_for_other_apps_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "chat-formats.md").read_text(encoding="utf-8")
    [recipe] = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    said = {
        "senderName": "Zoë",
        "timestamp": 1_705_352_700_123,
        "text": "Grüße",
        "isUnsent": False,
        "media": [],
    }
    chat = {"threadName": "Bakers_1", "messages": [said, said | {"text": "", "media": [{"uri": "a.jpg"}]}]}
    write(tmp_path / "Bakers_1.json", json.dumps(chat))
    (tmp_path / "chats").mkdir()
    monkeypatch.chdir(tmp_path)

    exec(compile(recipe, "docs/reference/chat-formats.md", "exec"), {})

    messages = read_exports(tmp_path / "chats", SETTINGS).messages
    assert messages.select("author", "text").rows() == [("Zoë", "Grüße")]
