"""The ten tools over documents of the original design, as tools of the server."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from mcp.server.mcpserver import Context
from pydantic import Field

from backstory.interfaces.agents import document_answers
from backstory.interfaces.agents.document_results import (
    DumpedDocument,
    FoundPlace,
    IndexedDirectory,
    IndexedDocument,
    JudgedRetrieval,
    ListedDocuments,
    PatternResult,
    QueryResult,
    RagStatus,
    SummarizedDocument,
)
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import Style
from backstory.interfaces.mcp.arguments import (
    AsOf,
    DocumentName,
    Filters,
    IsRegex,
    MaxChunks,
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
    fits,
)
from backstory.interfaces.mcp.progress import work
from backstory.interfaces.mcp.registry import ASKS, INDEXES, READS, WRITES, Registry
from backstory.settings.writers import MAX_WORDS
from backstory.text.prompts.entries import cut_snippet

_CHUNK_CHARACTERS: Final = 400
_FEWER = "ask a narrower question, or give a larger max_tokens"


def add_document_tools(tools: Registry, library: Library) -> None:
    """Register the tools that only read."""

    @tools.tool(title="Search the documents", annotations=READS)
    def query_documents(
        query: Query,
        debug: Annotated[bool, Field(description="Whether to tell the hits of each search key.")] = False,
        max_chunks: MaxChunks = None,
        top_k: TopK = None,
        filters: Filters = None,
        as_of: AsOf = None,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> QueryResult:
        """Search all documents for a question, by several search keys, and get passages with file and page.

        Ask one thing at a time.
        """
        found = document_answers.query(
            library, query, debug=debug, top_k=top_k, max_chunks=max_chunks, filters=filters, as_of=as_of
        )
        return cut_list(found, "chunks", max_tokens, told_in="message", remedy=_FEWER, shortens="content")

    @tools.tool(title="Search one document", annotations=READS)
    def query_specific_file(
        file_path: DocumentName,
        query: Query,
        max_chunks: MaxChunks = None,
        top_k: TopK = None,
        filters: Filters = None,
        as_of: AsOf = None,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> QueryResult:
        """Search one document, named by its path, title, slug or id. A part of a name is no name."""
        found = document_answers.query(
            library,
            query,
            document=file_path,
            top_k=top_k,
            max_chunks=max_chunks,
            filters=filters,
            as_of=as_of,
        )
        return cut_list(found, "chunks", max_tokens, told_in="message", remedy=_FEWER, shortens="content")

    @tools.tool(title="Find a pattern", annotations=READS)
    def search_indexed_chunks(
        pattern: Pattern,
        regex: IsRegex = False,
        offset: Offset = 0,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> PatternResult:
        """Find every place in the documents that a text, or a regular expression, matches: file, page and line.

        At most 100 matches are given at a time; count is the number of all.
        """
        found = document_answers.search_pattern(library, pattern, regex=regex, offset=offset)
        short = found.model_copy(update={"matches": tuple(map(_shorten_place, found.matches))})
        cut = cut_matches(short, max_tokens, told_in="message", offset=offset)
        return cut.model_copy(update={"showing": len(cut.matches)})

    @tools.tool(title="Judge retrieved text", annotations=READS)
    def evaluate_retrieval(
        question: Query,
        retrieved_info: Annotated[str, Field(description="The text that was retrieved.")],
    ) -> JudgedRetrieval:
        """Judge, without a language model, whether retrieved text answers a question, before answering from it."""
        return document_answers.judge_retrieval(library, question, retrieved_info)

    @tools.tool(title="List the documents", annotations=READS)
    def list_indexed_documents(max_tokens: MaxTokens = DEFAULT_TOKENS) -> ListedDocuments:
        """List the documents that are searched, with type, size, pages and chunks."""
        return cut_list(
            document_answers.list_indexed(library),
            "documents",
            max_tokens,
            told_in="message",
            remedy="the tool documents, served with --tools, gives them page by page",
        )

    @tools.tool(title="Summarize a document", annotations=ASKS)
    async def summarize_document(
        file_path: DocumentName,
        context: Context,
        summary_type: Annotated[
            Style, Field(description="A paragraph, every main point, or a list.")
        ] = "detailed",
        max_words_per_section: Annotated[
            int, Field(ge=1, description="Most words of a section that is summarized at once.")
        ] = MAX_WORDS,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> SummarizedDocument:
        """Summarize a document section by section: brief, detailed, or as bullets.

        Without a model in the settings, the summary consists of sentences of the document.
        """
        made = await work(
            context,
            partial(document_answers.summarize, library, file_path, summary_type, max_words_per_section),
        )
        return _cut_summary(made, max_tokens)

    @tools.tool(title="State of the index", annotations=READS)
    def rag_status() -> RagStatus:
        """Report how many documents are searched, by which model, and which files have changed since."""
        return document_answers.tell_status(library)


def _shorten_place(place: FoundPlace) -> FoundPlace:
    text = place.chunk_text
    return (
        place
        if text is None
        else place.model_copy(update={"chunk_text": cut_snippet(text, _CHUNK_CHARACTERS)})
    )


def _cut_summary(made: SummarizedDocument, max_tokens: int) -> SummarizedDocument:
    """Cut the sections of a summary, and then the summary itself."""
    remedy = "a larger max_tokens, or brief as summary_type, gives more"
    cut = cut_list(made, "section_summaries", max_tokens, told_in="message", remedy=remedy)
    if fits(cut, max_tokens):
        return cut
    told = cut.model_copy(update={"message": f"{cut.message}; the summary was cut, too"})
    shortened = cut_text(
        cut.summary, max_tokens, lambda text: count_tokens(told.model_copy(update={"summary": text}))
    )
    return told.model_copy(update={"summary": shortened})


def add_writing_tools(tools: Registry, library: Library) -> None:
    """Register the tools that read new files into the index, or write texts into files."""

    @tools.tool(title="Index a file", annotations=INDEXES)
    async def index_document(
        file_path: Annotated[str, Field(description="Path of the file.")], context: Context
    ) -> IndexedDocument:
        """Read a file into the index. A file that has changed since is indexed again."""
        return await work(context, partial(document_answers.index_file, library, file_path))

    @tools.tool(title="Index a folder", annotations=INDEXES)
    async def index_directory(
        directory_path: Annotated[str, Field(description="Path of the folder.")],
        context: Context,
        recursive: Annotated[bool, Field(description="Whether to read its subfolders, too.")] = False,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> IndexedDirectory:
        """Read the files of a folder into the index, and say of each what became of it."""
        done = await work(
            context, partial(document_answers.index_folder, library, directory_path, recursive=recursive)
        )
        for rows in ("skipped_files", "indexed_files", "noted_files", "failed_files"):
            done = cut_list(done, rows, max_tokens, told_in="message", remedy="the counts are of all files")
        return done

    @tools.tool(title="Write a document's text into a file", annotations=WRITES)
    def dump_document(
        file_name: DocumentName,
        output_path: Annotated[
            str | None, Field(description="File to write; null for one in the folder of dumps.")
        ] = None,
    ) -> DumpedDocument:
        """Write the text of a document into a file that does not exist yet, by default in a folder for such texts."""
        return document_answers.dump(library, file_name, output_path)
