"""Figures of answers against figures computed by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from backstory.base.errors import InputError
from backstory.interfaces.library.evaluation import (
    AnswerScores,
    LabelledQuestion,
    read_question_set,
    score_answer,
    score_answers,
    share_words,
)
from backstory.interfaces.library.results import Answer, AnswerTimings
from backstory.retrieval.found import DocumentEntry, Hit
from backstory.writing.answers.answer import Citation, Claim
from tests.errors import raises

Stated = TypeVar("Stated", bound=BaseModel)

COST = "It took one weekend and 94 pounds."
FILTER = "It has to be rinsed every second week."
RUN = "The morning run went back from 45 minutes to 20."


def ask(**expected: object) -> LabelledQuestion:
    return LabelledQuestion.model_validate({"question": "q", **expected})


def state(model: type[Stated], **values: Any) -> Stated:
    """Make a record of what is measured of it alone."""
    return model.model_construct(**values)


def give(
    *cited: tuple[str, str],
    text: str = "",
    found: Sequence[str] = (),
    listed: Sequence[str] = (),
    seconds: float = 0.0,
    probability: float = 0.0,
    **others: object,
) -> Answer:
    """Give an answer with what is measured of it."""
    places = tuple(state(Citation, uri=uri, quote=quote) for uri, quote in cited)
    values: dict[str, Any] = {"kind": "lookup", "refused": None, "tokens": 0, "embedded_tokens": 0}
    values |= {"confidence": "medium", "not_found": ()} | others
    return state(
        Answer,
        claims=(state(Claim, text=text, citations=places),),
        hits=tuple(state(Hit, uri=uri, probability=probability) for uri in found),
        documents=tuple(state(DocumentEntry, uri=uri) for uri in listed),
        timings=AnswerTimings(**dict.fromkeys(AnswerTimings.model_fields, 0.0) | {"answering": seconds}),
        **values,
    )


def refuse(**others: Any) -> Answer:
    return give(**{"refused": "not_in_documents"} | others)


def find(scores: AnswerScores, measure: str, group: str = "all") -> dict[str, float]:
    [row] = [row for row in scores.answers.to_dicts() if row["group"] == group and row["measure"] == measure]
    return row


def test_found_documents_count_once_each_by_their_best_place() -> None:
    question = ask(documents=["a", ["b", "b2"], "c"])
    scores = score_answer(question, give(found=("x", "x", "a", "y", "z", "v", "b2", "b2")))
    # Documents in order: x, a, y, z, v, b2. Of a, b or b2, and c, the first five hold one, the first ten two.
    assert scores["recall@5"] == pytest.approx(1 / 3)
    assert scores["recall@10"] == pytest.approx(2 / 3)
    assert scores["reciprocal rank"] == 0.5
    assert score_answer(question, refuse())["reciprocal rank"] == 0.0


def test_a_citation_is_right_by_its_sentence_wherever_it_stands_or_else_by_its_document() -> None:
    question = ask(documents=["a"], quotes=[COST, [FILTER, RUN]], answerable=True)
    given = give(
        ("copy", f"“{COST}”"), ("a", "Flush before fitting the drippers."), ("b", "Cold pipe cracks.")
    )
    scores = score_answer(question, given)
    assert scores["citation precision, sentences"] == pytest.approx(1 / 3)
    assert scores["citation precision, documents"] == pytest.approx(2 / 3)
    assert scores["citation recall"] == 0.5
    assert score_answer(question, give(("a", RUN), ("a", COST)))["citation recall"] == 1.0
    # A refusal cites nothing: it has no precision, and it has recalled nothing.
    refused = score_answer(question, refuse())
    assert refused["citation precision, sentences"] is None
    assert refused["citation recall"] == 0.0


def test_sentences_tell_the_same_if_they_share_half_of_the_shorter_one_and_three_words() -> None:
    assert share_words("which cost us one weekend and 94 pounds in all, and more", COST)
    assert not share_words("It took one look at the reducer to see it, and a week to mend", COST)
    assert not share_words("the pump", "the pipe")
    assert share_words("94 POUNDS", COST)
    assert not share_words("", COST)


def test_a_list_is_complete_with_its_items_or_else_with_its_documents() -> None:
    things = ask(kind="list", documents=["a"], items=["true lover's knot", "hawk-moth", "uncertain"])
    scores = score_answer(
        things, give(("a", "…"), kind="list", text="A True\nLover’s Knot and a *Hawk-Moth*.")
    )
    assert scores["list completeness"] == pytest.approx(2 / 3)
    assert scores["list precision"] is None
    documents = ask(kind="list", documents=["a", "b", "c", "d"])
    scores = score_answer(documents, give(("d", "…"), kind="list", listed=("a", "b", "x", "y")))
    assert scores["list completeness"] == 0.5
    assert scores["list precision"] == 0.5
    assert scores["recall@5"] is scores["reciprocal rank"] is None
    cited = score_answer(documents, give(("d", "…"), ("d", "…"), kind="list"))
    assert (cited["list completeness"], cited["list precision"]) == (0.25, 1.0)
    assert score_answer(ask(kind="lookup", documents=["a"]), give(listed=("a",)))["list completeness"] is None


def test_parts_are_answered_by_a_citation_of_one_of_their_sentences_or_named_as_missing() -> None:
    question = ask(
        documents=["a"],
        parts=[
            {"text": "what did the ring cost", "quotes": [COST]},
            {"text": "how often is the filter rinsed", "quotes": [FILTER]},
            {"text": "who built the ring", "quotes": []},
        ],
    )
    scores = score_answer(question, give(("a", COST), not_found=("who built it", "the filter: how often")))
    assert (scores["parts answered"], scores["citation recall"]) == (0.5, 0.5)
    assert (scores["missing parts named"], scores["other parts named missing"]) == (1.0, 0.5)
    # A text that shares no word with a part names none.
    assert score_answer(question, give(("a", COST), not_found=("roof",)))["missing parts named"] == 0.0
    refused = score_answer(question, refuse())
    assert refused["parts answered"] == 0.0
    assert refused["missing parts named"] == refused["other parts named missing"] == 1.0


def test_what_a_question_does_not_state_counts_for_nothing() -> None:
    assert set(score_answer(ask(), give(("a", COST), found=("a",))).values()) == {None}
    scores = score_answers([ask()], [give(seconds=2.0, tokens=7, embedded_tokens=9)])
    assert scores.answers.is_empty()
    assert scores.answers.columns == ["group", "measure", "questions", "mean", "low", "high"]
    assert (scores.latency["p50"], scores.tokens, scores.embedded_tokens) == (2.0, 7, 9)


def test_means_are_shown_for_all_questions_and_for_each_group() -> None:
    questions = [
        *(ask(group="one", kind="lookup", answerable=True, documents=["a"]) for _ in range(4)),
        *(ask(group="none", kind="lookup", answerable=False) for _ in range(2)),
    ]
    given = [
        give(found=("a",), confidence="high", probability=0.9, seconds=1.0, tokens=10),
        give(found=("x", "a"), confidence="low", probability=0.4, seconds=2.0, tokens=10),
        give(found=("x",), kind="list", probability=0.6, seconds=3.0),
        refuse(found=("x",), probability=0.3, seconds=4.0),
        refuse(found=("x",), probability=0.5, seconds=5.0),
        give(found=("x",), confidence="low", probability=0.2, seconds=6.0),
    ]
    scores = score_answers(questions, given)
    assert find(scores, "class") | {"low": 0, "high": 0} == {
        "group": "all", "measure": "class", "questions": 6, "mean": pytest.approx(5 / 6), "low": 0, "high": 0,
    }  # fmt: skip
    assert find(scores, "reciprocal rank")["mean"] == pytest.approx((1 + 1 / 2 + 0 + 0) / 4)
    assert find(scores, "reciprocal rank")["questions"] == 4
    assert find(scores, "answerable refused")["mean"] == 0.25
    assert find(scores, "unanswerable refused")["mean"] == 0.5
    assert find(scores, "unanswerable refused", "none")["questions"] == 2
    # Confidences high, low, medium, refused against refused, low: 2+1.5+2+0.5 of 8 pairs in the right order.
    assert find(scores, "AUROC, confidence")["mean"] == pytest.approx(6 / 8)
    # Probabilities .9, .4, .6, .3 against .5, .2: 2+1+2+1 of 8.
    assert find(scores, "AUROC, best passage")["mean"] == pytest.approx(6 / 8)
    assert not [
        row for row in scores.answers.to_dicts() if row["group"] == "one" and "AUROC" in row["measure"]
    ]
    assert scores.latency == {"p50": 3.5, "p95": pytest.approx(5.75)}
    assert scores.tokens == 20
    assert scores.as_record()["answers"][0]["measure"] == "class"


def test_a_share_of_yes_has_wilsons_interval() -> None:
    questions = [ask(answerable=True)] * 10
    row = find(score_answers(questions, [give()] * 10), "answerable refused")
    # With z = 1.96: z² / (n + z²) = 3.8415 / 13.8415.
    assert (row["mean"], row["low"]) == (0.0, 0.0)
    assert row["high"] == pytest.approx(0.27753, abs=1e-5)
    row = find(score_answers(questions, [*[refuse()] * 8, *[give()] * 2]), "answerable refused")
    assert row["low"] == pytest.approx(0.49016, abs=1e-5)
    assert row["high"] == pytest.approx(0.94332, abs=1e-5)


def test_a_set_is_read_with_alternatives_parts_and_history(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text(
        '{"question": "and?", "history": [{"question": "a", "answer": "b"}], "documents": ["x", ["y", "z"]]}\n'
        "\n"
        '{"question": "c", "answerable": false, "kind": "lookup", "note": "a near miss"}\n',
        encoding="utf-8",
    )
    first, second = read_question_set(file)
    assert first.history[0].answer == "b"
    assert first.documents == ("x", ("y", "z"))
    assert (first.answerable, second.answerable, second.kind) == (None, False, "lookup")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        *(
            (f'{{"question": "q"}}\n{line}\n'.encode(), "invalid_line")
            for line in (
                "{not json",
                "[]",
                '{"question": " "}',
                '{"question": "q", "awnserable": true}',
                '{"question": "q", "kind": "chat"}',
                '{"question": "q", "parts": [{"text": "p"}]}',
                '{"question": "q", "documents": [7]}',
                '{"question": "q", "documents": [[]]}',
                "[" * 100_000,
                '{"question": "q", "answerable": false, "quotes": ["x"]}',
            )
        ),
        (None, "unreadable_file"),
        (b"\xff\xfe", "unreadable_file"),
        (b"\n \n", "blank_text"),
    ],
)
def test_a_wrong_set_is_named_with_its_file_and_the_line(
    tmp_path: Path, content: bytes | None, code: str
) -> None:
    file = tmp_path / "set.jsonl"
    if content is not None:
        file.write_bytes(content)
    with raises(InputError, code, file, *([2] if code == "invalid_line" else [])):
        read_question_set(file)
