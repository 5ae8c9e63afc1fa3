"""The records of an answer: the question's class, the passages that were shown, the claims and their citations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal["casual", "lookup", "list", "compare", "summarize", "outside"]
"""What a question asks for: small talk asks for nothing, and ``outside`` for something that no document tells."""
UNSEARCHED: Final[tuple[Kind, ...]] = ("casual", "outside")
"""Kinds for which nothing is searched, and which a follow-up does not go on from."""
Refusal: TypeAlias = Literal["not_in_documents", "outside", "unsafe", "no_index"]
"""Why a question is not answered."""


@dataclass(frozen=True)
class Route:
    """What a question asks for.

    Attributes:
        kind: Its class.
        reason: What told the class, as a person reads it.
    """

    kind: Kind
    reason: str


@dataclass(frozen=True)
class Turn:
    """A question of the conversation so far, and its answer.

    Attributes:
        question: The question, as it was asked or as it was completed.
        answer: The answer, Markdown.
    """

    question: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A chunk of a document that an answer may cite.

    Attributes:
        id: The short id that is shown to a model, such as ``p1``.
        chunk_id: Id of the chunk.
        document_id: Id of its document.
        uri: Path of the document.
        title: Title of the document.
        heading: Headings above the chunk, joined by " > ".
        page_start: First page; None for a document without pages.
        page_end: Last page, inclusive.
        line_start: First line in the document's text, from 1; None if it is not known.
        line_end: Last line, inclusive.
        char_start: First character in the document's text, from 0.
        char_end: Character after the last one.
        text: Text of the chunk.
        probability: Probability that the chunk tells something about the question.
        cite: The one string under which the chunk may be quoted.
    """

    id: str
    chunk_id: str
    document_id: str
    uri: str
    title: str
    heading: str
    page_start: int | None
    page_end: int | None
    line_start: int | None
    line_end: int | None
    char_start: int
    char_end: int
    text: str
    probability: float
    cite: str


@dataclass(frozen=True)
class Citation:
    """The place that says what a claim says.

    Attributes:
        passage: The passage.
        quote: Words of the passage, as they stand there.
        char_start: First character of the quote in the document's text.
        char_end: Character after the last one.
    """

    passage: Passage
    quote: str
    char_start: int
    char_end: int


@dataclass(frozen=True)
class Claim:
    """One statement of an answer.

    Attributes:
        text: The statement, Markdown.
        citations: The places that say it.
        is_supported: Whether at least one citation passed the check.
        probability: Probability that it answers, where sentences were chosen without a model; None elsewhere.
    """

    text: str
    citations: tuple[Citation, ...]
    is_supported: bool
    probability: float | None = None


@dataclass(frozen=True)
class Part:
    """One part of a question that asks for several things.

    Attributes:
        text: What it asks.
        is_found: Whether a claim of the answer tells it.
    """

    text: str
    is_found: bool


@dataclass(frozen=True)
class MadeAnswer:
    """What an answerer makes of a question.

    Attributes:
        claims: The claims, in the order in which they are read.
        parts: The parts of the question, in its order; one for a question of one part.
        refused: Why there is no answer; None if there is one.
        tokens: Tokens that calls of a model read and wrote; 0 without a model.
        cost: Price of these calls, in `costs.currency`; None if the price of the model is not known.
        notes: What a reader must know, a sentence each.
        nearest: Where there is no answer to a part, the sentences that come nearest to one, which claim nothing.
    """

    claims: tuple[Claim, ...]
    parts: tuple[Part, ...]
    refused: Refusal | None = None
    tokens: int = 0
    cost: float | None = 0.0
    notes: tuple[str, ...] = ()
    nearest: tuple[Citation, ...] = ()


@dataclass(frozen=True)
class AskedRoute:
    """The class of a question, and what asking for it used.

    Attributes:
        route: The class, with its reason; that of the rules, and why, if the model gave none.
        tokens: Tokens that the calls read and wrote.
        cost: Price of these calls; None if the price of the model is not known.
    """

    route: Route
    tokens: int
    cost: float | None


@dataclass(frozen=True)
class AskedQuestion:
    """A question that can be understood alone, and what asking for it used.

    Attributes:
        question: The question; None if the model gave none.
        tokens: Tokens that the calls read and wrote.
        cost: Price of these calls; None if the price of the model is not known.
        note: Why the model gave none, a sentence; None if it gave one.
    """

    question: str | None
    tokens: int
    cost: float | None
    note: str | None = None


class Answerer(Protocol):
    """A way of answering a question from passages: sentences of theirs, or a model."""

    id: str

    def answer(
        self, question: str, parts: Sequence[str], passages: Sequence[Passage], *, kind: Kind
    ) -> MadeAnswer:
        """Answer a question from passages alone.

        Args:
            question: The question, self-contained.
            parts: What it asks, at least one text; the question itself if it asks one thing.
            passages: The passages, best first, with distinct ids.
            kind: Class of the question.

        Returns:
            The answer; with ``refused`` if the passages do not tell.

        Raises:
            ModelError: The model could not be used.
            BudgetExhaustedError: A call would exceed a budget.
        """
