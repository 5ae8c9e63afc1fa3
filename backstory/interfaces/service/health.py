"""Whether the process lives, and whether it can answer."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import Field

from backstory.base.errors import BackstoryError
from backstory.interfaces.library.results import Result
from backstory.interfaces.service.authentication import Served
from backstory.interfaces.service.failures import ErrorBody, log_fault
from backstory.interfaces.service.refusals import RefusedError
from backstory.interfaces.service.service import RETRY_SECONDS


class Health(Result):
    """The process lives."""

    status: Literal["ok"] = Field(default="ok", description="Always ok.")


def make_health_router() -> APIRouter:
    """Make the routes of health, which need no token and tell nothing else."""
    router = APIRouter(tags=["operation"])

    @router.get("/healthz")
    async def tell_health() -> Health:
        """Tell that the process lives."""
        return Health()

    @router.get("/readyz", responses={503: {"model": ErrorBody}})
    def tell_readiness(service: Served) -> Health:
        """Tell that requests can be answered: users can be read, there is room for work, and nothing is stopping."""
        service.require_readiness()
        try:
            service.accounts.list_users()
        except BackstoryError as error:
            log_fault(error)
            raise RefusedError(
                "the users cannot be read; the log says why",
                status=503,
                code="not_ready",
                retry_after=RETRY_SECONDS,
            ) from error
        return Health()

    return router
