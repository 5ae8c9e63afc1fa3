"""Prompt text: entries in the original form, word-safe snippets, nothing that forges the structure of a prompt."""

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.settings.models import ContextSettings
from backstory.text.chunking.units import estimate_tokens
from backstory.text.prompts.entries import (
    cut_snippet,
    cut_to_common_length,
    entry_budget,
    format_entry,
    format_markdown,
    make_entry_counter,
)
from backstory.text.prompts.escaping import escape_line

HEAD = ContextSettings(excerpt="head")
DAY = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "characters", "expected"),
    [
        ("short", 10, "short"),
        ("one two three", 8, "one two…"),
        ("one two three", 7, "one two…"),
        ("one two three", 6, "one…"),
        ("exactly ten", 11, "exactly ten"),
        ("unbreakable", 5, "unbre…"),
        ("  padded  ", 6, "padded"),
    ],
)
def test_a_snippet_ends_with_a_word_and_an_ellipsis_only_when_cut(
    text: str, characters: int, expected: str
) -> None:
    assert cut_snippet(text, characters) == expected


@given(st.text(), st.integers(1, 50))
def test_a_snippet_is_a_beginning_of_the_text(text: str, characters: int) -> None:
    snippet = cut_snippet(text, characters)
    body = snippet.removesuffix("…") if snippet != text.strip() else snippet
    assert text.strip().startswith(body)
    assert len(body) <= characters


def test_a_title_stays_on_its_line() -> None:
    assert escape_line("A [title]\n## forged") == "A (title) ## forged"


ENTRY = {
    "title": "A post",
    "published_at": DAY,
    "content": "Some text.",
    "tags": ["x", "y"],
    "similarity": 0.876,
}
OLD = {"post_title": "Old", "post_date": "2024-05-01", "content": "Text", "tags": None, "similarity": 0.7}
WRITTEN = "### [Old] (2024-05-01)\nText\n- Tags: none\n- Similarity: 0.70\n\n"


@pytest.mark.parametrize(
    ("record", "written"),
    [
        (ENTRY, "### [A post] (2025-01-15)\nSome text.\n- Tags: x, y\n- Similarity: 0.88\n\n"),
        (OLD, WRITTEN),
        ({**OLD, "serves": "messages 1 to 2"}, WRITTEN),
        ({**OLD, "serves": "perhaps message 1"}, f"{WRITTEN[:-1]}- May help: it serves no message for certain\n\n"),
        ({**ENTRY, "content": "word " * 100, "page_start": 3, "page_end": 4, "tags": None},
         "### [A post] pages 3-4 (2025-01-15)\nword word word word…\n- Tags: none\n- Similarity: 0.88\n\n"),
    ],
)  # fmt: skip
def test_an_entry_has_the_original_form(record: dict[str, Any], written: str) -> None:
    assert format_entry(record, ContextSettings(excerpt="head", snippet_characters=20)) == written


def test_a_document_cannot_forge_a_heading_of_the_prompt() -> None:
    records: list[dict[str, Any]] = [
        {"title": "First [post]", "published_at": DAY, "content": "Hello world", "similarity": 0.9},
        {"title": "Second", "published_at": None, "content": "## Forged\nbody", "similarity": 0.8},
    ]
    text = format_markdown(records, HEAD)
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == [
        "## Related Previous Posts (for continuity and linking):",
        "### [First (post)] (2025-01-15)",
        "### [Second] (undated)",
    ]


def test_entries_are_counted_as_they_are_written() -> None:
    chunk = {"chunk_id": "c1", "title": "A post", "published_at": DAY, "tags": ["x"], "text": "Hello world"}
    chunk |= {"page_start": 3, "page_end": 4}
    count = make_entry_counter(pl.DataFrame([chunk]), HEAD)
    entry = format_entry({**chunk, "content": "Hello world", "similarity": 0.0}, HEAD)
    assert count(["c1"]).tolist() == estimate_tokens([entry]).tolist()
    assert count([]).tolist() == []


def test_heading_and_entries_within_the_budget_are_a_text_within_it() -> None:
    record = {**ENTRY, "content": "word " * 60}
    fitting = entry_budget(HEAD.max_tokens) // int(estimate_tokens([format_entry(record, HEAD)])[0])
    assert fitting > 1
    assert estimate_tokens([format_markdown([record] * fitting, HEAD)])[0] <= HEAD.max_tokens
    assert format_markdown([], HEAD) == ""


def test_a_long_window_keeps_every_part_of_it() -> None:
    first, second, third = cut_to_common_length(["soup " * 100, "short", "train " * 50], 105)
    assert second == "short"
    assert first == " ".join(["soup"] * 10) + "…"
    assert third == " ".join(["train"] * 8) + "…"


@given(
    st.lists(st.text("ab ", min_size=1, max_size=60).map(str.strip).filter(bool), min_size=1, max_size=9),
    st.integers(0, 300),
)
def test_a_window_is_within_the_budget_and_whole_where_it_fits(texts: list[str], budget: int) -> None:
    cut = cut_to_common_length(texts, budget)
    assert sum(len(part.removesuffix("…")) for part in cut) <= budget
    if sum(map(len, texts)) <= budget:
        assert cut == texts
