"""From a question to its answer: which passages answer a list of documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from datetime import date

import numpy as np
import pytest
from numpy.typing import NDArray

from backstory.retrieval.depth import DEPTH, AnswerDepth
from backstory.retrieval.found import DocumentEntry, Hit
from backstory.writing.answers.answer import Claim, MadeAnswer, Route, Turn
from backstory.writing.answers.answering import AnsweredQuestion, answer_question
from backstory.writing.answers.extraction import ExtractiveAnswerer
from backstory.writing.answers.forms import choose_forms
from backstory.writing.answers.markdown import write_markdown
from tests.writing.answers.passages import make_entry, make_passage

PASSAGES = [
    make_passage("The posts list what the rain did to the oak barrel.", "p1", title="Rain"),
    make_passage("The posts list what the rain did to the steel tank.", "p2", title="April", probability=0.4),
]


@dataclass(frozen=True)
class FewSources:
    """The passages of two documents, of which the filters of a list admit one."""

    stemmer: str = "english"
    today: date = date(2025, 3, 1)

    def search(self, parts: Sequence[str], depth: AnswerDepth) -> list[Hit]:  # noqa: ARG002
        return PASSAGES

    def list_documents(self) -> list[DocumentEntry]:
        [rain, _] = PASSAGES
        return [make_entry(rain.document_id, rain.uri, rain.title, "post", (), None)]


@dataclass(frozen=True)
class CountingSources(FewSources):
    """Sources that keep how much was asked of them."""

    asked: list[AnswerDepth] = field(default_factory=list)

    def search(self, parts: Sequence[str], depth: AnswerDepth) -> list[Hit]:
        self.asked.append(depth)
        return super().search(parts, depth)


def compare(question: str, texts: Sequence[str]) -> NDArray[np.float64]:  # noqa: ARG001
    return np.full(len(texts), 9.0)


def test_what_is_said_of_a_list_comes_from_its_documents() -> None:
    answerer = ExtractiveAnswerer(compare, "english")
    answered = answer_question("list all posts about rain", [], FewSources(), answerer)
    assert [each.document_id for each in answered.listed or ()] == ["document-p1"]
    cited = {place.chunk_id for claim in answered.made.claims for place in claim.citations}
    assert cited == {"chunk-p1"}


def test_how_many_documents_there_are_needs_no_sentence_of_theirs() -> None:
    answerer = ExtractiveAnswerer(compare, "english")
    for question in ("how many posts are about rain", "wie viele posts sind über rain"):
        answered = answer_question(question, [], FewSources(), answerer)
        assert [each.document_id for each in answered.listed or ()] == ["document-p1"], question
        assert answered.made.claims == (), question


@pytest.mark.parametrize(
    ("question", "numbers"),
    [
        ("what did the rain do to the barrel", (6, 10, 6)),
        ("how tall is the barrel, and who made the tank?", (6, 12, 10)),
        ("what is the difference between the barrel and the tank", (6, 12, 10)),
        ("list all posts about rain", (24, 30, 24)),
        ("summarize the post about the barrel", (24, 30, 24)),
    ],
)
def test_a_wider_question_looks_at_more(question: str, numbers: tuple[int, int, int]) -> None:
    sources = CountingSources()
    answer_question(question, [], sources, ExtractiveAnswerer(compare, "english"))
    assert list(map(astuple, sources.asked)) == [numbers]
    assert sources.asked[0] in (DEPTH.lookup, DEPTH.several, DEPTH.wide)


def test_a_time_that_restricts_nothing_is_said() -> None:
    answerer = ExtractiveAnswerer(compare, "english")
    for question, is_said in (("what did the rain do last year", True), ("what did the rain do", False)):
        notes = answer_question(question, [], FewSources(), answerer).made.notes
        assert any("last year" in note for note in notes) is is_said


def test_a_bare_question_word_asks_more_only_after_a_question() -> None:
    answerer = ExtractiveAnswerer(compare, "english")
    history = [Turn("how tall is the rain tank", "")]
    assert answer_question("why?", [], FewSources(), answerer).route.kind == "casual"
    answered = answer_question("why?", history, FewSources(), answerer)
    assert (answered.route.kind, answered.rewritten) == ("lookup", "tall rain tank why?")
    assert answer_question("thanks!", history, FewSources(), answerer).route.kind == "casual"


@pytest.mark.parametrize(
    ("last", "question", "kind"),
    [
        ("summarize the post about the oak barrel", "and the one about rain?", "summarize"),
        ("what is the difference between oak and steel", "and in price?", "compare"),
        ("list all posts about oak", "and the ones about rain?", "list"),
        ("summarize the post about the oak barrel", "and when was it made?", "lookup"),
        ("how big is the barrel", "and the tank?", "lookup"),
    ],
)
def test_a_follow_up_that_names_another_thing_keeps_the_class(last: str, question: str, kind: str) -> None:
    answered = answer_question(
        question, [Turn(last, "")], FewSources(), ExtractiveAnswerer(compare, "english")
    )
    assert answered.route.kind == kind


def test_quotes_that_no_model_has_judged_are_not_stated_as_an_answer() -> None:
    quoted = Claim(text="It rained.", citations=(), supported=True, probability=0.7)
    heads = []
    for claim in (quoted, quoted.model_copy(update={"probability": None})):
        answered = AnsweredQuestion(route=Route("lookup", ""), made=MadeAnswer((claim,), ()))
        heads.append(write_markdown(answered, choose_forms("")).partition("\n")[0])
    assert heads[0] != heads[1] == "It rained."
