"""No bytes make a reader raise anything but what it promises, and whatever it gives can be stored.

``BACKSTORY_FUZZ_EXAMPLES=20000`` tries more inputs than the default.
"""

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backstory.chunking.chunkers import choose_chunker
from backstory.chunking.tokens import estimate_tokens
from backstory.documents.limited_reading import read_document
from backstory.documents.markdown_reader import MarkdownReader
from backstory.documents.reader import READERS, find_reader
from backstory.errors import DocumentError, SettingsError
from backstory.messages.export_files import ListedFile
from backstory.messages.file_reading import read_file, read_opened
from backstory.messages.reader import CHAT_SCHEMA, ROW_SCHEMA
from backstory.settings import ChunkSettings, ConversationSettings, DocumentSettings
from backstory.settings.yaml_file import read_settings
from tests.documents.pdf_files import SCAN, make_image, make_pdf, make_right_to_left, write_lines
from tests.hostile.inputs import LINES, TELEGRAM
from tests.messages.chat_samples import SAMPLES, write_sample
from tests.messages.text_samples import TEXT_SAMPLES

EXAMPLES = int(os.environ.get("BACKSTORY_FUZZ_EXAMPLES", "60"))
SETTINGS = ConversationSettings()
LIMITED = ConversationSettings(read_seconds=5, read_megabytes=512)
fuzz = settings(max_examples=EXAMPLES)


def zip_of(method: int) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", method) as opened:
        opened.writestr("_chat.txt", LINES[:400])
        opened.writestr("photo.jpg", b"\xff\xd8")
    return archive.getvalue()


def parquet_of(timestamp: pl.Series) -> bytes:
    content = io.BytesIO()
    pl.DataFrame({"timestamp": timestamp, "author": "Ann", "message": "hello"}).write_parquet(content)
    return content.getvalue()


ZIPS = [
    zip_of(method)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
]
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
POSTS = [
    b'---\ntitle: "T"\ndate: 2024-02-13\ntags: [a, b]\ndraft: false\n---\n# Heading\n\nText #tag\n',
    b'+++\ntitle = "T"\ndate = 2024-02-13T10:00:00Z\n[extra]\na = [1, {b = 2}]\n+++\nText\n',
    b'{"title": "T", "date": "2024-02-13", "tags": ["a"]}\nText\n',
]
ROWS_AND_CODE = {
    "a.csv": b'name,age\nAnn,3\n"B\nC","4"\n',
    "a.json": b'{"a": [{"b": 1.5, "c": [true, null]}, {"d": {"e": "\\u00e9"}}], "f": "x"}',
    "a.jsonl": b'{"a": 1, "b": {"c": [1]}}\n{"a": "x"}\n[1]\n',
    "a.py": b'"""Doc."""\n\n# note\n@mark\ndef f(a):\n    return f"{a}"\n\nclass B:\n    def g(self): ...\n',
    "a.rs": b"/// Doc.\n#[derive(Debug)]\nstruct A { b: u8 }\nimpl A { fn f(&self) {} }\n",
    "a.sh": b"# Doc.\nf() {\n  cat <<END\nx $(date) END\nEND\n}\n",
    "a.rb": b"class A\n  def f; <<~X; end\n  x\n  X\nend\n",
}
PDFS = [
    make_pdf(
        [write_lines("Hello", "wor-", "ld"), b""], information={"Title": "T", "CreationDate": "D:20240101"}
    ),
    make_right_to_left("bcde (x)"),
    make_pdf([write_lines("Typed"), SCAN], images={"Scan": make_image(8, 8, bytes(64))}),
]
PDF_READER = next(reader for reader in READERS if reader.format == "pdf")
PDF_SETTINGS = DocumentSettings(read_seconds=2, read_megabytes=256, ocr="off")
YAML = [
    b"conversations:\n  folder: chats\n  overrides: {a: {date_order: dmy}}\nrag:\n  top_k: 5\n  min_similarity: null\n"
]
TOKENS = [
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xe2\x80\x8e", b"\r\n", b"\n", b'"', b"'", b"[", b"]", b"{",
    b"}", b": ", b"- ", b"? ", b"&a ", b"*a ", b"!!", b"!!timestamp ", b"<<: ", b"|", b">", b"%YAML 1.1\n", b"---\n",
    b"...\n", b"+++\n", b"\\ud800", b"\\UFFFFFFFF", b"\\x00", b"-99999999999", b"1e19", b"nan", b"9" * 5000,
    b"0001-01-01", b"9999-12-31T23:59:59-14:00", b"24:61", b"PAR1", b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06",
    b"\x1b[31m", b"added ", b"13.02.24, 10:00 - ", b"[2/29/23, 1:00:00 AM] ", b"\xd9\xa1", b"~ ", b"\x85",
    b"\xe2\x80\xa8", b"\x0c", b"#", b"=", b"From ", b"<v ", b"<![", b"=?x?b?=?=", b"--b\n", b"--- Day changed ",
    b"00:00:00.000 --> ", b"\t", b"*** ", b" is now known as ",
]  # fmt: skip


@st.composite
def damage(draw: st.DrawFn, samples: list[bytes]) -> bytes:
    """Give a sample with bytes changed, put in, taken out or repeated; or hardly anything of it."""
    content = bytearray(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(content)))
        what = draw(st.sampled_from(["change", "insert", "token", "cut", "repeat", "end"]))
        size = draw(st.integers(1, 12))
        if what == "change" and at < len(content):
            content[at] ^= draw(st.integers(1, 255))
        elif what == "insert":
            content[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif what == "token":
            content[at:at] = draw(st.sampled_from(TOKENS)) * draw(st.sampled_from([1, 1, 2, 60]))
        elif what == "cut":
            del content[at : at + size]
        elif what == "repeat":
            content[at:at] = content[max(0, at - size) : at] * 3
        else:
            del content[max(at, 4) :]
    return bytes(content)


def check_export(content: bytes, name: str) -> None:
    read = read_opened(io.BytesIO(content), name, name, SETTINGS, 2026)
    assert read.status in ("read", "empty", "failed", "set_aside", "unsupported")
    assert read.messages.schema in (ROW_SCHEMA, pl.Schema({**ROW_SCHEMA, **CHAT_SCHEMA}))
    assert read.rows == len(read.messages)
    assert (read.reason or "").encode() is not None
    assert read.messages["timestamp"].null_count() == 0
    for moment in (read.messages["timestamp"].min(), read.messages["timestamp"].max()):
        assert moment is None or str(moment)


@fuzz
@given(damage(ZIPS))
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
def test_logs_and_mails(content: bytes, name: str) -> None:
    check_export(content, name)


@fuzz
@given(content=damage(PARQUETS))
@pytest.mark.parametrize("name", ["a.parquet"])
def test_parquet(content: bytes, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    read = read_file(ListedFile(path, name), LIMITED)
    assert "breaks the reader" not in (read.reason or "")


@fuzz
@given(damage(POSTS))
@example(b'---\ntitle: "\\UFFFFFFFF"\n---\nText')
@example(b'---\n"\\ud800": 1\n---\nText')
@example(b"+++\na = " + b"9" * 5000 + b"\n+++\nText")
def test_documents(content: bytes) -> None:
    problem = ""
    try:
        document = MarkdownReader().read(content, "a.md", drafts=True)
    except DocumentError as error:
        document, problem = None, str(error)
    assert (document is None) == problem.startswith("a.md:")
    if document is not None:
        texts = [document.text, document.title, document.slug, document.kind, document.tenant, *document.tags]
        assert all(text is None or text.encode() is not None for text in texts)


@fuzz
@given(data=st.data())
@pytest.mark.parametrize("name", ROWS_AND_CODE)
def test_rows_and_code(name: str, data: st.DataObject) -> None:
    content = data.draw(damage([ROWS_AND_CODE[name]]))
    reader = find_reader(name, READERS)
    assert reader is not None
    problem = ""
    try:
        document = reader.read(content, name, drafts=True)
    except DocumentError as error:
        document, problem = None, str(error)
    assert (document is None) == problem.startswith(f"{name}:")
    if document is not None:
        assert document.text.strip()
        assert document.text.encode()
        assert (document.unread or "").encode() is not None
        chunker = choose_chunker(document.chunker, ChunkSettings(), max_tokens=64)
        (spans,) = chunker.cut(
            [document.text], max_tokens=[64], overlap_tokens=0, count_tokens=estimate_tokens
        )
        chunks = [document.text[span.start : span.end] for span in spans]
        assert "".join("".join(chunks).split()) == "".join(document.text.split())


@fuzz
@given(content=damage(PDFS))
def test_pdfs(content: bytes) -> None:
    """A library may crash on damaged bytes, but only the process with limits, and with a sentence."""
    problem = ""
    try:
        document = read_document(PDF_READER, content, "a.pdf", PDF_SETTINGS)
    except DocumentError as error:
        document, problem = None, str(error)
    assert (document is None) == problem.startswith("a.pdf:")
    if document is not None:
        assert (document.text + (document.title or "")).encode().strip()
        assert list(document.page_starts) == sorted(document.page_starts)
        assert document.page_starts[0] == 0
        assert document.page_starts[-1] <= len(document.text)


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
