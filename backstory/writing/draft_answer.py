"""Reads the draft of a post out of the answer of a chat model."""

from __future__ import annotations

from typing import Final

from backstory.base.wording import count
from backstory.models.chat_model import Answer, AnswerForm, describe_object, parse_answer
from backstory.writing.draft import Draft

ANSWER_SCHEMA: Final = describe_object(
    title={"type": "string"}, text={"type": "string"}, tags={"type": "array", "items": {"type": "string"}}
)
"""JSON schema of an answer."""


def make_post_form(max_output_tokens: int) -> AnswerForm:
    """Make the form of a post, of at most so many tokens, the model's thoughts included."""
    advice = "raise writers.max_output_tokens, or ask for less in the prompt"
    return AnswerForm("post", ANSWER_SCHEMA, max_output_tokens, advice)


def read_draft(answer: Answer) -> Draft:
    """Read the draft from an answer; one that is withheld or not of the schema gives a draft without a text."""
    if answer.withheld is not None:
        return _withhold(answer, str(answer.withheld))
    if not answer.text.strip():
        return _withhold(answer, "empty: the model wrote nothing")
    try:
        content = parse_answer(answer.text)
    except ValueError:
        # Its words may name somebody, and are neither stored nor shown.
        return _withhold(answer, f"not JSON: the model answered {count(len(answer.text), 'character')}")
    fields = content if isinstance(content, dict) else {}
    title, text, tags = (fields.get(name) for name in ("title", "text", "tags"))
    if not isinstance(title, str) or not isinstance(text, str):
        return _withhold(answer, "not of the schema: the answer holds no title or no text")
    named = tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
    return Draft(title, text, named, answer.model, answer.tokens_in, answer.tokens_out)


def _withhold(answer: Answer, reason: str) -> Draft:
    return Draft("", "", (), answer.model, answer.tokens_in, answer.tokens_out, reason)
