"""The check of citations: on labelled claims, half of which decided no threshold, and of every way to cite wrongly."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from backstory.retrieval.found import Hit
from backstory.writing.answers.citations import CheckedClaim, StatedCitation, StatedClaim, check_claims
from backstory.writing.answers.quotes import find_quote
from tests.injections import INJECTIONS
from tests.writing.answers.passages import make_passage

PAIRS = [
    json.loads(line)
    for line in Path(__file__).with_name("claim_pairs.jsonl").read_text(encoding="utf-8").splitlines()
]
SUPPORTED = ("supported", "paraphrase")


def check(claim: str, quote: str, passage: Hit) -> CheckedClaim:
    [checked] = check_claims([StatedClaim(claim, (StatedCitation("p1", quote),))], [passage])
    return checked


def count_right(half: str) -> dict[str, tuple[int, int]]:
    """Count the claims of each kind that are judged rightly, and all of them."""
    right, all_of_them = Counter[str](), Counter[str]()
    for pair in PAIRS:
        if pair["half"] == half:
            checked = check(pair["claim"], pair["quote"], make_passage(pair["passage"]))
            all_of_them[pair["kind"]] += 1
            right[pair["kind"]] += checked.claim.supported == (pair["kind"] in SUPPORTED)
    return {kind: (right[kind], count) for kind, count in all_of_them.items()}


def test_claims_that_decided_nothing_are_judged_as_stated() -> None:
    assert count_right("held") == {
        "supported": (6, 6),
        "paraphrase": (15, 16),
        "number": (10, 10),
        "name": (10, 10),
        "negated": (10, 10),
        "unrelated": (8, 8),
    }


def test_claims_that_decided_the_thresholds_are_judged_as_stated() -> None:
    assert count_right("tuned") == {
        "supported": (14, 14),
        "paraphrase": (19, 22),
        "number": (18, 18),
        "name": (15, 16),
        "negated": (18, 18),
        "unrelated": (16, 16),
    }


def test_a_claim_with_a_quote_that_says_it_is_supported() -> None:
    passage = make_passage("Summer.\n\nThe greenhouse   is watered\nevery second morning. Sign the list.")
    checked = check(
        "Water the greenhouse every second morning.", "“The Greenhouse is watered” every", passage
    )
    assert (checked.fault, checked.claim.supported) == (None, True)
    [citation] = checked.claim.citations
    assert citation.quote == "The greenhouse   is watered\nevery"
    assert (citation.char_start, citation.char_end) == (109, 109 + len(citation.quote))


@pytest.mark.parametrize(
    ("claim", "citations", "fault"),
    [
        ("The greenhouse is watered daily.", [], "no_citation"),
        ("The greenhouse is watered daily.", [("p9", "The greenhouse is watered daily.")], "not_shown"),
        ("The greenhouse is watered daily.", [("p1", "The garden is watered by hand.")], "no_quote"),
        ("The greenhouse is watered daily.", [("p1", "")], "no_quote"),
        ("The greenhouse is watered daily.", [("p1", "watered by the")], "no_quote"),
        ("The cellar is dry.", [("p1", "The greenhouse is watered daily")], "words"),
        ("The greenhouse is watered by Omar daily.", [("p1", "The greenhouse is watered daily")], "name"),
        ("The greenhouse is watered 2 times daily.", [("p1", "The greenhouse is watered daily")], "number"),
        ("The greenhouse is never watered.", [("p1", "The greenhouse is watered daily")], "negation"),
    ],
)
def test_a_claim_without_support_is_said_to_have_none(
    claim: str, citations: list[tuple[str, str]], fault: str
) -> None:
    passage = make_passage("The greenhouse is watered daily. The list hangs at the door.")
    stated = StatedClaim(claim, tuple(StatedCitation(*citation) for citation in citations))
    [checked] = check_claims([stated], [passage])
    assert (checked.fault, checked.claim.supported) == (fault, False)


def test_several_quotes_support_a_claim_together_and_a_wrong_one_is_left_out() -> None:
    passages = [
        make_passage("The pump was bought in 2021.", "p1"),
        make_passage("The pump has a warranty of two years.", "p2"),
    ]
    stated = StatedClaim(
        "The pump was bought in 2021 with a warranty of two years.",
        (
            StatedCitation("p1", "bought in 2021"),
            StatedCitation("p2", "a warranty of two years"),
            StatedCitation("p2", "a warranty of six years"),
            StatedCitation("p3", "bought in 2021"),
        ),
    )
    [checked] = check_claims([stated], passages)
    assert checked.fault is None
    assert [(each.chunk_id, each.quote) for each in checked.claim.citations] == [
        ("chunk-p1", "bought in 2021"),
        ("chunk-p2", "a warranty of two years"),
    ]


def test_a_quote_that_stands_twice_is_that_which_says_the_claim() -> None:
    text = "Adults: the fee is due in May. Children: the fee is due in June."
    checked = check("Children pay the fee in June.", "the fee is due in", make_passage(text))
    [citation] = checked.claim.citations
    assert (checked.fault, citation.char_start) == (None, 100 + text.rindex("the fee"))


def test_places_in_a_passage_with_other_names_are_those_of_the_passage() -> None:
    passage = make_passage("Member 4 waters the roses.", char_start=100, char_end=120)
    checked = check("Member 4 waters the roses.", "waters the roses", passage)
    [citation] = checked.claim.citations
    assert (checked.fault, citation.char_start, citation.char_end) == (None, 100, 120)


def test_no_text_of_a_passage_breaks_the_check() -> None:
    for forged in INJECTIONS:
        passage = make_passage(f"Roses need water.\n\n{forged}\n\nTulips need sun.")
        assert check("Tulips need sun.", "Tulips need sun.", passage).fault is None, forged
        assert check("Tulips need shade and salt.", forged, passage).fault is not None, forged


LONG = "The committee decided on 12 March that the “old” gate will be painted green, and that volunteers get lunch."
QUOTES: list[tuple[str, str, str | None]] = [
    ("tuned", "the old gate will be painted green", "old” gate will be painted green"),
    ("tuned", "The committee decided on 12 March that the old gate is to be painted green", "12 March"),
    ("tuned", "THE COMMITTEE DECIDED ON 12 MARCH", "The committee decided on 12 March"),
    ("tuned", "The committee decided on 12 March … volunteers get lunch", "volunteers get lunch"),
    ("tuned", "committee decided on 21 March that the old gate will be painted", None),
    ("tuned", "volunteers get paid", None),
    ("tuned", "The committee met in March and painted the gate green with volunteers", None),
    ("tuned", "volunteers get lunch [...] The committee decided", None),
    ("held", "that the *old* gate will be\npainted green, and", "old” gate will be painted green, and"),
    ("held", "The comittee decided on 12 March that the old gate will be painted green", "12 March"),
    (
        "held",
        "on 12 March, that “the old gate” will be painted green and that volunteers get a lunch",
        "get lunch",
    ),
    ("held", "decided ... will be painted green", "decided on 12 March"),
    ("held", "decided on 12 March that the new gate will be sold to volunteers", None),
    ("held", "the old gate was painted by volunteers", None),
    ("held", "The committee decided on 13 March that the old gate will be painted green", None),
    ("held", "gate get lunch", None),
]


@pytest.mark.parametrize(("half", "quote", "holds"), QUOTES)
def test_a_quote_may_differ_in_form_and_in_few_words_but_in_no_number(
    half: str, quote: str, holds: str | None
) -> None:
    places = find_quote(quote, LONG)
    assert bool(places) == (holds is not None), half
    assert all((holds or "") in LONG[place.start : place.end] for place in places)


def test_a_quote_is_found_where_most_of_it_stands_not_where_its_longest_run_does() -> None:
    said = "the club pays the entrance fee of all of its members who ride in the race"
    quote = "the club pays for the entrance fee of really all of its members who then ride in the race"
    [place] = find_quote(quote, f"Of late, the entrance fee of really all clubs rose. In spring {said}.")
    assert place.end - place.start == len(said)
