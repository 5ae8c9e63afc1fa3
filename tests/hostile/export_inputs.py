"""Exports of every chat format that are broken, or made to do harm."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import polars as pl

from tests.hostile.inputs import TELEGRAM, Hostile, outside, parquet, slack_zip, write
from tests.ingest.chats.chat_samples import (
    CHATGPT,
    CLAUDE,
    DISCORD,
    IRSSI,
    MAIL,
    MAILBOX,
    MATRIX,
    META,
    SIGNAL,
    WEECHAT,
    ZOOM_TRANSCRIPT,
    write_sample,
)
from tests.ingest.documents.office_files import make_zip

TALK: Final = "".join(
    f"[14.02.24, 10:{minute:02}:00] Eli: bread {minute} of the day\n" for minute in range(12)
)
HEAD: Final = "timestamp,author,message\n"


def texts(**members: str | bytes) -> Callable[[Path], object]:
    """Make a ZIP export of WhatsApp whose members have these names, with ``_`` for a dot."""
    return write(
        make_zip({name.replace("__", ".").replace("UP", "../"): text for name, text in members.items()})
    )


def lock(content: bytes) -> bytes:
    """Say that all members of an archive have a password."""
    locked = bytearray(content)
    place = locked.find(b"PK\x01\x02")
    while place >= 0:
        locked[place + 8] |= 1
        place = locked.find(b"PK\x01\x02", place + 1)
    return bytes(locked)


def half(sample: Any) -> Callable[[Path], object]:
    content = write_sample(sample)
    return write(content[: len(content) // 2])


def emptied(sample: dict[str, Any]) -> Callable[[Path], object]:
    return write(json.dumps(sample | {"messages": []}))


def slack_folder(path: Path) -> None:
    """Write the folder of a Slack export whose second day is a link to a file outside."""
    (path / "bread").mkdir(parents=True)
    (path / "users.json").write_text('[{"id": "U1", "name": "ann"}]', encoding="utf-8")
    (path / "channels.json").write_text("[]", encoding="utf-8")
    day = [{"type": "message", "user": "U1", "text": "hello", "ts": "1707818400.000100"}]
    (path / "bread" / "2024-01-01.json").write_text(json.dumps(day), encoding="utf-8")
    target = outside(path, json.dumps(day))
    (path / "bread" / "2024-01-02.json").symlink_to(target)


def make_pipe_in_slack(path: Path) -> None:
    slack_folder(path)
    os.mkfifo(path / "bread" / "2024-01-03.json")


EXPORTS: Final = (
    Hostile("chats", "up.zip", "WhatsApp ZIP, a text above the folder", "read", "", texts(UP_chat__txt=TALK)),
    Hostile("chats", "two.zip", "WhatsApp ZIP of two chats", "failed", "holds 2 chats",
            texts(a__txt=TALK, b__txt=TALK.replace("bread", "rye"))),
    Hostile("chats", "locked.zip", "WhatsApp ZIP with a password", "failed", "password",
            write(lock(make_zip({"_chat.txt": TALK})))),
    Hostile("chats", "bomb.zip", "WhatsApp ZIP, a text of 60 MB in 60 kB", "failed", "", texts(
        _chat__txt=(TALK + "x" * 60_000_000).encode())),
    Hostile("chats", "in.zip", "WhatsApp ZIP in a ZIP", "unsupported", "",
            texts(in__zip=make_zip({"_chat.txt": TALK}))),
    Hostile("chats", "media.zip", "ZIP of pictures alone", "unsupported", "", texts(a__jpg=b"\xff\xd8\xff")),
    Hostile("chats", "void.zip", "ZIP without members", "unsupported", "", write(make_zip({}))),
    Hostile("chats", "many.zip", "ZIP of 500 members", "unsupported", "",
            write(make_zip({f"{n}.json": "{}" for n in range(500)}, zipfile.ZIP_STORED))),
    Hostile("chats", "slack-locked.zip", "Slack ZIP with a password", "failed", "password",
            write(lock(make_zip({"users.json": '[{"id": "U1", "name": "a"}]', "channels.json": "[]",
                                 "a/2024-01-01.json": "[]"})))),
    Hostile("chats", "slack-types.zip", "Slack ZIP, texts where lists belong", "read", "could not be read",
            slack_zip("bread/2024-01-02.json", b'{"a": ["b"], "messages": 1}')),
    Hostile("chats", "slack", "Slack folder, a link to a file outside", "read", "", slack_folder, row="slack/"),
    Hostile("chats", "slack-pipe", "Slack folder, a named pipe for a day", "read", "", make_pipe_in_slack,
            row="slack-pipe/"),
    *(Hostile("chats", f"half-{name}.json", f"{what}, the first half", status, "breaks off", half(sample))
      for name, what, sample, status in (
          ("discord", "Discord", DISCORD, "failed"), ("meta", "Instagram", META, "failed"),
          ("chatgpt", "ChatGPT", CHATGPT, "failed"), ("claude", "Claude", CLAUDE, "failed"),
          ("matrix", "Matrix", MATRIX, "read"),
      )),
    Hostile("chats", "half-signal.jsonl", "signal-cli, the first half", "read", "could not be read", half(SIGNAL)),
    *(Hostile("chats", f"void-{name}.json", f"{what} without a message", "empty", "", emptied(sample))
      for name, what, sample in (("discord", "Discord", DISCORD), ("meta", "Instagram", META), ("matrix", "Matrix",
            MATRIX))),
    Hostile("chats", "marked.json", "Telegram in UTF-8 with its mark", "read", "",
            write(b"\xef\xbb\xbf" + TELEGRAM.replace("Bakers", "Marked").encode())),
    Hostile("chats", "wide.json", "Telegram in UTF-16", "unsupported", "", write(TELEGRAM.encode("utf-16"))),
    Hostile("chats", "numbers.json", "Telegram, NaN and numbers beyond all numbers", "unsupported", "",
            write(TELEGRAM.replace('"id": 1,', '"id": 1e999, "x": NaN,', 1))),
    Hostile("chats", "keys.json", "Telegram, a key of 3 MB", "unsupported", "",
            write(TELEGRAM.replace('"id": 1,', '"id": 1, "' + "k" * 3_000_000 + '": 1,', 1))),
    Hostile("chats", "empty.json", "JSON, an empty object", "set_aside", "no column", write("{}")),
    Hostile("chats", "bare.json", "JSON, a number", "unsupported", "", write("1")),
    Hostile("chats", "columns.csv", "CSV of 20,000 columns", "read", "",
            write("timestamp,author,message" + ",x" * 20_000 + "\n2024-01-01T00:00:00Z,Ann,hi" + ",1" * 20_000 + "\n")),
    Hostile("chats", "head.csv", "CSV, names of columns alone", "empty", "", write(HEAD)),
    Hostile("chats", "ragged.csv", "CSV, rows of any length", "read", "2 fields instead of 3",
            write(f"{HEAD}2024-01-01T00:00:00Z,Ann\n2024-01-01T00:00:00Z,Ann,hi,there\n2024-01-01T00:00:00Z,Ann,yes\n")),
    Hostile("chats", "quote.csv", "CSV, a quotation mark that is never closed", "read", "out of place",
            write(f'{HEAD}2024-01-01T00:00:00Z,Ann,"hi\n' + "2024-01-01T00:00:00Z,Ben,yo\n" * 99)),
    Hostile("chats", "binary.csv", "CSV, a quarter of it null bytes", "unsupported", "",
            write((HEAD + "a,b,c\n" * 9).replace("a", "\0"))),
    Hostile("chats", "bad.jsonl", "JSONL without a line that can be read", "failed", "",
            write('{"timestamp": "soon", "author": "Ann", "message": "a"}\n' * 9)),
    Hostile("chats", "no-rows.parquet", "Parquet without a row", "empty", "", lambda path: pl.DataFrame(
        schema={"timestamp": pl.Int64, "author": pl.String, "message": pl.String}).write_parquet(path)),
    Hostile("chats", "lists.parquet", "Parquet, lists for times", "failed", "", parquet(pl.Series([[1, 2]]))),
    Hostile("chats", "nothing.parquet", "Parquet of no bytes", "empty", "", write(b"")),
    Hostile("chats", "nothing.txt", "chat of no bytes", "empty", "", write(b"")),
    Hostile("chats", "blank.txt", "chat of blanks and line breaks", "empty", "", write(" \r\n\t" * 99)),
    Hostile("chats", "year.txt", "chat, a day that no calendar has", "read", "no such date or time",
            write("[14.02.24, 10:00:00] Eli: a\n[31.02.24, 10:00:00] Eli: b\n[14.02.24, 25:61:00] Eli: c\n" * 5)),
    Hostile("chats", "author.txt", "chat, a name of 100,000 letters", "read", "",
            write(f"[14.02.24, 10:00:00] {'N' * 100_000}: a\n[14.02.24, 10:01:00] Eli: b\n")),
    Hostile("chats", "marks.txt", "chat, marks of direction without a text", "read", "",
            write("[14.02.24, 10:00:00] Eli: \u200e\u200f\u202e\n" * 20)),
    Hostile("chats", "macintosh.txt", "chat, lines that end as on old Macs", "read", "", write(TALK.replace("\n",
            "\r"))),
    Hostile("chats", "mixed.txt", "chat, lines of three kinds of ends", "read", "",
            write(TALK.replace("bread", "oven").replace("\n", "\r\n", 4).replace("12 of", "\u2028 of"))),
    Hostile("chats", "separators.mbox", "mailbox of 5,000 lines that begin a mail", "unsupported", "",
            write("From a\n" * 5_000)),
    Hostile("chats", "header.eml", "mail, a header of 3 MB", "unsupported", "",
            write("X-A: " + "a" * 3_000_000 + "\n" + MAIL)),
    Hostile("chats", "charset.eml", "mail, an encoding that does not exist", "read", "",
            write(MAIL.replace("charset=utf-8", "charset=x-none"))),
    Hostile("chats", "year.eml", "mail, a date beyond all calendars", "failed", "the mail has no date",
            write(MAIL.replace("01 May 2024", "01 May 99999"))),
    Hostile("chats", "base64.eml", "mail, base64 that is none", "read", "",
            write(MAIL.replace("Content-Type", "Content-Transfer-Encoding: base64\nContent-Type", 1))),
    Hostile("chats", "attached.eml", "mail, 2,000 mails attached in each other", "unsupported", "",
            write("Content-Type: message/rfc822\n\n" * 2_000 + MAIL)),
    Hostile("chats", "2024-05-03.log", "IRC log, codes that colour a terminal", "read", "",
            write(IRSSI.replace("rye", "\x1b[31m\x03\x02rye"))),
    Hostile("chats", "weechat.weechatlog", "WeeChat log, a name of 1 MB", "read", "could not be read",
            write(WEECHAT + f"2024-05-02 00:03:00\t{'n' * 1_000_000}\thello\n")),
    Hostile("chats", "GMT20240501-100000.vtt", "transcript, cues that end before they begin", "read", "",
            write(ZOOM_TRANSCRIPT.replace("00:00:05.500", "00:00:01.000"))),
    Hostile("chats", "twice.mbox", "mailbox, every mail twice", "read", "", write(MAILBOX * 2)),
    Hostile("chats", "device.txt", "link to a device that never ends", "ignored", "neither",
            lambda path: path.symlink_to("/dev/zero")),
    Hostile("chats", "sparse.txt", "file of 1 TB of nothing", "failed", "more than 64 GiB", lambda path: os.truncate(
        os.open(path, os.O_CREAT | os.O_WRONLY), 1 << 40)),
    Hostile("chats", "caf\udce9.txt", "chat, a name that is not UTF-8", "failed", "not UTF-8", write(TALK),
            row="caf\\xe9.txt"),
    Hostile("chats", ".hidden.txt", "hidden chat", "ignored", "hidden", write(TALK)),
    Hostile("chats", "msgstore.db.crypt15", "encrypted backup of WhatsApp", "unsupported", "neither a chat",
            write(bytes(range(64)))),
    Hostile("chats", "msgstore.db", "database of WhatsApp", "unsupported", "SQLite", write(b"SQLite format 3\0" * 9)),
)  # fmt: skip
"""Exports, beside those of the other lists."""
