from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from backstory.text.chunking.cut import Span
from backstory.text.chunking.rows import cut_rows
from backstory.text.chunking.tokens import CountTokens, estimate_tokens
from tests.long_tests import some


def count_words(texts: Sequence[str]) -> NDArray[np.int64]:
    """One token a word, so that tests can be worked out by hand."""
    return np.array([len(text.split()) for text in texts], np.int64)


def count_oddly(texts: Sequence[str]) -> NDArray[np.int64]:
    """Counts that are not additive: every line end after the first costs three tokens more than a row tells."""
    return np.array([len(text.split()) + 3 * text.strip().count("\n") for text in texts], np.int64)


def cut(text: str, max_tokens: int, count_tokens: CountTokens = count_words) -> list[Span]:
    (spans,) = cut_rows([text], max_tokens=[max_tokens], overlap_tokens=0, count_tokens=count_tokens)
    return spans


def test_rows_are_packed_whole_and_the_header_stands_above_each_chunk() -> None:
    text = "a b\none two\nthree four\nfive six\nseven\n"
    spans = cut(text, 4)
    assert [text[span.start : span.end] for span in spans] == [
        "a b\none two",
        "three four\nfive six",
        "seven",
    ]
    assert [span.token_count for span in spans] == [4, 4, 1]
    assert {span.heading for span in spans} == {"a b"}


def test_a_row_over_the_ceiling_is_cut_and_shares_no_chunk() -> None:
    text = "h\nshort\none two three. four five six\nlast"
    assert [text[span.start : span.end] for span in cut(text, 4)] == [
        "h\nshort", "one two three.", "four five six", "last",
    ]  # fmt: skip


ROWS = st.lists(st.text(st.sampled_from("ab é😀.;:\t\u2028#`-"), max_size=40), max_size=30)


@settings(deadline=None, max_examples=some(80))
@given(tables=st.lists(ROWS.map("\n".join), max_size=3), max_tokens=st.integers(12, 60))
@pytest.mark.parametrize("count_tokens", [estimate_tokens, count_oddly])
def test_every_row_is_in_exactly_one_chunk(
    count_tokens: CountTokens, tables: list[str], max_tokens: int
) -> None:
    results = cut_rows(
        tables, max_tokens=[max_tokens] * len(tables), overlap_tokens=5, count_tokens=count_tokens
    )
    assert len(results) == len(tables)
    for text, spans in zip(tables, results, strict=True):
        position = 0
        for span in spans:
            assert position <= span.start < span.end
            assert not text[position : span.start].strip()
            position = span.end
            chunk = text[span.start : span.end]
            assert span.token_count == count_tokens([chunk])[0] <= max_tokens
            assert span.heading == text.split("\n")[0].strip()
            before, after = text[: span.start].rpartition("\n")[2], text[span.end :].partition("\n")[0]
            if before.strip() or after.strip():
                assert "\n" not in chunk, "a cut row shares a chunk"
                assert count_tokens([before + chunk + after])[0] > max_tokens, "a row is cut that fits"
        assert not text[position:].strip()
        assert spans == cut(text, max_tokens, count_tokens), "a table is cut differently beside others"
