"""The page of a chunk by the marks in its text."""

import pytest

from backstory.interfaces.agents.page_marks import extract_page_from_chunk

CHUNKS = ["[Page 1] a", "b [Page 2] c", "d", "e", "f", "g", "h", "i"]


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("[Page 3] one", 3),
        ("one [page 12] two [Page 13]", 12),
        ("as on (Page 4)", 4),
        ("(Page 4) but [Page 5]", 5),
        ("Page 6 of 9", None),
        ("[Page x]", None),
        ("", None),
    ],
)
def test_marks_of_the_text_itself(text: str, page: int | None) -> None:
    assert extract_page_from_chunk(text) == page


@pytest.mark.parametrize(("index", "page"), [(2, 2), (3, 2), (6, 2), (7, None), (-1, None), (99, None)])
def test_without_a_mark_up_to_five_chunks_before_are_asked(index: int, page: int | None) -> None:
    assert extract_page_from_chunk("no mark", index, CHUNKS) == page


def test_another_document_is_not_asked() -> None:
    chunks = [
        {"content": "[Page 8] of a", "source_file": "a.pdf"},
        {"content": "of b", "source_file": "b.pdf"},
        {"content": "more of b", "source_file": "b.pdf"},
    ]
    assert extract_page_from_chunk("more of b", 2, chunks) is None
    assert extract_page_from_chunk("of a", 1, [chunks[0], {"text": "of a", "source_file": "a.pdf"}]) == 8


def test_the_last_mark_of_an_earlier_chunk_is_that_of_its_end() -> None:
    assert extract_page_from_chunk("tail", 1, ["(Page 1) x [Page 2] y [Page 3] z", "tail"]) == 3
