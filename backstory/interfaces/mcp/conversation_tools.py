"""Tools over conversations: what covers a text or a window, what nothing covers, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, Final

from pydantic import Field

from backstory.base.errors import InputError
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import ContextAnswer, ContextPart, Explanation
from backstory.interfaces.library.search import SearchFilters
from backstory.interfaces.mcp.arguments import AsOf, Filters, TopK, WindowId
from backstory.interfaces.mcp.limits import DEFAULT_TOKENS, MaxTokens, cut_list
from backstory.interfaces.mcp.registry import READS, Registry
from backstory.interfaces.mcp.results import Coverage, UnservedPart, WindowEntry, WindowList
from backstory.text.prompts.entries import cut_line

_SHARE_OF_CONTEXT: Final = 2
"""The passages take at most one token in so many; the rest is for parts and documents."""
_PART_CHARACTERS: Final = 160
_MORE: Final = "give a larger max_tokens, or less text"

Conversation = Annotated[
    str | list[str | dict[str, Any]] | dict[str, Any] | None,
    Field(
        description="A question, message, chat or draft, whole; or its messages, each with author, time and text."
    ),
]


def add_conversation_tools(tools: Registry, library: Library) -> None:
    """Register the tools."""

    @tools.tool(title="What covers a conversation, and what nothing covers", annotations=READS)
    def cover_conversation(
        text: Conversation = None,
        window_id: Annotated[str | None, Field(description="In place of a text: id of a window.")] = None,
        k: TopK = None,
        as_of: AsOf = None,
        filters: Filters = None,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> Coverage:
        """Divide a question, or a whole message, chat or draft, into its parts; say which documents serve which part.

        Give the text as it is, a chat in any format or as a list of messages, or the id of a window of an indexed chat;
        do not divide it, and do not ask once for each part. A part is a few whole messages of a chat; of prose, a
        paragraph or a few sentences of a long one. The answer holds passages to quote, the documents with the parts
        that each serves, and in `uncovered` the parts that nothing serves: for those, say that the documents do not
        tell. For the parts in `beyond_limit`, raise k; for those in `unsure`, read the passages.
        """
        if (text is None) == (window_id is None):
            raise InputError("give either text or window_id; list_windows names the windows")
        options: dict[str, Any] = {
            "format": "cited",
            "max_tokens": min(max_tokens // _SHARE_OF_CONTEXT, library.workspace.settings.context.max_tokens),
            "top_k": k,
            "as_of": as_of,
            "filters": SearchFilters.take(filters),
        }
        if text is not None:
            # The protocol's library reads a text that is JSON, such as an export, before the tool gets it.
            given = json.dumps(text, ensure_ascii=False) if isinstance(text, dict) else text
            return _cover(library.context(given, **options), None, max_tokens)
        answer = library.window_context(str(window_id), **options)
        return _cover(answer, answer.query, max_tokens)

    @tools.tool(title="Why a document is, or is not, in a context", annotations=READS)
    def explain(
        window_id: WindowId,
        document: Annotated[
            str | None, Field(description="Path, title or id of one document; null for all that were found.")
        ] = None,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> Explanation:
        """Explain why documents, or one document, are or are not in the context of a window."""
        found = library.explain(window_id, document)
        return cut_list(
            found,
            "documents",
            max_tokens,
            told_in="cut",
            remedy="name one document, or give a larger max_tokens",
        )

    @tools.tool(title="List the windows of the chats", annotations=READS)
    def list_windows(
        first: Annotated[date | None, Field(description="First day.")] = None,
        last: Annotated[date | None, Field(description="Last day.")] = None,
        limit: Annotated[int, Field(ge=1, le=500, description="Most windows.")] = 50,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> WindowList:
        """List windows of the indexed chats, the latest first, with how well documents cover them."""
        # Imported late: the contracts of the tables take longer to load than a client waits for its first answer.
        from backstory.operations.inspection.windows import list_windows as read_windows

        rows = read_windows(library.workspace, first=first, last=last)
        latest = rows[::-1]
        listed = WindowList(
            windows=tuple(
                WindowEntry(
                    documents=row["kept_count"],
                    **{
                        name: row[name]
                        for name in (
                            *("window_id", "conversation_id", "started_at", "ended_at", "message_count"),
                            *("status", "coverage"),
                        )
                    },
                )
                for row in latest[:limit]
            ),
            count=len(rows),
        )
        return cut_list(
            listed, "windows", max_tokens, told_in="cut", remedy="give other days, or a larger max_tokens"
        )


def _cover(answer: ContextAnswer, window_id: str | None, max_tokens: int) -> Coverage:
    """Describe what covers a text, within a number of tokens; uncovered parts are cut last."""
    coverage = Coverage.of(
        answer,
        window_id=window_id,
        part_count=len(answer.parts),
        uncovered=_list_unserved(answer.parts, "uncovered"),
        beyond_limit=_list_unserved(answer.parts, "beyond_limit"),
        unsure=_list_unserved(answer.parts, "unsure"),
        parts=tuple(
            part.model_copy(update={"text": cut_line(part.text, _PART_CHARACTERS)}) for part in answer.parts
        ),
        context=answer.text,
    )
    for rows in ("parts", "documents", "beyond_limit", "unsure", "uncovered"):
        coverage = cut_list(coverage, rows, max_tokens, told_in="cut", remedy=_MORE)
    return coverage


def _list_unserved(parts: Sequence[ContextPart], state: str) -> tuple[UnservedPart, ...]:
    return tuple(
        UnservedPart.of(part, text=cut_line(part.text, _PART_CHARACTERS))
        for part in parts
        if part.state == state
    )
