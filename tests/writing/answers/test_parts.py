"""The parts of a question."""

import pytest

from backstory.writing.answers.answer import Kind
from backstory.writing.answers.parts import split_question


@pytest.mark.parametrize(
    ("question", "kind", "parts"),
    [
        ("who baked the bread, and when did it rise?", "lookup",
         ("who baked the bread", "when did it rise (baked bread)")),
        ("hey, who baked the bread?", "lookup", ("hey, who baked the bread?",)),
        ("when is bread and butter served?", "lookup", ("when is bread and butter served?",)),
        ("tomatoes 2024 vs 2025, how many were lost?", "compare",
         ("tomatoes 2024 how many were lost", "tomatoes 2025 how many were lost")),
        ("compare the rail pass with separate tickets", "compare", ("the rail pass", "separate tickets")),
        ("wer backt brot und wann kommt die post?", "lookup", ("wer backt brot", "wann kommt die post")),
    ],
)  # fmt: skip
def test_each_thing_that_is_asked_is_a_part(question: str, kind: Kind, parts: tuple[str, ...]) -> None:
    assert split_question(question, kind, "english") == parts
