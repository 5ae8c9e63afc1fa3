"""The text of a page is what a person would type."""

import pytest

from backstory.ingest.documents.formats.pdf import is_garbled
from backstory.ingest.documents.page_texts import clean_page, drop_running_heads, join_hyphenated


@pytest.mark.parametrize(
    ("given", "cleaned"),
    [
        ("one\r\ntwo\rthree\x0cfour", "one\ntwo\nthree\nfour"),
        ("  one \t two\u00a0three  \n  four  ", "one two three\nfour"),
        ("one\n\n\n\n\ntwo", "one\n\ntwo"),
        ("o\ufb03ce \ufb01re \ufb02ow", "office fire flow"),
        ("\ufefb \ufe8e", "لا ا"),
        ("a\0b\x07c\ufeffd\uffffe", "abcde"),
        ("½ ² №", "½ ² №"),
        ("", ""),
    ],
)
def test_a_page_is_cleaned(given: str, cleaned: str) -> None:
    assert clean_page(given) == cleaned


@pytest.mark.parametrize(
    ("pages", "joined"),
    [
        (["a govern-\nor spoke", "the governor"], ["a governor spoke", "the governor"]),
        (["taki\x02mata est"], ["takimata est"]),
        (["taki\ufffemata"], ["takimata"]),
        (["exam-\nple and ex-\n  ample"], ["example and example"]),
        (["COVID-\n19 and Anglo-\nSaxon"], ["COVID-19 and Anglo-Saxon"]),
        (["a well-\nknown oven", "a well-known oven"], ["a well-known oven", "a well-known oven"]),
        (["a well-\nknown oven", "well-known, wellknown"], ["a wellknown oven", "well-known, wellknown"]),
        (["soft\u00adly said, soft\u00ad\nly"], ["softly said, softly"]),
        (["a list:\n- one\n- two -\nthree"], ["a list:\n- one\n- two -\nthree"]),
        (["ends with exam-", "ple"], ["ends with exam-", "ple"]),
        (["at its end\x02"], ["at its end-"]),
        (["in- and out-\nor inside"], ["in- and out- or inside"]),
        (["an up-to-\ndate plan"], ["an up-to-date plan"]),
        (["a long-term and a mid-\nterm plan"], ["a long-term and a mid-term plan"]),
        (["at https://a.example/two-\nwords now"], ["at https://a.example/two-words now"]),
        (["an e-\nmail"], ["an e-mail"]),
        (["the ther-\nmometer"], ["the thermometer"]),
        (["a peer-\nto-peer plan"], ["a peer-to-peer plan"]),
        (["price-\nfixing, price and fixing"], ["price-fixing, price and fixing"]),
        (["die Haus-\ntiere, Haus und Tiere"], ["die Haustiere, Haus und Tiere"]),
        (["under-\nstand, under a stand, understand"], ["understand, under a stand, understand"]),
    ],
)
def test_words_cut_at_the_end_of_a_line_keep_their_own_hyphens(pages: list[str], joined: list[str]) -> None:
    assert join_hyphenated(pages) == joined


@pytest.mark.parametrize(
    ("text", "garbled"),
    [("Hello", False), ("", False), ("\x03\x04\x05 a", True), ("\ue001\ue002", True), ("hy\x02phen", False)],
)
def test_a_page_of_unknown_letters_is_told(text: str, garbled: bool) -> None:
    assert is_garbled(text) == garbled


@pytest.mark.parametrize(
    "pages", [["Seed Almanac\nBed A\n1 / 4", "Seed Almanac\nBed B\n2 / 4"], ["Text"] * 3]
)
def test_lines_of_few_pages_and_whole_pages_are_no_heads(pages: list[str]) -> None:
    assert drop_running_heads(pages) == pages


def test_heads_of_left_and_right_pages_and_roman_numbers_are_no_part_of_the_text() -> None:
    bodies = [f"Bed {letter} needs sand.\nIt has {letter}." for letter in "ABCDEF"]
    heads, numbers = ("Seed Almanac", "Of Soils"), ("i", "ii", "iii", "iv", "v", "vi")
    pages = [f"{heads[at % 2]}\n{body}\n{numbers[at]}" for at, body in enumerate(bodies)]
    assert drop_running_heads(pages) == [
        f"Seed Almanac\n\n{bodies[0]}",
        f"Of Soils\n\n{bodies[1]}",
        *bodies[2:],
    ]


def test_what_a_line_with_a_number_says_is_kept() -> None:
    pages = [
        f"Almanac 2024\nBed {letter} is dry.\nIt is {letter}.\nDay {day}"
        for day, letter in enumerate("ABC", 1)
    ]
    assert drop_running_heads(pages) == [
        "Almanac 2024\n\nBed A is dry.\nIt is A.\n\nDay 1",
        "Bed B is dry.\nIt is B.\n\nDay 2",
        "Bed C is dry.\nIt is C.\n\nDay 3",
    ]
