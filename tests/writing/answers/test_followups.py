"""Follow-ups, completed by the last question."""

import pytest

from backstory.writing.answers.answer import Turn
from backstory.writing.answers.followups import complete_question, names_another


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
        ("summarize the post about compost", "and the one about rats?", "summarize post the one about rats"),
        ("summarize the post about compost", "what about tomatoes", "summarize post tomatoes"),
        ("summarize our year in review 2023", "and 2024?", "summarize year review 2024"),
        ("list all posts about compost", "and the ones about rats?", "list posts the ones about rats"),
        ("how tall is the tank", "thanks!", None),
        ("how tall is the tank", "and you?", None),
    ],
)  # fmt: skip
def test_a_follow_up_carries_what_it_does_not_replace(
    last: str, question: str, completed: str | None
) -> None:
    stemmer = "german" if last.startswith("wie") else "english"
    assert complete_question(question, [Turn(last, "An answer.")], stemmer) == completed


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("and the one about rats?", True),
        ("and for vienna?", True),
        ("und den über Ratten?", True),
        ("and when was it written?", False),
        ("why?", False),
        ("tell me more", False),
    ],
)
def test_a_follow_up_names_another_thing_or_asks_itself(question: str, names: bool) -> None:
    history = [Turn("summarize the post about compost", "It rots.")]
    assert names_another(question, history) is names
    assert not names_another(question, [])


def test_without_history_nothing_is_completed() -> None:
    assert complete_question("and in december?", [], "english") is None
