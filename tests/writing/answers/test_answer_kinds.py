"""Labelled pairs of a question and a passage: which answer, and which are about something else."""

import csv
import hashlib
from collections import Counter
from pathlib import Path

import pytest

from backstory.writing.answers.answer_kinds import Finding, judge_answer

LABELS = Path(__file__).with_name("answer_labels.csv")
SAYS: dict[Finding, str] = {
    "holds": "yes",
    "unclear": "unsure",
    "repeats": "no",
    "other": "no",
    "lacks": "no",
}


def read_halves() -> dict[str, list[dict[str, str]]]:
    """Read the pairs, all of a question in one half: every second question by its hash is kept from tuning."""
    with LABELS.open(encoding="utf-8", newline="") as file:
        pairs = list(csv.DictReader(file))
    questions = sorted(
        {pair["question"] for pair in pairs}, key=lambda each: hashlib.sha256(each.encode()).hexdigest()
    )
    tuned = set(questions[::2])
    return {
        "tuned": [pair for pair in pairs if pair["question"] in tuned],
        "kept": [pair for pair in pairs if pair["question"] not in tuned],
    }


@pytest.mark.parametrize(("half", "right", "wrong"), [("tuned", 43, 4), ("kept", 30, 4)])
def test_labelled_pairs(half: str, right: int, wrong: int) -> None:
    """Accuracy of what is decided: .91 of the tuned half, of which .78 is decided; .88 and .57 of the kept half."""
    pairs = read_halves()[half]
    said = [SAYS[judge_answer(pair["question"], [pair["passage"]], "english")] for pair in pairs]
    found = Counter(
        "unsure" if each == "unsure" else "right" if each == pair["answers"] else "wrong"
        for each, pair in zip(said, pairs, strict=True)
    )
    assert Counter(pair["answers"] for pair in pairs) == {"yes": 30, "no": 30}
    assert (found["right"], found["wrong"]) == (right, wrong)


@pytest.mark.parametrize(
    ("question", "passage", "finding"),
    [
        ("When was the company founded?", "The company has 200 employees.", "lacks"),
        ("When was the company founded?", "When was the company founded?", "repeats"),
        ("When was the company founded?", "The company was founded in 1987.", "holds"),
        ("Who won in 2019?", "Ada Lind won in 2016.", "other"),
        ("Is the night train late?", "The night train is late.", "holds"),
        ("Why is the night train late?", "The night train is late.", "repeats"),
        ("Wann wurde die Firma gegründet?", "Die Firma hat 200 Angestellte.", "unclear"),
        ("Wann wurde die Firma gegründet?", "Wann wurde die Firma gegründet?", "repeats"),
        ("夜行列車はいつ出ますか?", "夜行列車には予約が必要です。", "unclear"),
        ("night train reservation", "The night train needs a reservation for every seat.", "unclear"),
    ],
)
def test_what_is_found_for_a_question(question: str, passage: str, finding: Finding) -> None:
    assert judge_answer(question, [passage], "english") == finding


def test_the_name_of_an_answer_is_not_that_of_the_question() -> None:
    assert (
        judge_answer("Who is the boss of Ada Lind?", ["Ada Lind has a boss and a desk."], "english")
        == "lacks"
    )
