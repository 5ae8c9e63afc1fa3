"""The prompts of answers, filled in, and what a model says to them.

Every text of people, documents and models is escaped, so that none of it reads as structure of the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, get_args

from backstory.base.ids import digest
from backstory.base.wording import shorten
from backstory.models.chat_model import (
    Answer,
    AnswerForm,
    Messages,
    UnusableAnswerError,
    describe_object,
    parse_answer,
)
from backstory.retrieval.found import Hit
from backstory.text.prompts.escaping import escape_block, escape_line
from backstory.writing.answers.answer import Kind, Route, Turn
from backstory.writing.answers.citations import StatedCitation, StatedClaim
from backstory.writing.prompt import Prompt, load_shipped

_PROMPTS: Final = ("passages", "answer", "list", "refine", "repair", "condense", "route")
_MOST_TURNS: Final = 4
"""Turns of a conversation that a model is shown; what a question refers to is seldom further back."""
_TURN_CHARACTERS: Final = 1000
_REASON_CHARACTERS: Final = 120
_QUESTION_CHARACTERS: Final = 1000
_LINK: Final = re.compile(r"\]\(")


_TEXT: Final = {"type": "string"}
_CITATIONS: Final = {"type": "array", "items": describe_object(id=_TEXT, quote=_TEXT)}
_PARTS: Final = {"type": "array", "items": {"type": "integer"}}
_CLAIM: Final = describe_object(text=_TEXT, citations=_CITATIONS, parts=_PARTS)
_CLAIMS_SCHEMA: Final = describe_object(claims={"type": "array", "items": _CLAIM})
_QUESTION_SCHEMA: Final = describe_object(question=_TEXT)
_ROUTE_SCHEMA: Final = describe_object(kind={"type": "string", "enum": list(get_args(Kind))}, reason=_TEXT)
_ADVICE: Final = "raise answers.max_output_tokens, or ask for less"


def make_claims_form(max_output_tokens: int) -> AnswerForm:
    """Make the form of claims, of at most so many tokens, the model's thoughts included."""
    return AnswerForm("claims", _CLAIMS_SCHEMA, max_output_tokens, _ADVICE)


def make_question_form(max_output_tokens: int) -> AnswerForm:
    """Make the form of a question that can be understood alone."""
    return AnswerForm("question", _QUESTION_SCHEMA, max_output_tokens, _ADVICE)


def make_route_form(max_output_tokens: int) -> AnswerForm:
    """Make the form of what a question asks for."""
    return AnswerForm("route", _ROUTE_SCHEMA, max_output_tokens, _ADVICE)


def hash_prompts() -> str:
    """Hash the content of all prompts of answers."""
    return digest([_load(name).hash for name in _PROMPTS], length=16)


def write_answer_prompt(
    question: str,
    parts: Sequence[str],
    passages: Sequence[Hit],
    *,
    kind: Kind,
    claims: Sequence[str] = (),
) -> Messages:
    """Write the prompt that asks for claims.

    Args:
        question: The question.
        parts: What it asks, at least one text.
        passages: The passages that may be cited.
        kind: Class of the question: lists have a prompt of their own.
        claims: The claims so far, if the question was answered from other passages before.
    """
    values = {
        "question": escape_block(question.strip()),
        "parts": [escape_line(part) for part in parts],
        "claims": [escape_line(claim) for claim in claims],
        "passages": [
            {
                "id": passage.short_id,
                "title": escape_line(passage.title),
                "heading": escape_line(passage.heading),
                "text": escape_block(passage.text.strip()),
            }
            for passage in passages
        ],
    }
    shared = _load("passages").render(values)
    name = "refine" if claims else "list" if kind == "list" else "answer"
    return _load(name).render({"rules": shared.system, "material": shared.user, "kind": kind})


def write_repair_prompt(messages: Messages, answer: Answer, reason: str) -> Messages:
    """Write the prompt that asks again, with what was answered, and with what is wrong with it."""
    values = {"system": messages.system, "user": messages.user}
    return _load("repair").render({**values, "earlier": escape_block(answer.text.strip()), "reason": reason})


def write_condensing_prompt(question: str, history: Sequence[Turn]) -> Messages:
    """Write the prompt that asks for a question that can be understood without its conversation."""
    turns = [
        {
            "question": escape_line(shorten(turn.question, _TURN_CHARACTERS)),
            "answer": escape_line(shorten(turn.answer, _TURN_CHARACTERS)),
        }
        for turn in history[-_MOST_TURNS:]
    ]
    return _load("condense").render({"turns": turns, "question": escape_block(question.strip())})


def write_route_prompt(question: str) -> Messages:
    """Write the prompt that asks what a question asks for."""
    return _load("route").render({"message": escape_block(question.strip())})


def read_claims(answer: Answer) -> list[StatedClaim]:
    """Read the claims of an answer.

    Returns:
        The claims; none if the model says that the passages do not answer. What could be read as a heading, HTML, an
        image or a link is escaped.

    Raises:
        UnusableAnswerError: The answer is not of the form.
    """
    claims = _read_object(answer).get("claims")
    if not isinstance(claims, list):
        raise UnusableAnswerError("not of the schema", "the answer holds no list of claims")
    return [claim for each in claims if (claim := _read_claim(each)).text]


def read_question(answer: Answer) -> str:
    """Read a question that can be understood alone.

    Raises:
        UnusableAnswerError: The answer is not of the form, blank, or no question but a text.
    """
    question = _read_object(answer).get("question")
    if not isinstance(question, str) or not question.strip():
        raise UnusableAnswerError("not of the schema", "the answer holds no question")
    if len(question) > _QUESTION_CHARACTERS:
        raise UnusableAnswerError("too long", f"a question has at most {_QUESTION_CHARACTERS} characters")
    return " ".join(question.split())


def read_route(answer: Answer) -> Route:
    """Read what a question asks for.

    Raises:
        UnusableAnswerError: The answer is not of the form, or names an unknown class.
    """
    content = _read_object(answer)
    kind, reason = content.get("kind"), content.get("reason")
    if kind not in get_args(Kind) or not isinstance(reason, str):
        raise UnusableAnswerError("not of the schema", "the answer names no kind of question")
    said = shorten(escape_line(reason), _REASON_CHARACTERS) or "it gives no reason"
    return Route(cast("Kind", kind), f"the model says: {said}")


def _load(name: str) -> Prompt:
    return load_shipped(f"{name}.md.j2")


def _read_object(answer: Answer) -> Mapping[str, Any]:
    try:
        content = parse_answer(answer.text)
    except ValueError:
        raise UnusableAnswerError("not JSON", "the model answered something else") from None
    if not isinstance(content, dict):
        raise UnusableAnswerError("not of the schema", "the answer is no JSON object")
    return content


def _read_claim(given: Any) -> StatedClaim:
    fields = given if isinstance(given, dict) else {}
    text, citations, parts = (fields.get(name) for name in ("text", "citations", "parts"))
    if not isinstance(text, str) or not isinstance(citations, list):
        raise UnusableAnswerError("not of the schema", "a claim holds no text or no citations")
    cited = [
        StatedCitation(each["id"].strip(), each["quote"])
        for each in citations
        if isinstance(each, dict) and all(isinstance(each.get(name), str) for name in ("id", "quote"))
    ]
    numbers = parts if isinstance(parts, list) else []
    return StatedClaim(
        _LINK.sub(r"]\\(", escape_block(text)).strip(),
        tuple(cited),
        tuple(number for number in numbers if isinstance(number, int) and not isinstance(number, bool)),
    )
