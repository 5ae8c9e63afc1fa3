"""Sets of questions with what a good answer to each holds, one JSON object on each line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from backstory.base.errors import InputError
from backstory.writing.answers.answer import Kind

Alternatives: TypeAlias = str | Annotated[tuple[str, ...], Field(min_length=1)]
"""One text, or several of which one is enough."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AskedBefore(_Record):
    """An earlier question of the conversation, and its answer."""

    question: str
    answer: str


class ExpectedPart(_Record):
    """One of the things that a question asks for.

    Attributes:
        text: What is asked.
        quotes: Sentences of the documents that tell it; empty if the documents do not.
    """

    text: str
    quotes: tuple[Alternatives, ...]


class LabelledQuestion(_Record):
    """A question and what a good answer to it holds; what is not stated is not measured.

    Attributes:
        question: The question.
        history: The conversation before it, oldest first.
        group: Name under which its figures are also shown apart; empty for none.
        kind: Its class; None if it is not stated.
        answerable: Whether the documents answer it, at least in part; None if it is not stated.
        documents: Paths of the documents that answer it.
        quotes: Sentences of the documents that answer it. Those of ``parts`` count as well.
        parts: What it asks for, if it asks for several things.
        items: Words that a complete list holds. A list question without items and quotes asks for its ``documents``.
        note: Why it is in the set; not measured.
    """

    question: str
    history: tuple[AskedBefore, ...] = ()
    group: str = ""
    kind: Kind | None = None
    answerable: bool | None = None
    documents: tuple[Alternatives, ...] = ()
    quotes: tuple[Alternatives, ...] = ()
    parts: tuple[ExpectedPart, ...] = ()
    items: tuple[str, ...] = ()
    note: str = ""

    @model_validator(mode="after")
    def _agree(self) -> LabelledQuestion:
        if not self.question.strip():
            raise ValueError("the question is blank")
        if self.answerable is False and (self.documents or self.all_quotes() or self.items):
            raise ValueError("a question that is not answerable has no documents, quotes or items")
        return self

    def all_quotes(self) -> tuple[Alternatives, ...]:
        """Return the quotes of the question and of its parts."""
        return (*self.quotes, *(quote for part in self.parts for quote in part.quotes))


def read_question_set(file: Path) -> list[LabelledQuestion]:
    """Read a set of questions: the fields of a :class:`LabelledQuestion` as a JSON object on each line of a file.

    Raises:
        InputError: The file cannot be read or holds no question (codes ``unreadable_file`` and ``blank_text``), or a
            line of it is no question (code ``invalid_line`` with ``path``, ``line`` and ``field``).
    """
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} cannot be read as UTF-8 text ({error}); name a file with one question in JSON on each line",
            code="unreadable_file",
        ) from error
    questions = [_read_line(file, place, line) for place, line in enumerate(lines, start=1) if line.strip()]
    if not questions:
        raise InputError(
            f'{file} holds no question; write one on each line, such as {{"question": "…", "answerable": true}}',
            code="blank_text",
        )
    return questions


def _read_line(file: Path, line: int, text: str) -> LabelledQuestion:
    try:
        return LabelledQuestion.model_validate_json(text)
    except ValidationError as error:
        # The first fault without its address in the union: an alternative is a text or a list of texts.
        first = error.errors(include_url=False)[0]
        field = ".".join(str(each) for each in first["loc"] if not str(each).startswith(("str", "tuple")))
        known = ", ".join(LabelledQuestion.model_fields)
        raise InputError(
            f"{file}, line {line}: {field + ': ' if field else ''}{first['msg']}; write one JSON object on each line, "
            f"with the fields {known}",
            code="invalid_line",
        ) from error
