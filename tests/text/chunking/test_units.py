from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from backstory.text.chunking.units import split_graphemes, split_sentences, split_words


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, 0, len(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("He said “No.” Then left…  Gone.", ["He said “No.”", "Then left…", "Gone."]),
        ("version 3.14 of a.b is out", ["version 3.14 of a.b is out"]),
        ("- a\n- b\r\n\r\n  c", ["- a", "- b", "c"]),
        ("你好。再见！真的？！是。", ["你好。", "再见！", "真的？！", "是。"]),
        ("她说：“走吧。”他笑了。", ["她说：“走吧。”", "他笑了。"]),
        ("  padded.  ", ["padded."]),
    ],
)
def test_sentences_end_where_readers_see_it(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text("ab.!。！”)\n \u0301é", max_size=60))
def test_only_whitespace_is_left_out(text: str) -> None:
    for ranges in (split_sentences(text, 0, len(text)), split_words(text, 0, len(text))):
        position = 0
        for start, end in ranges:
            assert not text[position:start].strip()
            assert text[start:end] == text[start:end].strip() != ""
            position = end
        assert not text[position:].strip()


@given(st.text("a\u0301👨\u200d👩🇩🇪한가", min_size=1, max_size=40), st.integers(2, 6))
def test_grapheme_clusters_stay_whole(text: str, parts: int) -> None:
    ranges = split_graphemes(text, 0, len(text), parts)
    assert "".join(text[start:end] for start, end in ranges) == text
    assert len(ranges) <= parts
    boundaries = {match.start() for match in regex.finditer(r"\X", text)} | {len(text)}
    assert {edge for edges in ranges for edge in edges} <= boundaries


def test_parts_have_about_the_same_length() -> None:
    assert split_graphemes("x" * 12, 2, 12, 5) == [(2, 4), (4, 6), (6, 8), (8, 10), (10, 12)]
