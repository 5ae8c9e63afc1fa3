"""The records of an answer: the question's class, the passages that were shown, the claims and their citations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from pydantic import Field

from backstory.retrieval.found import Hit, NamedDocument, Result, TextPlace, cite

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


class Citation(NamedDocument, TextPlace):
    """A place of a document that says what a claim says."""

    chunk_id: str = Field(description="Id of the chunk.")
    quote: str = Field(description="Words of the document, as they stand there.")

    @classmethod
    def quoting(cls, hit: Hit, start: int, end: int) -> Citation:
        """Cite characters of a hit's text; the place of one that is shown with other names is that of the whole hit."""
        first, last = hit.char_start, hit.char_end
        if last - first == len(hit.text):
            first, last = first + start, first + end
        quote = hit.text[start:end]
        line = hit.line_start
        if line is not None:
            line += hit.text[: first - hit.char_start].count("\n")
        lines = line, None if line is None else line + quote.count("\n")
        return cls.of(
            hit,
            quote=quote,
            char_start=first,
            char_end=last,
            line_start=lines[0],
            line_end=lines[1],
            cite=cite(hit.uri, pages=(hit.page_start, hit.page_end), lines=lines, characters=(first, last)),
        )


class Claim(Result):
    """One statement of an answer."""

    text: str = Field(description="The statement, Markdown.")
    citations: tuple[Citation, ...] = Field(description="The places that say it.")
    supported: bool = Field(description="Whether at least one citation passed the check.")
    probability: float | None = Field(
        default=None,
        description="Probability that the quote answers, where sentences were chosen without a model; null elsewhere.",
    )


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
        self, question: str, parts: Sequence[str], passages: Sequence[Hit], *, kind: Kind
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
