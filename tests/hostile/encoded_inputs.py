"""Texts in every encoding, with every end of a line, under every name, and files with the ending of another kind."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

from tests.hostile.inputs import Hostile, write
from tests.ingest.documents.office_files import make_zip, paragraph, word_parts
from tests.ingest.documents.pdf_files import make_png

GERMAN: Final = "Die Gärtnerin prüft täglich, ob die Äpfel süß und die Füße der Bäume trocken sind. " * 3
POLISH: Final = (
    "Ogrodniczka sprawdza co dzień, czy jabłka są słodkie, a korzenie drzew suche i zdrowe, i śpi źle. " * 3
)
RUSSIAN: Final = "Садовница каждый день проверяет, сладкие ли яблоки и сухие ли корни старых деревьев. " * 3
GREEK: Final = "Η κηπουρός ελέγχει κάθε μέρα αν τα μήλα είναι γλυκά και οι ρίζες των δέντρων στεγνές. " * 3
HEBREW: Final = "הגננת בודקת בכל יום אם התפוחים מתוקים ואם שורשי העצים יבשים ובריאים. " * 3
ARABIC: Final = "تتحقق البستانية كل يوم مما إذا كان التفاح حلوا وجذور الأشجار جافة وسليمة. " * 3
THAI: Final = "คนสวนตรวจสอบทุกวันว่าแอปเปิลหวานและรากของต้นไม้แห้งและแข็งแรงดีหรือไม่ " * 3
JAPANESE: Final = "庭師は毎日、リンゴが甘いかどうか、木の根が乾いているかどうかを調べています。" * 3
CHINESE: Final = "园丁每天检查苹果是否香甜，树根是否干燥健康，并且把结果写在本子上。" * 3
TAIWANESE: Final = "園丁每天檢查蘋果是否香甜，樹根是否乾燥健康，並且把結果寫在本子上。" * 3
KOREAN: Final = "정원사는 매일 사과가 달콤한지, 나무 뿌리가 마르고 건강한지 확인하고 공책에 적습니다. " * 3
ALPHABETS: Final = (
    ("utf-8-sig", "UTF-8 with its mark", GERMAN, ""),
    ("utf-16", "UTF-16 with its mark", RUSSIAN, ""),
    ("utf-16-le", "UTF-16 without a mark", GERMAN, ""),
    ("utf-16-be", "UTF-16 of the other order without a mark", GERMAN, ""),
    ("utf-32", "UTF-32 with its mark", JAPANESE, ""),
    ("cp1252", "Latin-1", GERMAN, "cp1252"),
    ("cp1250", "the code page of Polish", POLISH, "cp1250"),
    ("cp1251", "the code page of Russian", RUSSIAN, "cp1251"),
    ("koi8_r", "KOI8-R", RUSSIAN, "koi8_r"),
    ("cp1253", "the code page of Greek", GREEK, "cp1253"),
    ("cp1255", "the code page of Hebrew", HEBREW, "cp1255"),
    ("cp1256", "the code page of Arabic", ARABIC, "cp1256"),
    ("cp874", "the code page of Thai", THAI, "cp874"),
    ("shift_jis", "Shift-JIS", JAPANESE, "cp932"),
    ("gb18030", "GB18030", CHINESE, "gb18030"),
    ("big5", "Big5", TAIWANESE, "big5"),
    ("euc_kr", "EUC-KR", KOREAN, "cp949"),
)
"""Encoding, what it is called, a text in it, and what the reason calls it, which for Unicode is nothing."""

UNKNOWN: Final = (
    ("euc_jp", "EUC-JP, taken for Big5", JAPANESE, "read", "was read as big5"),
    ("cp500", "EBCDIC", GERMAN, "failed", "not UTF-8 text"),
    ("utf-32-le", "UTF-32 without a mark", GERMAN, "failed", "not UTF-8 text"),
)


def chat_lines(text: str) -> str:
    return "".join(f"[13.02.24, 11:{minute:02}:00] Eva: {minute} {text}\n" for minute in range(12))


def table_lines(text: str) -> str:
    return f'timestamp,author,message\n2024-02-13T10:00:00Z,Ida,"{text}"\n'


def page(text: str, charset: str) -> bytes:
    encoding = "utf-8" if charset == "x-unknown" else charset
    return f'<html><head><meta charset="{charset}"></head><body><p>{text}</p></body></html>'.encode(encoding)


def write_below(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("Text", encoding="utf-8")


def long_name(end: str) -> str:
    return "n" * (255 - len(end)) + end


PNG: Final = make_png("Hello")
LETTER: Final = make_zip(word_parts(paragraph("Text")))
GZIP: Final = gzip.compress(b"Text", mtime=0)
NAMES: Final = (
    ("line\nbreak", "a line break"),
    ("reversed\u202egpj", "letters that turn the direction of writing"),
    ("\x1b[31mred", "codes that colour a terminal"),
    ("tab\tand\x7fdelete", "other control characters"),
    ("back\\slash", "a backslash"),
    ("%2e%2e%2fup", "a coded way out"),
    ("'; DROP TABLE documents; --", "a command of a database"),
    ("$(touch x) `touch y`", "commands of a shell"),
    ("-rf", "the look of an option"),
    ("[x](y) <b>", "marks of Markdown and HTML"),
    ("e\u0301 \u00e9 \U0001f469\u200d\U0001f33e", "letters of several parts"),
    ("CON", "the name of a device of Windows"),
    ("trailing. ", "a blank and a dot at the end"),
)

ENCODED: Final = (
    *(Hostile("posts", f"{name}{end}", f"{kind} in {what}", "read", told, write(text.encode(name)), holds=text[:40])
      for name, what, text, told in ALPHABETS
      for end, kind in ((".md", "Markdown"), (".txt", "text"))),
    *(Hostile("posts", f"{name}.csv", f"CSV in {what}", "read", told,
              write(f"name,text\nAnna,\"{text}\"\n".encode(name)), holds=text[:40])
      for name, what, text, told in ALPHABETS),
    *(Hostile("posts", f"{name}.html", f"web page that says it is in {what}", "read", "", write(page(text, name)),
              holds=text[:40])
      for name, what, text, _ in ALPHABETS if name.startswith(("cp125", "shift", "gb", "big", "euc"))),
    *(Hostile("posts", f"{name}.txt", f"text in {what}", status, reason, write(text.encode(name)))
      for name, what, text, status, reason in UNKNOWN),
    Hostile("posts", "utf-16.json", "JSON in UTF-16", "read", "", write(f'{{"a": "{GERMAN}"}}'.encode("utf-16")),
            holds=GERMAN[:40]),
    Hostile("posts", "cookie.py", "Python in an encoding that it names", "read", "",
            write(f"# -*- coding: cp1251 -*-\nx = '{RUSSIAN}'\n".encode("cp1251")), holds=RUSSIAN[:40]),
    Hostile("posts", "lie.html", "web page that names an encoding which it is not in", "read", "",
            write(page(GERMAN, "utf-8").replace(b"utf-8", b"utf-16"))),
    Hostile("posts", "unknown.html", "web page that names an encoding which does not exist", "read", "",
            write(page(GERMAN, "x-unknown"))),
    Hostile("posts", "escapes.txt", "text in ISO-2022-JP", "read", "was read as iso2022_jp",
            write(JAPANESE.encode("iso2022_jp")), holds=JAPANESE[:40]),
    Hostile("posts", "broken-escapes.txt", "text in ISO-2022-JP, damaged", "failed", "not iso2022_jp_ext text",
            write(JAPANESE.encode("iso2022_jp")[:-3] + b"\x1b(Z")),
    Hostile("chats", "escapes.txt", "chat in ISO-2022-JP", "read", "was read as iso2022_jp",
            write(chat_lines(JAPANESE).encode("iso2022_jp"))),
    Hostile("posts", "two.md", "Markdown, half UTF-8, half Latin-1", "failed", "line 3",
            write(GERMAN.encode() + b"\n\n" + GERMAN.encode("cp1252"))),
    Hostile("posts", "half-letter.md", "Markdown, cut off within a letter", "failed", "line 1",
            write(GERMAN.encode() + b"\xc3")),
    Hostile("posts", "overlong.md", "Markdown, a slash written in two bytes", "read", "not UTF-8",
            write(b"a\xc0\xafb")),
    Hostile("posts", "surrogate.md", "Markdown, half a surrogate pair as bytes", "read", "not UTF-8",
            write(b"Text \xed\xa0\x80")),
    *(Hostile("chats", f"{name}.txt", f"chat in {what}", "read", told, write(chat_lines(text).encode(name)))
      for name, what, text, told in ALPHABETS[::2]),
    *(Hostile("chats", f"{name}.csv", f"chat as CSV in {what}", "read", told, write(table_lines(text).encode(name)))
      for name, what, text, told in ALPHABETS[1::8]),
    *(Hostile("posts", f"ends-{number}{end}", f"{end[1:].upper()}, {what}", "read", "", write(content))
      for end, text in ((".md", "# A\nText\nmore\n"), (".csv", "a,b\n1,2\n3,4\n"), (".txt", "Text\nmore\n"))
      for number, (what, content) in enumerate((
          ("lines that end as on old Macs", text.replace("\n", "\r")),
          ("lines of three kinds of ends", text.replace("\n", "\r\n", 1).replace("\n", "\r", 1) + text),
          ("form feeds, next lines and line separators", text.replace("\n", "\f\x85\u2028\n")),
      ))),
    *(Hostile("posts", f"null{end}", f"{end[1:].upper()}, a null byte in it", "read", "", write(text))
      for end, text in (
          (".md", "Text \0 text"), (".html", "<p>Text \0 text"), (".tsv", "a\tb\nx\0y\tz\n"), (".rst", "A\0b\n===\n"),
          (".jsonl", '{"a": "x\\u0000y"}\n{"a": "x\0y"}\n'), (".rs", "fn a() { \0 }\n"),
      )),
    *(Hostile("posts", f"line{end}", f"{end[1:].upper()}, one line of 5 or 10 MB", status, "", write(text))
      for end, status, text in (
          (".md", "read", "word " * 2_000_000), (".txt", "read", "x" * 10_000_000),
          (".html", "failed", "<p>" + "word " * 2_000_000), (".json", "read", '"' + "x" * 5_000_000 + '"'),
      )),
    Hostile("chats", "line.txt", "chat, one message of 10 MB", "failed", "MB of memory",
            write("[13.02.24, 11:00:00] Eva: " + "x" * 10_000_000 + "\n")),
    *(Hostile("posts", f"{name}.md", f"Markdown, {what} in its name", "read", "", write("Text")) for name,
            what in NAMES),
    *(Hostile("chats", f"{name}.txt", f"chat, {what} in its name", "read", "", write(chat_lines(what)))
      for name, what in NAMES[:6]),
    Hostile("posts", long_name(".md"), "Markdown, a name of 255 bytes", "read", "", write("Text")),
    Hostile("chats", long_name(".txt"), "chat, a name of 255 bytes", "read", "", write(chat_lines("long"))),
    Hostile("posts", "caf\udce9.md", "Markdown, a name that is not UTF-8", "failed", "not UTF-8", write("Text"),
            row="caf\\xe9.md"),
    Hostile("posts", "Clash.md", "Markdown, a name that differs in its case", "read", "", write("A")),
    Hostile("posts", "clash.md", "Markdown, that name in the other case", "read", "", write("B")),
    Hostile("posts", "a" * 200 + "/" + "b" * 200 + "/" + "c" * 200 + "/a.md", "Markdown in folders of long names",
            "read",
            "", write_below),
    Hostile("posts", "/".join("d" * 200) + "/a.md", "Markdown in 200 folders in each other", "read", "",
            write_below),
    *(Hostile("posts", f"photo{end}", f"image with the ending {end}", "unsupported", "an image (PNG", write(PNG))
      for end in (".md", ".txt", ".csv", ".json", ".jsonl", ".html", ".py", ".rst")),
    *(Hostile("posts", f"photo{end}", f"image with the ending {end}", "failed", "", write(PNG))
      for end in (".pdf", ".docx", ".epub", ".parquet")),
    *(Hostile("posts", f"packed{end}", f"gzip archive with the ending {end}", "unsupported", "an archive (ZIP",
              write(GZIP))
      for end in (".md", ".csv", ".json", ".html", ".tar.gz")),
    *(Hostile("posts", f"packed{end}", f"gzip archive with the ending {end}", "failed", "", write(GZIP), row=row)
      for end, row in ((".xlsx", ""), (".png", ""), (".zip", "packed.zip/"))),
    *(Hostile("posts", f"letter{end}", f"Word file with the ending {end}", status, "", write(LETTER), row=row)
      for end, status, row in (
          (".md", "unsupported", ""), (".html", "unsupported", ""), (".xlsx", "failed", ""), (".pptx", "failed", ""),
          (".odt", "failed", ""), (".epub", "failed", ""), (".pdf", "failed", ""),
          (".zip", "unsupported", "letter.zip/word/document.xml"),
      )),
    *(Hostile("chats", f"photo{end}", f"image with the ending {end}", "unsupported", "an image (PNG", write(PNG))
      for end in (".txt", ".csv", ".json", ".jsonl", ".zip", ".mbox", ".parquet")),
    Hostile("chats", "page.txt", "web page with the ending .txt", "unsupported", "",
            write("<html><body>Ann: hello</body></html>")),
    Hostile("chats", "table.json", "CSV with the ending .json", "read", "", write(table_lines("x"))),
    Hostile("chats", "program.json", "a program with the name of an export", "unsupported", "",
            write(b"\x7fELF\x02\x01" + bytes(range(256)) * 8)),
)  # fmt: skip
"""Inputs whose bytes, names or endings are not what a reader expects."""
