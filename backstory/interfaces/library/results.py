"""The results of a library on its documents: frozen records whose JSON schema is that of their fields."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import Field

from backstory.operations.corrections import Place
from backstory.retrieval.found import DocumentEntry, Hit, NamedDocument, PagedSpan, Result, Span
from backstory.writing.answers.answer import Citation, Claim, Kind, Refusal

ShouldBe: TypeAlias = Literal[Place, "unsaid"]
Mode: TypeAlias = Literal["hybrid", "dense", "keyword"]
State: TypeAlias = Literal["read", "pending", "failed", "skipped", "removed"]
Outcome: TypeAlias = Literal["indexed", "unchanged", "failed", "skipped", "removed", "excluded"]
Style: TypeAlias = Literal["brief", "detailed", "bullets"]
Confidence: TypeAlias = Literal["high", "medium", "low"]


class Chunk(Span):
    """One chunk of a document, as the tables have it."""

    document_id: str = Field(description="Id of its document.")
    index: int = Field(description="Number of the chunk in its document, from 0.")
    text: str = Field(description="Text of the chunk.")


class FileOutcome(Result):
    """What became of one file or one text."""

    path: str = Field(description="Path of the file, relative to the workspace where it lies in it.")
    status: Outcome = Field(description="What became of it.")
    reason: str | None = Field(description="Why it was not read completely, and what to do; null otherwise.")
    document_id: str | None = Field(default=None, description="Id of its document; null if it has none.")
    chunks: int = Field(default=0, description="Number of its chunks.")


class DocumentList(Result):
    """All documents of the library that are searched."""

    documents: tuple[DocumentEntry, ...] = Field(description="The documents, by path.")
    count: int = Field(description="Number of documents.")
    chunks: int = Field(description="Number of chunks of all of them.")
    unread: tuple[FileOutcome, ...] = Field(description="Files that were not read, and why.")


class DocumentText(PagedSpan):
    """The text of a document, or of some of its pages."""

    document: DocumentEntry = Field(description="The document.")
    text: str = Field(description="The text.")
    char_end: int = Field(description="Character after the last one.")


class Dump(Result):
    """The text of a document, written into a file."""

    document: DocumentEntry = Field(description="The document.")
    output_path: str = Field(description="Absolute path of the file.")
    characters: int = Field(description="Number of characters that were written.")
    pages: int | None = Field(description="Number of pages of the document; null without pages.")


class SectionSummary(PagedSpan):
    """One section of a summarized document."""

    section: int = Field(description="Number of the section, from 1.")
    heading: str = Field(description='Headings above the section, joined by " > ".')
    words: int = Field(description="Words of the section, those that it shares with the one before included.")
    summary: str = Field(description="Its summary, Markdown; empty if it failed.")
    status: Literal["success", "failed"] = Field(description="Whether it was summarized.")
    reason: str | None = Field(description="Why it was not summarized; null if it was.")
    cite: str = Field(description="The one string under which this section may be quoted.")


class Summary(Result):
    """The summary of a document."""

    document: DocumentEntry = Field(description="The document.")
    style: Style = Field(description="Style of the summary.")
    summary: str = Field(description="Markdown; it ends with the sections that failed. Empty if all failed.")
    status: Literal["success", "partial", "failed"] = Field(description="partial: a part of it failed.")
    reasons: tuple[str, ...] = Field(description="What failed, with the section's name; empty on success.")
    total_words: int = Field(description="Words of the document; in scripts without spaces, characters.")
    max_words_per_section: int = Field(description="Most words of a section that were allowed.")
    sections: int = Field(description="Number of sections.")
    sections_processed: int = Field(description="Number of sections that were summarized.")
    section_summaries: tuple[SectionSummary, ...] = Field(description="The sections, in order.")
    citations: tuple[str, ...] = Field(description="The pages that it names, else its sections.")
    model: str = Field(description="Model and its parameters; extractive:1 is no model.")
    notes: tuple[str, ...] = Field(description="What was not read, has changed, or has other names.")


class Match(NamedDocument, Span):
    """One place of a document that a pattern matches."""

    page: int | None = Field(description="Page of the match; null for a document without pages.")
    line: int = Field(description="Line of the match in the document's text, from 1.")
    column: int = Field(description="Character of the line at which the match begins, from 1.")
    match: str = Field(description="The matched text.")
    text: str = Field(description="The line, shortened around the match if it is long.")
    text_start: int = Field(description="Character of text at which the match begins, from 0.")
    cite: str = Field(description="The one string under which this place may be quoted.")


class GrepAnswer(Result):
    """Places of the documents' texts that match a pattern."""

    pattern: str = Field(description="The pattern.")
    regex: bool = Field(description="Whether it is a regular expression.")
    matches: tuple[Match, ...] = Field(description="The matches of this page, by document and place.")
    count: int = Field(description="Number of all matches.")
    documents: int = Field(description="Number of documents with a match.")
    offset: int = Field(description="Number of matches before the first of this page.")
    next_offset: int | None = Field(description="Offset of the next page; null on the last one.")
    notes: tuple[str, ...] = Field(description="What a reader must know of the index.")


class IndexReport(Result):
    """What indexing did."""

    indexed: int = Field(description="Number of files that were read anew.")
    unchanged: int = Field(description="Number of files that were read before and have not changed.")
    failed: int = Field(description="Number of files that could not be read.")
    skipped: int = Field(description="Number of files that no reader knows, or that a rule excludes.")
    removed: int = Field(description="Number of documents that are gone from the index.")
    files: tuple[FileOutcome, ...] = Field(description="Every file that was named, or is not unchanged.")
    documents: int = Field(description="Number of documents in the library.")
    chunks: int = Field(description="Number of chunks in the library.")
    index_version: str | None = Field(description="Snapshot that is searched now; null if there is none.")
    embedded: int = Field(description="Number of texts that the model embedded.")
    failures: tuple[str, ...] = Field(description="What is broken, a sentence each; empty if all was made.")
    seconds: float = Field(description="Wall-clock time.")

    @property
    def success(self) -> bool:
        """Whether every table and the index were made."""
        return not self.failures


class LibraryStatus(Result):
    """How the library stands."""

    state: Literal["idle", "indexing", "ready", "error"] = Field(description="idle: nothing is indexed.")
    reason: str | None = Field(description="Why it is in this state; null if there is nothing to say.")
    root: str = Field(description="Folder of the workspace.")
    folder: str = Field(description="Folder of the documents.")
    documents: int = Field(description="Number of documents that are searched.")
    chunks: int = Field(description="Number of chunks that are searched.")
    pending: tuple[str, ...] = Field(description="Files that differ from the last indexing.")
    unread: int = Field(description="Number of files that were not read.")
    index_version: str | None = Field(description="Published snapshot; null if there is none.")
    embedder: str = Field(description="Name of the embedding space of the settings.")
    last_sync: datetime | None = Field(description="When the published snapshot was last made or confirmed.")
    watching: bool = Field(description="Whether this library watches its folders.")


class FileState(Result):
    """One file of the documents, or a folder that is skipped as a whole."""

    document_id: str = Field(description="Id of its document, also of one that is not read yet.")
    uri: str = Field(description="Path as in the table documents; that of a folder ends with /.")
    name: str = Field(description="Path of the file in the workspace, or in its source.")
    state: State = Field(
        description="read: its present text is searched; pending: the next indexing reads it; failed: it could not be "
        "read; skipped: it is no document, or left out; removed: it is gone, and the next indexing drops its text."
    )
    reason: str | None = Field(description="Why, and what to do; null where nothing is amiss.")
    title: str | None = Field(default=None, description="Title; null if it was never read.")
    kind: str | None = Field(default=None, description="Kind; null if it was never read.")
    date: datetime | None = Field(default=None, description="Date of the document; null if it has none.")
    date_origin: str | None = Field(default=None, description="What the date is from; null without one.")
    format: str | None = Field(default=None, description="Format of the file; null if it was never read.")
    pages: int | None = Field(default=None, description="Number of pages; null without pages.")
    chunks: int = Field(default=0, description="Number of chunks that are searched.")
    size: int | None = Field(default=None, description="Bytes of the file when it was read; null if never.")
    revision: str | None = Field(default=None, description="Revision of the text; null if it was never read.")


Degraded = Field(default=None, description="Why this is not the current snapshot; null if it is.")


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
    notes: tuple[str, ...] = Field(description="What a reader must know of the index.")


class ContextPart(Result):
    """One part of the text that a context was asked for."""

    part: int = Field(description="Number of the part, from 1.")
    text: str = Field(description="Its text.")
    state: Literal["served", "beyond_limit", "unsure", "uncovered", "not_asked"] = Field(
        description="served; beyond_limit: by others than the context holds; unsure; uncovered; not_asked: small talk."
    )
    probability: float = Field(description="Probability that the best chunk tells something about it.")
    chunk_id: str | None = Field(description="The chunk that serves it best, or may; null if none does.")
    citations: tuple[int, ...] = Field(description="Numbers of the documents of the context that serve it.")


class ContextDocument(NamedDocument):
    """One document that a context cites."""

    citation: int = Field(description="Number under which the context cites it.")
    date: datetime | None = Field(description="Date of the document, UTC; null if it states none.")
    similarity: float = Field(description="Best cosine of the parts that found it.")
    serves: tuple[int, ...] = Field(description="Numbers of the parts that it serves for certain.")


class ContextAnswer(Result):
    """A text for a prompt: what the documents hold on a question or a longer text, part by part."""

    verdict: str = Field(
        description="sufficient: documents serve nine tenths of it; partial; insufficient: at most one tenth; "
        "nothing_asked: small talk alone; not_known: this embedder or language was not measured."
    )
    confidence: float | None = Field(description="Expected share that documents serve; null if not known.")
    recommendation: str = Field(description="How many parts are served, and what would serve more.")
    index_version: str = Field(description="Snapshot that was searched.")
    degraded: str | None = Degraded
    notes: tuple[str, ...] = Field(description="What a reader must know of the index.")
    query: str = Field(description="The question or the text.")
    text: str = Field(description="The context in the wanted format; empty if nothing was found.")
    format: str = Field(description="Format of the text.")
    tokens: int = Field(description="Estimated tokens of the text.")
    max_tokens: int = Field(description="Most tokens that were allowed.")
    parts: tuple[ContextPart, ...] = Field(description="The parts of the text that were searched for.")
    documents: tuple[ContextDocument, ...] = Field(description="The cited documents, best first.")


class Evaluation(Result):
    """Whether retrieved text answers a question, judged without a language model, and by what."""

    sufficient: bool | None = Field(description="Whether it seems to; null if that cannot be told.")
    confidence: Confidence = Field(description="How sure that judgement is.")
    keyword_overlap: float = Field(ge=0, le=1, description="Share of its content words in the text.")
    recommendation: str = Field(description="What to do next.")
    issues: tuple[str, ...] = Field(description="What speaks against the text; empty if nothing does.")
    question: str = Field(description="The question.")
    similarity: float | None = Field(description="Best cosine of the question and a passage of the text.")
    missing: tuple[str, ...] = Field(description="Content words of the question that the text does not hold.")


class ExplainedDocument(NamedDocument):
    """Why a document is, or is not, in the context of a window."""

    kept: bool = Field(description="Whether it is in the context.")
    cause: str = Field(
        description="kept; below_threshold, duplicate_document, near_duplicate, below_rating, not_selected or "
        "over_budget; or, if no part found it: published_later, other_conversation, filtered or not_found."
    )
    reason: str = Field(description="The cause in words.")
    rank: int | None = Field(default=None, description="Rank in the context; null if it is not in it.")
    similarity: float | None = Field(default=None, description="Best cosine; null if no part found it.")
    probability: float | None = Field(default=None, description="Highest probability of its hits, if any.")
    hits: int = Field(default=0, description="Number of hits of the window's parts in it.")
    asked_by: tuple[str, ...] = Field(default=(), description="At most three parts that found it, shortened.")
    should_be: Place | None = Field(default=None, description="Where a person said that it should be.")


class Explanation(Result):
    """Why documents are, or are not, in the context of a window."""

    window_id: str = Field(description="The window.")
    verdict: str = Field(description="sufficient, partial, insufficient, nothing_asked or not_known.")
    coverage: float = Field(description="Share of the parts that a document of the context serves.")
    recommendation: str = Field(description="What would cover more.")
    uncovered_topics: tuple[str, ...] = Field(description="What nothing serves, as a reranker named it.")
    index_version: str = Field(description="Snapshot of the index from which the context was made.")
    documents: tuple[ExplainedDocument, ...] = Field(description="The documents, those of the context first.")
    cut: str | None = Field(default=None, description="What was left out for want of room.")


class AnswerTimings(Result):
    """Where the time of an answer went, in seconds of the clock."""

    routing: float = Field(description="To tell what is asked for, and to complete a follow-up.")
    searching: float = Field(description="To search the documents; 0 if nothing was searched.")
    answering: float = Field(description="To write the answer and check its citations.")


class Answer(Result):
    """The answer to a question, each claim with the places of the documents that say it."""

    question: str = Field(description="The question, as it was asked.")
    rewritten: str | None = Field(description="The completed follow-up; null if it stands alone.")
    kind: Kind = Field(description="What is asked for.")
    reason: str = Field(description="What told the kind.")
    language: str = Field(description="Language of the words around quotes, ISO 639-1.")
    markdown: str = Field(description="The answer, or why there is none, with numbered references.")
    claims: tuple[Claim, ...] = Field(description="The statements of the answer, in their order.")
    not_found: tuple[str, ...] = Field(description="Parts of the question that the documents do not answer.")
    confidence: Confidence = Field(description="How sure it is that this answers the question.")
    refused: Refusal | None = Field(description="Why there is no answer; null if there is one.")
    nearest: tuple[Citation, ...] = Field(default=(), description="The nearest places; they claim nothing.")
    documents: tuple[DocumentEntry, ...] = Field(description="For a list, the documents that it is of.")
    document_count: int | None = Field(description="For a list, the number of all its documents.")
    hits: tuple[Hit, ...] = Field(description="The passages from which it was answered, best first.")
    model: str | None = Field(description="What answered: a model with its parameters, or extractive:3.")
    prompts: str | None = Field(default=None, description="Hash of the model's prompts; null without one.")
    timings: AnswerTimings = Field(description="Where the time went.")
    tokens: int = Field(description="Tokens that calls of a model read and wrote; 0 without a model.")
    embedded_tokens: int = Field(default=0, description="Tokens that the embedder read to compare sentences.")
    cost: float | None = Field(description="Price of these calls, in `costs.currency`; null if not known.")
    index_version: str | None = Field(description="Snapshot that was searched; null if none was.")
    degraded: str | None = Degraded
    notes: tuple[str, ...] = Field(description="What a reader must know of the index and the model.")
