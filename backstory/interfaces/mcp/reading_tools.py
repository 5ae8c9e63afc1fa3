"""Tools that search and read documents: two in the shapes of chat connectors, three with the library's own results."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from backstory.base.errors import InputError
from backstory.interfaces.agents import document_answers
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.names import CHUNK_MARK
from backstory.interfaces.library.results import GrepAnswer, LibraryStatus
from backstory.interfaces.mcp.arguments import (
    AsOf,
    DocumentName,
    Filters,
    IsRegex,
    Offset,
    Pattern,
    Query,
    TopK,
)
from backstory.interfaces.mcp.limits import (
    DEFAULT_TOKENS,
    MaxTokens,
    count_tokens,
    cut_list,
    cut_matches,
    cut_text,
)
from backstory.interfaces.mcp.registry import READS, Registry
from backstory.interfaces.mcp.results import (
    DocumentPage,
    Fetched,
    FetchedMetadata,
    FoundDocument,
    FoundDocuments,
)

_MOST_FOUND: Final = 10
_MOST_UNREAD: Final = 50


def add_reading_tools(tools: Registry, library: Library) -> None:
    """Register the tools."""

    @tools.tool(title="Search (connectors)", annotations=READS)
    def search(
        query: Query, top_k: TopK = None, filters: Filters = None, as_of: AsOf = None
    ) -> FoundDocuments:
        """Find the documents for a question; read one of them with fetch. cover_conversation gives passages to quote.

        The nearest documents are given, best first, also where none of them is near; status says so.
        """
        found = document_answers.query(library, query, top_k=top_k, filters=filters, as_of=as_of)
        documents = {chunk.source_file: chunk for chunk in reversed(found.chunks)}
        return FoundDocuments.of(
            found,
            results=tuple(
                FoundDocument.of(chunk, url=address(chunk.document_id))
                for chunk in list(reversed(documents.values()))[:_MOST_FOUND]
            ),
        )

    @tools.tool(title="Fetch (connectors)", annotations=READS)
    def fetch(
        id: DocumentName,  # noqa: A002 - the name that connectors send
        start: Annotated[int, Field(ge=0, description="Character to begin at.")] = 0,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> Fetched:
        """Read a document by the id that search gave, or by its path, from a character on.

        The id of a chunk begins at the chunk.
        """
        return _fetch(library, id, start, max_tokens)

    @tools.tool(title="Find a pattern, with citations", annotations=READS)
    def grep(
        pattern: Pattern,
        regex: IsRegex = False,
        ignore_case: Annotated[bool, Field(description="Whether upper and lower case are the same.")] = True,
        limit: Annotated[int, Field(ge=1, le=100, description="Most matches.")] = 20,
        offset: Offset = 0,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> GrepAnswer:
        """Find every place that a text, or a regular expression, matches, each with the string to cite it by."""
        found = library.grep(pattern, regex, limit, offset, ignore_case=ignore_case)
        return cut_matches(found, max_tokens, told_in="notes", offset=offset)

    @tools.tool(title="Documents, and what was not read", annotations=READS)
    def documents(
        offset: Offset = 0,
        limit: Annotated[int, Field(ge=1, le=200, description="Most documents.")] = 50,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> DocumentPage:
        """List the documents with all that is known of each, and the files that were not read, with the reasons."""
        listed = library.documents()
        page = DocumentPage.of(
            listed,
            documents=listed.documents[offset : offset + limit],
            unread=listed.unread[:_MOST_UNREAD],
            unread_count=len(listed.unread),
        )
        remedy = "a larger offset gives the others, or a larger max_tokens more at a time"
        cut = cut_list(page, "documents", max_tokens, told_in="cut", remedy=remedy)
        return cut_list(cut, "unread", max_tokens, told_in="cut", remedy="`backstory documents` lists all")

    @tools.tool(title="State of the library", annotations=READS)
    def status() -> LibraryStatus:
        """Report whether the library is ready or why not, and which files have changed since they were indexed."""
        remedy = "indexing reads them all"
        return cut_list(library.status(), "pending", DEFAULT_TOKENS, told_in="reason", remedy=remedy)


def address(document_id: str) -> str:
    """Return the address of a document as a resource of the server."""
    return f"backstory://document/{document_id}"


def _fetch(library: Library, name: str, start: int, max_tokens: int) -> Fetched:
    named = name.removeprefix(address(""))
    found = library.text(named)
    entry = found.document
    if not start and CHUNK_MARK in named:
        start = library.chunk(named).char_start
    if start and start >= len(found.text):
        raise InputError(
            f"start {start} is behind the end of {entry.uri}, whose text has {len(found.text)} characters; give a "
            "smaller start"
        )

    def make(text: str) -> Fetched:
        end = start + len(text)
        rest = None if end >= len(found.text) else end
        cut = f"cut at {max_tokens} tokens; the text goes on at start {rest}" if rest is not None else None
        return Fetched.of(
            entry,
            text=text,
            url=address(entry.document_id),
            metadata=FetchedMetadata.of(entry, start=start, next_start=rest, cut=cut),
        )

    fetched = make(cut_text(found.text[start:], max_tokens, lambda text: count_tokens(make(text))))
    if fetched.metadata.next_start == start:
        raise InputError(
            f"title, tags and note of {entry.uri} leave no room for its text in {max_tokens} tokens; give a larger "
            "max_tokens"
        )
    return fetched
