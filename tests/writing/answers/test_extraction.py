"""An answer of sentences, and its refusal."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from backstory.writing.answers.answer import Passage
from backstory.writing.answers.extraction import ExtractiveAnswerer

SHED = (
    "# Panels\n\nFour panels lie on the shed.\n\nThey cost 1,240 pounds with rails. We bought them in May.\n"
)
SOUP = "# Soup\n\n- Cut an onion.\n- Boil the water.\n- Add the salt of the soup.\n"


def compare_nothing(_question: str, texts: Sequence[str]) -> NDArray[np.float64]:
    return np.zeros(len(texts))


def show(text: str, title: str, number: int, probability: float = 0.9) -> Passage:
    name = title.lower()
    return Passage(
        id=f"p{number}", chunk_id=f"{name}:0", document_id=name, uri=f"{name}.md", title=title, heading="",
        page_start=None, page_end=None, line_start=5, line_end=9, char_start=100, char_end=100 + len(text),
        text=text, probability=probability, cite=f"{name}.md, lines 5-9",
    )  # fmt: skip


PASSAGES = [show(SHED, "Panels", 1), show(SOUP, "Soup", 2)]
ANSWERER = ExtractiveAnswerer(compare_nothing, "english")


def test_the_sentence_that_holds_what_is_asked_is_cited_at_its_place() -> None:
    question = "what did the panels on the shed cost?"
    [claim] = ANSWERER.answer(question, [question], PASSAGES, kind="lookup").claims
    [citation] = claim.citations
    assert claim.text == "They cost 1,240 pounds with rails."
    assert SHED[citation.char_start - 100 : citation.char_end - 100] == citation.quote == claim.text


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


def test_another_year_is_no_answer() -> None:
    question = "what did the panels on the shed cost in 2021?"
    assert ANSWERER.answer(question, [question], PASSAGES, kind="lookup").refused == "not_in_documents"


def test_a_summary_is_of_the_document_that_the_question_names() -> None:
    question = "summarize the post about panels"
    made = ANSWERER.answer(question, [question], PASSAGES, kind="summarize")
    assert {citation.passage.title for claim in made.claims for citation in claim.citations} == {"Panels"}
    other = "summarize the post about moths"
    assert ANSWERER.answer(other, [other], PASSAGES, kind="summarize").refused == "not_in_documents"


def test_a_heading_gives_its_words_to_the_sentences_below_where_the_passage_is_sure() -> None:
    below = replace(show("Smear some thinly on baking paper.", "Sourdough starter", 1), heading="Keeping")
    question = "keeping a sourdough starter alive"
    assert ANSWERER.answer(question, [question], [below], kind="lookup").claims
    unsure = replace(below, probability=0.7)
    assert ANSWERER.answer(question, [question], [unsure], kind="lookup").refused == "not_in_documents"
