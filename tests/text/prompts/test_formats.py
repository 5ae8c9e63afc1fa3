"""The formats of a context: what each holds, that none exceeds the budget, and that no document breaks out of one."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from backstory.settings.models import ContextSettings
from backstory.text.chunking.units import estimate_tokens
from backstory.text.prompts.entries import FORMATS, ContextFormat, format_context, format_markdown
from tests.injections import INJECTIONS
from tests.long_tests import LONG_TESTS
from tests.text.prompts.test_prompt_injections import MARKER, ROLE, glance, outline, unseen_in

SETTINGS = ContextSettings()
DAY = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)
MACHINE_FORMATS: tuple[ContextFormat, ...] = ("json", "blocks")


def row(number: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "citation": number,
        "document_id": f"d{number}",
        "revision": "r1",
        "title": "A post",
        "uri": "a-post.md",
        "published_at": DAY,
        "tags": ["x", "y"],
        "content": "Some text. And more.",
        "passage": "Some text.",
        "passage_start": 3,
        "passage_end": 13,
        "serves": 'message 2, such as "a"',
        "similarity": 0.9,
        **fields,
    }


def strings_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings_in(item)]
    if isinstance(value, list):
        return [text for item in value for text in strings_in(item)]
    return [value] if isinstance(value, str) else []


def texts_of(rows: list[dict[str, Any]], form: ContextFormat) -> list[str]:
    """Give the texts that a reader of the format finds in it."""
    text = format_context(rows, SETTINGS, form)
    return strings_in(json.loads(text))


def test_the_block_shows_the_passage_and_by_a_setting_the_beginning_of_the_chunk() -> None:
    assert format_context([row()], SETTINGS) == format_markdown([row()], SETTINGS)
    assert "### [A post] (2025-01-15)\nSome text.\n- Tags: x, y\n" in format_context([row()], SETTINGS)
    assert "Some text. And more.\n" in format_context([row()], ContextSettings(excerpt="head"))


def test_blocks_have_the_shape_of_search_results_and_a_table_of_what_they_quote() -> None:
    found = json.loads(format_context([row(), row(2, title="")], SETTINGS, "blocks"))
    assert found["blocks"][0] == {
        "type": "search_result",
        "source": "a-post.md#rev:r1",
        "title": "A post",
        "content": [{"type": "text", "text": "Some text."}],
        "citations": {"enabled": True},
    }
    assert [(line["index"], line["number"], line["title"]) for line in found["table"]] == [
        (0, 1, "A post"),
        (1, 2, "Untitled"),
    ]
    assert (found["table"][0]["passage_start"], found["table"][0]["revision"]) == (3, "r1")


def test_cited_passages_are_quoted_under_their_numbers() -> None:
    text = format_context([row()], SETTINGS, "cited")
    assert "### [1] A post (2025-01-15)\n- File: a-post.md\n" in text
    assert '- Serves: message 2, such as "a"\n\n> Some text.\n' in text


@pytest.mark.parametrize("form", FORMATS)
def test_no_documents_give_no_text(form: ContextFormat) -> None:
    assert format_context([], SETTINGS, form) == ""


@pytest.mark.parametrize("form", FORMATS[1:])
@pytest.mark.parametrize("budget", [60, 250, 400, 900])
def test_what_does_not_fit_is_left_out_from_the_end_and_counted(form: ContextFormat, budget: int) -> None:
    rows = [row(number, passage="word " * 30) for number in range(1, 9)]
    text = format_context(rows, ContextSettings(max_tokens=budget), form)
    assert estimate_tokens([text])[0] <= budget or text.count("word") == 0
    assert text.count("word word") < 8 * 30
    assert re.search(r'left_out": [1-8]|[1-8] more did not fit', text)


@pytest.mark.parametrize("form", MACHINE_FORMATS)
def test_no_document_breaks_out_of_a_format(form: ContextFormat) -> None:
    plain = texts_of([row(), row(2)], form)
    for attack in INJECTIONS:
        hostile = row(2, passage=attack, title=attack, tags=[attack, "y"], serves=attack, uri=attack)
        for text in (texts := texts_of([row(), hostile], form)):
            assert not unseen_in(text), attack
            assert not MARKER.search(text), attack
            assert not any(ROLE.match(line) for line in text.splitlines()), attack
        assert len(texts) == len(plain), attack


def test_no_document_changes_the_structure_of_what_a_writer_cites() -> None:
    reference = outline(format_context([row(), row(2), row(3)], SETTINGS, "cited"))
    for number, attack in enumerate(INJECTIONS):
        every = [{"passage": attack}, {"passage": f"Words.\n{attack}\n\nWords."}, {"title": attack}]
        for fields in every if LONG_TESTS else every[number % len(every) :][:1]:
            text = format_context([row(), row(2, **fields), row(3)], SETTINGS, "cited")
            assert outline(text) == reference, fields
            assert len([line for line in glance(text) if line.startswith("#")]) == 4, fields
            assert not unseen_in(text), fields


@pytest.mark.parametrize(("last", "pages"), [(3, "p. 3"), (4, "pages 3-4")])
def test_pages_stand_beside_the_title_in_every_format(last: int, pages: str) -> None:
    paged = row(page_start=3, page_end=last)
    for form in FORMATS:
        assert pages in format_context([paged], SETTINGS, form)
    assert f"### [1] A post, {pages} (2025-01-15)" in format_context([paged], SETTINGS, "cited")
    assert "p. " not in format_context([row(page_start=None, page_end=None)], SETTINGS, "cited")
