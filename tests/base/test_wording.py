"""The wording that messages share."""

import pytest

from backstory.base.wording import count, count_rest, inflect, name_some, shorten


@pytest.mark.parametrize(
    ("names", "most", "expected"),
    [
        ([], 2, ""),
        (["a"], 1, "a"),
        (["a", "b"], 2, "a, b"),
        (["a", "b", "c"], 2, "a, b and 1 more"),
        ([str(number) for number in range(2001)], 1, "0 and 2,000 more"),
    ],
)
def test_the_first_names_are_written_and_the_others_counted(
    names: list[str], most: int, expected: str
) -> None:
    assert name_some(names, most) == expected


def test_sentences_are_kept_apart_by_semicolons() -> None:
    assert name_some(["one is gone", "two is gone"], 1, separator="; ") == "one is gone; and 1 more"


def test_what_a_list_leaves_out_is_counted() -> None:
    assert (count_rest(5, 5), count_rest(2005, 5)) == ("", "and 2,000 more")
    assert count_rest(6, 5, listed_by="--json") == "and 1 more, which --json lists"


def test_a_noun_goes_with_its_number() -> None:
    assert [count(number, "file") for number in (0, 1, 2, 2000)] == [
        "0 files",
        "1 file",
        "2 files",
        "2,000 files",
    ]
    assert count(2, "person", "people") == "2 people"
    assert (inflect(1, "match", "matches"), inflect(0, "match", "matches")) == ("match", "matches")


def test_only_a_long_text_is_shortened() -> None:
    assert (shorten("abc", 3), shorten("abcd", 3)) == ("abc", "abc…")
