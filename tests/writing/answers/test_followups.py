"""Follow-ups, completed by the last question."""

import pytest

from backstory.writing.answers.answer import Turn
from backstory.writing.answers.followups import complete_question


@pytest.mark.parametrize(
    ("last", "question", "completed"),
    [
        ("what did the solar panels produce in june?", "and in december?", "solar panels produce in december"),
        ("how long does the rise take at 25 degrees", "what about 18?", "long rise take degrees 18"),
        ("how long does the night train take", "and what does it cost?", "what does it cost (long night train take)"),
        ("wie heizen wir im sommer", "und im winter?", "heizen im winter"),
        ("how tall is the tank", "how much did the drip irrigation of the far bed cost?", None),
        ("how tall is the tank", "why?", "tall tank why?"),
        ("how tall is the tank", "ok, and since when?", "tall tank since when"),
        ("how tall is the tank", "tell me more", "tell me more (tall tank)"),
        ("wie heizen wir im sommer", "und warum?", "heizen sommer warum"),
        ("how tall is the tank", "thanks!", None),
        ("how tall is the tank", "and you?", None),
    ],
)  # fmt: skip
def test_a_follow_up_carries_what_it_does_not_replace(
    last: str, question: str, completed: str | None
) -> None:
    stemmer = "german" if last.startswith("wie") else "english"
    assert complete_question(question, [Turn(last, "An answer.")], stemmer) == completed


def test_without_history_nothing_is_completed() -> None:
    assert complete_question("and in december?", [], "english") is None
