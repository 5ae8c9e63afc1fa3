"""The endpoints of index jobs."""

# Without the future import: FastAPI must see the annotations of functions inside functions as objects.
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import Field

from backstory.interfaces.library.job_store import Job
from backstory.interfaces.service.authentication import DESCRIBED, Editor, Reader, Served
from backstory.retrieval.found import Result

_MOST_JOBS: Final = 200
_MOST_OFFSET: Final = 1_000_000


class JobList(Result):
    """Jobs of a tenant."""

    jobs: tuple[Job, ...] = Field(description="The jobs, the latest first.")
    count: int = Field(description="Number of all jobs that are kept.")


def make_jobs_router() -> APIRouter:
    """Make the endpoints of index jobs."""
    router = APIRouter(prefix="/api", tags=["jobs"], dependencies=list(DESCRIBED))

    @router.post("/index", status_code=202)
    def index(access: Editor, service: Served) -> Job:
        """Index all files as they are now. A job that is pending or under way is returned, and goes over them again."""
        return service.jobs.submit(access.tenant, access.caller.user_id)

    @router.get("/jobs")
    def list_jobs(
        access: Reader,
        service: Served,
        limit: Annotated[int, Query(ge=1, le=_MOST_JOBS)] = 20,
        offset: Annotated[int, Query(ge=0, le=_MOST_OFFSET)] = 0,
    ) -> JobList:
        """List the jobs, the latest first."""
        found, count = service.jobs.store(access.tenant).list_jobs(limit, offset)
        return JobList(jobs=tuple(found), count=count)

    @router.get("/jobs/{job_id}")
    def read_job(access: Reader, service: Served, job_id: str) -> Job:
        """Read one job: its state, and how far it is."""
        return service.jobs.store(access.tenant).read(job_id)

    @router.post("/jobs/{job_id}/cancel")
    def cancel_job(access: Editor, service: Served, job_id: str) -> Job:
        """Cancel a job, which stops at its next file or step. What was made stays."""
        return service.jobs.cancel(access.tenant, job_id)

    return router
