"""No bytes make a reader raise anything but what it promises, and whatever it gives can be stored.

``BACKSTORY_FUZZ_EXAMPLES=20000`` tries more inputs than the default.
"""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backstory.base.errors import SettingsError
from backstory.ingest.chats.export import ROW_SCHEMA
from backstory.ingest.chats.export_files import open_parts
from backstory.ingest.chats.exports import CHAT_FORMATS, TABLE_FORMATS, read_file, read_opened
from backstory.ingest.walk import ListedFile
from backstory.settings.inputs import ConversationSettings
from backstory.settings.yaml_file import read_settings
from tests.hostile.damage import damage, fuzz
from tests.hostile.inputs import LINES, TELEGRAM
from tests.ingest.chats.chat_samples import SAMPLES, TEXT_SAMPLES, write_sample

SETTINGS = ConversationSettings()
LIMITED = ConversationSettings(read_seconds=5, read_megabytes=512)


def zip_of(method: int) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", method) as opened:
        opened.writestr("_chat.txt", LINES[:400])
        opened.writestr("photo.jpg", b"\xff\xd8")
    return archive.getvalue()


def slack_zip() -> bytes:
    said = {
        "type": "message",
        "user": "U1",
        "text": "hi <@U1>",
        "ts": "1705352700.000100",
        "thread_ts": "1705352700.000100",
    }
    parts = {
        "users.json": [{"id": "U1", "name": "ann", "profile": {"real_name": "Ann Oak", "display_name": ""}}],
        "channels.json": [{"id": "C1", "name": "bread"}],
        "bread/2024-01-15.json": [
            said,
            {**said, "ts": "1705352701.5", "edited": {"ts": "1"}, "reactions": [{"name": "a"}]},
        ],
    }
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        for name, content in parts.items():
            opened.writestr(name, json.dumps(content))
    return archive.getvalue()


def parquet_of(timestamp: pl.Series) -> bytes:
    content = io.BytesIO()
    pl.DataFrame({"timestamp": timestamp, "author": "Ann", "message": "hello"}).write_parquet(content)
    return content.getvalue()


ZIPS = [
    zip_of(method)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
]
SLACK = slack_zip()
PARQUETS = [
    parquet_of(pl.Series([1_707_818_400, None])),
    parquet_of(pl.Series(["2024-02-13T10:00:00Z", "soon"])),
    parquet_of(pl.Series([0, 2**62]).cast(pl.Datetime("us", "UTC"))),
]
TABLES = [
    LINES[:400].encode(),
    b'timestamp,author,message\n2024-02-13T10:00:00Z,Ann,hello\n1707818400,Ben,"a\nb"\n',
    json.dumps({"timestamp": 1_707_818_400, "author": "Ann", "message": "hello"}).encode() + b"\n",
    TELEGRAM.encode(),
    *map(write_sample, SAMPLES.values()),
]
TEXTS = [content.encode() for _, content in TEXT_SAMPLES.values()]
YAML = [
    b"conversations:\n  folder: chats\n  overrides: {a: {date_order: dmy}}\nrag:\n  top_k: 5\n  min_similarity: null\n"
]


def check_export(content: bytes, name: str) -> None:
    read = read_opened(open_parts(io.BytesIO(content), name, SETTINGS), name)
    assert read.status in ("read", "empty", "failed", "set_aside", "unsupported")
    assert read.rows.schema == ROW_SCHEMA
    assert (read.reason or "").encode() is not None
    assert read.rows["timestamp"].null_count() == 0
    for moment in (read.rows["timestamp"].min(), read.rows["timestamp"].max()):
        assert moment is None or str(moment)


def test_every_format_of_chats_has_a_sample_that_is_read() -> None:
    """What damages a sample says something about a format only if that format reads the sample when it is whole."""
    samples = [
        *(("chat.zip", content) for content in (ZIPS[0], SLACK)),
        *zip(("a.txt", "a.csv", "a.jsonl", "a.json", *["a.json"] * len(SAMPLES)), TABLES, strict=True),
        *((name, text.encode()) for name, (_, text) in TEXT_SAMPLES.items()),
        ("a.parquet", PARQUETS[0]),
    ]
    read = {
        read_opened(open_parts(io.BytesIO(content), name, SETTINGS), name).format for name, content in samples
    }
    assert read == {
        *(chat_format.name for chat_format in CHAT_FORMATS),
        *(each.name for each in TABLE_FORMATS),
    }


@fuzz
@given(damage([*ZIPS, SLACK]))
@example(ZIPS[0][:-5] + b"\xff" + ZIPS[0][-4:])
@example(ZIPS[2][:60] + b"\0" * 30 + ZIPS[2][90:])
@example(ZIPS[3][:60] + b"\0" * 30 + ZIPS[3][90:])
def test_archives(content: bytes) -> None:
    check_export(content, "chat.zip")


@fuzz
@given(damage(TABLES), st.sampled_from(["a.txt", "a.csv", "a.jsonl", "a.json"]))
@example(b"timestamp,author,message\n-99999999999,Ann,x\n", "a.csv")
@example(b'{"time": 1, "\\ud800": 2}\n', "a.jsonl")
def test_tables_and_texts(content: bytes, name: str) -> None:
    check_export(content, name)


@fuzz
@given(
    damage(TEXTS),
    st.sampled_from(["2024-05-01 10.00.00.txt", "2024-05-01.log", "a.mbox", "GMT99991231-235959.vtt"]),
)
@example(b"WEBVTT\n\n9999:00:00.000 --> 00:01.000\nAnn: a\n", "GMT99991231-235959.vtt")
@example(
    b"Date: Wed, 01 May 2024 10:00:00 +9999\nFrom: a@b\nTo: a\nContent-Type: text/html\n\n<![if", "a.mbox"
)
@example(
    b"Date: x\nFrom: a@b\nTo: a\n" + b"Content-Type: multipart/mixed; boundary=b\n\n--b\n" * 2000, "a.mbox"
)
@example(b"Date: 1 May 2024 10:00:00 +0000\nFrom: a@b\nTo: a\nMessage-ID: <\x89@b>\n\nhello", "a.mbox")
def test_logs_and_mails(content: bytes, name: str) -> None:
    check_export(content, name)


@fuzz
@given(content=damage(PARQUETS))
@pytest.mark.parametrize("name", ["a.parquet"])
def test_parquet(content: bytes, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    read = read_file(ListedFile(name, path, path.parent), LIMITED)
    assert "breaks its reader" not in (read.reason or "")


@fuzz
@given(content=damage(YAML))
@example(content=b"rag:\n  top_k: 5 \x01\n")
@example(content=b'a: "\\UFFFFFFFF"')
@example(content=b'"\\ud800": 1')
def test_settings(content: bytes, write_settings: Callable[[bytes], Path]) -> None:
    path = write_settings(content)
    problem = ""
    try:
        read_settings(path)
    except SettingsError as error:
        problem = str(error)
    assert not problem or problem.startswith(str(path))


@pytest.fixture(scope="module")
def write_settings(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], Path]:
    path = tmp_path_factory.mktemp("settings") / "backstory.yaml"

    def write(content: bytes) -> Path:
        path.write_bytes(content)
        return path

    return write
