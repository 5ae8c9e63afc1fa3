from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.tables import CSV
from backstory.ingest.documents.parsed_document import ParsedDocument
from tests.errors import raises
from tests.long_tests import some

READER = CSV


def read(content: str | bytes, uri: str = "a.csv") -> ParsedDocument:
    document = READER.read(content.encode() if isinstance(content, str) else content, uri)
    assert document is not None
    return document


def test_each_row_is_a_line_that_names_its_columns() -> None:
    table = 'name,note,age\nAnn,"said ""hi""",3\n"Ben\nX","a; b",\n\n"""Cy""", d ,5\n'
    assert read(table) == ParsedDocument(
        text='name; note; age\nname: Ann; note: said "hi"; age: 3\nname: "Ben\\nX"; note: "a; b"\n'
        'name: "\\"Cy\\""; note: " d "; age: 5',
        chunker="rows",
    )


@pytest.mark.parametrize(
    ("table", "uri"),
    [
        ("a;b\n1,5;x\n2,5;y\n", "a.csv"),
        ("a\tb\n1,5\tx\n2,5\ty\n", "a.tsv"),
        ("a|b\n1,5|x\n2,5|y", "a.csv"),
        ("sep=;\na;b\n1,5;x\n2,5;y\n", "a.csv"),
        ("a,b\r1,x\r".replace("1,x", '"1,5",x').replace("\r", "\r\n") + '"2,5",y', "a.csv"),
        ("a;b\r1,5;x\r2,5;y\r", "a.csv"),
    ],
)
def test_the_delimiter_is_found(table: str, uri: str) -> None:
    assert read(table, uri).text == "a; b\na: 1,5; b: x\na: 2,5; b: y"


@pytest.mark.parametrize(
    ("table", "header"),
    [
        ("name\nAnn\n", "name"),
        ("1,2\n3,4\n", "column 1; column 2"),
        ("country,2019,2020\nx,1,2\n", "country; 2019; 2020"),
        ("a,,a\n1,2,3\n", "a; column 2; a"),
        ('"a: b","c\nd"\n1,2\n', '"a: b"; c d'),
    ],
)
def test_the_first_row_names_the_columns_unless_it_holds_numbers_alone(table: str, header: str) -> None:
    assert read(table).text.partition("\n")[0] == header


@pytest.mark.parametrize(
    ("table", "text", "unread"),
    [
        (
            "a,b\n1,2\n3\n4,5,6\n7,8,,\n",
            "a; b\na: 1; b: 2\na: 3\na: 4; b: 5; column 3: 6\na: 7; b: 8",
            "lines with another number of cells than the first row, read cell by cell: 2, the first is line 3",
        ),
        (
            'a,b\n"x,1\ny,2\n',
            'a; b\na: "\\"x"; b: 1\na: y; b: 2',
            "lines with a quotation mark that is out of place, read as an ordinary character: 1, the first is line 2",
        ),
        (
            b"a,b\n\xff,1\n\xc3\xa9,2\n",
            "a; b\na: \ufffd; b: 1\na: é; b: 2",
            "lines with bytes that are not text in the encoding of the file, shown as \ufffd: 1, the first is line 2",
        ),
    ],
)
def test_what_is_wrong_is_read_and_said(table: str | bytes, text: str, unread: str) -> None:
    assert read(table) == ParsedDocument(text=text, chunker="rows", unread=unread)


def test_a_table_in_another_encoding_is_read() -> None:
    assert read("имя,город\nОля,Рига\nАнна,Москва\n".encode("cp1251")).text.endswith(
        "имя: Анна; город: Москва"
    )
    assert read("é,b\n1,2\n".encode("utf-16")).text == "é; b\né: 1; b: 2"


@pytest.mark.parametrize("content", [b"", b"\n\n", b" , \n,,\n"])
def test_a_table_without_text_is_empty(content: bytes) -> None:
    with raises(ReadError, "empty_document"):
        READER.read(content, "a.csv")


@pytest.mark.parametrize("content", [b"PK\x03\x04" + b"x" * 40, b"PAR1" + b"\0" * 50, b"\0" * 100])
def test_a_binary_file_is_refused(content: bytes) -> None:
    with raises(ReadError, "binary_file"):
        READER.read(content, "a.csv")


def test_a_cell_may_be_long_and_leaves_the_usual_limit() -> None:
    usual = csv.field_size_limit()
    assert len(read("a,b\n" + "x" * 1_000_000 + ",1\n").text) > 1_000_000
    assert csv.field_size_limit() == usual


CELL = st.text(st.sampled_from('ab1 ,;:"\n\r\té\u2028\0'), max_size=8)


@settings(deadline=None, max_examples=some(80))
@given(st.lists(st.lists(CELL, min_size=2, max_size=2), max_size=8))
def test_every_cell_stands_in_the_row_of_its_line(rows: list[list[str]]) -> None:
    content = io.StringIO(newline="")
    csv.writer(content, lineterminator="\n").writerows([["first", "second"], *rows])
    if "\0" in content.getvalue():
        return
    shown = read(content.getvalue()).text.split("\n")
    filled = [row for row in rows if any(cell.strip() for cell in row)]
    assert shown[0] == "first; second"
    assert len(shown) == 1 + len(filled)
    for line, row in zip(shown[1:], filled, strict=True):
        assert len(line.splitlines()) == 1
        assert ("first: " in line) == bool(row[0])
        assert line.count("; second: ") == bool(row[0] and row[1])


def test_a_quotation_mark_is_no_delimiter() -> None:
    assert read('sep="\nrye\n').text == 'sep="\nsep=": rye'
