"""Files of office programs that are made to do harm, or are damaged: each is refused with its reason."""

import io
import zipfile
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats import package
from backstory.ingest.documents.reader import find_document_format, read_document
from backstory.settings.inputs import DocumentSettings
from tests.errors import raises
from tests.ingest.documents.office_files import (
    RELATION,
    book_parts,
    make_zip,
    open_parts,
    paragraph,
    shape,
    sheet_parts,
    slide_parts,
    word_parts,
    write_rows,
)
from tests.long_tests import some

FILES: dict[str, tuple[str, dict[str, str | bytes]]] = {
    "a.docx": ("word/document.xml", word_parts(paragraph("Text"))),
    "a.pptx": ("ppt/slides/slide1.xml", slide_parts([shape("Text")])),
    "a.xlsx": ("xl/worksheets/sheet1.xml", sheet_parts(Beds=write_rows([["Text"]]))),
    "a.odt": ("content.xml", open_parts("text", "<text:p>Text</text:p>")),
    "a.odp": ("content.xml", open_parts("presentation", "<draw:page/>")),
    "a.ods": ("content.xml", open_parts("spreadsheet", "")),
    "a.epub": ("OEBPS/book.opf", book_parts(one="<p>Text</p>")),
}
"""A file of each kind with the part that is attacked."""

LAUGHS = "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
DEFINITIONS = {
    "billion laughs": f'<!DOCTYPE x [<!ENTITY a "ha">{LAUGHS}]>',
    "quadratic": f'<!DOCTYPE x [<!ENTITY a "{"a" * 100_000}">]>',
    "file": '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
    "address": '<!DOCTYPE x SYSTEM "http://127.0.0.1/x.dtd">',
    "parameter": '<!DOCTYPE x [<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;]>',
    "late": f'<!--{"x" * 100_000}--><?x?>\n<!DOCTYPE x [<!ENTITY a "b">]>',
}

DEEP = "<text:list><text:list-item>" * 20_000
CORNERS = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'


def read(uri: str, content: bytes) -> None:
    reader = find_document_format(uri)
    assert reader is not None
    reader.read(content, uri)


def refusal(uri: str, content: bytes) -> str:
    with pytest.raises(ReadError) as caught:
        read(uri, content)
    return str(caught.value)


@pytest.mark.parametrize("uri", FILES)
@pytest.mark.parametrize("attack", DEFINITIONS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_no_part_may_define_entities(uri: str, attack: str, encoding: str) -> None:
    name, parts = FILES[uri]
    harmful = f"{DEFINITIONS[attack]}{parts[name]!s}".replace("Text", "&j;")
    content = make_zip(parts | {name: harmful.encode(encoding)}, zipfile.ZIP_STORED)
    assert "defines entities or a document type" in refusal(uri, content)


@pytest.mark.parametrize("uri", FILES)
def test_a_file_of_another_kind_is_named(uri: str) -> None:
    old = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600
    assert "this is a file of Microsoft Office before 2007, although its name says otherwise" in refusal(
        uri, old
    )
    locked = old + "EncryptedPackage".encode("utf-16-le")
    assert "protected by a password; save it without one" in refusal(uri, locked)
    assert "this is a PDF file, although its name says otherwise" in refusal(uri, b"%PDF-1.7\n")
    assert "this is a text, although its name says otherwise; give it the name of its kind" in refusal(
        uri, b"Text"
    )
    assert "the file is damaged" in refusal(uri, make_zip({"photo.jpg": b"\xff"}))
    assert "damaged or not complete" in refusal(uri, b"PK\x03\x04")


@pytest.mark.parametrize("uri", ["a.odt", "a.odp", "a.ods"])
def test_a_password_of_opendocument_is_named(uri: str) -> None:
    manifest = {"META-INF/manifest.xml": "<manifest><manifest:encryption-data/></manifest>"}
    assert "protected by a password" in refusal(uri, make_zip(FILES[uri][1] | manifest))


@pytest.mark.parametrize("uri", FILES)
@pytest.mark.parametrize("name", ["../word/a.xml", "/etc/a.xml", "a/../../b.xml", "..\\a.xml"])
def test_no_part_may_lie_outside(uri: str, name: str) -> None:
    assert "points outside" in refusal(uri, make_zip(FILES[uri][1] | {name: "x"}))


def with_flag(content: bytes) -> bytes:
    """Mark every entry as encrypted."""
    changed = bytearray(content)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(mark)
        while at >= 0:
            changed[at + place] |= 1
            at = content.find(mark, at + 1)
    return bytes(changed)


def twice(content: bytes) -> bytes:
    file = io.BytesIO(content)
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(archive.namelist()[0], "x")
    return file.getvalue()


def with_bomb(content: bytes) -> bytes:
    file = io.BytesIO(content)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.xml", b"\0" * (8 << 20))
    return file.getvalue()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_flag, "protected by a password"),
        (twice, "several members of the archive have this name"),
        (with_bomb, "more than 200 times its packed size"),
        (lambda content: content[: len(content) // 2], "damaged or not complete"),
    ],
)
@pytest.mark.parametrize("uri", FILES)
def test_a_bad_archive_is_refused_with_its_reason(
    uri: str, change: Callable[[bytes], bytes], reason: str
) -> None:
    assert reason in refusal(uri, change(make_zip(FILES[uri][1])))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("word/document.xml", "<w:document"),
        ("word/document.xml", ""),
        ("word/document.xml", "<a/>"),
        ("word/document.xml", str(FILES["a.docx"][1]["word/document.xml"]).replace(
            "<w:p>", '<w:p><w:hyperlink xmlns:r="' + RELATION + '" r:id="rId9"/>')),
        ("word/styles.xml", "<w:styles>"),
        ("_rels/.rels", "none"),
    ],
)  # fmt: skip
def test_a_word_document_of_broken_parts_is_damaged(name: str, content: str) -> None:
    with raises(ReadError, "damaged_file"):
        read("a.docx", make_zip(FILES["a.docx"][1] | {name: content}))


@pytest.mark.parametrize(
    ("uri", "name", "content"),
    [
        ("a.docx", "word/document.xml", str(FILES["a.docx"][1]["word/document.xml"]).replace(
            "<w:p>", "<w:sdt><w:sdtContent>" * 3_000 + "</w:sdtContent></w:sdt>" * 3_000 + "<w:p>")),
        ("a.odt", "content.xml", open_parts("text", DEEP + "</text:list-item></text:list>" * 20_000)["content.xml"]),
    ],
)  # fmt: skip
def test_what_is_nested_too_deeply_is_said_to_be(uri: str, name: str, content: str) -> None:
    reader = find_document_format(uri)
    assert reader is not None
    file = make_zip(FILES[uri][1] | {name: content}, zipfile.ZIP_STORED)
    with raises(ReadError, "nested_too_deeply"):
        read_document(reader, file, uri, DocumentSettings())


def test_parts_and_bytes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    content = make_zip(FILES["a.docx"][1])
    monkeypatch.setattr(package, "_MOST_PARTS", 3)
    assert "more than 3 members" in refusal("a.docx", content)
    monkeypatch.undo()
    monkeypatch.setattr(package, "_MOST_UNPACKED", 100)
    with raises(ReadError, "too_large"):
        read("a.docx", content)


@pytest.mark.parametrize(
    ("uri", "name", "content"),
    [
        ("a.docx", "word/document.xml", "<" + "w:p>" * 10),
        ("a.odt", "content.xml", open_parts("text", DEEP)["content.xml"]),
        ("a.odt", "content.xml", open_parts("text", DEEP + "</text:list-item></text:list>" * 20_000)["content.xml"]),
        ("a.pptx", "ppt/slides/slide1.xml", "<p:sld"),
        ("a.pptx", "ppt/_rels/presentation.xml.rels", "<Relationships/>"),
        ("a.xlsx", "xl/worksheets/sheet1.xml", "<worksheet><sheetData><row><c r='ZZZZZZ99999999'><v>1</v></c>"),
        ("a.xlsx", "xl/worksheets/sheet1.xml", sheet_parts(a=CORNERS)["xl/worksheets/sheet1.xml"]),
        ("a.epub", "META-INF/container.xml", "<container/>"),
    ],
)  # fmt: skip
def test_what_breaks_a_reader_ends_with_an_error(uri: str, name: str, content: str | bytes) -> None:
    reader = find_document_format(uri)
    assert reader is not None
    limits = DocumentSettings(read_seconds=10, read_megabytes=256)
    with pytest.raises(ReadError) as raised:
        read_document(reader, make_zip(FILES[uri][1] | {name: content}), uri, limits)
    assert str(raised.value)


@pytest.mark.parametrize("uri", ["a.docx", "a.pptx", "a.odt", "a.epub", "a.xlsx"])
@settings(max_examples=some(40))
@given(data=st.data())
def test_damaged_bytes_are_read_or_refused(uri: str, data: st.DataObject) -> None:
    content = bytearray(make_zip(FILES[uri][1], zipfile.ZIP_STORED))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    with suppress(ReadError):  # any other exception fails the test
        read(uri, bytes(content))
