"""The sentences of a passage with what stands above and beside them, and the quotes made of them."""

import numpy as np

from backstory.writing.answers.answer_quotes import LONGEST, choose_spans
from backstory.writing.answers.answer_sentences import AnswerSentence, list_sentences
from tests.writing.answers.passages import make_passage

BOX = (
    "# Box\n\nFive households share one box.\n\n## The UPS\n\nFor 70 pounds a battery carries it. Test it by pulling "
    "the plug.\n\nBatteries age.\n\n## Rules\n\nWe wrote:\n\n- Label the disks.\n- Lock the cupboard.\n"
)


def list_box() -> list[AnswerSentence]:
    return list_sentences([make_passage(BOX, "p1", title="Box")], "english")


def test_a_sentence_stands_below_the_nearest_heading_of_the_passage() -> None:
    headings = {each.text: each.heading for each in list_box()}
    assert headings["Five households share one box."] == ""
    assert headings["Test it by pulling the plug."] == headings["Batteries age."] == "The UPS"
    assert "We wrote:" not in headings
    assert list_box()[1].titled == "Box: The UPS: For 70 pounds a battery carries it."


def test_the_heading_of_a_chunk_serves_until_the_first_one_in_it() -> None:
    passage = make_passage("It is paid.\n\n## Later\n\nIt was sold.", "p1", heading="Box > Before")
    assert [each.heading for each in list_sentences([passage], "english")] == ["Before", "Later"]


def test_a_quote_stays_in_its_paragraph_and_has_few_sentences() -> None:
    found = list_box()
    for favourites in (
        ["Test it by pulling the plug.", "Batteries age."],
        ["Batteries age.", "- Label the disks."],
    ):
        odds = np.array([2.0 if each.text in favourites else -5.0 for each in found])
        [span] = choose_spans(found, odds)
        assert len(span.places) == 1
    both = ["For 70 pounds a battery carries it.", "Test it by pulling the plug."]
    [span] = choose_spans(found, np.array([2.0 if each.text in both else -5.0 for each in found]))
    assert [found[place].text for place in span.places] == both
    long = list_sentences([make_passage(" ".join(f"Number {n}." for n in range(9)), "p1")], "english")
    [span] = choose_spans(long, np.zeros(9))
    assert len(span.places) == LONGEST


def test_a_row_is_quoted_without_the_rows_beside_it() -> None:
    for rows in (
        ["bird: Heron; place: river mouth", "bird: Dipper; place: upper weir"],
        ["Heron | river mouth", "Dipper | upper weir"],
        ["| Heron | river mouth |", "| Dipper | upper weir |"],
    ):
        found = list_sentences([make_passage("\n".join(rows), "p1")], "english")
        assert [each.text for each in found] == rows
        assert {len(span.places) for span in choose_spans(found, np.full(2, 2.0))} == {1}


def test_a_share_is_of_as_many_sentences_as_are_compared() -> None:
    found = list_box()
    alone, [of_all, *_] = (
        choose_spans(found[:1], np.array([1.0])),
        choose_spans(found, np.array([1.0] + [-9.0] * 5)),
    )
    assert alone[0].share < 0.5
    assert abs(alone[0].share - of_all.share) < 0.1
