"""Markdown files: what is read of them, and what is said of a broken one."""

import re
from collections.abc import Callable
from datetime import datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backstory.base.errors import ReadError
from backstory.ingest.documents import metadata
from backstory.ingest.documents.formats.texts import MARKDOWN
from backstory.ingest.documents.metadata import ParsedDocument
from tests.errors import raises
from tests.long_tests import some

READER = MARKDOWN


def read(text: str) -> ParsedDocument:
    return READER.read(text.encode(), "a/post.md")


PRECEDENCE = (
    *metadata.PUBLICATION_FIELDS, "published", *metadata.CREATION_FIELDS,
)  # fmt: skip
SPELLINGS = (
    str,
    str.lower,
    str.upper,
    lambda name: re.sub(r"([A-Z])", r"_\1", name).lower(),
    lambda name: re.sub(r"([A-Z])", r" \1", name).lower(),
)


@given(
    names=st.lists(st.sampled_from(PRECEDENCE), min_size=1, unique=True),
    spell=st.sampled_from(SPELLINGS),
    updated=st.none() | st.sampled_from(metadata.UPDATE_FIELDS),
)
def test_of_several_dates_the_first_in_the_stated_order_counts(
    names: list[str], spell: Callable[[str], str], updated: str | None
) -> None:
    lines = [f"{spell(name)}: 2024-01-{PRECEDENCE.index(name) + 1:02}" for name in names]
    lines += [f"{spell(updated)}: 2023-01-01"] if updated else []
    document = read("---\n{}\n---\nText".format("\n".join(lines)))
    assert document.published_at == datetime(2024, 1, min(map(PRECEDENCE.index, names)) + 1)
    assert document.change is None


@given(st.sampled_from(metadata.UPDATE_FIELDS), st.sampled_from(SPELLINGS))
def test_a_date_of_change_is_kept_apart(name: str, spell: Callable[[str], str]) -> None:
    document = read(f"---\n{spell(name)}: 2023-01-02\n---\nText")
    assert document.published_at is None
    assert document.change == datetime(2023, 1, 2)


@pytest.mark.parametrize("name", sorted({*PRECEDENCE, *metadata.UPDATE_FIELDS} - {"published"}))
def test_a_field_that_holds_no_date_is_named(name: str) -> None:
    with raises(ReadError, "invalid_field", name):
        read(f"---\ntitle: A\n{name}: soon\n---\nText")


@pytest.mark.parametrize(
    "line",
    [
        "status: [[Done]]", "published: {a: b}", "publish: [[x]]", "id: {{ id }}", "? [a]\n: b", "x: {a: 1, a: 2}",
        "date: Null", "tags: NULL", "kind: ~",
    ],
)  # fmt: skip
def test_fields_that_say_nothing_to_a_reader_cost_nothing(line: str) -> None:
    document = read(f"---\ntitle: 'null'\n{line}\n---\nText")
    assert (document.title, document.published_at, document.tags, document.kind) == ("null", None, (), None)


MARKS = (
    "---", "+++", "{", '"a": 1,', '"b": true', "}", "draft: x", "...", "title: a", "date: 2024-01-01", "a: &x 1",
    "b: *x", "- c", "t = 'a'", "# h", "",
)  # fmt: skip
LINES = st.lists(st.sampled_from(MARKS) | st.text(max_size=12), max_size=8)


@settings(deadline=None, max_examples=some(150))
@example("---\na: &x 1\nb: &x 2\n---\nText")
@given(
    st.builds(lambda mark, lines: "\n".join([mark, *lines]), st.sampled_from(["---", "+++", "{", ""]), LINES)
)
def test_any_file_is_read_or_refused(text: str) -> None:
    content = text.encode("utf-8", "surrogatepass")
    outcome = read_or_refuse(content)
    if isinstance(outcome, ReadError):
        assert str(outcome)
    else:
        assert outcome.text.strip()
        assert text.replace("\r\n", "\n").replace("\r", "\n").endswith(outcome.text)
        assert read_or_refuse(content) == outcome


def read_or_refuse(content: bytes) -> ParsedDocument | ReadError:
    try:
        return READER.read(content, "post.md")
    except ReadError as error:
        return error
