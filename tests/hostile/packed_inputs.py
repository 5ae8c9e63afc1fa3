"""Archives, files of office programs, pages, tables, links and secrets that are made to do harm, or are broken."""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.hostile.inputs import Hostile, front, office, outside, write
from tests.ingest.documents.office_files import (
    book_parts,
    make_zip,
    open_parts,
    paragraph,
    sheet_parts,
    slide_parts,
    word_parts,
    write_rows,
    write_slide,
)
from tests.ingest.documents.pdf_files import make_png

PACKAGES: Final = {
    ".docx": make_zip(word_parts(paragraph("Text " * 300))),
    ".pptx": make_zip(slide_parts([write_slide("")])),
    ".xlsx": make_zip(sheet_parts(Beds=write_rows([["Text"]]))),
    ".odt": make_zip(open_parts("text", "<text:p>Text</text:p>")),
    ".epub": make_zip(book_parts(one="<p>Text</p>")),
}
BOOK: Final = book_parts(one="<p>Text</p>")
WORD: Final = word_parts(paragraph("Text"))
SHEET: Final = sheet_parts(Beds=write_rows([["Text"]]))
FIRST_SHEET: Final = "xl/worksheets/sheet1.xml"
KEY: Final = "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIE\n"


def member(
    name: str,
    content: str | bytes = "Text",
    *,
    mode: int = 0,
    flags: int = 0,
    method: int = zipfile.ZIP_DEFLATED,
) -> Callable[[Path], object]:
    """Make an archive of one good member and one other, with these flags and this way of packing in its listing."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("good.md", "Text")
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        opened.writestr(info, content)
    made = bytearray(archive.getvalue())
    listed = made.rindex(b"PK\x01\x02")
    made[listed + 8] |= flags
    made[listed + 10] = method
    return write(bytes(made))


def repeat(name: str) -> Callable[[Path], object]:
    """Make an archive of two members of one name."""
    other = "x" * len(name)
    return write(make_zip({name: "One", other: "Two"}).replace(other.encode(), name.encode()))


def damage_end(at: int, value: int) -> Callable[[Path], object]:
    """Change a number of two bytes in the record at the end of an archive."""
    content = bytearray(make_zip({"a.md": "Text"}))
    struct.pack_into("<H", content, len(content) - 22 + at, value)
    return write(bytes(content))


def damage_data() -> bytes:
    """Change a byte of a stored member, so that its checksum is wrong."""
    return make_zip({"a.md": "Text"}, zipfile.ZIP_STORED).replace(b"Text", b"Tent")


def change(parts: Mapping[str, str | bytes], name: str, old: str, new: str) -> Callable[[Path], object]:
    return office({**parts, name: str(parts[name]).replace(old, new)})


def claim_image(width: int, height: int) -> bytes:
    """Write a PNG of a few bytes that says it is large."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )


def link_twice(path: Path) -> None:
    (path.parent / "chained.md").symlink_to("good.md")
    path.symlink_to("chained.md")


def write_rules(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("a\n" * 35_000, encoding="utf-8")


def make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


PACKED: Final = (
    Hostile("posts", "up.zip", "archive, a member above the folder", "failed", "points outside", member("../up.md"),
            row="up.zip/../up.md"),
    Hostile("posts", "root.zip", "archive, a member with a whole path", "failed", "points outside", member("/etc/x.md"),
            row="root.zip/etc/x.md"),
    Hostile("posts", "drive.zip", "archive, a member on a drive of Windows", "failed", "points outside",
            member("C:\\x.md"), row="drive.zip/C:/x.md"),
    Hostile("posts", "back.zip", "archive, a member above the folder, with backslashes", "failed", "points outside",
            member("..\\..\\x.md"), row="back.zip/../../x.md"),
    Hostile("posts", "linked.zip", "archive, a link to a file outside", "failed", "link",
            member("l.md", "/etc/passwd", mode=stat.S_IFLNK | 0o777), row="linked.zip/l.md"),
    Hostile("posts", "nested.zip", "archive in an archive", "unsupported", "", member("in.zip",
            make_zip({"a.md": "x"})),
            row="nested.zip/in.zip"),
    Hostile("posts", "bomb.zip", "archive, a member of 30 MB of zeros in 30 kB", "failed", "more than 200 times",
            member("b.md", b"\0" * (30 << 20)), row="bomb.zip/b.md"),
    Hostile("posts", "many.zip", "archive of 10,001 members", "failed", "more than 10,000 members",
            write(make_zip({f"{n}.md": "" for n in range(10_001)}, zipfile.ZIP_STORED)), row="many.zip/"),
    Hostile("posts", "locked.zip", "archive, a member with a password", "failed", "password",
            member("a.md", flags=1), row="locked.zip/a.md"),
    Hostile("posts", "claim.zip", "archive that says it has 60,000 members", "read", "",
            damage_end(10, 60_000), row="claim.zip/a.md"),
    Hostile("posts", "directory.zip", "archive whose directory is said to begin elsewhere", "failed", "",
            damage_end(16, 40_000), row="directory.zip/a.md"),
    Hostile("posts", "cut.zip", "archive, cut off", "failed", "damaged or not complete",
            write(make_zip({"a.md": "Text" * 99})[:60]), row="cut.zip/"),
    Hostile("posts", "sum.zip", "archive, a member with a wrong checksum", "failed", "damaged", write(damage_data()),
            row="sum.zip/a.md"),
    Hostile("posts", "empty.zip", "archive without members", "ignored", "holds no file", write(make_zip({})),
            row="empty.zip/"),
    Hostile("posts", "none.zip", "archive of no bytes", "failed", "damaged or not", write(b""), row="none.zip/"),
    Hostile("posts", "shown.zip", "archive, a line break in a member's name", "failed", "cannot be displayed",
            member("a\nb.md"), row="shown.zip/a\nb.md"),
    Hostile("posts", "repeated.zip", "archive, two members of one name", "failed", "several members", repeat("a.md"),
            row="repeated.zip/a.md"),
    Hostile("posts", "case.zip", "archive, members whose names differ in their case", "read", "", member("GOOD.md"),
            row="case.zip/GOOD.md"),
    Hostile("posts", "method.zip", "archive, a member packed in a way that nobody knows", "failed", "unusual way",
            member("a.md", method=99), row="method.zip/a.md"),
    Hostile("posts", "keys.zip", "archive, a private key in it", "ignored", "private key", member("n.md", KEY),
            row="keys.zip/n.md"),
    Hostile("posts", "env.zip", "archive, a file `.env` in it", "ignored", "secret", member(".env", "A=1"),
            row="env.zip/.env"),
    Hostile("posts", "rules.zip", "archive, binary rules of what to ignore", "failed", "not UTF-8",
            member(".backstoryignore", b"\xff\xfe\0"), row="rules.zip/"),
    Hostile("posts", ".env", "file `.env`", "ignored", "secret", write("A=1")),
    Hostile("posts", "id_rsa", "private key by its name", "ignored", "secret", write(KEY)),
    Hostile("posts", "note.txt", "private key in a text", "ignored", "private key", write(f"Text\n{KEY}")),
    Hostile("posts", "key.html", "private key in a web page", "ignored", "private key", write(f"<p>{KEY}</p>")),
    Hostile("posts", "key.docx", "private key in a Word file", "ignored", "private key",
            office(word_parts(paragraph(KEY)))),
    *(Hostile("posts", f"half{end}", f"half of a file {end}", "failed", "", write(content[: len(content) // 2]))
      for end, content in PACKAGES.items() if end != ".epub"),
    *(Hostile("posts", f"ends{end}", f"file {end} without its last bytes", "failed", "", write(content[:-30]))
      for end, content in PACKAGES.items()),
    *(Hostile("posts", f"nothing{end}", f"file {end} of no bytes", "empty", "", write(b""))
      for end in (*PACKAGES, ".pdf", ".png", ".csv", ".json", ".jsonl", ".parquet", ".py", ".html", ".txt")),
    *(Hostile("posts", f"blanks{end}", f"file {end} of blanks and line breaks", "empty", "", write(b" \n\t\r\n" * 99))
      for end in (".md", ".csv", ".json", ".jsonl", ".html", ".rst", ".py")),
    Hostile("posts", "remote.docx", "Word, a part that lies at an address", "read", "", change(
        WORD, "_rels/.rels", "</Relationships>",
        '<Relationship Id="rId9" Type="x" Target="http://127.0.0.1:9/x" TargetMode="External"/></Relationships>')),
    Hostile("posts", "text.docx", "Word without its text", "failed", "do not fit together", office(
        {name: part for name, part in WORD.items() if name != "word/document.xml"})),
    Hostile("posts", "cut-xml.docx", "Word, its XML cut off", "failed", "is not XML", office(
        {**WORD, "word/document.xml": str(WORD["word/document.xml"])[:-40]})),
    Hostile("posts", "index.xlsx", "spreadsheet, a text that its list of texts lacks", "failed", "damaged",
            office({**SHEET, FIRST_SHEET: str(SHEET[FIRST_SHEET]).replace(
                "</sheetData>", '<row r="2"><c r="A2" t="s"><v>99999</v></c></row></sheetData>')})),
    Hostile("posts", "formula.csv", "CSV, a cell that is a command for Excel", "read", "",
            write("a,b\n=cmd|'/c calc'!A1,1\n"), holds="=cmd|"),
    Hostile("posts", "spine.epub", "e-book that names chapters it lacks", "empty", "", office(
        {name: part for name, part in BOOK.items() if not name.endswith("html")})),
    Hostile("posts", "huge.png", "image of 50,000 by 50,000 points in 70 bytes", "needs_ocr", "",
            write(claim_image(50_000, 50_000))),
    Hostile("posts", "cut.png", "image, cut off", "needs_ocr", "", write(make_png("Hello")[:200])),
    Hostile("posts", "loop.tiff", "image, a TIFF whose list of pages names itself", "needs_ocr", "",
            write(b"II*\0\x08\0\0\0" + b"\0\0" + b"\x08\0\0\0")),
    Hostile("posts", "script.html", "web page, a script that never ends", "read", "", write("Text<script>for(;;);")),
    Hostile("posts", "frame.html", "web page, frames and pictures of other places", "read", "",
            write('<p>Text<iframe src="file:///etc/passwd"></iframe><img src="http://127.0.0.1:9/x">')),
    Hostile("posts", "entities.html", "web page, entities that grow a thousandfold", "read", "",
            write('<!DOCTYPE x [<!ENTITY a "haha"><!ENTITY b "&a;&a;&a;">]><p>Text &b;</p>')),
    Hostile("posts", "entity.xhtml", "XHTML, an entity that names a file", "read", "",
            write('<!DOCTYPE html [<!ENTITY a SYSTEM "/etc/passwd">]><html><body>Text &a;</body></html>')),
    Hostile("posts", "attribute.html", "web page, an attribute of 2 MB", "read", "",
            write('<p title="' + "x" * 2_000_000 + '">Text')),
    Hostile("posts", "columns.csv", "CSV of 50,000 columns", "read", "", write("a," * 50_000 + "\n" + "1," * 50_000)),
    Hostile("posts", "commas.csv", "CSV of commas alone", "empty", "", write(",,,\n" * 1000)),
    Hostile("posts", "head.csv", "CSV, names of columns alone", "read", "", write("name,age\n")),
    Hostile("posts", "ragged.csv", "CSV, rows of any length", "read", "", write("a,b\n1\n1,2,3\n\n4,5\n")),
    Hostile("posts", "nan.json", "JSON, numbers beyond all numbers", "read", "",
            write('[{"a": NaN, "b": 1e999, "c": -Infinity}]')),
    Hostile("posts", "twice.json", "JSON, a key twice", "read", "", write('{"a": 1, "a": 2}')),
    Hostile("posts", "half.json", "JSON, half a surrogate pair", "read", "", write('{"a": "\\ud800"}')),
    Hostile("posts", "two.json", "JSON, two values after each other", "failed", "Extra data",
            write('{"a": 1} {"a": 2}')),
    Hostile("posts", "list.json", "JSON, an empty list", "empty", "", write("[]")),
    *(Hostile("posts", name, f"YAML, {what} that grow a billionfold", status, reason,
              front("\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1,
              12)), *lines])))
      for name, what, lines, status, reason in (
          ("aliases.md", "aliases", (), "read", ""), ("key.md", "a key of aliases", ("? [*a11]", ": c"), "read", ""),
          ("key-twice.md", "a key twice, of aliases", ("b: *a11", "b: *a11"), "failed", "twice"),
      )),
    Hostile("posts", "object.md", "YAML, an object of Python", "read", "",
            front("title: !!python/object/apply:os.system ['true']")),
    Hostile("posts", "twice.md", "YAML, a key twice", "failed", "twice", front("title: A\ntitle: B")),
    Hostile("posts", "year.md", "YAML, a date of no calendar", "failed", "date", front("date: 99999-99-99")),
    Hostile("posts", "open.md", "YAML that does not end", "failed", "not closed", write("---\ntitle: A\nText\n")),
    Hostile("posts", "0001-01-01-first.md", "Markdown, the first day of all calendars", "read", "no date",
            write("Text")),
    *(Hostile("posts", f"{name}.md", f"Markdown, {what}", "read", "", write(text))
      for name, what, text in (
          ("quotes", "100,000 quotations in each other", ">" * 100_000), ("links", "60,000 links begun",
            "[a](" * 60_000),
          ("marks", "80,000 marks of emphasis", "**a" * 80_000), ("ticks", "200,000 ticks", "`" * 200_000),
          ("cells", "a table of 40,000 columns", "|a" * 40_000 + "\n" + "|-" * 40_000 + "\n"),
          ("references", "20,000 references", "".join(f"[{n}]: b\n" for n in range(20_000))),
          ("fences", "60,000 blocks of code begun", "```\n" * 60_000),
      )),
    Hostile("posts", "classes.py", "Python, 90 classes in each other", "read", "",
            write("".join(" " * n + f"class A{n}:\n" for n in range(90)) + " " * 90 + "pass\n")),
    Hostile("posts", "hard.md", "hard link to a file outside", "read", "",
            lambda path: os.link(outside(path, "Text"), path)),
    Hostile("posts", "device.md", "link to a device that never ends", "failed", "leaves the folder",
            lambda path: path.symlink_to("/dev/zero")),
    Hostile("posts", "memory.md", "link to the memory of the process", "failed", "leaves the folder",
            lambda path: path.symlink_to("/proc/self/mem")),
    Hostile("posts", "chain.md", "link to a link in the folder", "read", "",
            link_twice),
    Hostile("posts", "sparse.txt", "file of 1 TB of nothing", "failed", "more than 64 GiB", make_sparse),
    Hostile("posts", "ruled/.backstoryignore", "rules of what to ignore, 70 kB of them", "failed",
            "more than 65,536 bytes",
            write_rules, row="ruled/"),
)  # fmt: skip
"""Documents of other kinds than text, and files that lead elsewhere or hold secrets."""
