"""Files that are made to do harm or were damaged, each with what must become of it."""

from __future__ import annotations

import io
import json
import os
import socket
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

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
    ZNC,
    ZOOM_CHAT,
    ZOOM_TRANSCRIPT,
    write_sample,
)
from tests.ingest.documents.hostile_pdf_files import (
    PAGE,
    claim_pages,
    draw_itself,
    inflate,
    multiply_forms,
    nest_arrays,
    nest_dictionaries,
    nest_pages,
    pack_objects,
    protect,
    repeat_xref,
)
from tests.ingest.documents.office_files import (
    make_zip,
    open_parts,
    paragraph,
    sheet_parts,
    word_parts,
    write_rows,
)
from tests.ingest.documents.pdf_files import make_pdf, write_lines

LINES = "".join(f"[13.02.24, 10:{minute:02}:00] Ann: hello {minute}\n" for minute in range(60))
RECORD = {"timestamp": "2024-02-13T10:00:00Z", "author": "Ann", "message": "hello"}

TELEGRAM = (
    '{"name": "Bakers", "type": "private_supergroup", "id": 1, "messages": [{"id": 1, "type": "message", '
    '"date_unixtime": "1707818400", "from": "Ann", "from_id": "user1", "text": "hello"}]}'
)


@dataclass(frozen=True)
class Hostile:
    """One entry of the folder of exports or documents.

    Attributes:
        folder: Where it is put.
        name: Its name.
        what: What it is, for the table of the docs.
        status: What its row in ``sources`` must say.
        reason: Words of the reason.
        make: Writes it at a path.
        row: What its row in ``sources`` is called below the folder, if that is not its name.
        holds: Words that the text of the document must hold.
        is_long: Whether it takes long and ends as another one of its format, so that a long run alone tries it.
    """

    folder: Literal["chats", "posts"]
    name: str
    what: str
    status: str
    reason: str
    make: Callable[[Path], object]
    row: str = ""
    holds: str = ""
    is_long: bool = False

    @property
    def source(self) -> str:
        """Its name in the table ``sources``."""
        return f"{self.folder}/{self.row or self.name}"


def zip_chat(method: int, at: int, damage: bytes) -> Callable[[Path], object]:
    """Make a ZIP of a chat and overwrite some of its bytes; a negative place counts from the end."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", method) as opened:
        opened.writestr("WhatsApp Chat with Ann.txt", LINES * 20)
    content = bytearray(archive.getvalue())
    content[at % len(content) : at % len(content) + len(damage)] = damage
    return lambda path: path.write_bytes(content)


def slack_zip(name: str, content: bytes) -> Callable[[Path], object]:
    """Make a Slack export of one message and one further file."""
    day = [{"type": "message", "user": "U1", "text": "hello", "ts": "1707818400.000100"}]
    parts = {"users.json": [{"id": "U1", "name": "ann"}], "channels.json": [], "bread/2024-01-01.json": day}

    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for part, value in parts.items():
                archive.writestr(part, json.dumps(value))
            archive.writestr(name, content)

    return make


def write(content: str | bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


def write_packed(pack: Callable[[int], bytes], megabytes: int) -> Callable[[Path], object]:
    """Pack when the file is written: it takes seconds that the collection of the tests would wait for."""
    return lambda path: path.write_bytes(pack(megabytes))


def json_lines(*changes: dict[str, object]) -> Callable[[Path], object]:
    return write("".join(json.dumps({**RECORD, **change}) + "\n" for change in changes))


def parquet(timestamp: pl.Series, *, rows: int = 1) -> Callable[[Path], object]:
    table = pl.DataFrame({"timestamp": timestamp, "author": "Ann", "message": "hello"})
    return lambda path: pl.concat([table] * rows).write_parquet(path)


def repeated_parquet(rows: int) -> Callable[[Path], object]:
    """Write equal rows, which take next to nothing in the file."""
    frame = pl.select(
        timestamp=pl.repeat(1_707_818_400, rows, dtype=pl.Int64),
        author=pl.repeat("Ann", rows),
        message=pl.repeat("x", rows),
    )
    return lambda path: frame.write_parquet(path)


def damaged_parquet(at: int) -> Callable[[Path], object]:
    content = io.BytesIO()
    pl.DataFrame({"timestamp": [1, 2], "author": ["A", "B"], "message": ["x", "y"]}).write_parquet(content)
    changed = bytearray(content.getvalue())
    changed[at] ^= 0xFF
    return write(bytes(changed))


def bind_socket(path: Path) -> None:
    """Make a socket; the path of one must be short, so that it is bound from its folder."""
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(path.name)
    finally:
        os.chdir(before)


def outside(path: Path, content: str) -> Path:
    """Write a file beside the workspace's folder."""
    target = path.parent.parent / f"outside-{path.name}"
    target.write_text(content, encoding="utf-8")
    return target


def link_folder_outside(path: Path) -> None:
    target = path.parent.parent / "elsewhere"
    target.mkdir(exist_ok=True)
    path.symlink_to(target)


def front(field: str) -> Callable[[Path], object]:
    return write(f"---\n{field}\n---\nText\n")


def office(parts: Mapping[str, str | bytes]) -> Callable[[Path], object]:
    return write(make_zip(parts))


LARGE = 20 * (1 << 20)
WORD = word_parts(paragraph("&a;"))
TEXT = open_parts("text", "<text:p>&a;</text:p>")
LISTS = "<text:list><text:list-item>" * 20_000 + "</text:list-item></text:list>" * 20_000
SHEET = sheet_parts(Beds=write_rows([["Text"]]))
ENTITIES = '<!DOCTYPE x [<!ENTITY b "ha"><!ENTITY a "' + "&b;" * 1000 + '">]>'

HOSTILE = (
    Hostile("chats", "bzip2.zip", "ZIP, bzip2, bytes overwritten", "failed", "damaged or not",
            zip_chat(zipfile.ZIP_BZIP2, 60, b"\0" * 30), is_long=True),
    Hostile("chats", "lzma.zip", "ZIP, LZMA, bytes overwritten", "failed", "damaged or not",
            zip_chat(zipfile.ZIP_LZMA, 70, b"\xff" * 30), is_long=True),
    Hostile("chats", "deflated.zip", "ZIP, deflated, bytes overwritten", "failed", "damaged or not",
            zip_chat(zipfile.ZIP_DEFLATED, 80, b"\xff" * 30)),
    Hostile("chats", "stored.zip", "ZIP, stored, directory said to begin before the file", "failed", "damaged or not",
            zip_chat(zipfile.ZIP_STORED, -5, b"\xff")),
    Hostile("chats", "epoch.csv", "CSV, timestamp -99999999999", "read", "1 line or record could not be read",
            write("timestamp,author,message\n-99999999999,Ann,a\n1707818400,Ann,b\n")),
    Hostile("chats", "epoch.jsonl", "JSONL, timestamp -99999999999", "read", "is no time between",
            json_lines({"timestamp": -99999999999}, {})),
    Hostile("chats", "digits.jsonl", "JSONL, number of 5,000 digits", "read", "not JSON",
            write(b'{"timestamp": ' + b"9" * 5000 + b"}\n" + json.dumps(RECORD).encode())),
    Hostile("chats", "nested.jsonl", "JSONL, 100,000 brackets", "read", "nested too deeply",
            write(json.dumps(RECORD).encode() + b'\n{"timestamp": ' + b"[" * 100_000 + b"\n")),
    Hostile("chats", "surrogate.jsonl", "JSONL, half a surrogate pair in a key", "set_aside", "no column for",
            write('{"time": 1, "\\ud800": 2}\n' * 2)),
    Hostile("chats", "epoch.parquet", "Parquet, timestamp -99999999999", "failed", "is no time between",
            parquet(pl.Series([-99999999999]))),
    Hostile("chats", "micros.parquet", "Parquet, microseconds beyond all calendars", "failed", "outside the calendar",
            parquet(pl.Series([-(2**63)]).cast(pl.Datetime("us", "UTC"))), is_long=True),
    Hostile("chats", "days.parquet", "Parquet, days beyond all calendars", "failed", "outside the calendar",
            parquet(pl.Series([-(2**31)], dtype=pl.Int32).cast(pl.Date))),
    Hostile("chats", "page.parquet", "Parquet, one byte of a page changed", "failed", "damaged",
            damaged_parquet(96)),
    Hostile("chats", "footer.parquet", "Parquet, length of the footer changed", "failed", "damaged",
            damaged_parquet(-6)),
    Hostile("chats", "rows.parquet", "Parquet, some kB of 5 million equal rows", "failed", "read_megabytes",
            repeated_parquet(5_000_000)),
    Hostile("chats", "digits.json", "Telegram, number of 5,000 digits", "read", "damaged here",
            write(TELEGRAM[:-2] + ', {"id": ' + "9" * 5000 + "}]}")),
    Hostile("chats", "nested.json", "Telegram, 100,000 brackets", "read", "more than 64 levels",
            write(TELEGRAM[:-2] + ', {"a": ' + "[" * 100_000)),
    Hostile("chats", "cut.json", "Telegram, cut off within a message", "read", "breaks off",
            write(TELEGRAM[:-2] + ', {"id": 2, "type": "mess')),
    Hostile("chats", "latin.json", "Telegram, Latin-1", "read", "damaged here",
            write((TELEGRAM[:-2] + ', {"text": "\u00e9"}]}').encode("latin-1"))),
    Hostile("chats", "far.json", "Telegram, a time beyond all calendars", "read", "the timestamp is no time",
            write(TELEGRAM.replace("]}", ', {"id": 2, "type": "message", "from": "Ann", "text": "x", '
                                         f'"date_unixtime": "{"9" * 30}"}}]}}'))),
    Hostile("chats", "zeros.zip", "Slack ZIP, a day of 30 MB of zeros in 30 kB", "read", "damaged here",
            slack_zip("general/2024-01-01.json", b"\0" * (30 << 20))),
    Hostile("chats", "climbing.zip", "Slack ZIP, names that leave the folder", "read", "",
            slack_zip("../../general/2024-01-01.json", b"[]")),
    Hostile("chats", "types.json", "Discord, records with lists for texts and texts for lists", "read", "of them 3",
            write(json.dumps(DISCORD | {"messages": [*DISCORD["messages"], {"id": [], "author": "Ann"}, "", [[]]]}))),
    Hostile("chats", "cut-thread.json", "Instagram, cut off before the name of the thread", "read", "breaks off",
            write(json.dumps(META).partition(', "title"')[0][:-1])),
    Hostile("chats", "ring.json", "ChatGPT, messages that follow each other in a ring", "failed", "form a ring",
            write(json.dumps(CHATGPT).replace('"parent": "n0"', '"parent": "n2"'))),
    Hostile("chats", "blocks.json", "Claude, a text nested 100 levels deep", "read", "more than 64 levels",
            write(json.dumps(CLAUDE)[:-1] + ', {"uuid": ' + "[" * 100 + "]" * 100 + "}]")),
    Hostile("chats", "changes.json", "Matrix, changes of what is not there", "read", "does not hold",
            write(json.dumps(MATRIX).replace('"event_id": "$2", "unsigned"', '"event_id": "$7", "unsigned"'))),
    Hostile("chats", "half.jsonl", "signal-cli, half a surrogate pair, 100,000 brackets, no JSON", "read", "4 lines",
            write(b"".join([write_sample(SIGNAL), b'{"envelope": {"sourceUuid": "\\ud800", "dataMessage": {"a": 1}}}\n',
                            b"[" * 100_000, b"\n{\n\xff\n"]))),
    Hostile("chats", "2024-05-01.log", "IRC log, a line of 3 MB, NUL bytes, a time of no clock", "read",
            "2 lines", write(ZNC + "[10:11:00] <ann> " + "x" * 3_000_000 + "\n[25:61:00] <ann> a\n\0\0\0\n")),
    Hostile("chats", "days.log", "IRC log, a day that no calendar has", "read", "states the day",
            write(IRSSI.replace("May 02", "May 42"))),
    Hostile("chats", "undated.log", "IRC log that does not say its day", "set_aside", "into the name", write(ZNC)),
    Hostile("chats", "GMT21991231-100000.vtt", "transcript, a cue beyond all years, tags that never end", "read",
            "2 lines", write(ZOOM_TRANSCRIPT + "\n9999:00:00.000 --> 9999:00:01.000\nAnn: a\n\n"
                                  "00:00.000 --> 00:01.000\n" + "<v " * 10_000)),
    Hostile("chats", "undated.vtt", "transcript that does not say when the meeting began", "set_aside",
            "into the name", write(ZOOM_TRANSCRIPT)),
    Hostile("chats", "2024-05-01 chat.txt", "Zoom chat, a line of 3 MB without an end", "read", "",
            write(ZOOM_CHAT + "x" * 3_000_000)),
    Hostile("chats", "parts.eml", "mail, 5,000 parts in each other", "read", "",
            write("Content-Type: multipart/mixed; boundary=b\n" + MAIL.replace("text/plain; charset=utf-8", "a")
                  + "--b\nContent-Type: multipart/mixed; boundary=b\n\n" * 5_000)),
    Hostile("chats", "broken.mbox", "mailbox, a header and HTML that cannot be parsed", "read",
            "", write(MAILBOX.replace("=?utf-8?b?QnJvdA==?=", "=?utf-8?b?Q?=").replace("<p>Yes", "<![x <p>Yes"))),
    Hostile("chats", "cut.mbox", "mailbox, cut off within a mail", "read", "", write(MAILBOX[:900])),
    Hostile("chats", "large.jsonl", "file of more bytes than may be read", "failed", "too many to read",
            write(b"\n" * LARGE)),
    Hostile("chats", "null.txt", "chat, one null byte", "read", "", write(LINES.replace("hello 7", "hello \0 7"))),
    Hostile("chats", "fifo.txt", "named pipe", "failed", "this is not a file", os.mkfifo),
    Hostile("chats", "socket.txt", "socket", "failed", "this is not a file", bind_socket),
    Hostile("chats", "gone.txt", "link that leads nowhere", "failed", "a link to nothing",
            lambda path: path.symlink_to(path.parent / "nothing")),
    Hostile("chats", "loop.txt", "link to itself", "failed", "a link to nothing", lambda path: path.symlink_to(path)),
    Hostile("chats", "outside.txt", "link to a file outside", "failed", "leaves the folder",
            lambda path: path.symlink_to(outside(path, LINES))),
    Hostile("chats", "linked/", "link to a folder outside", "failed", "leaves the folder", link_folder_outside),
    Hostile("chats", "around/", "link to the folder itself", "ignored", "at its own place",
            lambda path: path.symlink_to(path.parent)),
    Hostile("posts", "escape.md", 'YAML, `"\\UFFFFFFFF"`', "failed", "not valid YAML", front('title: "\\UFFFFFFFF"')),
    Hostile("posts", "half.md", "YAML, half a surrogate pair", "read", "",
            front('title: "\\ud800"')),
    Hostile("posts", "half-key.md", "YAML, half a surrogate pair in a key", "read", "", front('"\\ud800": 1')),
    Hostile("posts", "nested.md", "YAML, 6 kB of brackets", "failed", "nested too deeply",
            front("a: " + "[" * 3000 + "]" * 3000)),
    Hostile("posts", "lists.md", "YAML, 3,000 lists in lists", "failed", "nested too deeply", front("- " * 3000)),
    Hostile("posts", "control.md", "YAML, a control character", "failed", "not valid YAML", front("title: a\x01b")),
    Hostile("posts", "digits.md", "TOML, number of 5,000 digits", "failed", "not valid TOML",
            write("+++\na = " + "9" * 5000 + "\n+++\nText\n")),
    Hostile("posts", "digits-json.md", "JSON, number of 5,000 digits", "failed", "not valid JSON",
            write('{"a": ' + "9" * 5000 + "}\nText\n")),
    Hostile("posts", "dotted.md", "TOML, 200,000 keys in keys", "failed", "characters; shorten it",
            write("+++\n" + "a." * 200_000 + "a = 1\n+++\nText\n")),
    Hostile("posts", "line.csv", "CSV, one line of 10 MB", "failed", "MB of memory",
            write(b"a,b\n" + b"x" * 10_000_000)),
    Hostile("posts", "null.csv", "CSV, null bytes alone", "unsupported", "this is not text", write(b"\0" * 1000)),
    Hostile("posts", "quote.csv", "CSV, a quotation mark that is never closed", "read", "out of place",
            write('a,b\n"x,1\n' + "y,2\n" * 1000)),
    Hostile("posts", "other.csv", "Parquet named CSV", "unsupported", "its name says otherwise", damaged_parquet(96)),
    Hostile("posts", "nested.json", "JSON, 100,000 brackets", "failed", "nested more deeply", write("[" * 100_000)),
    Hostile("posts", "cut.json", "JSON, cut off", "failed", "this is not valid JSON",
            write('[{"a": 1},\n{"a": ')),
    Hostile("posts", "digits.json", "JSON, a value of 100,000 digits", "failed", "4300 digits", write("9" * 100_000)),
    Hostile("posts", "lines.jsonl", "JSONL, a line of 100,000 brackets, one cut off, half a surrogate pair", "read",
            "2 lines left out, the first is line 1: it is not JSON, or nested too deeply",
            write("[" * 100_000 + '\n{"a": \n{"a": "\\ud800"}\n')),
    Hostile("posts", "damaged.parquet", "Parquet, one byte of a page changed", "failed", "damaged",
            damaged_parquet(96)),
    Hostile("posts", "footer.parquet", "Parquet, length of the footer changed", "failed", "damaged",
            damaged_parquet(-6)),
    Hostile("posts", "rows.parquet", "Parquet, some kB of 5 million equal rows", "failed", "read_megabytes",
            repeated_parquet(5_000_000)),
    Hostile("posts", "brackets.py", "Python, 100,000 brackets", "read", "", write("(" * 100_000)),
    Hostile("posts", "signs.py", "Python, 100,000 signs before a number", "read", "",
            write("-" * 100_000 + "1")),
    Hostile("posts", "null.py", "Python, null bytes", "read", "", write("x = 1\n\0\0\n")),
    Hostile("posts", "brackets.rs", "Rust, 100,000 brackets", "read", "", write("{(" * 50_000)),
    Hostile("posts", "signs.rb", "Ruby, 60,000 signs before a number", "read", "",
            write("def f; " + "+++\n" * 20_000), is_long=True),
    Hostile("posts", "line.js", "JavaScript, one line of 10 MB", "read", "characters that are parsed",
            write("a();" * 2_500_000)),
    Hostile("posts", "video.ts", "a video named TypeScript", "failed", "not",
            write((b"G\x40\0\x10" + b"\xff" * 184) * 100)),
    Hostile("posts", "locked.pdf", "PDF, protected by a password", "failed", "protected by a password",
            write(protect("secret"))),
    Hostile("posts", "open.pdf", "PDF, encrypted without a password", "read", "", write(protect(""))),
    Hostile("posts", "claim.pdf", "PDF, 100,000 pages by its header, one in the file", "read", "",
            write(claim_pages(100_000))),
    Hostile("posts", "cut.pdf", "PDF, cut off", "failed", "damaged or incomplete", write(PAGE[: len(PAGE) // 2])),
    Hostile("posts", "xref.pdf", "PDF, table of objects that names itself as the one before", "read", "",
            write(repeat_xref())),
    Hostile("posts", "tree.pdf", "PDF, tree of pages that holds itself", "read", "", write(nest_pages())),
    Hostile("posts", "bomb.pdf", "PDF, page of 300 MB in 2 kB", "failed", "MB of memory", write_packed(inflate, 300),
            is_long=True),
    Hostile("posts", "objects.pdf", "PDF, object stream of 300 MB in 300 kB", "failed", "MB of memory",
            write_packed(pack_objects, 300), is_long=True),
    Hostile("posts", "arrays.pdf", "PDF, 200,000 lists in lists", "read", "", write(nest_arrays(200_000)),
            is_long=True),
    Hostile("posts", "dictionaries.pdf", "PDF, 200,000 dictionaries in dictionaries", "read", "",
            write(nest_dictionaries(200_000))),
    Hostile("posts", "ring.pdf", "PDF, form that draws itself nine times", "failed", "MB of memory",
            write(draw_itself()), is_long=True),
    Hostile("posts", "forms.pdf", "PDF, a letter drawn a billion times by forms in forms", "failed", "MB of memory",
            write(multiply_forms(9))),
    Hostile("posts", "box.pdf", "PDF, page of 10^30 points", "read", "",
            write(make_pdf([write_lines("Hello")], box=(0, 0, 1e30, 1e30)))),
    Hostile("posts", "zeros.pdf", "PDF, 5,000 null bytes", "empty", "the file is empty", write(b"\0" * 5000)),
    Hostile("posts", "null.pdf", "PDF, a null byte in its text", "read", "", write(PAGE.replace(b"Hello", b"He\0llo"))),
    Hostile("posts", "zip.pdf", "ZIP with the name of a PDF", "failed", "this is no PDF", write(b"PK\x03\x04" * 99)),
    Hostile("posts", "pdf.png", "PDF with the name of an image", "failed", "not an image", write(PAGE)),
    Hostile("posts", "large.md", "file of more bytes than may be read", "failed", "too many to read",
            write(b"x" * LARGE)),
    Hostile("posts", "laughs.docx", "Word, entities that grow a thousandfold", "failed", "defines entities",
            office(WORD | {"word/document.xml": f"{ENTITIES}{WORD['word/document.xml']!s}"})),
    Hostile("posts", "outside.odt", "OpenDocument, an entity that names a file", "failed", "defines entities",
            office(TEXT | {"content.xml": f'<!DOCTYPE x [<!ENTITY a SYSTEM "/etc/passwd">]>{TEXT["content.xml"]!s}'})),
    Hostile("posts", "zeros.xlsx", "spreadsheet, a part of 30 MB of zeros in 30 kB", "failed", "more than 200 times",
            office(SHEET | {"xl/sharedStrings.xml": b"\0" * (30 << 20)})),
    Hostile("posts", "corners.xlsx", "spreadsheet, its first and its last possible cell", "failed", "megabytes",
            office(SHEET | {"xl/worksheets/sheet1.xml": str(SHEET["xl/worksheets/sheet1.xml"]).replace(
                "</sheetData>", '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>')})),
    Hostile("posts", "climbing.docx", "Word, a part whose name leaves the file", "failed", "points outside",
            office(WORD | {"../../word/media/a.xml": "x"})),
    Hostile("posts", "locked.docx", "Word, protected by a password", "failed", "protected by a password",
            write(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600 + "EncryptedPackage".encode("utf-16-le"))),
    Hostile("posts", "half.epub", "e-book, cut in the middle", "failed", "damaged or not complete",
            write(make_zip(WORD)[:700])),
    Hostile("posts", "picture.docx", "an image with the name of a Word file", "failed", "an image (PNG",
            write(b"\x89PNG\r\n\x1a\n" + b"\0" * 100)),
    Hostile("posts", "deep.odt", "OpenDocument, 20,000 lists in lists", "failed", "nested more deeply",
            write(make_zip(open_parts("text", LISTS), zipfile.ZIP_STORED))),
    Hostile("posts", "deep.html", "web page, 100,000 tags in tags", "failed", "nested deeper than 1,024 tags",
            write("<b>" * 100_000 + "Text")),
    Hostile("posts", "open.html", "web page, 300,000 comments that do not end", "read", "",
            write("Text" + "<!--" * 300_000)),
    Hostile("posts", "marks.rst", "reStructuredText, 2,000 headings", "read", "",
            write("A b\n===\n\nA bc\n----\n\n" * 1000)),
    Hostile("posts", "null.txt", "text, one null byte", "read", "", write("Text \0 text")),
    Hostile("posts", "program.txt", "a program with the name of a text", "failed", "is not UTF-8 text",
            write(b"\x7fELF\x02\x01" + bytes(range(256)) * 8)),
    Hostile("posts", "fifo.md", "named pipe", "failed", "not a file", os.mkfifo),
    Hostile("posts", "socket.md", "socket", "failed", "not a file", bind_socket),
    Hostile("posts", "gone.md", "link that leads nowhere", "failed", "not a file",
            lambda path: path.symlink_to(path.parent / "nothing")),
    Hostile("posts", "loop.md", "link to itself", "failed", "not a file", lambda path: path.symlink_to(path)),
    Hostile("posts", "outside.md", "link to a file outside", "failed", "leaves the folder",
            lambda path: path.symlink_to(outside(path, "Text"))),
    Hostile("posts", "linked/", "link to a folder outside", "failed", "leaves the folder", link_folder_outside),
    Hostile("posts", "around/", "link to the folder itself", "ignored", "at its own place",
            lambda path: path.symlink_to(path.parent)),
)  # fmt: skip
