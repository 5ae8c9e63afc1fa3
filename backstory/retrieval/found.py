"""What a search found, and the places of documents: the records that answers cite, and that every surface gives."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field


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
    def of(cls, record: object, /, **others: Any) -> Self:
        """Build a record from the fields that another one has; arguments by name take precedence."""
        sources = {name: cls.renamed.get(name, name) for name in cls.model_fields if name not in others}
        taken = {name: getattr(record, source) for name, source in sources.items() if hasattr(record, source)}
        return cls(**taken, **others)


class NamedDocument(Result):
    """A document by its names."""

    document_id: str = Field(description="Id of the document.")
    uri: str = Field(description="Path of the document, as the table documents has it.")
    title: str = Field(description="Title of the document.")


class DocumentEntry(Result):
    """One document of the library."""

    uri: str = Field(description="Path of the document, as the table documents has it.")
    kind: str = Field(description="Kind, such as post.")
    tags: tuple[str, ...] = Field(description="Tags.")
    date: datetime | None = Field(description="Date that the document states, UTC; null if it states none.")
    revision: str = Field(description="Id of the content that is searched.")
    characters: int = Field(description="Characters of its whole text.")
    note: str | None = Field(description="What of the file was not read, or is not sure; null if nothing.")
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


class Span(Result):
    """Some characters of the text of a document."""

    char_start: int = Field(description="First character in the document's text, from 0.")
    char_end: int = Field(description="Character after the last one.")


class PagedSpan(Span):
    """Some characters of the text of a document, with their pages."""

    page_start: int | None = Field(description="First page; null for a document without pages.")
    page_end: int | None = Field(description="Last page, inclusive; null for a document without pages.")


class TextPlace(PagedSpan):
    """A place in the text of a document that can be quoted."""

    line_start: int | None = Field(description="First line in the document's text, from 1.")
    line_end: int | None = Field(description="Last line, inclusive.")
    cite: str = Field(description="The one string under which this place may be quoted.")


class Hit(NamedDocument, TextPlace):
    """One chunk of a document that a search found."""

    rank: int = Field(description="Place among the hits, from 1.")
    score: float = Field(description="Score that orders the hits: under hybrid, cosine and keywords fused.")
    cosine: float = Field(description="Cosine similarity of the search key and the chunk.")
    keywords: float | None = Field(description="BM25 score of shared words; null if no word is shared.")
    probability: float = Field(description="Probability that the chunk tells something about the question.")
    above_threshold: bool = Field(description="Whether that probability is at least one half.")
    key: str = Field(description="Search key that found the chunk with this score.")
    chunk_id: str = Field(description="Id of the chunk.")
    revision: str = Field(description="Revision of the document that was searched.")
    slug: str = Field(description="Slug of the document.")
    kind: str = Field(description="Kind of the document.")
    tenant: str = Field(description="Owner of the document; empty for none.")
    tags: tuple[str, ...] = Field(description="Tags of the document.")
    date: datetime | None = Field(description="Date of the document, UTC; null if it states none.")
    metadata: dict[str, Any] = Field(
        default={}, description="Metadata with which the text was added, and its id; empty for a file."
    )
    heading: str = Field(description='Headings above the chunk, joined by " > ".')
    text: str = Field(description="Text of the chunk.")

    @property
    def short_id(self) -> str:
        """The id under which a model is shown the chunk, such as ``p1``."""
        return f"p{self.rank}"


def cite(
    uri: str,
    *,
    pages: tuple[int | None, int | None] = (None, None),
    lines: tuple[int | None, int | None] = (None, None),
    characters: tuple[int, int],
) -> str:
    """Name a place: the path of the document, and its pages, else its lines, else its characters.

    Pages and lines are inclusive and count from 1. Such are ``report.pdf, pages 3-4``, ``notes/bread.md, lines 12-40``
    and ``notes/bread.md, characters 0-812``.
    """
    for noun, (first, last) in (("page", pages), ("line", lines)):
        if first is not None and last is not None:
            return f"{uri}, {noun} {first}" if first == last else f"{uri}, {noun}s {first}-{last}"
    return f"{uri}, characters {characters[0]}-{characters[1]}"
