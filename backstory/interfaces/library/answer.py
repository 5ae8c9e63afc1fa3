"""The result of a question that the library answered: claims, and the places of the documents that say them."""

from __future__ import annotations

from pydantic import Field

from backstory.interfaces.library.results import Confidence, Degraded, DocumentEntry, Hit, Result
from backstory.writing.answers.answer import Kind, Refusal


class CitedPlace(Result):
    """A place of a document that says what a claim says."""

    chunk_id: str = Field(description="Id of the chunk.")
    document_id: str = Field(description="Id of its document.")
    uri: str = Field(description="Path of the document.")
    title: str = Field(description="Title of the document.")
    page_start: int | None = Field(
        description="First page of the chunk that holds the quote; null for a document without pages."
    )
    page_end: int | None = Field(description="Last page of it, inclusive; null for a document without pages.")
    line_start: int | None = Field(description="First line of the quote in the document's text, from 1.")
    line_end: int | None = Field(description="Last line, inclusive.")
    quote: str = Field(description="Words of the document, as they stand there.")
    char_start: int = Field(description="First character of the quote in the document's text, from 0.")
    char_end: int = Field(description="Character after the last one.")
    cite: str = Field(description="The one string under which this place may be quoted.")


class AnsweredClaim(Result):
    """One statement of an answer."""

    text: str = Field(description="The statement, Markdown.")
    citations: tuple[CitedPlace, ...] = Field(description="The places that say it.")
    supported: bool = Field(description="Whether at least one citation passed the check.")
    probability: float | None = Field(
        default=None,
        description="Probability that the quote answers, where sentences were chosen without a model; null elsewhere.",
    )


class AnswerTimings(Result):
    """Where the time of an answer went, in seconds of the clock."""

    routing: float = Field(description="To tell what is asked for, and to complete a follow-up.")
    searching: float = Field(description="To search the documents; 0 if nothing was searched.")
    answering: float = Field(description="To write the answer and check its citations.")


class Answer(Result):
    """The answer to a question, each claim with the places of the documents that say it."""

    question: str = Field(description="The question, as it was asked.")
    rewritten: str | None = Field(
        description="The question completed by what was asked before; null if it stands alone."
    )
    kind: Kind = Field(description="What is asked for.")
    reason: str = Field(description="What told the kind.")
    language: str = Field(
        description="Language of the words around statements and quotes, ISO 639-1: that of the question, else en."
    )
    markdown: str = Field(description="The answer, or why there is none, with numbered references.")
    claims: tuple[AnsweredClaim, ...] = Field(description="The statements of the answer, in their order.")
    not_found: tuple[str, ...] = Field(description="Parts of the question that the documents do not answer.")
    confidence: Confidence = Field(description="How sure it is that this answers the question.")
    refused: Refusal | None = Field(
        description="Why there is no answer: not_in_documents, outside, unsafe or no_index; null if there is one."
    )
    nearest: tuple[CitedPlace, ...] = Field(
        default=(),
        description="The places whose words come nearest to an answer to a part that has none; they claim nothing.",
    )
    documents: tuple[DocumentEntry, ...] = Field(
        description="For a list, the documents of the catalog that the question describes."
    )
    document_count: int | None = Field(
        description="For a list, the number of all such documents, also of those that were cut; null otherwise."
    )
    hits: tuple[Hit, ...] = Field(description="The passages from which it was answered, best first.")
    model: str | None = Field(
        description="What answered: a model with its parameters, or extractive:3; null for small talk and refusals."
    )
    prompts: str | None = Field(
        default=None, description="Hash of the prompts of the model that answered; null without one."
    )
    timings: AnswerTimings = Field(description="Where the time went.")
    tokens: int = Field(description="Tokens that calls of a model read and wrote; 0 without a model.")
    embedded_tokens: int = Field(
        default=0,
        description="Tokens that the embedder read to compare sentences with the question; none for known vectors.",
    )
    cost: float | None = Field(
        description="Price of these calls, in `costs.currency`; null if the price of the model is not known."
    )
    index_version: str | None = Field(description="Snapshot that was searched; null if none was.")
    degraded: str | None = Degraded
    notes: tuple[str, ...] = Field(
        description="What a reader must know: an index that is older than the files, or what was not asked."
    )
