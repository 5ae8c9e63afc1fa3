"""Counts that are added up word by word are those of the tokenizer."""

import json
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from backstory.interfaces.mcp import token_counts
from backstory.interfaces.mcp.token_counts import TokenCounter
from backstory.models.embeddings.packs import read_granite_pack

# White space of all kinds beside quotation marks, apostrophes, marks and letters: what could join in one token.
_TEXTS = st.one_of(
    st.text(alphabet=" \t\n\u00a0\u2003\x1c\"'’.,:{}s/ve09éßж漢字👍🏽\u0301\u200d", max_size=60),
    st.text(max_size=40),
    st.lists(st.dictionaries(st.text(max_size=8), st.text(max_size=30)), max_size=4).map(json.dumps),
)
_COUNTER = TokenCounter()


@cache
def _read_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_buffer(read_granite_pack().read_tokenizer())
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


def _count(text: str) -> int:
    return len(_read_tokenizer().encode(text, add_special_tokens=False).ids)


@given(_TEXTS)
def test_words_add_up_to_the_count_of_the_text(text: str) -> None:
    expected = _count(text.encode("utf-8", "replace").decode())
    assert _COUNTER.count(text) == TokenCounter().count(text) == expected


@pytest.mark.parametrize("learnt", [[], ["the quick brown fox", "jumps over"]])
def test_a_text_is_within_its_own_count_and_no_smaller_one(learnt: list[str]) -> None:
    counter = TokenCounter()
    for text in learnt:
        counter.count(text)
    text = "the quick brown fox jumps over 0123456789 lazy dogs"
    assert counter.is_within(text, _count(text))
    assert not counter.is_within(text, _count(text) - 1)


@pytest.mark.parametrize("forgotten", ["_MOST_WORDS", "_MOST_CHARACTERS"])
def test_counts_stay_right_when_some_are_forgotten(monkeypatch: pytest.MonkeyPatch, forgotten: str) -> None:
    monkeypatch.setattr(token_counts, forgotten, 3)
    counter = TokenCounter()
    for text in ["one two three four", "five six", "one five seven", "", "one two three four"]:
        assert counter.count(text) == _count(text)
