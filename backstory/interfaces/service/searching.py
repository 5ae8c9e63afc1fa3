"""Search in the documents of a tenant."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from backstory.interfaces.library.results import Mode, SearchAnswer
from backstory.interfaces.library.search import DocumentFilters, SearchFilters
from backstory.interfaces.service.authentication import DESCRIBED, Reader, Served
from backstory.interfaces.service.failures import ErrorBody
from backstory.interfaces.service.refusals import hide_paths

MOST_HITS = 100


class SearchQuestion(BaseModel):
    """A question to search for."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, description="The question.")
    top_k: int | None = Field(
        default=None, ge=1, le=MOST_HITS, description="Most hits; null for a number that fits the documents."
    )
    filters: DocumentFilters | None = Field(default=None, description="Which documents may be found.")
    as_of: datetime | None = Field(default=None, description="Later documents are hidden; with a time zone.")
    mode: Mode | None = Field(
        default=None, description="How hits are ordered; null for the tenant's setting."
    )
    expand: bool = Field(default=False, description="Whether to search for further keys as well.")
    rerank: bool = Field(default=False, description="Whether the tenant's reranker orders the hits.")


def make_search_router() -> APIRouter:
    """Make the route of searches."""
    router = APIRouter(prefix="/api", tags=["search"], dependencies=list(DESCRIBED))

    @router.post("/search", responses={status: {"model": ErrorBody} for status in (400, 404, 409, 503)})
    async def search(question: SearchQuestion, access: Reader, service: Served) -> SearchAnswer:
        """Search the documents, in the last snapshot while an indexing is under way."""
        service.require_length(question.query)

        def find() -> SearchAnswer:
            with service.tenants.entering(access.tenant) as library:
                return library.search(
                    question.query,
                    top_k=question.top_k,
                    filters=SearchFilters.take(question.filters, as_of=question.as_of),
                    mode=question.mode,
                    expand=question.expand,
                    rerank=question.rerank,
                )

        found = await service.search(access.tenant, find)
        return found.model_copy(
            update={"notes": tuple(hide_paths(note, service.root) for note in found.notes)}
        )

    return router
