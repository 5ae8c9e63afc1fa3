"""Reading the draft of a post from a model's answer."""

import json

import pytest

from backstory.models.chat_model import Answer, UnusableAnswerError
from backstory.writing.draft import Draft
from backstory.writing.draft_answer import read_draft

POST = {"title": "Greenhouse", "text": "It was watered [1].", "tags": ["garden", 3]}


def test_a_draft_has_the_texts_the_model_and_its_tokens() -> None:
    found = read_draft(Answer(json.dumps(POST), "tiny-2026", 120, 30))
    assert found == Draft("Greenhouse", "It was watered [1].", ("garden",), "tiny-2026", 120, 30)


@pytest.mark.parametrize(
    ("text", "withheld", "reason"),
    [
        ("", UnusableAnswerError("refused", "11 characters"), "refused: 11 characters"),
        ("", UnusableAnswerError("blocked (SAFETY)"), "blocked (SAFETY)"),
        (" \n", None, "empty: the model wrote nothing"),
        ("Here is\nyour post", None, "not JSON: the model answered 17 characters"),
        ("[" * 100_000, None, "not JSON: the model answered 100,000 characters"),
        ('{"title": 1}', None, "not of the schema: the answer holds no title or no text"),
    ],
)
def test_an_answer_without_a_post_says_why(
    text: str, withheld: UnusableAnswerError | None, reason: str
) -> None:
    assert read_draft(Answer(text, "tiny", 120, 30, withheld)) == Draft("", "", (), "tiny", 120, 30, reason)
