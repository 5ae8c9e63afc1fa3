"""What holds for any file of a text format, beside the samples of ``test_golden_documents``."""

import csv
import io
import json
from contextlib import suppress

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from backstory.base.errors import ReadError
from backstory.ingest.documents.metadata import ParsedDocument
from backstory.ingest.documents.reader import find_document_format, read_document
from backstory.settings.inputs import DocumentSettings
from tests.errors import raises
from tests.long_tests import some


def read(uri: str, text: str) -> ParsedDocument:
    reader = find_document_format(uri)
    assert reader is not None
    document = reader.read(text.encode(), uri)
    assert document == reader.read(text.encode(), uri)
    assert document.text.encode()
    return document


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("a.md", f"---\na: {'[' * 5000}\n---\nText"),
        ("a.md", f"+++\na = {'[' * 5000}\n+++\nText"),
        ("a.md", f'{{"a": {"[" * 100_000}\nText'),
        ("a.json", "[" * 100_000),
        ("a.html", f"{'<b>' * 5000}Text"),
    ],
    ids=["yaml", "toml", "json front matter", "json", "html"],
)
def test_what_is_nested_too_deeply_is_refused(uri: str, text: str) -> None:
    reader = find_document_format(uri)
    assert reader is not None
    with raises(ReadError, "nested_too_deeply"):
        read_document(reader, text.encode(), uri, DocumentSettings())


def test_what_is_nested_too_deeply_in_a_part_is_left_out_and_said() -> None:
    for uri, text in (
        ("a.html", f"<p>Text</p>{'<b>' * 5000}"),
        ("a.jsonl", f'{{"a": "Text"}}\n{"[" * 100_000}'),
    ):
        document = read(uri, text)
        assert "Text" in document.text
        assert document.unread


HTML = (
    "<p>", "</p>", "<table>", "<td>", "<ul>", "<li>", "<!--", "-->", "<a href='", "&#xD800;", "<title>", "é", "<![",
)  # fmt: skip
MARKUP = (
    "", "====", "----", "Title", ":a: b", "..", ".. x", ".. code::", "   in", "x::", "* h", "```", "# z",
)  # fmt: skip


@given(st.lists(st.sampled_from(HTML)))
def test_what_a_page_begins_with_is_read_whatever_follows(parts: list[str]) -> None:
    assert "Text" in read("a.html", f"<p>Text</p>{''.join(parts)}").text


@pytest.mark.parametrize("uri", ["a.txt", "a.rst", "a.adoc", "a.org"])
@given(lines=st.lists(st.sampled_from(MARKUP)))
def test_what_a_text_ends_with_is_read_whatever_is_before(uri: str, lines: list[str]) -> None:
    count = read(uri, "\n".join([*lines, "", "Last words"])).text.count("Last words")
    assert count == 1 or (count and uri in {"a.txt", "a.rst"})


def test_a_cell_may_be_long_and_leaves_the_usual_limit() -> None:
    usual = csv.field_size_limit()
    assert len(read("a.csv", f"a,b\n{'x' * 1_000_000},1\n").text) > 1_000_000
    assert csv.field_size_limit() == usual


CELL = st.text(st.sampled_from('ab1 ,;:"\n\r\té\u2028'), max_size=8)


@settings(deadline=None, max_examples=some(80))
@given(st.lists(st.lists(CELL, min_size=2, max_size=2), max_size=8))
def test_every_cell_stands_in_the_row_of_its_line(rows: list[list[str]]) -> None:
    content = io.StringIO(newline="")
    # Python quotes a carriage return only where lines end with one.
    csv.writer(content, lineterminator="\r\n").writerows([["first", "second"], *rows])
    filled = [row for row in rows if any(cell.strip() for cell in row)]
    assume(filled)
    shown = read("a.csv", content.getvalue()).text.split("\n")
    assert shown[0] == "first; second"
    assert len(shown) == 1 + len(filled)
    for line, row in zip(shown[1:], filled, strict=True):
        assert len(line.splitlines()) == 1
        assert ("first: " in line) == bool(row[0])
        assert line.count("; second: ") == bool(row[0] and row[1])


TEXT = st.text(max_size=6)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None, max_examples=some(100))
@given(VALUE)
@pytest.mark.parametrize("uri", ["a.json", "a.jsonl"])
def test_any_json_gives_lines_that_can_be_stored(uri: str, value: object) -> None:
    with suppress(ReadError):
        document = read(uri, json.dumps(value))
        assert len(document.text.split("\n")) == len(document.text.splitlines()) > 1
