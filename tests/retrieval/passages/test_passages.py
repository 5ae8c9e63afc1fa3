"""Passages: whole sentences that hold the asked words, within a budget that is divided by what each document serves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.retrieval.passages.choice import Offer, choose_units
from backstory.retrieval.passages.passages import share_budget
from backstory.retrieval.passages.units import Surroundings, find_runs, join_chunks, join_runs
from backstory.text.chunking.units import estimate_tokens

TEXT = """# Rats

It was as wide as a fist. We asked each other
who had put in chips.

## What helped

1. Turning the heap.
2. Mesh below the bays, since the roll
   ran out.

Owls hunt there! No poison."""


def surround(text: str = TEXT, title: str = "Rats") -> Surroundings:
    return join_chunks([(0, text)], (0, len(text)), title)


def read_units(found: Surroundings) -> list[str]:
    return [" ".join(found.read(unit.start, unit.end).split()) for unit in found.units]


def offer_of(found: Surroundings) -> Offer:
    """Offer units whose words are the numbers of their letters, which stand for words of an index."""
    words = [{ord(letter) for letter in found.read(unit.start, unit.end)} for unit in found.units]
    tokens = estimate_tokens([found.read(unit.start, unit.end) for unit in found.units]).tolist()
    return Offer(found, words, tokens)


def show(found: Surroundings, chosen: list[int]) -> str:
    return join_runs(found, find_runs(found, chosen))


def test_units_are_sentences_list_items_and_headings_and_the_title_is_none() -> None:
    found = surround()
    assert read_units(found) == [
        "It was as wide as a fist.",
        "We asked each other who had put in chips.",
        "## What helped",
        "1. Turning the heap.",
        "2. Mesh below the bays, since the roll ran out.",
        "Owls hunt there!",
        "No poison.",
    ]
    assert [unit.kind for unit in found.units] == ["text", "text", "heading", "text", "text", "text", "text"]
    assert [unit.introduced_by for unit in found.units] == [None, None, None, 2, 2, 2, 2]


def test_chunks_that_overlap_or_leave_a_gap_give_the_text_of_the_document() -> None:
    parts = [(10, "One. Two."), (15, "Two. Three."), (28, "Four.")]
    found = join_chunks(parts, (15, 26), "Numbers")
    assert read_units(found) == ["One.", "Two.", "Three.", "Four."]
    assert [(unit.start, unit.is_own) for unit in found.units] == [
        (10, False),
        (15, True),
        (20, True),
        (28, False),
    ]


def test_the_sentence_with_the_rare_words_is_chosen_wherever_it_stands() -> None:
    found = surround()
    weights = {ord("z"): 0.1, ord("O"): 1.0}
    assert show(found, choose_units(offer_of(found), set(range(7)), weights, 14)) == "Owls hunt there!"


def test_left_out_sentences_between_leave_an_ellipsis() -> None:
    found = surround()
    assert show(found, [0, 5]) == "It was as wide as a fist.\n…\nOwls hunt there!"
    assert show(found, [5, 6]) == "Owls hunt there! No poison."


def test_the_rest_of_a_budget_shows_what_stands_beside_with_its_heading() -> None:
    found = surround()
    shown = show(found, choose_units(offer_of(found), set(range(7)), {ord("T"): 1.0}, 26))
    assert shown.startswith("## What helped\n\n1. Turning the heap.")
    whole = show(found, choose_units(offer_of(found), set(range(7)), {ord("T"): 1.0}, 1000))
    assert whole == TEXT.removeprefix("# Rats\n\n")


CODE = """## Setup

Run this:

```sh
make heap

make turn
```

It takes an hour. Then rest.

Tools:

- a fork. Any will do.
- a sieve

| tool | price. New |
|------|-----|
| fork | 9. Used: 4 |
| sieve | 5 |"""


def test_code_and_rows_are_whole_and_come_with_what_introduces_them() -> None:
    found = surround(CODE, "Heap")
    units = read_units(found)
    assert units[:3] == ["## Setup", "Run this:", "```sh make heap make turn ```"]
    assert units[6:] == [
        "- a fork.",
        "Any will do.",
        "- a sieve",
        "| tool | price. New | |------|-----|",
        "| fork | 9. Used: 4 |",
        "| sieve | 5 |",
    ]
    assert [unit.introduced_by for unit in found.units] == [None, 0, 1, 0, 0, 0, 5, 5, 5, 5, 9, 9]
    assert [unit.kind for unit in found.units if unit.kind != "text"] == [
        "heading",
        "lead",
        "lead",
        "heading",
    ]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("`", ["## Setup", "Run this:", "```sh"]),
        ("5", ["| tool | price. New |", "| sieve | 5 |"]),
        ("z", ["## Setup", "Run this:", "```sh"]),
    ],
)
def test_a_passage_shows_what_introduces_its_sentence(asked: str, shown: list[str]) -> None:
    found = surround(CODE.replace("Run", "Rzn") if asked == "z" else CODE, "Heap")
    offer = offer_of(found)
    passage = show(found, choose_units(offer, set(range(len(found.units))), {ord(asked): 1.0}, 60))
    lines = passage.replace("Rzn", "Run").split("\n")
    assert [line for line in shown if line not in lines] == []


def test_code_that_a_chunk_cuts_is_divided_at_its_lines() -> None:
    assert read_units(surround("make turn\n```\n\nIt takes an hour.", "Heap"))[-1] != "make turn"
    assert read_units(surround("```sh\nmake heap;\nmake turn", "Heap"))[-1] == "make turn"


@pytest.mark.parametrize(
    "sentence", ["a word, " * 200, "word " * 320, "たい肥を切り返す、" * 180, "堆" * 1500]
)
def test_a_very_long_sentence_is_shown_in_part_with_ellipses(sentence: str) -> None:
    middle = len(sentence) // 2
    text = f"{sentence[:middle]}Z{sentence[middle:]}".strip() + "。"
    found = surround(text, "Title")
    assert "".join("".join(read_units(found)).split()) == "".join(text.split())
    assert max(unit.end - unit.start for unit in found.units) <= 400
    passage = show(found, [place for place, unit in enumerate(read_units(found)) if "Z" in unit])
    assert passage.startswith("… ")
    assert passage.endswith(" …")


def test_a_sentence_that_adds_little_does_not_tear_the_passage() -> None:
    found = surround("ABCDE one. Two here. Three here. Four there. Five F there. Six.", "Title")
    weights = {ord(letter): 1.0 for letter in "ABCDEF"}
    assert show(found, choose_units(offer_of(found), set(range(6)), weights, 22)).startswith(
        "ABCDE one. Two here."
    )


def test_blank_lines_are_not_repeated() -> None:
    assert show(surround("One.\n\n \n\nTwo."), [0, 1]) == "One.\n\nTwo."


def test_japanese_sentences_are_units_without_a_space_between() -> None:
    found = surround("床は酸っぱい。卵の殻を砕く。「混ぜるのは三日に一度。」と祖母。", "ぬか漬け")
    assert read_units(found)[:2] == ["床は酸っぱい。", "卵の殻を砕く。"]
    assert show(found, [0, 2]).startswith("床は酸っぱい。 … ")


def test_no_passage_ends_with_a_heading() -> None:
    found = surround("Text.\n\n## Later\n\n" + "word " * 50 + "end.", "Title")
    assert show(found, choose_units(offer_of(found), {0, 1, 2}, {ord("T"): 1.0}, 20)) == "Text."


def test_the_first_sentence_is_of_the_chosen_chunk_even_if_one_beside_it_has_more() -> None:
    found = join_chunks([(0, "OOZ here."), (10, "O there."), (20, "Z after.")], (10, 18), "Title")
    offer = offer_of(found)
    assert choose_units(offer, {0, 1, 2}, {ord("O"): 1.0, ord("Z"): 1.0}, 12) == [1]
    assert choose_units(offer, {0, 1, 2}, {ord("O"): 1.0, ord("Z"): 1.0}, 100) == [0, 1, 2]


@given(st.text("ab.!?\n-# 1", max_size=120), st.integers(0, 60), st.sets(st.sampled_from("ab1")))
def test_a_passage_is_in_order_within_its_budget_and_of_the_document(
    text: str, budget: int, asked: set[str]
) -> None:
    found = surround(text, "b")
    offer = offer_of(found)
    chosen = choose_units(offer, set(range(len(found.units))), {ord(letter): 1.0 for letter in asked}, budget)
    assert chosen == sorted(set(chosen))
    assert sum(offer.tokens[place] for place in chosen) <= budget
    if chosen:
        runs = find_runs(found, chosen)
        assert [piece for run in runs for piece in found.read(*run).split()] == [
            piece for piece in show(found, chosen).split() if piece != "…"
        ]


@pytest.mark.parametrize(
    ("room", "expected"),
    [(100, [60, 30, 10]), (40, [27, 8, 5]), (10, [5, 5, 5]), (1000, [200, 200, 10])],
)
def test_a_budget_goes_to_those_who_serve_most_and_what_is_left_to_the_others(
    room: int, expected: list[int]
) -> None:
    shares = share_budget(room, [6, 1, 1], [200, 200, 10], [5, 5, 5])
    assert sum(shares) <= max(room, 15)
    assert shares[0] >= shares[1]
    assert (sum(shares), shares[2] <= 10) == (min(max(room, 15), 410), True)
    if room in (10, 1000):
        assert shares == expected
