"""The results of questions: hits, contexts and answers, and what is known of why they are as they are."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from backstory.interfaces.library.results import Confidence, DocumentEntry, Mode
from backstory.operations.learning.corrections import Place
from backstory.retrieval.found import Hit, NamedDocument, Result
from backstory.writing.answers.answer import Citation, Claim, Kind, Refusal

Degraded = Field(
    default=None,
    description="Why this is not the current snapshot of the index, and what to do; null if it is the current one.",
)


class SearchAnswer(Result):
    """The hits of one question, all of them of one snapshot of the index."""

    query: str = Field(description="The question.")
    keys: tuple[str, ...] = Field(description="The search keys, the question first.")
    mode: Mode = Field(description="How hits are ordered.")
    hits: tuple[Hit, ...] = Field(description="The hits, best first.")
    corpus_chunks: int = Field(description="Number of chunks that the filters admit.")
    depth: int = Field(description="Most hits that were wanted.")
    left_out: int = Field(description="Hits that were found, and left out by the cap of tokens.")
    weak: int = Field(description="Hits that are no evidence: their probability is below one half.")
    engine: str = Field(description="Engine that searched: exact, vss or bm25.")
    reason: str = Field(description="Why that engine searched.")
    reranked: bool = Field(description="Whether a reranker ordered the hits.")
    index_version: str = Field(description="Snapshot that was searched.")
    degraded: str | None = Degraded
    notes: tuple[str, ...] = Field(
        description="What a reader must know: an index that is older than the files, or one that is damaged."
    )


class ContextPart(Result):
    """One part of the text that a context was asked for."""

    part: int = Field(description="Number of the part, from 1.")
    text: str = Field(description="Its text.")
    state: Literal["served", "beyond_limit", "unsure", "uncovered", "not_asked"] = Field(
        description="served: by a document of the context; beyond_limit: by others beyond a limit, such as top_k; "
        "unsure: perhaps, with a probability of 0.2 to 0.5; uncovered: by nothing; not_asked: small talk."
    )
    probability: float = Field(description="Probability that the best chunk tells something about it.")
    chunk_id: str | None = Field(description="The chunk that serves it best, or may; null if none does.")
    citations: tuple[int, ...] = Field(
        description="Numbers of the documents that serve it; empty if none of the context does."
    )


class ContextDocument(NamedDocument):
    """One document that a context cites."""

    citation: int = Field(description="Number under which the context cites it.")
    date: datetime | None = Field(description="Date of the document, UTC; null if it states none.")
    similarity: float = Field(description="Best cosine of the parts that found it.")
    serves: tuple[int, ...] = Field(
        description="Numbers of the parts that it serves; none for one that may help, and serves no part for certain."
    )


class Verdict(Result):
    """Whether the documents cover a text."""

    verdict: str = Field(
        description="sufficient: documents serve at least nine tenths of it; partial; insufficient: at most one tenth, "
        "and little expected; nothing_asked: small talk alone; not_known: this embedder or language was not measured."
    )
    confidence: float | None = Field(
        description="Expected share that documents serve, by the probabilities of the parts; null if not known."
    )
    recommendation: str = Field(
        description="How many parts are served, and what would serve more. Of uncovered parts, say that the documents "
        "do not tell."
    )
    index_version: str = Field(description="Snapshot that was searched.")
    degraded: str | None = Degraded
    notes: tuple[str, ...] = Field(description="What a reader must know of the index.")


class ContextAnswer(Verdict):
    """A text for a prompt: what the documents hold on a question or a longer text, part by part."""

    query: str = Field(description="The question or the text.")
    text: str = Field(description="The context in the wanted format; empty if nothing was found.")
    format: str = Field(description="Format of the text.")
    tokens: int = Field(description="Estimated tokens of the text.")
    max_tokens: int = Field(description="Most tokens that were allowed.")
    parts: tuple[ContextPart, ...] = Field(description="The parts of the text that were searched for.")
    documents: tuple[ContextDocument, ...] = Field(description="The cited documents, best first.")


class Judgement(Result):
    """Whether retrieved text answers a question."""

    sufficient: bool | None = Field(
        description="Whether the text seems to answer the question; null if that cannot be told."
    )
    confidence: Confidence = Field(description="How sure that judgement is.")
    keyword_overlap: float = Field(
        ge=0, le=1, description="Share of the question's content words in the text."
    )
    recommendation: str = Field(description="What to do next.")
    issues: tuple[str, ...] = Field(description="What speaks against the text; empty if nothing does.")


class Evaluation(Judgement):
    """Whether retrieved text answers a question, judged without a language model, and by what."""

    question: str = Field(description="The question.")
    similarity: float | None = Field(description="Best cosine of the question and a passage of the text.")
    missing: tuple[str, ...] = Field(description="Content words of the question that the text does not hold.")


class ExplainedDocument(NamedDocument):
    """Why a document is, or is not, in the context of a window."""

    kept: bool = Field(description="Whether it is in the context.")
    cause: str = Field(
        description="kept; below_threshold, duplicate_document, near_duplicate, below_rating, not_selected or "
        "over_budget; or, if no part found it: published_later, other_conversation, filtered or "
        "not_found."
    )
    reason: str = Field(description="The cause in words.")
    rank: int | None = Field(description="Rank in the context; null if it is not in it.")
    similarity: float | None = Field(description="Best cosine of its hits; null if no part found it.")
    probability: float | None = Field(
        description="Highest probability that it tells something about a part; null if no part found it."
    )
    hits: int = Field(description="Number of hits of the window's parts in it.")
    asked_by: tuple[str, ...] = Field(
        description="Parts of the window that found it, shortened, at most three."
    )
    should_be: Place | None = Field(
        default=None, description="Where a person said that it should be; null if nobody did."
    )


class Explanation(Result):
    """Why documents are, or are not, in the context of a window."""

    window_id: str = Field(description="The window.")
    verdict: str = Field(description="sufficient, partial, insufficient, nothing_asked or not_known.")
    coverage: float = Field(description="Share of the parts that a document of the context serves.")
    recommendation: str = Field(description="What would cover more.")
    uncovered_topics: tuple[str, ...] = Field(
        description="Topics that nothing serves, as a reranker named them."
    )
    index_version: str = Field(description="Snapshot of the index from which the context was made.")
    documents: tuple[ExplainedDocument, ...] = Field(description="The documents, those of the context first.")
    cut: str | None = Field(
        default=None, description="What was left out for want of room; null if nothing was."
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
    claims: tuple[Claim, ...] = Field(description="The statements of the answer, in their order.")
    not_found: tuple[str, ...] = Field(description="Parts of the question that the documents do not answer.")
    confidence: Confidence = Field(description="How sure it is that this answers the question.")
    refused: Refusal | None = Field(
        description="Why there is no answer: not_in_documents, outside, unsafe or no_index; null if there is one."
    )
    nearest: tuple[Citation, ...] = Field(
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
