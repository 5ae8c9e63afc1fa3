"""The results of a library on its documents: frozen records whose JSON schema is that of their fields."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import Field, create_model

from backstory.operations.learning.corrections import Place
from backstory.retrieval.found import NamedDocument, PagedSpan, Result, Span

ShouldBe: TypeAlias = Literal[Place, "unsaid"]
Mode: TypeAlias = Literal["hybrid", "dense", "keyword"]
State: TypeAlias = Literal["read", "pending", "failed", "skipped", "removed"]
Style: TypeAlias = Literal["brief", "detailed", "bullets"]
Confidence: TypeAlias = Literal["high", "medium", "low"]


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


class Chunk(Span):
    """One chunk of a document, as the tables have it."""

    document_id: str = Field(description="Id of its document.")
    index: int = Field(description="Number of the chunk in its document, from 0.")
    text: str = Field(description="Text of the chunk.")


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


class FileOutcome(Result):
    """What became of one file or one text."""

    path: str = Field(description="Path of the file, relative to the workspace where it lies in it.")
    status: Literal["indexed", "unchanged", "failed", "skipped", "removed", "excluded"] = Field(
        description="What became of it."
    )
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


class FileState(Result):
    """One file of the documents, or a folder that is skipped as a whole."""

    document_id: str = Field(description="Id of its document, also of one that is not read yet.")
    uri: str = Field(
        description="Path of the document, as the table documents has it; that of a folder ends with /."
    )
    name: str = Field(description="Path of the file in the workspace, or in its source.")
    state: State = Field(
        description="read: its present text is searched; pending: the next indexing reads it; failed: it could not be "
        "read; skipped: it is no document, or left out; removed: it is gone, and the next indexing drops its text."
    )
    reason: str | None = Field(
        description="Why it is in this state, and what to do; null where nothing is amiss."
    )
    title: str | None = Field(default=None, description="Title; null if it was never read.")
    kind: str | None = Field(default=None, description="Kind; null if it was never read.")
    date: datetime | None = Field(default=None, description="Date of the document; null if it has none.")
    date_origin: str | None = Field(
        default=None,
        description="What the date is taken from: stated in the text, name of the file or its folder, or the file's "
        "properties: changed, created, or copied; null without a date.",
    )
    format: str | None = Field(default=None, description="Format of the file; null if it was never read.")
    pages: int | None = Field(default=None, description="Number of pages; null without pages.")
    chunks: int = Field(default=0, description="Number of chunks that are searched.")
    size: int | None = Field(
        default=None, description="Bytes of the text's file when it was read; null if never."
    )
    revision: str | None = Field(default=None, description="Revision of the text; null if it was never read.")
