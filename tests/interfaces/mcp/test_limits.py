"""Cutting lists and texts to a number of tokens."""

import pytest
from pydantic import Field

from backstory.interfaces.mcp.limits import LEAST_TOKENS, count_tokens, cut_list, cut_text
from backstory.retrieval.found import Result


class Rows(Result):
    rows: tuple[str, ...]
    told: str | None = Field(default=None)


def test_a_list_that_fits_is_not_touched() -> None:
    whole = Rows(rows=("one", "two"))
    assert cut_list(whole, "rows", LEAST_TOKENS, told_in="told", remedy="ask for less") is whole
    assert cut_list(Rows(rows=()), "rows", LEAST_TOKENS, told_in="told", remedy="") == Rows(rows=())


@pytest.mark.parametrize("row", ["word " * 10, "ÄÖÜ\u4e00" * 10, '"\\\n\t' * 10, "0123456789abcdef" * 4])
def test_a_cut_list_is_within_its_limit_and_says_so(row: str) -> None:
    whole = Rows(rows=tuple(f"{number} {row}" for number in range(300)), told="before")
    cut = cut_list(whole, "rows", 2000, told_in="told", remedy="ask for less")
    assert 0 < len(cut.rows) < 300
    assert cut.rows == whole.rows[: len(cut.rows)]
    assert count_tokens(cut) <= 2000 < count_tokens(whole)
    assert cut.told == f"before; cut at 2000 tokens: {len(cut.rows)} of 300 rows are given; ask for less"


def test_a_row_that_does_not_fit_is_left_out() -> None:
    cut = cut_list(Rows(rows=("word " * 5000,)), "rows", LEAST_TOKENS, told_in="told", remedy="ask for more")
    assert cut.rows == ()
    assert cut.told == "cut at 500 tokens: 0 of 1 rows are given; ask for more"


def test_a_whole_text_is_not_cut_for_want_of_room_to_say_so() -> None:
    assert (
        cut_text("word " * 20, 100, lambda text: len(text) + (0 if len(text) == 100 else 200)) == "word " * 20
    )


def test_a_text_is_cut_at_the_end_of_a_line() -> None:
    text = "a line of words\n" * 50
    assert cut_text(text, 10_000, len) == text
    cut = cut_text(text, 100, len)
    assert cut == "a line of words\n" * 6
    assert cut_text("x" * 500, 100, len) == "x" * 100
    assert cut_text("", 100, len) == ""
