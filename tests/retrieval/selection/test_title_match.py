"""Which hits count as named: by the words of the title that the query chunk holds."""

from collections.abc import Sequence

import polars as pl
import pytest

from backstory.retrieval.selection.title_match import match_titles
from backstory.text.words import Words


class Vocabulary:
    """Numbers the terms of English texts in the order of their appearance."""

    def __init__(self) -> None:
        self._words = Words("english")
        self._numbers: dict[str, int] = {}

    def terms_of(self, texts: Sequence[str]) -> pl.DataFrame:
        rows = [
            (place, self._numbers.setdefault(term, len(self._numbers)))
            for place, text in enumerate(texts)
            for term in sorted(set(self._words.split(text)))
        ]
        return pl.DataFrame(rows, schema={"text": pl.UInt32, "term": pl.Int64}, orient="row")


def is_named(text: str, title: str) -> bool:
    hits = pl.DataFrame(
        {"query_chunk_id": ["q", "w#window"], "chunk_id": ["c", "c"], "document_id": ["d", "d"]}
    )
    chunks = pl.DataFrame({"chunk_id": ["q", "other"], "text": [text, title]})
    stored = pl.DataFrame({"chunk_id": ["c"], "title": [title]})
    [named, of_whole_window] = match_titles(hits, chunks, stored, Vocabulary().terms_of)
    assert not of_whole_window
    return bool(named)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("have you heard radiohead lately?", "Radiohead"),
        ("who was the best of the quarterbacks", "Quarterback"),
        ("the timeline of 1.0 slipped", "The 1.0 Timeline"),
    ],
)
def test_a_title_is_named_by_all_its_words_in_any_form_and_order(text: str, title: str) -> None:
    assert is_named(text, title)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("the timeline slipped", "The 1.0 Timeline"),
        ("it is what it is", "It"),
        ("nothing here", ""),
        ("", "Radiohead"),
    ],
)
def test_a_title_is_not_named_by_some_of_its_words_or_by_stop_words(text: str, title: str) -> None:
    assert not is_named(text, title)


@pytest.mark.parametrize(
    ("documents", "named"),
    [(["handbook"] * 2, [True, True]), (["handbook", "other"], [False, False])],
    ids=["two chunks of one document", "two documents"],
)
def test_a_title_that_found_documents_share_names_none_of_them(
    documents: list[str], named: list[bool]
) -> None:
    hits = pl.DataFrame({"query_chunk_id": ["q", "q"], "chunk_id": ["a", "b"], "document_id": documents})
    chunks = pl.DataFrame({"chunk_id": ["q"], "text": ["what does the handbook say"]})
    stored = pl.DataFrame({"chunk_id": ["a", "b"], "title": ["Handbook", "Handbook"]})
    assert match_titles(hits, chunks, stored, Vocabulary().terms_of).to_list() == named


def test_no_hits_name_nothing() -> None:
    nothing = pl.DataFrame(
        schema={"query_chunk_id": pl.String, "chunk_id": pl.String, "document_id": pl.String}
    )
    chunks = pl.DataFrame({"chunk_id": ["q"], "text": ["Radiohead"]})
    stored = pl.DataFrame(schema={"chunk_id": pl.String, "title": pl.String})
    assert match_titles(nothing, chunks, stored, Vocabulary().terms_of).to_list() == []
