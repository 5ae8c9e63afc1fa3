"""The results of a library: frozen records whose JSON schema is that of their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from datetime import datetime
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from backstory.operations.learning.corrections import Place

ShouldBe: TypeAlias = Literal[Place, "unsaid"]
Mode: TypeAlias = Literal["hybrid", "dense", "keyword"]
Style: TypeAlias = Literal["brief", "detailed", "bullets"]
Confidence: TypeAlias = Literal["high", "medium", "low"]


class Result(BaseModel):
    """Base of all results."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, validate_by_name=True, serialize_by_alias=True
    )
    renamed: ClassVar[Mapping[str, str]] = {}
    """Names in another record of the fields that a :func:`view` gives under names of its own."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as values for JSON; times are texts in ISO 8601."""
        return self.model_dump(mode="json")

    @classmethod
    def of(cls, record: Result | None, /, **others: Any) -> Self:
        """Build a record from the fields that another one has; arguments by name take precedence."""
        sources = {name: cls.renamed.get(name, name) for name in cls.model_fields if name not in others}
        taken = {name: getattr(record, source) for name, source in sources.items() if hasattr(record, source)}
        return cls(**taken, **others)


_R = TypeVar("_R", bound=Result)


def view(record: type[Result], /, *same: str, **renamed: str) -> Callable[[type[_R]], type[_R]]:
    """Add fields of one class of results to another, with their types and descriptions.

    Args:
        record: The class that has the fields; :meth:`Result.of` takes their values.
        same: The fields that keep their names.
        renamed: The names of the other fields, by the names that they have in the view.

    Returns:
        Decorates the class, whose own fields come first. An annotation of a field that it takes is for type checkers.
    """
    sources = {**{name: name for name in same}, **renamed}

    def extend(shape: type[_R]) -> type[_R]:
        described = {name: copy(record.model_fields[source]) for name, source in sources.items()}
        fields: dict[str, Any] = {name: (field.annotation, field) for name, field in described.items()}
        made = create_model(
            shape.__name__, __base__=shape, __doc__=shape.__doc__, __module__=shape.__module__, **fields
        )
        made.renamed = {**shape.renamed, **renamed}
        return made

    return extend


Degraded = Field(
    default=None,
    description="Why this is not the current snapshot of the index, and what to do; null if it is the current one.",
)


class Hit(Result):
    """One chunk of a document that a search found."""

    rank: int = Field(description="Place among the hits, from 1.")
    score: float = Field(description="Score that orders the hits: under hybrid, cosine and keywords fused.")
    cosine: float = Field(description="Cosine similarity of the search key and the chunk.")
    keywords: float | None = Field(description="BM25 score of shared words; null if no word is shared.")
    probability: float = Field(description="Probability that the chunk tells something about the question.")
    above_threshold: bool = Field(description="Whether that probability is at least one half.")
    key: str = Field(description="Search key that found the chunk with this score.")
    chunk_id: str = Field(description="Id of the chunk.")
    document_id: str = Field(description="Id of its document.")
    revision: str = Field(description="Revision of the document that was searched.")
    uri: str = Field(description="Path of the document, as the table documents has it.")
    title: str = Field(description="Title of the document.")
    slug: str = Field(description="Slug of the document.")
    kind: str = Field(description="Kind of the document.")
    tenant: str = Field(description="Owner of the document; empty for none.")
    tags: tuple[str, ...] = Field(description="Tags of the document.")
    date: datetime | None = Field(description="Date of the document, UTC; null if it states none.")
    metadata: dict[str, Any] = Field(
        default={}, description="Metadata with which the text was added, and its id; empty for a file."
    )
    heading: str = Field(description='Headings above the chunk, joined by " > ".')
    page_start: int | None = Field(description="First page; null for a document without pages.")
    page_end: int | None = Field(description="Last page, inclusive; null for a document without pages.")
    line_start: int | None = Field(description="First line in the document's text, from 1.")
    line_end: int | None = Field(description="Last line, inclusive.")
    char_start: int = Field(description="First character in the document's text, from 0.")
    char_end: int = Field(description="Character after the last one.")
    text: str = Field(description="Text of the chunk.")
    cite: str = Field(description="The one string under which this chunk may be quoted.")


class Chunk(Result):
    """One chunk of a document, as the tables have it."""

    document_id: str = Field(description="Id of its document.")
    index: int = Field(description="Number of the chunk in its document, from 0.")
    char_start: int = Field(description="First character in the document's text, from 0.")
    char_end: int = Field(description="Character after the last one.")
    text: str = Field(description="Text of the chunk.")


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


class ContextDocument(Result):
    """One document that a context cites."""

    citation: int = Field(description="Number under which the context cites it.")
    document_id: str = Field(description="Id of the document.")
    uri: str = Field(description="Path of the document.")
    title: str = Field(description="Title of the document.")
    date: datetime | None = Field(description="Date of the document, UTC; null if it states none.")
    similarity: float = Field(description="Best cosine of the parts that found it.")
    serves: tuple[int, ...] = Field(
        description="Numbers of the parts that it serves; none for one that may help, and serves no part for certain."
    )


class DocumentFacts(Result):
    """What is known of one document."""

    uri: str = Field(description="Path of the document, as the table documents has it.")
    kind: str = Field(description="Kind, such as post.")
    tags: tuple[str, ...] = Field(description="Tags.")
    date: datetime | None = Field(description="Date that the document states, UTC; null if it states none.")
    revision: str = Field(description="Id of the content that is searched.")
    characters: int = Field(description="Characters of its whole text.")
    note: str | None = Field(description="What of the file was not read, or is not sure; null if nothing.")


class DocumentEntry(DocumentFacts):
    """One document of the library."""

    document_id: str = Field(description="Id of the document, stable across edits.")
    path: str = Field(description="Absolute path of its file.")
    title: str = Field(description="Title.")
    slug: str = Field(description="Slug.")
    tenant: str = Field(description="Owner; empty for none.")
    words: int = Field(description="Words of its text, separated by white space.")
    pages: int | None = Field(description="Number of pages; null for a document without pages.")
    recognised_pages: int = Field(description="Pages whose text was recognised in an image.")
    chunks: int = Field(description="Number of chunks that are searched.")
    size: int | None = Field(description="Size of its file in bytes; null if the file is not there now.")
    added: bool = Field(description="Whether it is a text that was added through the library.")


class DocumentList(Result):
    """All documents of the library that are searched."""

    documents: tuple[DocumentEntry, ...] = Field(description="The documents, by path.")
    count: int = Field(description="Number of documents.")
    chunks: int = Field(description="Number of chunks of all of them.")
    unread: tuple[FileOutcome, ...] = Field(description="Files that were not read, and why.")


class DocumentText(Result):
    """The text of a document, or of some of its pages."""

    document: DocumentEntry = Field(description="The document.")
    text: str = Field(description="The text.")
    page_start: int | None = Field(description="First page of the text; null for a document without pages.")
    page_end: int | None = Field(description="Last page of the text, inclusive.")
    char_start: int = Field(description="First character in the document's text, from 0.")
    char_end: int = Field(description="Character after the last one.")


class Dump(Result):
    """The text of a document, written into a file."""

    document: DocumentEntry = Field(description="The document.")
    output_path: str = Field(description="Absolute path of the file.")
    characters: int = Field(description="Number of characters that were written.")
    pages: int | None = Field(description="Number of pages of the document; null without pages.")


class SectionSummary(Result):
    """One section of a summarized document."""

    section: int = Field(description="Number of the section, from 1.")
    heading: str = Field(description='Headings above the section, joined by " > ".')
    page_start: int | None = Field(description="First page; null for a document without pages.")
    page_end: int | None = Field(description="Last page, inclusive; null for a document without pages.")
    char_start: int = Field(description="First character in the document's text, from 0.")
    char_end: int = Field(description="Character after the last one.")
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
    status: Literal["success", "partial", "failed"] = Field(
        description="partial: a section failed, or the last step, which makes one summary of all."
    )
    reasons: tuple[str, ...] = Field(
        description="What failed, a sentence each, with the section's name; empty on success."
    )
    total_words: int = Field(
        description="Words of the document; each character of a script without spaces is one."
    )
    max_words_per_section: int = Field(description="Most words of a section that were allowed.")
    sections: int = Field(description="Number of sections.")
    sections_processed: int = Field(description="Number of sections that were summarized.")
    section_summaries: tuple[SectionSummary, ...] = Field(description="The sections, in order.")
    citations: tuple[str, ...] = Field(
        description="Places that the summary rests on: the pages that it names, else its sections."
    )
    model: str = Field(
        description="Model and its parameters; extractive:1 chooses sentences without a model."
    )
    notes: tuple[str, ...] = Field(
        description="What a reader must know: what of the document was not read, whether its file has changed, and "
        "whether names of people in it were replaced before a model read it."
    )


class Match(Result):
    """One place of a document that a pattern matches."""

    document_id: str = Field(description="Id of the document.")
    uri: str = Field(description="Path of the document.")
    title: str = Field(description="Title of the document.")
    page: int | None = Field(description="Page of the match; null for a document without pages.")
    line: int = Field(description="Line of the match in the document's text, from 1.")
    column: int = Field(description="Character of the line at which the match begins, from 1.")
    char_start: int = Field(description="First character of the match in the document's text, from 0.")
    char_end: int = Field(description="Character after the last one.")
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


class FileOutcome(Result):
    """What became of one file or one text."""

    path: str = Field(description="Path of the file, relative to the workspace where it lies in it.")
    status: Literal["indexed", "unchanged", "failed", "skipped", "removed", "excluded"] = Field(
        description="What became of it."
    )
    reason: str | None = Field(description="Why it was not read completely, and what to do; null otherwise.")
    document_id: str | None = Field(default=None, description="Id of its document; null if it has none.")
    chunks: int = Field(default=0, description="Number of its chunks.")


class IndexReport(Result):
    """What indexing did."""

    indexed: int = Field(description="Number of files that were read anew.")
    unchanged: int = Field(description="Number of files that were read before and have not changed.")
    failed: int = Field(description="Number of files that could not be read.")
    skipped: int = Field(description="Number of files that no reader knows, or that a rule excludes.")
    removed: int = Field(description="Number of documents that are gone from the index.")
    files: tuple[FileOutcome, ...] = Field(
        description="Every file that was named, indexed, removed or not read; unchanged others are only counted."
    )
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

    state: Literal["idle", "indexing", "ready", "error"] = Field(
        description="idle: nothing is indexed; indexing: the index is made; ready: it answers; error: it does not."
    )
    reason: str | None = Field(description="Why it is in this state; null if there is nothing to say.")
    root: str = Field(description="Folder of the workspace.")
    folder: str = Field(description="Folder of the documents.")
    documents: int = Field(description="Number of documents that are searched.")
    chunks: int = Field(description="Number of chunks that are searched.")
    pending: tuple[str, ...] = Field(
        description="Files that were added, changed or removed since the last indexing."
    )
    unread: int = Field(description="Number of files that were not read.")
    index_version: str | None = Field(description="Published snapshot; null if there is none.")
    embedder: str = Field(description="Name of the embedding space of the settings.")
    last_sync: datetime | None = Field(description="When the published snapshot was last made or confirmed.")
    watching: bool = Field(description="Whether this library watches its folders.")


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


class ExplainedDocument(Result):
    """Why a document is, or is not, in the context of a window."""

    document_id: str = Field(description="Id of the document.")
    uri: str = Field(description="Path of the document.")
    title: str = Field(description="Title of the document.")
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


for _result in (ContextAnswer, DocumentList):
    _result.model_rebuild()
