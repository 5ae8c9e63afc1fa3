"""The tool that answers a question from the documents alone."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from mcp.server.mcpserver import Context
from pydantic import Field

from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import Answer
from backstory.interfaces.library.search import SearchFilters
from backstory.interfaces.mcp.arguments import AsOf, Filters, Query
from backstory.interfaces.mcp.limits import DEFAULT_TOKENS, MaxTokens, count_tokens, cut_list, cut_text, fits
from backstory.interfaces.mcp.progress import work
from backstory.interfaces.mcp.registry import ASKS, Registry
from backstory.interfaces.mcp.results import AnsweredQuery, QuotedClaim, QuotedPlace
from backstory.writing.answers.answer import Turn

_MORE: Final = "a larger max_tokens gives more"


def add_answer_tools(tools: Registry, library: Library) -> None:
    """Register the tool."""

    @tools.tool(title="Answer a question with citations", annotations=ASKS)
    async def answer_question(
        query: Query,
        context: Context,
        previous_question: Annotated[
            str | None, Field(description="The question before, which a follow-up goes on from.")
        ] = None,
        filters: Filters = None,
        as_of: AsOf = None,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> AnsweredQuery:
        """Answer one question from the documents alone, each claim with the quote that says it, or refuse.

        `refused` and `not_found` say what the documents do not tell; do not fill it in. A count or a list of documents
        by kind, date, folder or tag comes from the catalog. Without a model in the settings, the answer consists of
        sentences of the documents.
        """
        history = [Turn(previous_question, "")] if previous_question else []
        wanted = SearchFilters.take(filters, as_of=as_of)
        answer = await work(context, partial(library.answer, query, history=history, filters=wanted))
        return _cut(answer, max_tokens)


def _cut(answer: Answer, max_tokens: int) -> AnsweredQuery:
    """Describe an answer within a number of tokens; the claims are cut before the answer itself."""
    claims = tuple(
        QuotedClaim(
            text=claim.text,
            citations=tuple(QuotedPlace.of(place) for place in claim.citations),
            supported=claim.supported,
        )
        for claim in answer.claims
    )
    told = AnsweredQuery.of(answer, answer=answer.markdown, claims=claims)
    cut = cut_list(told, "claims", max_tokens, told_in="cut", remedy=_MORE)
    if fits(cut, max_tokens):
        return cut
    cut = cut.model_copy(update={"cut": f"{cut.cut}; the answer was cut, too" if cut.cut else _MORE})
    shortened = cut_text(
        cut.answer, max_tokens, lambda text: count_tokens(cut.model_copy(update={"answer": text}))
    )
    return cut.model_copy(update={"answer": shortened})
