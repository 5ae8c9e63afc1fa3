"""Sections hold the limit of words, lose no word, and end where the document does."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.text.chunking.units import Pages
from backstory.writing.summaries.sections import count_words, divide_sections
from tests.writing.summaries.texts import TEXTS, make_paged


@given(TEXTS, st.integers(1, 80), st.data())
def test_no_section_is_above_the_limit_and_no_word_is_lost(
    text: str, limit: int, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=5).map(sorted))
    pages = Pages((0, *cuts) if cuts else ())
    sections = divide_sections(text, pages, limit)
    covered = {place for section in sections for place in range(section.start, section.end)}
    assert all(text[place].isspace() for place in set(range(len(text))) - covered)
    for section in sections:
        assert section.words == count_words(text[section.start : section.end]) <= limit
        assert section.pages == pages.find(section.start, section.end)
        assert section.start <= section.fresh < section.end
    assert [section.number for section in sections] == list(range(1, len(sections) + 1))
    for before, after in pairwise(sections):
        assert before.start < after.start <= after.fresh
        assert before.end <= after.fresh


def test_sections_end_with_pages_and_share_one() -> None:
    source = make_paged()  # 27 words on a page
    sections = divide_sections(source.text, source.pages, 130)
    assert [section.pages for section in sections] == [(1, 4), (4, 7), (7, 10)]
    assert source.text[sections[1].start :].startswith("The gauge of room 4")


def test_pages_too_large_to_be_shared_share_their_last_paragraph() -> None:
    source = make_paged()
    sections = divide_sections(source.text, source.pages, 60)
    assert [section.pages for section in sections][:2] == [(1, 2), (2, 3)]
    assert source.text[sections[1].start :].startswith("A worn valve")


def test_a_page_above_the_limit_is_divided() -> None:
    source = make_paged(("word " * 95, "The end of it."))
    sections = divide_sections(source.text, source.pages, 40)
    assert [(section.pages, section.words) for section in sections] == [
        ((1, 1), 40),
        ((1, 1), 40),
        ((1, 2), 39),
    ]


def test_a_text_without_pages_is_divided_before_its_headings() -> None:
    parts = [
        f"## Chapter {number}\n\n" + "\n\n".join(["Some words of it stand here."] * 5) for number in range(6)
    ]
    text = "# Book\n\n" + "\n\n".join(parts)
    sections = divide_sections(text, Pages(), 80)
    assert [section.heading for section in sections] == ["Book", "Book > Chapter 2", "Book > Chapter 4"]
    for section in sections[1:]:
        assert text[section.fresh :].startswith("## Chapter")
        assert text[section.start : section.fresh].strip() == "Some words of it stand here."


@pytest.mark.parametrize("text", ["漢字" * 500, "word " * 1000, "a, " * 1000, "x" * 5000 + " y" * 900])
def test_a_text_of_one_paragraph_holds_the_limit(text: str) -> None:
    sections = divide_sections(text, Pages(), 100)
    assert len(sections) > 8
    assert all(section.words <= 100 for section in sections)
    assert all(after.start < before.end for before, after in pairwise(sections))


@pytest.mark.parametrize("text", ["", " \n\n\t"])
def test_a_text_without_words_has_no_sections(text: str) -> None:
    assert divide_sections(text, Pages(), 10) == []


def test_words_are_those_between_spaces() -> None:
    text = "Don't cut v1.2 of well-known/things — at all."
    assert count_words(text) == len(text.split())
    assert count_words("水を使う now") == 5
