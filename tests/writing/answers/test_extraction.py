"""An answer of sentences, and its refusal."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from backstory.retrieval.found import Hit
from backstory.text.words import find_terms
from backstory.writing.answers.extraction import ANSWERS, ExtractiveAnswerer
from tests.writing.answers.passages import make_passage

SHED = (
    "# Panels\n\nFour panels lie on the shed.\n\nThey cost 1,240 pounds with rails. We bought them in May.\n"
)
SOUP = "# Soup\n\n- Cut an onion.\n- Boil the water.\n- Add the salt of the soup.\n"


def compare_words(question: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """Compare as an embedder does that knows what costs: texts with a price lie farthest above chance."""
    wanted = find_terms([question], "english")
    shares = [len(wanted & find_terms([text], "english")) / len(wanted) for text in texts]
    return np.array([8 * share + 4 * ("pounds" in text) for share, text in zip(shares, texts, strict=True)])


def show(text: str, title: str, number: int, probability: float = 0.9) -> Hit:
    name = title.lower()
    place = {"document_id": name, "uri": f"{name}.md", "title": title, "cite": f"{name}.md, lines 5-9"}
    return make_passage(text, f"p{number}", line_start=5, probability=probability, **place)


OTHERS = [
    show(
        f"# Walk {number}\n\nWe met at bridge {number}. Nobody was late at gate {number}. It rained on us near farm "
        f"{number}. The path to mill {number} was dry. Lunch was bread from baker {number}.\n",
        f"Walk {number}",
        number,
        probability=0.1,
    )
    for number in range(3, 10)
]
PASSAGES = [show(SHED, "Panels", 1), show(SOUP, "Soup", 2), *OTHERS]
ANSWERER = ExtractiveAnswerer(compare_words, "english")


def test_the_sentences_that_hold_what_is_asked_are_cited_at_their_place() -> None:
    question = "what did the panels on the shed cost?"
    [claim] = ANSWERER.answer(question, [question], PASSAGES, kind="lookup").claims
    [citation] = claim.citations
    assert "They cost 1,240 pounds with rails." in claim.text
    assert SHED[citation.char_start - 100 : citation.char_end - 100] == citation.quote == claim.text
    assert claim.probability is not None
    assert ANSWERS <= claim.probability <= 1


def test_a_list_has_all_items_of_the_passage() -> None:
    question = "list all about salt and water in the soup"
    made = ANSWERER.answer(question, [question], PASSAGES, kind="list")
    assert [claim.text for claim in made.claims] == [
        "Cut an onion.", "Boil the water.", "Add the salt of the soup.",
    ]  # fmt: skip


def test_what_the_documents_lack_is_refused_or_named() -> None:
    lacking = "who painted the harbour mural?"
    assert ANSWERER.answer(lacking, [lacking], PASSAGES, kind="lookup").refused == "not_in_documents"
    parts = ["what did the panels on the shed cost", lacking]
    made = ANSWERER.answer(" and ".join(parts), parts, PASSAGES, kind="lookup")
    assert made.refused is None
    assert [part.is_found for part in made.parts] == [True, False]
    assert made.nearest


def test_another_year_is_no_answer() -> None:
    question = "what did the panels on the shed cost in 2021?"
    assert ANSWERER.answer(question, [question], PASSAGES, kind="lookup").refused == "not_in_documents"


def test_a_summary_is_of_the_document_that_the_question_names() -> None:
    question = "summarize the post about panels"
    made = ANSWERER.answer(question, [question], PASSAGES, kind="summarize")
    assert {citation.title for claim in made.claims for citation in claim.citations} == {"Panels"}
    other = "summarize the post about moths"
    assert ANSWERER.answer(other, [other], PASSAGES, kind="summarize").refused == "not_in_documents"


def test_a_heading_within_a_passage_tells_what_the_sentences_below_it_are_about() -> None:
    text = (
        "# Choosing a box\n\n## What we bought\n\nA second-hand tower.\n\n## The UPS\n\n"
        "For 70 pounds a small battery carries it through twenty minutes.\n"
    )
    question = "what did we pay for the UPS?"
    passages = [show(text, "Choosing a box", 1, probability=0.3), *OTHERS]
    [claim] = ANSWERER.answer(question, [question], passages, kind="lookup").claims
    assert claim.text == "For 70 pounds a small battery carries it through twenty minutes."


def test_a_refusal_has_the_nearest_quotes_one_of_a_document() -> None:
    question = "what did the panels on the shed weigh in total?"
    made = ANSWERER.answer(question, [question], PASSAGES, kind="lookup")
    assert made.refused == "not_in_documents"
    documents = [citation.document_id for citation in made.nearest]
    assert documents[0] == "panels"
    assert len(set(documents)) == len(documents) == 3


def test_a_few_sentences_are_no_reason_to_be_surer() -> None:
    lacking = "when did we buy the mill?"
    for passages in (PASSAGES, PASSAGES[:2]):
        assert ANSWERER.answer(lacking, [lacking], passages, kind="lookup").refused == "not_in_documents"
