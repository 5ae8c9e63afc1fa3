from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.tables import JSON, JSON_LINES
from backstory.ingest.documents.parsed_document import ParsedDocument
from tests.errors import raises
from tests.long_tests import some


def read(content: str | bytes) -> ParsedDocument:
    document = JSON.read(content.encode() if isinstance(content, str) else content, "a.json")
    assert document is not None
    return document


def read_lines(content: str | bytes) -> ParsedDocument:
    document = JSON_LINES.read(content.encode() if isinstance(content, str) else content, "a.jsonl")
    assert document is not None
    return document


def test_a_list_of_objects_is_a_table() -> None:
    content = '[{"a": 1.10, "b": "x\\ny", "c": {"d": true, "e": [1, "z"]}}, {"b": "; ", "f": null}, {}, 5]'
    assert read(content) == ParsedDocument(
        text='a; b; c; f; value\na: 1.10; b: "x\\ny"; c.d: true; c.e: [1, "z"]\nb: "; "\nvalue: 5',
        chunker="rows",
    )


def test_an_object_has_a_line_for_each_value_with_its_path() -> None:
    content = {
        "name": "One", "meta": {"n": 3, "of": {"p": 1}}, "people": [{"name": "Ann", "tags": ["a"]}, {"name": "Ben"}, 7],
        "users": {"u1": {"x": 1, "y": 2}}, "none": [], "a.b": False,
    }  # fmt: skip
    assert read(json.dumps(content)).text.split("\n") == [
        "name; meta; people; users; none; a.b", "name: One", "meta.n: 3", "meta.of: p: 1",
        'people[1]: name: Ann; tags: ["a"]', "people[2]: name: Ben", "people[3]: 7", "users.u1: x: 1; y: 2",
        "a.b: false",
    ]  # fmt: skip


def test_values_stand_as_they_were_written() -> None:
    content = '{"z": 1.50, "a": NaN, "b": "\\ud800", "c": "\\u2028", "d": ' + "9" * 6000 + "}"
    assert (
        read(content).text == 'z; a; b; c; d\nz: 1.50\na: NaN\nb: "\\ud800"\nc: "\\u2028"\nd: ' + "9" * 6000
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1,\n"b": }', "line 2: this is not valid JSON: Expecting value; correct it"),
        ("[1, 2", "line 1: this is not valid JSON: Expecting ',' delimiter; correct it"),
        ("[" * 100_000, "it is nested more than 64 levels deep; make it flatter"),
        ('{"a":' * 100 + "1" + "}" * 100, "it is nested more than 64 levels deep; make it flatter"),
        ("[" * 100 + "1" + "]" * 100, "it is nested more than 64 levels deep; make it flatter"),
        (b"\xff\xfe\xff", "line 1: this is not utf-16 text"),
    ],
)
def test_a_broken_file_is_refused(content: str | bytes, message: str) -> None:
    with pytest.raises(ReadError) as caught:
        read(content)
    assert str(caught.value).startswith(message.partition(": this is not text")[0])


@pytest.mark.parametrize("content", ["", " \n", "{}", "[]", "null", '""', "[{}, null]", '{"a": {"b": []}}'])
def test_json_without_a_value_is_empty(content: str) -> None:
    with raises(ReadError, "empty_document"):
        read(content)


def test_each_line_is_a_row() -> None:
    assert read_lines('{"a": 1}\n\n{"b": 2, "a": "x"}\n[3]') == ParsedDocument(
        text="a; b; value\na: 1\nb: 2; a: x\nvalue: [3]", chunker="rows"
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"a": 1', "because they are not JSON"),
        (b"9" * 10 + b"x", "because they are not JSON"),
        (b'{"a": "\xff"}', "because they hold bytes that are not UTF-8"),
        (b"[" * 100_000, "because they are nested too deeply"),
        (b'{"a":' * 80 + b"1" + b"}" * 80, "because they are nested too deeply"),
    ],
)
def test_a_broken_line_is_left_out_and_said(line: bytes, problem: str) -> None:
    content = b'{"a": "\xc3\xa9"}\n' * 2 + line + b"\n" + line + b'\n{"a": 2}\n'
    assert read_lines(content) == ParsedDocument(
        text="a\na: é\na: é\na: 2", chunker="rows", unread=f"lines left out {problem}: 2, the first is line 3"
    )


def test_a_file_without_a_line_of_json_is_refused() -> None:
    with raises(ReadError, "no_line"):
        read_lines("one\ntwo\n")


@pytest.mark.parametrize("content", ["", "\n \n", "{}\nnull\n"])
def test_lines_without_a_value_are_empty(content: str) -> None:
    with raises(ReadError, "empty_document"):
        read_lines(content)


TEXT = st.text(max_size=6)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None, max_examples=some(100))
@given(VALUE)
def test_any_json_gives_lines_that_can_be_stored(value: object) -> None:
    encoded = json.dumps(value)
    for reader in (JSON, JSON_LINES):
        try:
            document = reader.read(encoded.encode(), "a")
        except ReadError:
            continue
        assert document is not None
        assert document.text.encode()
        assert len(document.text.split("\n")) == len(document.text.splitlines()) > 1
